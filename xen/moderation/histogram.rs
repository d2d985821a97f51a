// SPDX-License-Identifier: GPL-2.0

//! How many messages are found at a time, counted by powers of two.
//!
//! Pure logic, tested on the host and by KUnit.

/// How many classes there are. The last one has all that is larger.
pub const CLASSES: usize = 8;

/// What the classes are called: the sizes that they have.
pub const NAMES: [&str; CLASSES] = [
    "batch_1",
    "batch_2_3",
    "batch_4_7",
    "batch_8_15",
    "batch_16_31",
    "batch_32_63",
    "batch_64_127",
    "batch_128_up",
];

/// The class of a number of messages, less than [`CLASSES`]; [`None`] of none at all.
#[inline]
pub const fn class(count: u32) -> Option<usize> {
    if count == 0 {
        return None;
    }
    // CAST: Less than 32.
    let class = count.ilog2() as usize;
    Some(if class < CLASSES { class } else { CLASSES - 1 })
}

/// How often each class has been found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram([u64; CLASSES]);

impl Histogram {
    /// So many messages were found.
    #[inline]
    pub fn count(&mut self, messages: u32) {
        if let Some(number) = class(messages).and_then(|class| self.0.get_mut(class)) {
            *number += 1;
        }
    }

    /// Names and numbers of all classes.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.0)
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_moderation_histogram))]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_its_class() {
        let mut histogram = Histogram::default();
        for size in 0..200 {
            histogram.count(size);
        }
        let expected = [1, 2, 4, 8, 16, 32, 64, 72];
        for ((_, number), expected) in histogram.all().zip(expected) {
            assert_eq!(number, expected);
        }
    }

    #[test]
    fn no_size_is_too_large() {
        assert_eq!(class(0), None);
        assert_eq!(class(1), Some(0));
        assert_eq!(class(127), Some(6));
        assert_eq!(class(128), Some(7));
        assert_eq!(class(u32::MAX), Some(7));
    }

    #[test]
    fn names_say_what_the_classes_are() {
        assert_eq!(NAMES.len(), CLASSES);
        for (name, (from, to)) in NAMES.iter().zip([
            ("1", ""),
            ("2", "_3"),
            ("4", "_7"),
            ("8", "_15"),
            ("16", "_31"),
            ("32", "_63"),
            ("64", "_127"),
            ("128", "_up"),
        ]) {
            let rest = name
                .strip_prefix("batch_")
                .and_then(|r| r.strip_prefix(from));
            assert_eq!(rest, Some(to));
        }
    }
}
