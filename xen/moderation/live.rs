// SPDX-License-Identifier: GPL-2.0

//! The settings of a device, in sysfs and in xenstore.

use super::{
    settings::{
        Refused,
        Setting,
        Settings,
        DEFAULT_PRIORITY, //
    },
    Frames,
    Priority,
    Usecs, //
};
use crate::{
    param::Param,
    sysfs::{
        File,
        Files,
        Knob, //
    },
    xenbus::{
        store::{
            self,
            KeyError, //
        },
        value::Value,
        DeviceRef, //
    },
};
use core::ffi::CStr;
use kernel::{
    fmt,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Nobody has set it for this device.
const UNSET: u32 = u32::MAX;

/// A module's parameters, which have what holds for a device for which it is not set.
pub struct Defaults {
    /// See [`Setting::Frames`].
    pub frames: &'static Param<Frames>,
    /// See [`Setting::Usecs`].
    pub usecs: &'static Param<Usecs>,
    /// See [`Setting::PollUsecs`]; [`None`] if nobody polls.
    pub poll_usecs: Option<&'static Param<Usecs>>,
    /// See [`Setting::Adaptive`].
    pub adaptive: &'static Param<bool>,
    /// See [`Setting::Priority`]; [`None`] if that is nobody's choice.
    pub priority: Option<&'static Param<Priority>>,
}

impl Defaults {
    #[inline]
    fn get(&self, setting: Setting) -> u32 {
        match setting {
            Setting::Frames => self.frames.get().number(),
            Setting::Usecs => self.usecs.get().number(),
            Setting::PollUsecs => self.poll_usecs.map_or(0, |param| param.get().number()),
            Setting::Adaptive => self.adaptive.get().into(),
            Setting::Priority => self
                .priority
                .map_or(DEFAULT_PRIORITY, |param| param.get().number()),
        }
    }
}

/// What a toolstack calls the settings of one direction of an interface: frames, usecs, and adaptive.
pub type Keys = [&'static CStr; 3];

/// What is set for a device, or for one direction of an interface. What is not set is what the module's
/// parameters say, at any time.
pub struct Live {
    values: [Atomic<u32>; Setting::ALL.len()],
    defaults: &'static Defaults,
}

impl Live {
    /// Nothing is set.
    pub const fn new(defaults: &'static Defaults) -> Self {
        Self {
            values: [const { Atomic::new(UNSET) }; Setting::ALL.len()],
            defaults,
        }
    }

    /// What holds now. Any context.
    #[inline]
    pub fn get(&self, setting: Setting) -> u32 {
        // CAST: One of a few.
        match self.values.get(setting as usize).map(|v| v.load(Relaxed)) {
            None | Some(UNSET) => self.defaults.get(setting),
            Some(value) => value,
        }
    }

    /// All that a ring has to know at an event. Any context.
    #[inline]
    pub fn settings(&self) -> Settings {
        Settings {
            frames: self.get(Setting::Frames),
            usecs: self.get(Setting::Usecs),
            poll_usecs: self.get(Setting::PollUsecs),
            adaptive: self.get(Setting::Adaptive) != 0,
        }
    }

    /// Changes several settings, or none of them if there is one that cannot be like that. Those that are so
    /// already stay as they are: if they follow the module's parameters, they go on with that. Any context.
    ///
    /// # Errors
    ///
    /// Which value is out of range.
    pub fn change(&self, values: &[(Setting, u32)]) -> Result<(), Refused> {
        for &(setting, value) in values {
            setting.check(value)?;
        }
        for &(setting, value) in values {
            if self.get(setting) != value {
                self.set(setting, value);
            }
        }
        Ok(())
    }

    fn set(&self, setting: Setting, value: u32) {
        // CAST: One of a few.
        if let Some(place) = self.values.get(setting as usize) {
            place.store(value, Relaxed);
        }
    }

    /// Takes over what the toolstack has written into `dir`: the keys `moderation-frames` and so on.
    /// What it has not written stays as it is. Process context.
    pub fn read_keys(&self, dir: &CStr) -> Result<(), KeyError> {
        self.read_key::<0>(dir, c"moderation-frames")?;
        self.read_key::<1>(dir, c"moderation-usecs")?;
        self.read_key::<2>(dir, c"moderation-poll_usecs")?;
        self.read_key::<3>(dir, c"moderation-adaptive")?;
        self.read_key::<4>(dir, c"moderation-priority")
    }

    /// The same for one direction of an interface, whose keys have other names. Process context.
    pub fn read_keys_of(&self, dir: &CStr, keys: &Keys) -> Result<(), KeyError> {
        let [frames, usecs, adaptive] = *keys;
        self.read_key::<0>(dir, frames)?;
        self.read_key::<1>(dir, usecs)?;
        self.read_key::<3>(dir, adaptive)
    }

    fn read_key<const N: usize>(&self, dir: &CStr, key: &'static CStr) -> Result<(), KeyError> {
        if let Some(Key(value)) = store::read::<Key<N>>(dir, key)? {
            self.set(Setting::ALL[N], value);
        }
        Ok(())
    }
}

/// A setting as it is in xenstore, by its place among all.
struct Key<const N: usize>(u32);

impl<const N: usize> Value for Key<N> {
    // The ranges of `Setting::range`, which the unit tests of these compare.
    const EXPECTED: &'static str = match Setting::ALL[N] {
        Setting::Frames => "a decimal number from 1 to 512",
        Setting::Usecs | Setting::PollUsecs => "a decimal number from 0 to 100000",
        Setting::Adaptive => "0 or 1",
        Setting::Priority => "a decimal number from 0 to 15",
    };

    fn parse(text: &[u8]) -> Option<Self> {
        Setting::ALL[N].parse(text.trim_ascii()).ok().map(Self)
    }
}

/// A device whose settings users can change.
pub trait Moderated: Send + Sync + Sized + 'static {
    /// What is set.
    fn live(&self) -> &Live;

    /// The device, for messages.
    fn device(&self) -> &DeviceRef;

    /// Something has been set: has it take effect where it is not looked at anyway. Process context; may
    /// not wait for whoever removes the files.
    ///
    /// # Errors
    ///
    /// What keeps it from taking effect; it is as it was before then.
    fn changed(self: &Arc<Self>, setting: Setting) -> Result;
}

