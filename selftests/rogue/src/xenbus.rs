// SPDX-License-Identifier: GPL-2.0

//! States of a PV device, and the toolstack's part in making and removing one.
//!
//! C header: `include/xen/interface/io/xenbus.h`.

use std::collections::BTreeMap;
use std::io;

use crate::xenstore::{Client, Perms, Tx};

/// State of one end of a device; C: `enum xenbus_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// The node does not exist, or holds no state.
    Unknown = 0,
    /// Made by the toolstack.
    Initialising = 1,
    /// The backend offers its features.
    InitWait = 2,
    /// The frontend has written its rings.
    Initialised = 3,
    /// In use.
    Connected = 4,
    /// To be taken down.
    Closing = 5,
    /// Taken down.
    Closed = 6,
    /// Being changed by hot-plug.
    Reconfiguring = 7,
    /// Changed by hot-plug.
    Reconfigured = 8,
}

impl State {
    const ALL: [Self; 9] = [
        Self::Unknown,
        Self::Initialising,
        Self::InitWait,
        Self::Initialised,
        Self::Connected,
        Self::Closing,
        Self::Closed,
        Self::Reconfiguring,
        Self::Reconfigured,
    ];

    /// Reads the text of a `state` node.
    pub fn parse(text: &str) -> Self {
        let number = text.trim().parse::<usize>().unwrap_or(0);
        Self::ALL.get(number).copied().unwrap_or(Self::Unknown)
    }

    /// Returns the number that stands in the store.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Whether this end will not use the device any more.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Unknown | Self::Closed)
    }
}

/// Which directory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The frontend's.
    Front,
    /// The backend's.
    Back,
}

/// Values that replace what would be written, and keys that are left out.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Value by key; `None` leaves the key out.
    keys: BTreeMap<(End, String), Option<String>>,
}

impl Overrides {
    /// Splits a name as it is given by the user: `front:NAME`, or `NAME` for the backend.
    fn name(name: &str) -> (End, String) {
        match name.strip_prefix("front:") {
            Some(name) => (End::Front, name.into()),
            None => (End::Back, name.strip_prefix("back:").unwrap_or(name).into()),
        }
    }

    /// Writes `value` whatever the right value is.
    pub fn set(&mut self, name: &str, value: &str) {
        self.keys.insert(Self::name(name), Some(value.into()));
    }

    /// Leaves a key out.
    pub fn omit(&mut self, name: &str) {
        self.keys.insert(Self::name(name), None);
    }

    /// Returns what to write for a key whose right value is `value`.
    fn apply<'a>(&'a self, end: End, key: &str, value: &'a str) -> Option<&'a str> {
        match self.keys.get(&(end, key.into())) {
            Some(over) => over.as_deref(),
            None => Some(value),
        }
    }
}

/// The two directories of a device.
pub struct Device {
    front: String,
    back: String,
    domid: u16,
    overrides: Overrides,
}

impl Device {
    /// Names the directories of device `id` of domain `domid`.
    ///
    /// `front_type` is the class of device; `back_type` is the name that the backend's directory goes
    /// by, which must be one that no backend in the kernel listens to.
    pub fn new(
        domid: u16,
        front_type: &str,
        back_type: &str,
        id: u32,
        overrides: Overrides,
    ) -> Self {
        Self {
            front: format!("/local/domain/{domid}/device/{front_type}/{id}"),
            back: format!("/local/domain/0/backend/{back_type}/{domid}/{id}"),
            domid,
            overrides,
        }
    }

    /// Returns the path of a directory.
    pub fn path(&self, end: End) -> &str {
        match end {
            End::Front => &self.front,
            End::Back => &self.back,
        }
    }

    /// Returns the path of a key.
    pub fn key(&self, end: End, key: &str) -> String {
        format!("{}/{key}", self.path(end))
    }

    /// Writes a key, or what the overrides say instead.
    pub fn put(&self, xs: &mut Client, tx: Tx, end: End, key: &str, value: &str) -> io::Result<()> {
        match self.overrides.apply(end, key, value) {
            Some(value) => xs.write(tx, &self.key(end, key), value),
            None => Ok(()),
        }
    }

