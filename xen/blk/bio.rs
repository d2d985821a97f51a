// SPDX-License-Identifier: GPL-2.0

//! Requests to a block device of this domain.
//!
//! A [`Transfer`] is everything that a request needs, in one value: the pages, what its user keeps for
//! himself, and where it goes when it is done. Submitting it gives it away; the block layer gives it
//! back, in whatever context the device is done, through a [`Mailbox`], with its [`Status`]. So it can
//! neither be forgotten nor end twice, and nothing of it is freed while the device may use it.
//!
//! C header: [`include/linux/bio.h`](srctree/include/linux/bio.h)

use super::BlockDevice;
use crate::{
    bindings,
    grant::{
        BouncePage,
        Mapping, //
    },
    thread::Signal,
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        rcu,
        Arc, //
    },
};

/// Most pieces of memory of one transfer.
pub const MAX_PARTS: usize = 256;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read into the parts.
    Read,
    /// Write the parts.
    Write {
        /// What was written before must be on the medium first.
        flush_before: bool,
        /// This must be on the medium when it is done.
        durable: bool,
    },
    /// Everything that was written before must be on the medium when it is done.
    Flush,
    /// So many sectors of 512 bytes need not be kept.
    Discard {
        /// How many.
        sectors: u64,
        /// Nobody may be able to read them again.
        secure: bool,
    },
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Okay,
    /// Failed.
    IoError,
    /// The device does not do this.
    NotSupported,
}

/// Memory that a device reads or writes.
pub enum Buffer {
    /// A frame of another domain's.
    Mapped(Mapping),
    /// A page of this domain's own.
    Own(BouncePage),
}

impl Buffer {
    #[inline]
    fn page(&self) -> *mut bindings::page {
        match self {
            Self::Mapped(mapping) => mapping.page(),
            Self::Own(page) => page.page(),
        }
    }
}

/// Part of a transfer's memory.
pub struct Part {
    /// The page.
    pub buffer: Buffer,
    /// Where in the page it starts, in bytes; a multiple of 512 that is less than 4096.
    pub offset: u32,
    /// How long it is, in bytes; a multiple of 512. It does not leave the page.
    pub length: u32,
    /// By which reference the page is the other domain's, for its user.
    pub gref: u32,
    /// Whether the mapping is to be kept afterwards, for its user.
    pub keep: bool,
}

/// A request to a device, with all that it needs.
///
/// Dropped, it frees its pages, and closes the device if nobody else uses it. Process context.
pub struct Transfer<T: Send + 'static> {
    /// What it reads into or writes, in the order of its sectors.
    pub parts: KVec<Part>,
    /// Its user's.
    pub data: T,
    status: Status,
    next: *mut Transfer<T>,
    /// Where it goes; set while it is under way.
    way: Option<(Arc<Mailbox<T>>, Arc<BlockDevice>)>,
}

// SAFETY: All fields but `next` are `Send`; that one is used by whoever owns the transfer.
unsafe impl<T: Send + 'static> Send for Transfer<T> {}