crate::printable!(super::settings::Refused);

fn set<T: Moderated>(owner: &Arc<T>, setting: Setting, text: &[u8]) -> Result {
    let value = setting.parse(text).map_err(|refused| {
        dev_warn!(owner.device().as_ref(), "moderation: {refused}\n");
        if refused.is_out_of_range() {
            ERANGE
        } else {
            EINVAL
        }
    })?;
    let live = owner.live();
    let old = live.get(setting);
    live.set(setting, value);
    owner.changed(setting).inspect_err(|errno| {
        dev_warn!(
            owner.device().as_ref(),
            "moderation: {} cannot be {value} here, error {}\n",
            setting.name(),
            errno.to_errno()
        );
        live.set(setting, old);
    })
}

/// A file of one setting.
macro_rules! knob {
    ($name:literal, $setting:ident) => {
        Knob {
            file: File {
                name: $name,
                show: |owner: &T, to: &mut dyn fmt::Write| {
                    write!(to, "{}", owner.live().get(Setting::$setting))
                },
            },
            store: |owner: &Arc<T>, text| set(owner, Setting::$setting, text),
        }
    };
}

/// Makes the files of all settings, in the folder `moderation` of the device's directory.
///
/// # Errors
///
/// As [`Files::new`].
pub fn files<T: Moderated>(dev: &DeviceRef, owner: Arc<T>) -> Result<Files<T>> {
    let knobs = [
        knob!(c"frames", Frames),
        knob!(c"usecs", Usecs),
        knob!(c"poll_usecs", PollUsecs),
        knob!(c"adaptive", Adaptive),
        knob!(c"priority", Priority),
    ];
    let folder = CString::try_from_fmt(fmt!("moderation"))?;
    Files::with_knobs(dev, folder, &knobs, owner)
}
