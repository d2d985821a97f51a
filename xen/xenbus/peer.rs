// SPDX-License-Identifier: GPL-2.0

//! The other end, as a driver that works elsewhere than on the bus' thread knows it.

use core::ffi::CStr;
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use super::{
    store,
    State, //
};

/// What is known of the other end.
#[derive(Clone)]
pub struct Peer {
    /// Its directory, which a resumed guest may find elsewhere.
    pub dir: Arc<CString>,
    /// Its state as last heard of.
    pub state: State,
}

impl Peer {
    /// Its directory is known, but not its state.
    pub fn new(dir: &CStr) -> Result<Self> {
        Ok(Self {
            dir: shared_copy(dir)?,
            state: State::Unknown,
        })
    }

    /// Takes note of where its directory is now.
    pub fn follow(&mut self, dir: &CStr) -> Result {
        if **self.dir != *dir {
            self.dir = shared_copy(dir)?;
        }
        Ok(())
    }

    /// Whether nothing can be expected of it any more.
    pub fn has_gone(&self) -> bool {
        match self.state {
            State::Closed => true,
            // The state may just have been unreadable; that it is not there is final.
            State::Unknown => store::is_missing(&self.dir, c"state"),
            _ => false,
        }
    }

    /// Whether the toolstack wants the device to stay: a backend that has closed begins anew when the
    /// frontend does. Process context.
    pub fn is_to_stay(&self) -> bool {
        matches!(store::read(&self.dir, c"online"), Ok(Some(true)))
    }
}

fn shared_copy(text: &CStr) -> Result<Arc<CString>> {
    Ok(Arc::new(CString::try_from(text)?, GFP_KERNEL)?)
}