impl<T: Send + 'static> Transfer<T> {
    /// Makes one without any part yet, with room for `parts`. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(parts: usize, data: T) -> Result<KBox<Self>> {
        Ok(KBox::new(
            Self {
                parts: KVec::with_capacity(parts, GFP_KERNEL)?,
                data,
                status: Status::IoError,
                next: core::ptr::null_mut(),
                way: None,
            },
            GFP_KERNEL,
        )?)
    }

    /// How it ended, when it has come back.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Gives it to a device, to come back through `mailbox`: at once if the device takes it at once.
    /// `sector` is in units of 512 bytes. Process context.
    ///
    /// What does not fit together (a discard with parts, a part that is not within its page, too many
    /// of them) comes back with an error.
    pub fn submit(
        mut self: KBox<Self>,
        device: &Arc<BlockDevice>,
        mailbox: &Arc<Mailbox<T>>,
        action: Action,
        sector: u64,
    ) {
        let Some(bio) = self.make_bio(device, action, sector) else {
            // Nothing was begun.
            self.status = match action {
                Action::Discard { .. } => Status::NotSupported,
                _ => Status::IoError,
            };
            mailbox.deliver(self);
            return;
        };
        self.way = Some((mailbox.clone(), device.clone()));
        // SAFETY: The bio is complete, and nobody else knows it. Its pages are those of the parts,
        // which nobody drops or changes: the transfer is given away until `end_callback` is called,
        // which is when the device is done.
        unsafe {
            (*bio.as_ptr()).bi_private = KBox::into_raw(self).cast();
            (*bio.as_ptr()).bi_end_io = Some(Self::end_callback);
            bindings::submit_bio(bio.as_ptr());
        }
    }

    /// Makes the last bio of the request. Those before it, if any, are on their way.
    fn make_bio(
        &self,
        device: &BlockDevice,
        action: Action,
        sector: u64,
    ) -> Option<NonNull<bindings::bio>> {
        let flags = match action {
            Action::Read => bindings::req_op_REQ_OP_READ,
            Action::Write {
                flush_before,
                durable,
            } => {
                let mut flags =
                    bindings::req_op_REQ_OP_WRITE | bindings::REQ_SYNC | bindings::REQ_IDLE;
                if flush_before {
                    flags |= bindings::REQ_PREFLUSH;
                }
                if durable {
                    flags |= bindings::REQ_FUA;
                }
                flags
            }
            Action::Flush => {
                bindings::req_op_REQ_OP_WRITE | bindings::REQ_SYNC | bindings::REQ_PREFLUSH
            }
            Action::Discard { sectors, secure } => {
                if !self.parts.is_empty() {
                    return None;
                }
                return if secure {
                    secure_erase(device, sector, sectors)
                } else {
                    discard(device, sector, sectors)
                };
            }
        };
        if (action == Action::Flush) != self.parts.is_empty() || self.parts.len() > MAX_PARTS {
            return None;
        }
        for part in &self.parts {
            let end = part.offset.checked_add(part.length)?;
            // CAST: 4096.
            if part.length == 0 || end > bindings::XEN_PAGE_SIZE as u32 {
                return None;
            }
        }
        let bio = allocate(device, self.parts.len(), flags)?;
        for part in &self.parts {
            // SAFETY: The bio has room for all parts, and each is within its page.
            unsafe {
                bindings::__bio_add_page(bio.as_ptr(), part.buffer.page(), part.length, part.offset)
            };
        }
        // SAFETY: The bio is valid.
        unsafe { (*bio.as_ptr()).bi_iter.bi_sector = sector };
        Some(bio)
    }

    /// # Safety
    ///
    /// `bio` must be one that `submit` submitted.
    unsafe extern "C" fn end_callback(bio: *mut bindings::bio) {
        // The module stays until the last instruction here that matters: see `ModuleQueueGuard`.
        let _guard = rcu::read_lock();
        // SAFETY: The bio is valid until it is put; `submit` has set the private pointer to what it
        // got from `into_raw`, and nobody else uses it.
        let (mut transfer, status) = unsafe {
            (
                KBox::from_raw((*bio).bi_private.cast::<Self>()),
                (*bio).bi_status,
            )
        };
        // SAFETY: The reference is `submit`'s.
        unsafe { bindings::bio_put(bio) };
        // CAST: It is 0.
        transfer.status = if status == bindings::BLK_STS_OK as bindings::blk_status_t {
            Status::Okay
        } else if status == bindings::BLK_STS_NOTSUPP {
            Status::NotSupported
        } else {
            Status::IoError
        };
        // Whoever takes the transfer closes the device if this was its last user, which cannot be done
        // here.
        if let Some(mailbox) = transfer.way.as_ref().map(|(mailbox, _)| mailbox.clone()) {
            mailbox.deliver(transfer);
        }
    }
}

/// Allocates a bio. Process context, in which this cannot fail.
fn allocate(
    device: &BlockDevice,
    parts: usize,
    flags: bindings::blk_opf_t,
) -> Option<NonNull<bindings::bio>> {
    // SAFETY: The device is valid, and the set is the kernel's own. At most one bio is allocated from
    // it before it is submitted.
    NonNull::new(unsafe {
        bindings::bio_alloc_bioset(
            device.as_raw(),
            // CAST: At most `MAX_PARTS`.
            parts as c_ushort,
            flags,
            bindings::GFP_NOIO,
            core::ptr::addr_of_mut!(bindings::fs_bio_set),
        )
    })
}

