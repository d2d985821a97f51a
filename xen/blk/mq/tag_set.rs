// SPDX-License-Identifier: GPL-2.0

//! Sets of tags.

use super::{
    operations::OperationsTable,
    request::Pdu,
    Operations, //
};
use crate::bindings;
use core::{
    marker::PhantomData,
    mem::size_of, //
};
use kernel::{
    error::to_result,
    prelude::*,
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// The hardware queues of a disk and the requests that can be in flight on each.
///
/// # Invariants
///
/// `set` is initialised with `T`'s operations.
#[pin_data(PinnedDrop)]
pub struct TagSet<T: Operations> {
    #[pin]
    set: Opaque<bindings::blk_mq_tag_set>,
    _operations: PhantomData<T>,
}

// SAFETY: The block layer synchronises all use of it.
unsafe impl<T: Operations> Send for TagSet<T> {}
// SAFETY: As above.
unsafe impl<T: Operations> Sync for TagSet<T> {}

impl<T: Operations> TagSet<T> {
    /// Makes `queues` hardware queues with at most `depth` requests in flight on each. The last
    /// `polled` of them, of which there must be less than all, get requests whose users look for their
    /// completion by [`Operations::poll`].
    /// [`Operations::timed_out`] is called after `timeout` milliseconds, or the block layer's default
    /// if that is 0, unless the user sets another time.
    ///
    /// There is no I/O scheduler by default: the device at the other end, or the host, has one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL`.
    pub fn new(queues: u32, polled: u32, depth: u32, timeout: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: It is initialised, or the initializer fails.
            set <- Opaque::try_ffi_init(|slot: *mut bindings::blk_mq_tag_set| {
                // SAFETY: `slot` is valid for writes; zero is what C starts with.
                unsafe { slot.write_bytes(0, 1) };
                // SAFETY: As above.
                let set = unsafe { &mut *slot };
                set.ops = OperationsTable::<T>::TABLE_REF;
                set.nr_hw_queues = queues;
                if polled > 0 {
                    // Maps of processors to queues: for all requests, for reads, which has none of its
                    // own, and for polled ones.
                    set.nr_maps = bindings::hctx_type_HCTX_MAX_TYPES;
                    // CAST: `OperationsTable::map_queues_callback` reads it.
                    set.driver_data = core::ptr::without_provenance_mut(polled as usize);
                }
                set.queue_depth = depth;
                // CAST: 30 bits are not exceeded.
                set.timeout = msecs_to_jiffies(timeout) as c_uint;
                set.numa_node = bindings::NUMA_NO_NODE;
                // CAST: The size of a few words.
                set.cmd_size = size_of::<Pdu<T>>() as c_uint;
                set.flags = bindings::BLK_MQ_F_NO_SCHED_BY_DEFAULT;
                // SAFETY: It is filled in.
                to_result(unsafe { bindings::blk_mq_alloc_tag_set(slot) })
            }),
            _operations: PhantomData,
        }? Error)
    }

    pub(in crate::blk) fn as_raw(&self) -> *mut bindings::blk_mq_tag_set {
        self.set.get()
    }
}

#[pinned_drop]
impl<T: Operations> PinnedDrop for TagSet<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: It is initialised, and the disks that used it have gone: they hold references.
        unsafe { bindings::blk_mq_free_tag_set(self.as_raw()) };
    }
}
