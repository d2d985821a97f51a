// SPDX-License-Identifier: GPL-2.0

//! How much a device may send in one direction.
//!
//! A limit is an amount, of bytes or of packets, in a time. What has been allowed and not been used is
//! saved up to a burst. Nothing is lost by rounding, whatever the numbers: what of a unit has come so far
//! is kept as a fraction.
//!
//! Pure logic, tested on the host and by KUnit.

use crate::xenbus::value::Value;

/// Least number of bytes that can be saved up: two packets of the largest size.
const LEAST_BURST: u64 = 131_072;

/// The longest time to wait without asking again, in nanoseconds: a second.
pub(crate) const LONGEST_WAIT: u64 = 1_000_000_000;

/// An amount in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// How many bytes or packets.
    pub(crate) amount: u64,
    /// In how many microseconds.
    pub(crate) usecs: u64,
}

impl Rate {
    /// What the `rate` key's text says: the amount and the time with a comma between them. [`None`] if it
    /// does not say that.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        let comma = text.iter().position(|&byte| byte == b',')?;
        let (amount, usecs) = (text.get(..comma)?, text.get(comma + 1..)?);
        // White space is allowed around the whole only.
        if text.iter().any(u8::is_ascii_whitespace) {
            return None;
        }
        Some(Self {
            amount: u64::parse(amount)?,
            usecs: u64::parse(usecs)?,
        })
    }

    /// Whether it limits anything: in no time there is no limit.
    fn is_limit(&self) -> bool {
        self.usecs != 0
    }
}

/// Whether something may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what may not be sent must wait"]
pub(crate) enum Verdict {
    /// It may, and has been counted.
    Go,
    /// Not before so many nanoseconds have passed, and then it must be asked again. At most
    /// [`LONGEST_WAIT`].
    Wait(u64),
}

/// What has been saved up of a rate.
///
/// # Invariants
///
/// `period` is not 0, `fraction` is less than `period`, and `level` is at most `burst`, which is not 0.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// So much comes ...
    amount: u64,
    /// ... in so many nanoseconds.
    period: u64,
    burst: u64,
    level: u64,
    /// So many parts of the next unit, of which `period` make one.
    fraction: u64,
    /// Until when it has been counted, in nanoseconds.
    until: u64,
}

impl Bucket {
    /// At the start there is what comes in one period.
    fn new(rate: Rate, least_burst: u64, now: u64) -> Option<Self> {
        let burst = rate.amount.max(least_burst);
        // INVARIANT: A rate that is a limit has a period.
        rate.is_limit().then_some(Self {
            amount: rate.amount,
            period: rate.usecs.saturating_mul(1000),
            burst,
            level: rate.amount,
            fraction: 0,
            until: now,
        })
    }

    /// Counts what has come until `now`.
    fn refill(&mut self, now: u64) {
        // A clock that goes backwards stands still.
        let elapsed = now.saturating_sub(self.until);
        self.until = self.until.max(now);
        let gain = multiply_divide(elapsed, self.amount, self.fraction, self.period);
        let gain = gain.and_then(|(whole, rest)| Some((self.level.checked_add(whole)?, rest)));
        // INVARIANT: The rest is less than the divisor.
        (self.level, self.fraction) = match gain {
            Some((level, rest)) if level < self.burst => (level, rest),
            _ => (self.burst, 0),
        };
    }

    /// How long it is until there are `count`, in nanoseconds; 0 if there are. More than a burst counts as
    /// a burst: more can never be there.
    fn wait(&self, count: u64) -> u64 {
        match count.min(self.burst).checked_sub(self.level) {
            None | Some(0) => 0,
            Some(missing) => {
                // Of the first one that is missing there is a fraction.
                let (others, first) = (missing - 1, self.period - self.fraction);
                match multiply_divide(others, self.period, first, self.amount) {
                    Some((whole, 0)) => whole,
                    Some((whole, _)) => whole.saturating_add(1),
                    None => u64::MAX,
                }
            }
        }
    }

    fn take(&mut self, count: u64) {
        self.level = self.level.saturating_sub(count);
    }
}

