// SPDX-License-Identifier: GPL-2.0

//! What users can set, and to what.
//!
//! Pure logic, tested on the host and by KUnit. The same five words are the names of module parameters
//! (defaults), of files in sysfs, and, behind `moderation-`, of keys in xenstore.

use core::fmt;

/// One of the things that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Messages that wait for one event, at most. With 1 there is an event for each.
    Frames,
    /// How long a message waits for others, at most, in microseconds. With 0 none does.
    Usecs,
    /// How long a ring without messages is looked at before events are asked for, at most, in
    /// microseconds. With 0 it is not.
    PollUsecs,
    /// 1: no more messages wait, and no longer, than has been good of late. 0: always as many as
    /// `frames` says.
    Adaptive,
    /// Priority of a ring's event channel, among those of the domain: 0 is the highest.
    Priority,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Frames,
        Self::Usecs,
        Self::PollUsecs,
        Self::Adaptive,
        Self::Priority,
    ];

    /// What users call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Usecs => "usecs",
            Self::PollUsecs => "poll_usecs",
            Self::Adaptive => "adaptive",
            Self::Priority => "priority",
        }
    }

    /// The least and the greatest value.
    pub const fn range(self) -> (u32, u32) {
        match self {
            Self::Frames => (MIN_FRAMES, MAX_FRAMES),
            Self::Usecs | Self::PollUsecs => (0, MAX_USECS),
            Self::Adaptive => (0, 1),
            Self::Priority => (0, MIN_PRIORITY),
        }
    }

    /// Makes sure that it can have a value.
    pub fn check(self, value: u32) -> Result<u32, Refused> {
        let (least, most) = self.range();
        if value < least || value > most {
            return Err(Refused {
                setting: self,
                value: Some(value),
            });
        }
        Ok(value)
    }

    /// What a user has written: a decimal number, perhaps with a newline behind it.
    pub fn parse(self, text: &[u8]) -> Result<u32, Refused> {
        let digits = text.strip_suffix(b"\n").unwrap_or(text);
        let refused = Refused {
            setting: self,
            value: None,
        };
        if digits.is_empty() {
            return Err(refused);
        }
        let mut value: u32 = 0;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return Err(refused);
            }
            // What is too large for the type is too large for any setting.
            value = value
                .saturating_mul(10)
                .saturating_add(u32::from(digit - b'0'));
        }
        self.check(value)
    }
}

/// Fewest messages an event can be for.
pub const MIN_FRAMES: u32 = 1;

/// Most messages that can wait for an event: those of the largest block ring.
pub const MAX_FRAMES: u32 = 512;

/// Longest time that can be set, in microseconds.
pub const MAX_USECS: u32 = 100_000;

/// The lowest priority that Xen has.
pub const MIN_PRIORITY: u32 = 15;

/// The priority of a channel that nobody has set another for.
pub const DEFAULT_PRIORITY: u32 = 7;

/// Why something is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    setting: Setting,
    /// The number that is out of range, if it is a number.
    value: Option<u32>,
}

impl Refused {
    /// Whether it is a number, but none that the setting can have.
    pub const fn is_out_of_range(&self) -> bool {
        self.value.is_some()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.setting.name();
        let (least, most) = self.setting.range();
        match self.value {
            Some(value) => write!(f, "{name} cannot be {value}, only {least} to {most}"),
            None => write!(f, "{name} must be a decimal number from {least} to {most}"),
        }
    }
}

/// What is set, at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// See [`Setting::Frames`].
    pub frames: u32,
    /// See [`Setting::Usecs`].
    pub usecs: u32,
    /// See [`Setting::PollUsecs`].
    pub poll_usecs: u32,
    /// See [`Setting::Adaptive`].
    pub adaptive: bool,
}

impl Settings {
    /// Whether events may be held off at all.
    #[inline]
    pub const fn holds_off(&self) -> bool {
        self.frames > 1 && self.usecs > 0
    }

    /// How long a message waits at most, in nanoseconds.
    #[inline]
    pub const fn nanoseconds(&self) -> u64 {
        // CAST: To a wider type.
        self.usecs as u64 * 1000
    }

    /// How long a ring is looked at, at most, in nanoseconds.
    #[inline]
    pub const fn poll_nanoseconds(&self) -> u64 {
        // CAST: To a wider type.
        self.poll_usecs as u64 * 1000
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_moderation_settings))]
mod tests {
    use super::*;
    use fmt::Write;

    /// Takes text as long as it goes on as expected.
    struct Rest<'a>(&'a str);

    impl Write for Rest<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
            Ok(())
        }
    }

    fn says(refused: Refused, text: &str) -> bool {
        let mut rest = Rest(text);
        write!(rest, "{refused}").is_ok() && rest.0.is_empty()
    }

    #[test]
    fn all_values_in_range_and_none_beside() {
        for setting in Setting::ALL {
            let (least, most) = setting.range();
            for value in [least, most, least + (most - least) / 2] {
                assert_eq!(setting.check(value), Ok(value));
            }
            assert!(setting.check(most + 1).is_err());
            assert!(setting.check(u32::MAX).is_err());
            if least > 0 {
                assert!(setting.check(least - 1).is_err());
            }
        }
    }

    #[test]
    fn numbers_as_users_write_them() {
        assert_eq!(Setting::Frames.parse(b"16"), Ok(16));
        assert_eq!(Setting::Frames.parse(b"16\n"), Ok(16));
        assert_eq!(Setting::Usecs.parse(b"000250\n"), Ok(250));
        assert_eq!(Setting::Adaptive.parse(b"0\n"), Ok(0));
        assert_eq!(Setting::Priority.parse(b"15"), Ok(15));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let texts: [&[u8]; 10] = [
            b"", b"\n", b"-1", b"+1", b" 1", b"1 ", b"0x10", b"1\n\n", b"on", b"\xff",
        ];
        for text in texts {
            let refused = Setting::Frames.parse(text);
            assert!(matches!(refused, Err(refused) if !refused.is_out_of_range()));
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let texts: [&[u8]; 4] = [b"0", b"513", b"4294967296", b"99999999999999999999999999\n"];
        for text in texts {
            let refused = Setting::Frames.parse(text);
            assert!(matches!(refused, Err(refused) if refused.is_out_of_range()));
        }
        assert!(Setting::Adaptive.parse(b"2").is_err());
        assert!(Setting::Priority.parse(b"16").is_err());
    }

    #[test]
    fn refusals_name_the_setting_and_its_range() {
        let frames = Setting::Frames.parse(b"513\n");
        assert!(
            matches!(frames, Err(refused) if says(refused, "frames cannot be 513, only 1 to 512"))
        );
        let usecs = Setting::Usecs.parse(b"1ms");
        assert!(
            matches!(usecs, Err(refused) if says(refused, "usecs must be a decimal number from 0 to 100000"))
        );
    }

    #[test]
    fn either_limit_switches_it_off() {
        let settings = Settings {
            frames: 16,
            usecs: 100,
            poll_usecs: 0,
            adaptive: true,
        };
        assert!(settings.holds_off());
        assert!(!Settings {
            frames: 1,
            ..settings
        }
        .holds_off());
        assert!(!Settings {
            usecs: 0,
            ..settings
        }
        .holds_off());
        assert_eq!(settings.nanoseconds(), 100_000);
    }
}
