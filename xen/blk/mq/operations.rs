// SPDX-License-Identifier: GPL-2.0

//! What the block layer asks of a driver.

use super::{
    request::Pdu,
    Request, //
};
use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    module::ModuleMetadata,
    prelude::*, //
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
        // reference lasts until the disk is deleted, after which its queues are not called.
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
                // The block layer has its request back by the return value.
                request.into_raw();
                bindings::BLK_STS_RESOURCE
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

    extern "C" fn timeout_callback(_rq: *mut bindings::request) -> bindings::blk_eh_timer_return {
        // The other domain may be paused or migrating, and what it will do with the data cannot be
        // taken back from here: go on waiting. Losing the connection ends the request.
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
        table.timeout = Some(Self::timeout_callback);
        table
    };
    pub(super) const TABLE_REF: &'static bindings::blk_mq_ops = &Self::TABLE;
}

/// The functions of `struct block_device_operations`.
pub(in crate::blk) struct DiskTable<T>(PhantomData<T>);

impl<T: Operations> DiskTable<T> {
    /// # Safety
    ///
    /// `disk` must be one that `DiskBuilder` made for `T`, with its `open_mutex` held.
    unsafe extern "C" fn release_callback(disk: *mut bindings::gendisk) {
        // SAFETY: `DiskBuilder` has set `private_data` to `Arc::<T::DiskData>::into_raw`. The disk
        // clears it, with the same lock held, before it drops that reference.
        let Some(data) = (unsafe { (*disk).private_data.cast::<T::DiskData>().as_ref() }) else {
            return;
        };
        // SAFETY: The disk is valid.
        T::released(data, unsafe { bindings::xen_disk_openers(disk) });
    }

    /// # Safety
    ///
    /// `geometry` must be valid for writes.
    unsafe extern "C" fn getgeo_callback(
        disk: *mut bindings::gendisk,
        geometry: *mut kernel::bindings::hd_geometry,
    ) -> c_int {
        // What partitioning programs of old expect of a disk without a geometry.
        const HEADS: u8 = 255;
        const SECTORS: u8 = 63;

        // SAFETY: The block layer calls this with a valid disk.
        let capacity = unsafe { bindings::xen_get_capacity(disk) };
        let cylinders = capacity / (u64::from(HEADS) * u64::from(SECTORS));
        // CAST: The kernel crate knows only the name of the type.
        // SAFETY: By this function's requirements.
        let geometry = unsafe { &mut *geometry.cast::<bindings::hd_geometry>() };
        geometry.heads = HEADS;
        geometry.sectors = SECTORS;
        geometry.cylinders = u16::try_from(cylinders).unwrap_or(u16::MAX);
        0
    }

    const TABLE: bindings::block_device_operations = {
        // SAFETY: All fields are optional functions or pointers that may be NULL.
        let mut table: bindings::block_device_operations = unsafe { core::mem::zeroed() };
        table.owner = T::Module::THIS_MODULE.as_ptr();
        table.release = Some(Self::release_callback);
        table.getgeo = Some(Self::getgeo_callback);
        table
    };
    pub(in crate::blk) const TABLE_REF: &'static bindings::block_device_operations = &Self::TABLE;
}
