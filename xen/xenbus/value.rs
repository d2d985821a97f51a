// SPDX-License-Identifier: GPL-2.0

//! Numbers as they are written in xenstore, and how what is no number is shown.

use core::fmt;

/// A type that a xenstore node's text can be parsed into.
pub trait Value: Sized {
    /// What the text should have been, for messages: "a number", say.
    const EXPECTED: &'static str;

    /// Parses the whole text. White space around it does not count.
    fn parse(text: &[u8]) -> Option<Self>;
}

/// Longest text that any number has, white space excluded.
const MAX_DIGITS: usize = 24;

fn digits(text: &[u8], radix: u64) -> Option<u64> {
    if text.is_empty() || text.len() > MAX_DIGITS {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in text {
        let digit = (byte as char).to_digit(16).map(u64::from)?;
        if digit >= radix {
            return None;
        }
        value = value.checked_mul(radix)?.checked_add(digit)?;
    }
    Some(value)
}

impl Value for u64 {
    const EXPECTED: &'static str = "a decimal number of up to 64 bits";

    fn parse(text: &[u8]) -> Option<Self> {
        digits(text.trim_ascii(), 10)
    }
}

impl Value for u32 {
    const EXPECTED: &'static str = "a decimal number of up to 32 bits";

    fn parse(text: &[u8]) -> Option<Self> {
        u64::parse(text)?.try_into().ok()
    }
}

/// A switch: 0 is off, any other number is on.
impl Value for bool {
    const EXPECTED: &'static str = "0 or 1";

    fn parse(text: &[u8]) -> Option<Self> {
        Some(u32::parse(text)? != 0)
    }
}

/// A number whose prefix tells its radix: `0x` sixteen, `0` eight, otherwise ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyRadix(pub u32);

impl Value for AnyRadix {
    const EXPECTED: &'static str = "a number of up to 32 bits";

    fn parse(text: &[u8]) -> Option<Self> {
        let value = match text.trim_ascii() {
            [b'0', b'x' | b'X', rest @ ..] => digits(rest, 16)?,
            [b'0', rest @ ..] if !rest.is_empty() => digits(rest, 8)?,
            decimal => digits(decimal, 10)?,
        };
        value.try_into().ok().map(Self)
    }
}

/// The start of a text, with everything unprintable escaped: it may come from another domain.
#[derive(Clone, Copy)]
pub struct Excerpt<'a>(pub &'a [u8]);

impl Excerpt<'_> {
    /// Most bytes of the text that are shown.
    pub const MOST: usize = 32;
}

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take(Self::MOST) {
            write!(f, "{}", byte.escape_ascii())?;
        }
        if self.0.len() > Self::MOST {
            f.write_str("...")?;
        }
        Ok(())
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_value))]
mod tests {
    use super::*;

    /// What no number is written like.
    const JUNK: [&[u8]; 24] = [
        b"",
        b" ",
        b"\0",
        b"-1",
        b"+1",
        b"--1",
        b"1-",
        b"1 2",
        b"1,2",
        b"1.0",
        b"1e3",
        b"1_000",
        b"a",
        b"1a",
        b"5\0",
        b"\x005",
        b"\xff",
        b"\xc2\xb2",
        b"\xef\xbc\x91",
        b"12345678901234567890123456789012345678901234567890",
        b"00000000000000000000000000",
        b"99999999999999999999",
        b"18446744073709551616",
        b"NaN",
    ];

