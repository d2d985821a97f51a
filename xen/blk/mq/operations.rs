// SPDX-License-Identifier: GPL-2.0

//! What the block layer asks of a driver.

use super::{
    request::Pdu,
    Request, //
};
use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    prelude::*,
    ModuleMetadata, //
};

/// A driver of disks.
pub trait Operations: Sized + 'static {
    /// The module, which stays loaded while a disk is open.
    type Module: ModuleMetadata;

    /// The driver's part of a disk. It outlives the disk and all who have it open.
    type DiskData: Send + Sync;

    /// The driver's part of a request. It is made with the request and used again and again.
    type RequestData: Default + Send;

    /// Begins a request on hardware queue `queue`. `last` is [`false`] if another one follows at
    /// once or [`commit_rqs`](Self::commit_rqs) is called: the device need not be told before.
    ///
    /// A request that cannot be begun for want of something that other requests hold is given back:
    /// the block layer comes again when one has ended, or else after a short time.
    ///
    /// # Context
    ///
    /// May not sleep. Several processors can call this at once, even for one queue.
    fn queue_rq(
        disk: &Self::DiskData,
        queue: u32,
        request: Request<Self>,
        last: bool,
    ) -> Result<(), Request<Self>>;

    /// Tells the device of requests begun with `last` being [`false`]. Context as for
    /// [`queue_rq`](Self::queue_rq).
    fn commit_rqs(disk: &Self::DiskData, queue: u32);

    /// Looks for requests of polled hardware queue `queue` that have ended, and says whether there were
    /// any. Only for queues of which [`TagSet::new`](super::TagSet::new) was told that they are polled.
    ///
    /// # Context
    ///
    /// May not sleep. Several processors can call this at once.
    fn poll(disk: &Self::DiskData, queue: u32) -> bool;

    /// Called when the request `tag` of hardware queue `queue` has been with the driver for
    /// `milliseconds`, and again each time that it has been for as long again. The user sets the time
    /// in the disk's `queue/io_timeout`. The request may be ending at this moment.
    ///
    /// # Context
    ///
    /// Process context.
    fn timed_out(disk: &Self::DiskData, queue: u32, tag: usize, milliseconds: u32);

    /// Called when somebody has closed the disk that `openers` others still have open.
    ///
    /// # Context
    ///
    /// May sleep. The disk's `open_mutex` is held.
    fn released(disk: &Self::DiskData, openers: u32);
}

pub(super) struct OperationsTable<T>(PhantomData<T>);

impl<T: Operations> OperationsTable<T> {
    /// # Safety
    ///
    /// `hctx` must be live and its queue's `queuedata` be from `Arc::<T::DiskData>::into_raw`.
    unsafe fn disk_data<'a>(hctx: *mut bindings::blk_mq_hw_ctx) -> &'a T::DiskData {
        // SAFETY: By this function's requirements.
        let data = unsafe { (*(*hctx).queue).queuedata };
        // SAFETY: `data` came from `Arc::into_raw`, which is a pointer to the content, and the
        // reference lasts until the disk is deleted and a grace period is over, after which its
        // queues are not called.
        unsafe { &*data.cast::<T::DiskData>() }
    }

    /// # Safety
    ///
    /// `hctx` must be a live queue of a disk that `DiskBuilder` made for `T`, and `bd` must hand over an
    /// idle request of its tag set.
    unsafe extern "C" fn queue_rq_callback(
        hctx: *mut bindings::blk_mq_hw_ctx,
        bd: *const bindings::blk_mq_queue_data,
    ) -> bindings::blk_status_t {
        // SAFETY: The block layer calls this with a live queue of a disk that `DiskBuilder` made.
        let data = unsafe { Self::disk_data(hctx) };
        // SAFETY: The block layer owns both.
        let (queue, rq, last) = unsafe { ((*hctx).queue_num, (*bd).rq, (*bd).last) };
        // SAFETY: The block layer hands the request over, which was made with `T`'s tag set. It is
        // idle, as it must be to be started.
        let request = unsafe {
            bindings::blk_mq_start_request(rq);
            Request::<T>::from_raw(rq)
        };
        match T::queue_rq(data, queue, request, last) {
            Ok(()) => bindings::BLK_STS_OK as bindings::blk_status_t,
            Err(request) => {
                let returned = request.into_raw();
                if returned == rq {
                    // The block layer has its request back by the return value.
                    return bindings::BLK_STS_RESOURCE;
                }
                // The driver has kept this one and gives another one back.
                // SAFETY: It is valid and started, and `into_raw` has given it up.
                unsafe { bindings::blk_mq_requeue_request(returned, true) };
                bindings::BLK_STS_OK as bindings::blk_status_t
            }
        }
    }

    /// # Safety
    ///
    /// `hctx` must be a live queue of a disk that `DiskBuilder` made for `T`.
    unsafe extern "C" fn commit_rqs_callback(hctx: *mut bindings::blk_mq_hw_ctx) {
        // SAFETY: As in `queue_rq_callback`.
        let data = unsafe { Self::disk_data(hctx) };
        // SAFETY: The queue is live.
        T::commit_rqs(data, unsafe { (*hctx).queue_num });
    }