fn discard(device: &BlockDevice, sector: u64, sectors: u64) -> Option<NonNull<bindings::bio>> {
    device.discard()?;
    let mut bio = core::ptr::null_mut();
    // SAFETY: The device is valid. All bios but the last are submitted, and ended before that.
    unsafe {
        bindings::__blkdev_issue_discard(
            device.as_raw(),
            sector,
            sectors,
            bindings::GFP_NOIO,
            &mut bio,
        )
    };
    NonNull::new(bio)
}

fn secure_erase(
    device: &BlockDevice,
    mut sector: u64,
    mut sectors: u64,
) -> Option<NonNull<bindings::bio>> {
    // A bio counts bytes by 32 bits.
    let limit = device.max_secure_erase_sectors().min(u32::MAX >> 9);
    // Pieces keep to whole sectors of the device.
    let limit = limit & !((device.logical_block_size() >> 9).max(1) - 1);
    if limit == 0 {
        return None;
    }
    let mut bio = core::ptr::null_mut();
    while sectors > 0 {
        // CAST: At most `limit`.
        let length = sectors.min(limit.into()) as u32;
        // SAFETY: The device is valid, and `bio` is NULL or valid: it is submitted and the new one ends
        // after it.
        bio = unsafe {
            bindings::blk_next_bio(
                bio,
                device.as_raw(),
                0,
                bindings::req_op_REQ_OP_SECURE_ERASE,
                bindings::GFP_NOIO,
            )
        };
        // SAFETY: The bio was just made.
        let iter = unsafe { &mut (*NonNull::new(bio)?.as_ptr()).bi_iter };
        iter.bi_sector = sector;
        iter.bi_size = length << 9;
        sector += u64::from(length);
        sectors -= u64::from(length);
    }
    NonNull::new(bio)
}

/// Where transfers come back, for one thread.
pub struct Mailbox<T: Send + 'static> {
    /// The last one delivered, linked to those before it.
    last: Atomic<*mut Transfer<T>>,
    signal: Arc<Signal>,
}

impl<T: Send + 'static> Mailbox<T> {
    /// Makes one that raises a signal when something has come. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(signal: Arc<Signal>) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                last: Atomic::new(core::ptr::null_mut()),
                signal,
            },
            GFP_KERNEL,
        )?)
    }

    /// Any context.
    fn deliver(&self, transfer: KBox<Transfer<T>>) {
        let transfer = KBox::into_raw(transfer);
        let mut last = self.last.load(Relaxed);
        loop {
            // SAFETY: The transfer is this caller's until it is in the list.
            unsafe { (*transfer).next = last };
            match self.last.cmpxchg(last, transfer, Full) {
                Ok(_) => break,
                Err(other) => last = other,
            }
        }
        self.signal.raise();
    }

    /// Whether something is there.
    #[inline]
    pub fn has_mail(&self) -> bool {
        !self.last.load(Acquire).is_null()
    }

    /// Takes all that is there, the first one first.
    pub fn take(&self) -> Delivered<T> {
        let mut node = self.last.xchg(core::ptr::null_mut(), Full);
        let mut first = core::ptr::null_mut();
        while !node.is_null() {
            // SAFETY: Whatever is in the list is from `into_raw`, and the list belongs to whoever has
            // taken it.
            let next = unsafe { core::mem::replace(&mut (*node).next, first) };
            first = node;
            node = next;
        }
        Delivered { first }
    }
}

impl<T: Send + 'static> Drop for Mailbox<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// Transfers that have come back.
pub struct Delivered<T: Send + 'static> {
    first: *mut Transfer<T>,
}

impl<T: Send + 'static> Iterator for Delivered<T> {
    type Item = KBox<Transfer<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = NonNull::new(self.first)?;
        // SAFETY: It is from `into_raw`, and the list is this value's.
        let mut transfer = unsafe { KBox::from_raw(first.as_ptr()) };
        self.first = core::mem::replace(&mut transfer.next, core::ptr::null_mut());
        Some(transfer)
    }
}

impl<T: Send + 'static> Drop for Delivered<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

/// Runs `body` with what it submits held back until its end, or until the thread sleeps.
pub fn plugged<R>(body: impl FnOnce() -> R) -> R {
    let mut plug = bindings::blk_plug::default();
    // SAFETY: The plug stays where it is until it is finished below, on the same thread.
    unsafe { bindings::blk_start_plug(&mut plug) };
    let result = body();
    // SAFETY: It was started above.
    unsafe { bindings::blk_finish_plug(&mut plug) };
    result
}