/// `a` times `b` and `c`, divided by `divisor`: the quotient and the rest. [`None`] if the quotient has
/// more than 64 bits.
///
/// The kernel has no division of 128 bits.
fn multiply_divide(a: u64, b: u64, c: u64, divisor: u64) -> Option<(u64, u64)> {
    if let Some(sum) = a.checked_mul(b).and_then(|product| product.checked_add(c)) {
        return Some((sum.checked_div(divisor)?, sum.checked_rem(divisor)?));
    }
    let (high, low) = multiply(a, b);
    let (mut low, carry) = low.overflowing_add(c);
    // The largest product is less than its high half can hold by one.
    let mut rest = high.wrapping_add(carry.into());
    if rest >= divisor {
        return None;
    }
    let mut quotient = 0;
    for _ in 0..u64::BITS {
        let overflows = rest >> 63 != 0;
        rest = (rest << 1) | (low >> 63);
        low <<= 1;
        quotient <<= 1;
        if overflows || rest >= divisor {
            rest = rest.wrapping_sub(divisor);
            quotient |= 1;
        }
    }
    Some((quotient, rest))
}

/// The high and the low half of a product.
fn multiply(a: u64, b: u64) -> (u64, u64) {
    const HALF: u64 = u32::MAX as u64;
    let (a_high, a_low) = (a >> 32, a & HALF);
    let (b_high, b_low) = (b >> 32, b & HALF);
    // No sum of a product of halves and two more halves is too large.
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 32);
    let other = a_low * b_high + (middle & HALF);
    let high = a_high * b_high + (middle >> 32) + (other >> 32);
    (high, (other << 32) | (low & HALF))
}

/// What a device may send in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limiter {
    bytes: Option<Bucket>,
    packets: Option<Bucket>,
}

impl Limiter {
    /// Limits bytes, packets, both or nothing. `now` is in nanoseconds, by any clock.
    pub(crate) fn new(bytes: Option<Rate>, packets: Option<Rate>, now: u64) -> Self {
        let bucket = |rate: Option<Rate>, least| Bucket::new(rate?, least, now);
        Self {
            bytes: bucket(bytes, LEAST_BURST),
            packets: bucket(packets, 1),
        }
    }