    /// Makes both directories in one transaction, as the toolstack does.
    ///
    /// What a device of the same name left behind is replaced in the same step, which a frontend
    /// sees as its backend having been started anew.
    pub fn create(&self, xs: &mut Client, front_keys: &[(&str, &str)]) -> io::Result<()> {
        let domid = self.domid.to_string();
        xs.transaction(|xs, tx| {
            xs.rm(tx, &self.front)?;
            xs.rm(tx, &self.back)?;
            for (end, owner, reader) in [(End::Front, self.domid, 0), (End::Back, 0, self.domid)] {
                let path = self.path(end);
                xs.mkdir(tx, path)?;
                xs.set_perms(tx, path, Perms { owner, reader })?;
            }

            let front = [
                ("backend", self.back.as_str()),
                ("backend-id", "0"),
                ("state", "1"),
            ];
            for (key, value) in front.iter().chain(front_keys) {
                self.put(xs, tx, End::Front, key, value)?;
            }
            let back = [
                ("frontend", self.front.as_str()),
                ("frontend-id", domid.as_str()),
                ("online", "1"),
                ("state", "1"),
            ];
            for (key, value) in back {
                self.put(xs, tx, End::Back, key, value)?;
            }

            // Keys that nobody else will write. Those that are written later are written again then.
            for ((end, key), value) in &self.overrides.keys {
                if let Some(value) = value {
                    xs.write(tx, &self.key(*end, key), value)?;
                }
            }
            Ok(())
        })
    }

    /// Reads a state.
    pub fn state(&self, xs: &mut Client, end: End) -> io::Result<State> {
        let text = xs.read_opt(Tx::NONE, &self.key(end, "state"))?;
        Ok(text.map_or(State::Unknown, |text| State::parse(&text)))
    }

    /// Writes the state of the backend, unless its directory is gone.
    pub fn set_back_state(&self, xs: &mut Client, state: State) -> io::Result<()> {
        self.set_back_keys(xs, &[("state", &state.number().to_string())])
    }

    /// Writes keys of the backend as they are, in one transaction, unless its directory is gone.
    pub fn set_back_keys(&self, xs: &mut Client, keys: &[(&str, &str)]) -> io::Result<()> {
        xs.transaction(|xs, tx| {
            if !self.back_exists(xs, tx)? {
                return Ok(());
            }
            keys.iter()
                .try_for_each(|(key, value)| xs.write(tx, &self.key(End::Back, key), value))
        })
    }

    /// Like [`Self::set_back_keys`], but the overrides apply.
    pub fn offer(&self, xs: &mut Client, keys: &[(&str, String)]) -> io::Result<()> {
        xs.transaction(|xs, tx| {
            if !self.back_exists(xs, tx)? {
                return Ok(());
            }
            keys.iter()
                .try_for_each(|(key, value)| self.put(xs, tx, End::Back, key, value))
        })
    }

    /// Whether the directory of the backend is there; writing would bring a removed one back.
    fn back_exists(&self, xs: &mut Client, tx: Tx) -> io::Result<bool> {
        Ok(xs.read_opt(tx, &self.back)?.is_some())
    }

    /// Removes one directory.
    pub fn remove(&self, xs: &mut Client, end: End) -> io::Result<()> {
        xs.rm(Tx::NONE, self.path(end))
    }

    /// Removes both directories in one transaction.
    pub fn remove_both(&self, xs: &mut Client) -> io::Result<()> {
        xs.transaction(|xs, tx| {
            xs.rm(tx, &self.front)?;
            xs.rm(tx, &self.back)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_from_text() {
        assert_eq!(State::parse("4"), State::Connected);
        assert_eq!(State::parse("8"), State::Reconfigured);
        for junk in ["", "9", "-1", "four"] {
            assert_eq!(State::parse(junk), State::Unknown);
        }
        for (i, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(state.number()), i);
        }
    }

    #[test]
    fn overrides_by_end() {
        let mut over = Overrides::default();
        over.set("sectors", "abc");
        over.set("front:virtual-device", "junk");
        over.omit("info");
        assert_eq!(over.apply(End::Back, "sectors", "8"), Some("abc"));
        assert_eq!(over.apply(End::Front, "sectors", "8"), Some("8"));
        assert_eq!(over.apply(End::Front, "virtual-device", "1"), Some("junk"));
        assert_eq!(over.apply(End::Back, "info", "0"), None);
        over.set("back:info", "4");
        assert_eq!(over.apply(End::Back, "info", "0"), Some("4"));
    }

    #[test]
    fn paths() {
        let device = Device::new(3, "vbd", "qdisk", 51712, Overrides::default());
        assert_eq!(
            device.key(End::Front, "state"),
            "/local/domain/3/device/vbd/51712/state"
        );
        assert_eq!(
            device.path(End::Back),
            "/local/domain/0/backend/qdisk/3/51712"
        );
    }
}