    #[test]
    fn decimal_numbers() {
        assert_eq!(u64::parse(b"0"), Some(0));
        assert_eq!(u64::parse(b"7"), Some(7));
        assert_eq!(u64::parse(b"1234567890"), Some(1_234_567_890));
        assert_eq!(u32::parse(b"202"), Some(202));
        assert_eq!(u64::parse(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(u32::parse(b"4294967295"), Some(u32::MAX));
    }

    #[test]
    fn leading_zeros_are_no_radix() {
        assert_eq!(u64::parse(b"010"), Some(10));
        assert_eq!(u32::parse(b"000000000000000000000009"), Some(9));
        assert_eq!(u64::parse(b"0x10"), None);
    }

    #[test]
    fn white_space_around_does_not_count() {
        assert_eq!(u64::parse(b" 12"), Some(12));
        assert_eq!(u64::parse(b"12\n"), Some(12));
        assert_eq!(u64::parse(b"\t\r 12 \n\n"), Some(12));
        assert_eq!(bool::parse(b"1\n"), Some(true));
        assert_eq!(AnyRadix::parse(b" 0x1f\n"), Some(AnyRadix(31)));
        assert_eq!(u64::parse(b"1\n2"), None);
    }

    #[test]
    fn junk_is_no_number() {
        for text in JUNK {
            assert_eq!(u64::parse(text), None);
            assert_eq!(u32::parse(text), None);
            assert_eq!(bool::parse(text), None);
            assert_eq!(AnyRadix::parse(text), None);
        }
    }

    #[test]
    fn every_single_byte() {
        for byte in 0..=u8::MAX {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
            assert_eq!(u64::parse(&[byte]), digit);
            assert_eq!(
                u64::parse(&[b'1', byte]).is_some(),
                byte.is_ascii_digit() || byte.is_ascii_whitespace()
            );
        }
    }

    #[test]
    fn too_large_is_no_number() {
        assert_eq!(u32::parse(b"4294967296"), None);
        assert_eq!(u64::parse(b"18446744073709551616"), None);
        assert_eq!(u64::parse(b"18446744073709551620"), None);
        assert_eq!(AnyRadix::parse(b"0x100000000"), None);
        assert_eq!(AnyRadix::parse(b"0xffffffffffffffffffff"), None);
        assert_eq!(AnyRadix::parse(b"040000000000"), None);
    }

    #[test]
    fn excerpts_can_be_printed() {
        use fmt::Write;

        struct Rest<'a>(&'a str);

        impl Write for Rest<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
                Ok(())
            }
        }

        for (text, shown) in [
            (&b""[..], ""),
            (b"12x", "12x"),
            (b"1\n\x1b[0m\xff\0", r"1\n\x1b[0m\xff\x00"),
            (b"\"\\", r#"\"\\"#),
            (&[b'a'; 32], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            (&[b'a'; 33], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..."),
        ] {
            let mut rest = Rest(shown);
            assert!(write!(rest, "{}", Excerpt(text)).is_ok());
            assert_eq!(rest.0, "");
        }
    }

    #[test]
    fn switches() {
        assert_eq!(bool::parse(b"0"), Some(false));
        assert_eq!(bool::parse(b"00"), Some(false));
        assert_eq!(bool::parse(b"1"), Some(true));
        assert_eq!(bool::parse(b"2"), Some(true));
        assert_eq!(bool::parse(b"4294967295"), Some(true));
        assert_eq!(bool::parse(b"4294967296"), None);
        assert_eq!(bool::parse(b"true"), None);
        assert_eq!(bool::parse(b"yes"), None);
    }

    #[test]
    fn numbers_of_any_radix() {
        for (text, value) in [
            (&b"0"[..], 0),
            (b"10", 10),
            (b"00", 0),
            (b"017", 15),
            (b"0x0", 0),
            (b"0x1F", 31),
            (b"0X1f", 31),
            (b"0xffffffff", u32::MAX),
            (b"037777777777", u32::MAX),
            (b"4294967295", u32::MAX),
        ] {
            assert_eq!(AnyRadix::parse(text), Some(AnyRadix(value)));
        }
        for text in [
            &b"0x"[..],
            b"08",
            b"0b1",
            b"0xg",
            b"0x-1",
            b"0x 1",
            b"x1",
            b"0x0x1",
        ] {
            assert_eq!(AnyRadix::parse(text), None);
        }
    }
}