    /// # Safety
    ///
    /// `rq` must be a request that `Request::<T>::complete` gave up.
    unsafe extern "C" fn complete_callback(rq: *mut bindings::request) {
        // SAFETY: This is only called for requests that `Request::complete` gave up, which were
        // made with `T`'s tag set, so that the data is initialised.
        let status = unsafe { (*Pdu::<T>::of(rq)).status };
        // SAFETY: `Request::complete` gave up its ownership for this.
        unsafe { bindings::blk_mq_end_request(rq, status) };
    }

    /// # Safety
    ///
    /// `rq` must be a new request of a tag set made for `T`.
    unsafe extern "C" fn init_request_callback(
        _set: *mut bindings::blk_mq_tag_set,
        rq: *mut bindings::request,
        _queue: c_uint,
        _node: c_int,
    ) -> c_int {
        // SAFETY: The tag set's `cmd_size` is that of `Pdu<T>`, so there is room behind the request.
        unsafe { Pdu::<T>::of(rq).write(Pdu::default()) };
        0
    }

    /// # Safety
    ///
    /// `rq` must be a request that `init_request_callback` has initialised and nobody uses any more.
    unsafe extern "C" fn exit_request_callback(
        _set: *mut bindings::blk_mq_tag_set,
        rq: *mut bindings::request,
        _queue: c_uint,
    ) {
        // SAFETY: `init_request_callback` has initialised it, and nobody uses the request any more.
        unsafe { core::ptr::drop_in_place(Pdu::<T>::of(rq)) };
    }

    /// # Safety
    ///
    /// `hctx` must be a live queue of a disk that `DiskBuilder` made for `T`.
    unsafe extern "C" fn poll_callback(
        hctx: *mut bindings::blk_mq_hw_ctx,
        _batch: *mut bindings::io_comp_batch,
    ) -> c_int {
        // SAFETY: As in `queue_rq_callback`.
        let data = unsafe { Self::disk_data(hctx) };
        // SAFETY: The queue is live.
        T::poll(data, unsafe { (*hctx).queue_num }).into()
    }

    /// # Safety
    ///
    /// `set` must be a tag set that `TagSet::new` has filled in.
    unsafe extern "C" fn map_queues_callback(set: *mut bindings::blk_mq_tag_set) {
        // SAFETY: By this function's requirements, and the block layer changes it only from here.
        let set = unsafe { &mut *set };
        // CAST: It was made from a number of this type. With one map there are no polled queues.
        let polled = match set.nr_maps {
            bindings::hctx_type_HCTX_MAX_TYPES => set.driver_data.addr() as c_uint,
            _ => 0,
        };
        let others = set.nr_hw_queues.saturating_sub(polled);
        let default = bindings::hctx_type_HCTX_TYPE_DEFAULT as usize;
        let poll = bindings::hctx_type_HCTX_TYPE_POLL as usize;
        for (map, count, offset) in [(default, others, 0), (poll, polled, others)] {
            if let (Some(map), true) = (set.map.get_mut(map), count > 0) {
                map.nr_queues = count;
                map.queue_offset = offset;
                // SAFETY: The map has an entry for each processor; the queues exist.
                unsafe { bindings::blk_mq_map_queues(map) };
            }
        }
    }

    /// # Safety
    ///
    /// `rq` must be a request in flight of a disk that `DiskBuilder` made for `T`, which is not made
    /// anew meanwhile.
    unsafe extern "C" fn timeout_callback(
        rq: *mut bindings::request,
    ) -> bindings::blk_eh_timer_return {
        // SAFETY: The block layer keeps the request from being another one during the call, so that
        // its queue stays, too.
        let (hctx, tag) = unsafe { ((*rq).mq_hctx, (*rq).tag) };
        if let Ok(tag) = usize::try_from(tag) {
            // SAFETY: As above.
            let milliseconds = unsafe { bindings::xen_rq_timeout_msecs(rq) };
            // SAFETY: As above.
            let data = unsafe { Self::disk_data(hctx) };
            // SAFETY: The queue is live.
            T::timed_out(data, unsafe { (*hctx).queue_num }, tag, milliseconds);
        }
        // What the other end will do with the request's memory cannot be taken back from here: the
        // driver ends the request, if it does.
        bindings::blk_eh_timer_return_BLK_EH_RESET_TIMER
    }

    const TABLE: bindings::blk_mq_ops = {
        // SAFETY: All fields are optional functions; none is a valid value.
        let mut table: bindings::blk_mq_ops = unsafe { core::mem::zeroed() };
        table.queue_rq = Some(Self::queue_rq_callback);
        table.commit_rqs = Some(Self::commit_rqs_callback);
        table.complete = Some(Self::complete_callback);
        table.init_request = Some(Self::init_request_callback);
        table.exit_request = Some(Self::exit_request_callback);
        table.poll = Some(Self::poll_callback);
        table.map_queues = Some(Self::map_queues_callback);
        table.timeout = Some(Self::timeout_callback);
        table
    };
    pub(super) const TABLE_REF: &'static bindings::blk_mq_ops = &Self::TABLE;
}
