// SPDX-License-Identifier: GPL-2.0

//! Which request a response is about.
//!
//! Pure logic, tested on the host and by KUnit.

/// Finds the place that has the number `id`, which the backend says, and takes its request by `take`. [`None`] if
/// there is no such place, or no request that the backend could have answered.
#[inline]
pub(crate) fn take<P, R>(
    places: &mut [P],
    id: u64,
    take: impl FnOnce(&mut P) -> Option<R>,
) -> Option<(&mut P, R)> {
    let place = places.get_mut(usize::try_from(id).ok()?)?;
    let request = take(place)?;
    Some((place, request))
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkfront_answer))]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_answered_once() {
        let mut places = [None, Some('a'), Some('b')];
        for junk in [0, 3, 4, 1 << 32, (1 << 32) | 1, u64::MAX - 1, u64::MAX] {
            assert_eq!(take(&mut places, junk, Option::take), None);
        }
        assert_eq!(take(&mut places, 2, Option::take), Some((&mut None, 'b')));
        assert_eq!(take(&mut places, 2, Option::take), None);
        assert_eq!(places, [None, Some('a'), None]);
    }
}