    /// Whether there is any limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.bytes.is_some() || self.packets.is_some()
    }

    /// Whether a packet of so many bytes may be sent now; if so, it is counted as sent.
    pub(crate) fn ask(&mut self, now: u64, bytes: u32) -> Verdict {
        let mut buckets = [(&mut self.bytes, bytes.into()), (&mut self.packets, 1)];
        let mut wait = 0;
        for (bucket, count) in &mut buckets {
            if let Some(bucket) = bucket {
                bucket.refill(now);
                wait = bucket.wait(*count).max(wait);
            }
        }
        if wait > 0 {
            return Verdict::Wait(wait.min(LONGEST_WAIT));
        }
        for (bucket, count) in &mut buckets {
            if let Some(bucket) = bucket {
                bucket.take(*count);
            }
        }
        Verdict::Go
    }

    /// How many bytes could have been sent at once when it was last asked; [`None`] if that is not limited.
    pub(crate) fn bytes_left(&self) -> Option<u64> {
        self.bytes.map(|bucket| bucket.level)
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netback_credit))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    const fn rate(amount: u64, usecs: u64) -> Option<Rate> {
        Some(Rate { amount, usecs })
    }

    #[test]
    fn rates() {
        for (text, expected) in [
            (&b"1250000,50000"[..], rate(1_250_000, 50_000)),
            (b"0,0", rate(0, 0)),
            (b"1,0\n", rate(1, 0)),
            (
                b"18446744073709551615,18446744073709551615",
                rate(u64::MAX, u64::MAX),
            ),
            (b"", None),
            (b",", None),
            (b"1", None),
            (b"1,", None),
            (b",1", None),
            (b"1,2,3", None),
            (b"1 ,2", None),
            (b"1, 2", None),
            (b"-1,2", None),
            (b"1,-2", None),
            (b"0x1,2", None),
            (b"18446744073709551616,1", None),
        ] {
            assert_eq!(Rate::parse(text), expected);
        }
    }

    #[test]
    fn without_a_limit_all_may_go() {
        for (bytes, packets) in [(None, None), (rate(0, 0), rate(u64::MAX, 0))] {
            let mut limiter = Limiter::new(bytes, packets, 0);
            assert!(!limiter.is_limited());
            assert_eq!(limiter.bytes_left(), None);
            for now in [0, 5, u64::MAX, 7] {
                assert_eq!(limiter.ask(now, u32::MAX), Verdict::Go);
            }
        }
    }

    #[test]
    fn a_rate_of_bytes() {
        // 1500 bytes in a millisecond.
        let mut limiter = Limiter::new(rate(1500, 1000), None, 7);
        assert!(limiter.is_limited());
        assert_eq!(limiter.ask(7, 1000), Verdict::Go);
        assert_eq!(limiter.bytes_left(), Some(500));
        // Two thirds of a microsecond for a byte.
        assert_eq!(limiter.ask(7, 501), Verdict::Wait(667));
        assert_eq!(limiter.ask(7, 503), Verdict::Wait(2000));
        assert_eq!(limiter.ask(7 + 1999, 503), Verdict::Wait(1));
        assert_eq!(limiter.ask(7 + 2000, 503), Verdict::Go);
        assert_eq!(limiter.bytes_left(), Some(0));
        // A clock that goes backwards changes nothing.
        assert_eq!(limiter.ask(0, 3), Verdict::Wait(2000));
        assert_eq!(limiter.ask(7 + 4000, 3), Verdict::Go);
        assert_eq!(limiter.bytes_left(), Some(0));
    }

    #[test]
    fn a_rate_of_packets() {
        let mut limiter = Limiter::new(None, rate(2, 1_000_000), 0);
        assert_eq!(limiter.ask(0, 60), Verdict::Go);
        assert_eq!(limiter.ask(0, 65535), Verdict::Go);
        assert_eq!(limiter.ask(0, 60), Verdict::Wait(SECOND / 2));
        assert_eq!(limiter.ask(SECOND / 2, 60), Verdict::Go);
        // No more are saved up than that.
        for expected in [Verdict::Go, Verdict::Go, Verdict::Wait(SECOND / 2)] {
            assert_eq!(limiter.ask(100 * SECOND, 60), expected);
        }
    }

    #[test]
    fn what_waits_is_not_counted() {
        let mut limiter = Limiter::new(rate(1000, 1000), rate(1, 1000), 0);
        assert_eq!(limiter.ask(0, 1000), Verdict::Go);
        for now in [0, 1_000, 999_999] {
            assert_eq!(limiter.ask(now, 100), Verdict::Wait(1_000_000 - now));
            // Nor in the other bucket.
            let bytes = limiter.bytes_left();
            assert_eq!(bytes, Some(now / 1000));
        }
        assert_eq!(limiter.ask(1_000_000, 1000), Verdict::Go);
        // Whichever takes longer.
        assert_eq!(limiter.ask(1_000_000, 3000), Verdict::Wait(3_000_000));
    }

    #[test]
    fn bursts() {
        // However low the rate is, two of the largest packets can be saved up, ...
        let mut limiter = Limiter::new(rate(1, 1), None, 0);
        assert_eq!(limiter.ask(SECOND, 65536), Verdict::Go);
        assert_eq!(limiter.ask(SECOND, 65536), Verdict::Go);
        assert_eq!(limiter.ask(SECOND, 1), Verdict::Wait(1000));
        // ... and of a high one what comes in its time.
        let mut limiter = Limiter::new(rate(1_000_000, 1000), None, 0);
        assert_eq!(limiter.ask(SECOND, 1_000_000), Verdict::Go);
        assert_eq!(limiter.ask(SECOND, 1), Verdict::Wait(1));
        // More than a burst goes when there is a burst.
        assert_eq!(limiter.ask(SECOND, u32::MAX), Verdict::Wait(1_000_000));
        assert_eq!(limiter.ask(SECOND + 1_000_000, u32::MAX), Verdict::Go);
        assert_eq!(limiter.bytes_left(), Some(0));
    }

    #[test]
    fn nothing_is_nothing() {
        let mut limiter = Limiter::new(rate(0, 1000), None, 0);
        assert_eq!(limiter.ask(0, 0), Verdict::Go);
        for now in [0, SECOND, u64::MAX] {
            assert_eq!(limiter.ask(now, 1), Verdict::Wait(LONGEST_WAIT));
        }
    }

    #[test]
    fn no_credit_is_lost() {
        // However often it is asked, and however badly the numbers fit.
        for step in [1, 3, 7, 999, 1001, 123_457] {
            let mut limiter = Limiter::new(rate(7, 1003), None, 0);
            assert_eq!(limiter.ask(0, 7), Verdict::Go);
            let mut now = 0;
            for _ in 0..2000 {
                now += step;
                let _ = limiter.ask(now, 100_000);
            }
            assert_eq!(limiter.bytes_left(), Some(now * 7 / 1_003_000));
        }
    }

    #[test]
    fn no_more_goes_than_may() {
        let mut state = 0x1234_5678u32;
        let mut random = |limit: u32| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state % limit
        };
        for _ in 0..50 {
            let (amount, usecs) = (u64::from(random(200_000)), u64::from(1 + random(5000)));
            let mut limiter = Limiter::new(rate(amount, usecs), None, 0);
            let (mut now, mut sent) = (0, 0);
            for _ in 0..100 {
                let size = 1 + random(65_535);
                now += u64::from(random(1_000_000));
                match limiter.ask(now, size) {
                    Verdict::Go => sent += u64::from(size),
                    Verdict::Wait(wait) => {
                        assert!(wait > 0 && wait <= LONGEST_WAIT);
                        if wait < LONGEST_WAIT {
                            // Neither too early nor too late.
                            assert!(limiter.ask(now + wait - 1, size) != Verdict::Go);
                            now += wait;
                            assert_eq!(limiter.ask(now, size), Verdict::Go);
                            sent += u64::from(size);
                        }
                    }
                }
                assert!(sent <= amount.max(LEAST_BURST) + now * amount / (usecs * 1000));
            }
        }
    }

    #[test]
    fn numbers_without_measure() {
        const NUMBERS: [u64; 7] = [0, 1, 1000, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];
        for amount in NUMBERS {
            for usecs in NUMBERS {
                let limits = (rate(amount, usecs), rate(usecs, amount));
                let mut limiter = Limiter::new(limits.0, limits.1, 1 << 40);
                for now in NUMBERS {
                    for size in [0, 1, 65_535, u32::MAX] {
                        if let Verdict::Wait(wait) = limiter.ask(now, size) {
                            assert!(wait > 0 && wait <= LONGEST_WAIT);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn division_of_products() {
        const LARGE: u64 = 1 << 63;
        for (a, b, c, divisor, expected) in [
            (7, 6, 1, 5, Some((8, 3))),
            (7, 6, 1, 0, None),
            (LARGE, 2, 0, 0, None),
            (LARGE, 2, 0, 1, None),
            (LARGE, 2, 0, 2, Some((LARGE, 0))),
            (LARGE, 2, 1, LARGE, Some((2, 1))),
            (u64::MAX, u64::MAX, 0, u64::MAX, Some((u64::MAX, 0))),
            (
                u64::MAX,
                u64::MAX,
                u64::MAX - 1,
                u64::MAX,
                Some((u64::MAX, u64::MAX - 1)),
            ),
            (u64::MAX, u64::MAX, u64::MAX, u64::MAX, None),
            (u64::MAX, 3, 5, u64::MAX - 2, Some((3, 11))),
        ] {
            assert_eq!(multiply_divide(a, b, c, divisor), expected);
        }
    }
}

/// Against numbers of 128 bits, which the kernel cannot divide.
#[cfg(test)]
mod exact {
    use super::*;

    #[test]
    fn products_and_quotients() {
        let mut state = 0x0123_4567_89ab_cdefu64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Of any size.
            state >> (state % 64)
        };
        for _ in 0..100_000 {
            let (a, b, c, divisor) = (random(), random(), random(), random().max(1));
            let sum = u128::from(a) * u128::from(b) + u128::from(c);
            let wide = u128::from(divisor);
            let expected = u64::try_from(sum / wide)
                .ok()
                .map(|quotient| (quotient, (sum % wide) as u64));
            assert_eq!(multiply_divide(a, b, c, divisor), expected);
        }
    }
}
