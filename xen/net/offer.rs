// SPDX-License-Identifier: GPL-2.0

//! What an interface may do because the other end takes it.

use super::{
    Features,
    Netdev,
    Rtnl, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// The other end's offer: an interface does no more than that, and no more than users want. The offer may
/// change whenever the two connect.
pub struct Offer {
    /// Features that depend on it.
    changeable: Features,
    /// Most bytes of a packet without the Ethernet header: with packets of several pieces, and without.
    mtu: (u32, u32),
    features: Atomic<u64>,
    /// What the most bytes were before an offer came by which they had to be less, or 0. They get back to it
    /// with an offer that allows it, unless somebody has set another number.
    mtu_before: Atomic<u32>,
}

impl Offer {
    /// All of the `changeable` features for now. `mtu`: most bytes of a packet without the Ethernet header,
    /// with packets of several pieces and without.
    pub fn new(changeable: Features, mtu: (u32, u32)) -> Self {
        Self {
            changeable,
            mtu,
            features: Atomic::new(changeable.bits()),
            mtu_before: Atomic::new(0),
        }
    }

    /// What the other end takes, as last told.
    #[inline]
    pub fn features(&self) -> Features {
        Features::from_bits(self.features.load(Relaxed))
    }

    fn most_mtu(&self) -> u32 {
        let (scattered, plain) = self.mtu;
        if self.features().contains(Features::SCATTER_GATHER) {
            scattered
        } else {
            plain
        }
    }

    /// The other end takes this from now on: has the interface do less, or more.
    pub fn follow(&self, netdev: &Netdev, rtnl: &Rtnl, features: Features) {
        self.features.store(features.bits(), Relaxed);
        netdev.update_features(rtnl);
        let (most, mtu) = (self.most_mtu(), netdev.mtu());
        let before = self.mtu_before.load(Relaxed);
        // Both are within the interface's limits.
        if mtu > most {
            netdev.info(fmt!("Reducing MTU because no SG offload"));
            let _ = netdev.set_mtu(rtnl, most);
            self.mtu_before.store(mtu, Relaxed);
        } else if before > mtu && before <= most {
            let _ = netdev.set_mtu(rtnl, before);
        }
    }

    /// For [`Operations::fix_features`](super::Operations::fix_features).
    pub fn fix_features(&self, wanted: Features) -> Features {
        wanted.without(self.changeable.without(self.features()))
    }

    /// For [`Operations::change_mtu`](super::Operations::change_mtu).
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is too much.
    pub fn change_mtu(&self, mtu: u32) -> Result {
        if mtu > self.most_mtu() {
            return Err(EINVAL);
        }
        self.mtu_before.store(0, Relaxed);
        Ok(())
    }
}
