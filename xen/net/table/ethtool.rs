// SPDX-License-Identifier: GPL-2.0

//! What `ethtool` calls of a driver.

use super::{
    data,
    Operations,
    Table, //
};
use crate::{
    bindings,
    compat::EOPNOTSUPP,
    moderation::{
        Live,
        Setting, //
    },
    net::{
        FlowFields,
        FlowKind,
        HashSizes,
        Rtnl, //
    },
};
use core::{
    ffi::CStr,
    slice, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

/// The hash of Toeplitz, as `ethtool_rxfh_param` names it.
const TOEPLITZ: u8 = 1 << bindings::ETH_RSS_HASH_TOP_BIT;

/// Which settings of a direction users are told of that cannot be as they want them.
fn refusal(is_rx: bool, setting: Setting) -> &'static CStr {
    // The ranges of `Setting::range`.
    match (is_rx, setting) {
        (true, Setting::Frames) => c"rx-frames must be from 1 to 512",
        (true, Setting::Usecs) => c"rx-usecs must be from 0 to 100000",
        (false, Setting::Frames) => c"tx-frames must be from 1 to 512",
        (false, Setting::Usecs) => c"tx-usecs must be from 0 to 100000",
        _ => c"out of range",
    }
}

/// What is set of a direction: microseconds, packets, and whether that is the most.
fn coalescing(live: &Live) -> (u32, u32, u32) {
    (
        live.get(Setting::Usecs),
        live.get(Setting::Frames),
        live.get(Setting::Adaptive),
    )
}

/// # Safety
///
/// `pointer` must be NULL, or valid for `length` values for `'a`, that nobody else uses.
unsafe fn slice_or_empty<'a, V>(pointer: *mut V, length: usize) -> &'a mut [V] {
    if pointer.is_null() {
        return &mut [];
    }
    // SAFETY: By this function's requirements.
    unsafe { slice::from_raw_parts_mut(pointer, length) }
}

impl<T: Operations> Table<T> {
    // All of these are called by the kernel, with an interface that is registered with them.

    pub(super) unsafe extern "C" fn get_sset_count(
        _dev: *mut bindings::net_device,
        set: c_int,
    ) -> c_int {
        // CAST: Of a few.
        if set as c_uint == bindings::ethtool_stringset_ETH_SS_STATS {
            // CAST: A driver has few statistics.
            T::STATISTICS.len() as c_int
        } else {
            EOPNOTSUPP.to_errno()
        }
    }

    pub(super) unsafe extern "C" fn get_strings(
        _dev: *mut bindings::net_device,
        set: u32,
        to: *mut u8,
    ) {
        if set != bindings::ethtool_stringset_ETH_SS_STATS {
            return;
        }
        // CAST: 32.
        let width = bindings::ETH_GSTRING_LEN as usize;
        // SAFETY: The kernel has made room for as many names as `get_sset_count` says.
        let all = unsafe { slice::from_raw_parts_mut(to, T::STATISTICS.len() * width) };
        for (place, name) in all.chunks_exact_mut(width).zip(T::STATISTICS) {
            place.fill(0);
            // The last byte stays 0.
            for (to, from) in place.iter_mut().take(width - 1).zip(name.to_bytes()) {
                *to = *from;
            }
        }
    }

    pub(super) unsafe extern "C" fn get_ethtool_stats(
        dev: *mut bindings::net_device,
        _stats: *mut bindings::ethtool_stats,
        values: *mut u64,
    ) {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // SAFETY: The kernel has made room for as many numbers as `get_sset_count` says, zeroed.
        this.statistics(unsafe { slice::from_raw_parts_mut(values, T::STATISTICS.len()) });
    }

    pub(super) unsafe extern "C" fn get_ringparam(
        dev: *mut bindings::net_device,
        raw: *mut bindings::ethtool_ringparam,
        _kernel: *mut bindings::kernel_ethtool_ringparam,
        _extack: *mut bindings::netlink_ext_ack,
    ) {
        // SAFETY: See above.
        let rings = unsafe { data::<T>(dev) }.rings();
        // SAFETY: The kernel hands over a valid structure.
        let raw = unsafe { &mut *raw };
        raw.rx_max_pending = rings.most_received;
        raw.rx_pending = rings.received;
        raw.tx_max_pending = rings.most_sent;
        raw.tx_pending = rings.sent;
    }

    pub(super) unsafe extern "C" fn get_channels(
        dev: *mut bindings::net_device,
        raw: *mut bindings::ethtool_channels,
    ) {
        // SAFETY: See above.
        let channels = unsafe { data::<T>(dev) }.channels();
        // SAFETY: The kernel hands over a valid structure.
        let raw = unsafe { &mut *raw };
        raw.max_combined = channels.most;
        raw.combined_count = channels.count;
    }

    pub(super) unsafe extern "C" fn set_channels(
        dev: *mut bindings::net_device,
        raw: *mut bindings::ethtool_channels,
    ) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // The kernel has checked the number against `get_channels`.
        // SAFETY: The kernel hands over a valid structure.
        let count = unsafe { (*raw).combined_count };
        from_result(|| this.set_channels(count, &Rtnl::held()).map(|()| 0))
    }

    /// Parameters that users can set, `ETHTOOL_COALESCE_*`.
    pub(super) const COALESCE_PARAMETERS: u32 = {
        let (rx, tx) = T::MODERATES;
        let mut all = 0;
        if rx {
            all |= bindings::ETHTOOL_COALESCE_RX_USECS
                | bindings::ETHTOOL_COALESCE_RX_MAX_FRAMES
                | bindings::ETHTOOL_COALESCE_USE_ADAPTIVE_RX;
        }
        if tx {
            all |= bindings::ETHTOOL_COALESCE_TX_USECS
                | bindings::ETHTOOL_COALESCE_TX_MAX_FRAMES
                | bindings::ETHTOOL_COALESCE_USE_ADAPTIVE_TX;
        }
        all
    };

    pub(super) unsafe extern "C" fn get_coalesce(
        dev: *mut bindings::net_device,
        raw: *mut bindings::ethtool_coalesce,
        _kernel: *mut bindings::kernel_ethtool_coalesce,
        _extack: *mut bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // SAFETY: The kernel hands over a valid structure, zeroed.
        let raw = unsafe { &mut *raw };
        if let Some(live) = this.rx_moderation() {
            (
                raw.rx_coalesce_usecs,
                raw.rx_max_coalesced_frames,
                raw.use_adaptive_rx_coalesce,
            ) = coalescing(live);
        }
        if let Some(live) = this.tx_moderation() {
            (
                raw.tx_coalesce_usecs,
                raw.tx_max_coalesced_frames,
                raw.use_adaptive_tx_coalesce,
            ) = coalescing(live);
        }
        0
    }

    pub(super) unsafe extern "C" fn set_coalesce(
        dev: *mut bindings::net_device,
        raw: *mut bindings::ethtool_coalesce,
        _kernel: *mut bindings::kernel_ethtool_coalesce,
        extack: *mut bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // SAFETY: The kernel hands over a valid structure. It has refused what is not among the parameters, and
        // what is there and nobody wants changed is as `get_coalesce` has said.
        let raw = unsafe { &*raw };
        let rx = this.rx_moderation().map(|live| {
            let usecs = (Setting::Usecs, raw.rx_coalesce_usecs);
            let frames = (Setting::Frames, raw.rx_max_coalesced_frames);
            let adaptive = u32::from(raw.use_adaptive_rx_coalesce != 0);
            (true, live, [usecs, frames, (Setting::Adaptive, adaptive)])
        });
        let tx = this.tx_moderation().map(|live| {
            let usecs = (Setting::Usecs, raw.tx_coalesce_usecs);
            let frames = (Setting::Frames, raw.tx_max_coalesced_frames);
            let adaptive = u32::from(raw.use_adaptive_tx_coalesce != 0);
            (false, live, [usecs, frames, (Setting::Adaptive, adaptive)])
        });
        let directions = [rx, tx];
        // Nothing is changed unless all can be.
        for (is_rx, _, values) in directions.iter().flatten() {
            for &(setting, value) in values {
                if setting.check(value).is_err() {
                    // SAFETY: The kernel hands over a place for a message, or NULL, and the text is static.
                    unsafe {
                        bindings::xen_net_explain(extack, refusal(*is_rx, setting).as_char_ptr())
                    };
                    return ERANGE.to_errno();
                }
            }
        }
        for (_, live, values) in directions.iter().flatten() {
            // They have been checked.
            let _ = live.change(values);
        }
        0
    }

    pub(super) unsafe extern "C" fn get_rx_ring_count(dev: *mut bindings::net_device) -> u32 {
        // SAFETY: See above.
        unsafe { data::<T>(dev) }.channels().count
    }

    pub(super) unsafe extern "C" fn get_rxfh_key_size(dev: *mut bindings::net_device) -> u32 {
        // SAFETY: See above.
        unsafe { data::<T>(dev) }.hash_sizes().key
    }

    pub(super) unsafe extern "C" fn get_rxfh_indir_size(dev: *mut bindings::net_device) -> u32 {
        // SAFETY: See above.
        unsafe { data::<T>(dev) }.hash_sizes().table
    }

    pub(super) unsafe extern "C" fn get_rxfh(
        dev: *mut bindings::net_device,
        raw: *mut bindings::ethtool_rxfh_param,
    ) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // SAFETY: The kernel hands over a valid structure.
        let raw = unsafe { &mut *raw };
        let HashSizes { key, table } = this.hash_sizes();
        // CAST: Both are small.
        // SAFETY: If it is there, the kernel has made it as large as it was told.
        let key = unsafe { slice_or_empty(raw.key, key as usize) };
        // CAST: As above.
        // SAFETY: As above.
        let table = unsafe { slice_or_empty(raw.indir, table as usize) };
        raw.hfunc = if this.hashing(key, table) {
            TOEPLITZ
        } else {
            0
        };
        0
    }

    pub(super) unsafe extern "C" fn set_rxfh(
        dev: *mut bindings::net_device,
        raw: *mut bindings::ethtool_rxfh_param,
        _extack: *mut bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // SAFETY: The kernel hands over a valid structure.
        let raw = unsafe { &mut *raw };
        if !matches!(raw.hfunc, 0 | TOEPLITZ) {
            return EOPNOTSUPP.to_errno();
        }
        let sizes = this.hash_sizes();
        // CAST: Both are small.
        // SAFETY: If it is there, the kernel has made it as large as it was told, and filled it.
        let key = unsafe { slice_or_empty(raw.key, sizes.key as usize) };
        // CAST: As above.
        // SAFETY: As above.
        let table = unsafe { slice_or_empty(raw.indir, sizes.table as usize) };
        from_result(|| {
            this.set_hashing(
                (!key.is_empty()).then_some(&*key),
                (!table.is_empty()).then_some(&*table),
                &Rtnl::held(),
            )
            .map(|()| 0)
        })
    }

    pub(super) unsafe extern "C" fn get_rxfh_fields(
        dev: *mut bindings::net_device,
        raw: *mut bindings::ethtool_rxfh_fields,
    ) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // SAFETY: The kernel hands over a valid structure.
        let raw = unsafe { &mut *raw };
        from_result(|| {
            let kind = FlowKind::from_raw(raw.flow_type).ok_or(EOPNOTSUPP)?;
            raw.data = this.hash_fields(kind).into_raw();
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn set_rxfh_fields(
        dev: *mut bindings::net_device,
        raw: *const bindings::ethtool_rxfh_fields,
        _extack: *mut bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // SAFETY: The kernel hands over a valid structure.
        let raw = unsafe { &*raw };
        from_result(|| {
            let kind = FlowKind::from_raw(raw.flow_type).ok_or(EOPNOTSUPP)?;
            let fields = FlowFields::from_raw(raw.data).ok_or(EINVAL)?;
            this.set_hash_fields(kind, fields, &Rtnl::held())
                .map(|()| 0)
        })
    }
}
