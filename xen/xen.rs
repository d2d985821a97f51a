// SPDX-License-Identifier: GPL-2.0

//! Abstractions for Xen's split drivers.
//!
//! A paravirtual device has two halves in two domains: the *frontend* in the guest that uses it, and
//! the *backend* in the domain that has the hardware. They find each other through *xenstore*, a
//! small tree of text that all domains share, then pass messages on *rings* in pages that the
//! frontend *grants* to the backend, and wake each other by *event channels*.
//!
//! This crate has what each half needs, with all of the unsafe code. It is made for drivers outside
//! of the kernel tree today and could become `kernel::xen` as it stands. A driver is linked with a
//! copy of its own.
//!
//! | module       | what it has                                                            |
//! |--------------|------------------------------------------------------------------------|
//! | [`xenbus`]   | the bus: drivers, devices, states; xenstore, typed and by transactions |
//! | [`evtchn`]   | event channels and their handlers                                      |
//! | [`grant`]    | pages granted to another domain, and those that it grants              |
//! | [`ring`]     | both halves of a ring, for any protocol                                |
//! | [`io`]       | the protocols: what the bytes in the slots mean                        |
//! | [`blk`]      | disks and requests, beyond [`kernel::block`]                           |
//! | [`net`]      | interfaces and packets                                                 |
//! | [`moderation`] | fewer events for the same messages                                   |
//! | [`param`]    | module parameters with files in sysfs                                  |
//! | [`shrinker`] | being told that memory is short                                        |
//! | [`sysfs`]    | files of a device in sysfs                                             |
//! | [`thread`]   | kernel threads, and waking them                                        |
//! | [`work`]     | a module's own workqueue                                               |
//! | [`debugfs`]  | a module's directory for statistics                                    |
//! | [`domain`]   | what kind of domain this is                                            |
//! | [`compat`]   | what kernels have under other names, or not at all                     |
//! | [`memory`]   | access to memory that another domain changes at the same time          |
//!
//! # The other half is not to be trusted
//!
//! It is another virtual machine. Three habits keep what it does from becoming this kernel's
//! problem, and the types are made so that a driver does not have to remember them:
//!
//! - *Copy once, then check the copy.* A ring hands out copies; nothing refers to shared memory.
//! - *An index or a number from the other side is never an index here* before it has been found in
//!   a table of one's own. What cannot be is an error value ([`ring::Impossible`]), not a panic.
//! - *Nothing waits for it without a way out.* Whatever is shared is owned by one value, and dropping
//!   that value ends it: the channel is unbound, requests in flight end with an error, pages that
//!   the other side still has mapped are parked rather than used again.
//!
//! # A frontend, step by step
//!
//! A driver implements [`xenbus::Driver`] for its side and type of device, and declares itself by
//! [`module_xenbus_driver!`]. The bus then calls it with each device. The frontend waits for its
//! backend to say what it can do, makes a ring and a channel, tells the backend of them, and is
//! connected when the backend says that it is:
//!
//! ```
//! use core::{ffi::CStr, pin::Pin};
//! use kernel::{device, new_mutex, prelude::*, sync::{Arc, ArcBorrow, Mutex}};
//! use xen::{
//!     evtchn::{Channel, Handler, Outcome},
//!     io::blkif::Blkif,
//!     ring::{Front, Notify},
//!     xenbus::{self, store::Transaction, DeviceRef, GrantedPages, State},
//! };
//!
//! struct MyDriver;
//!
//! /// What is shared with the backend. The channel is dropped first: then nothing uses the ring.
//! struct Connection {
//!     channel: Channel<Events>,
//!     ring: Front<Blkif, GrantedPages>,
//! }
//!
//! struct Events;
//!
//! impl Handler for Events {
//!     fn handle(_this: ArcBorrow<'_, Self>) -> Outcome {
//!         // Take responses off the ring here, until `wait_for_responses` says that none is left.
//!         Outcome::Handled
//!     }
//! }
//!
//! #[pin_data]
//! struct MyDevice {
//!     #[pin]
//!     connection: Mutex<Option<Connection>>,
//! }
//!
//! fn connect(dev: &DeviceRef) -> Result<Connection> {
//!     let pages = GrantedPages::new(dev, 0)?;
//!     let ring = Front::new(pages).map_err(|_| EINVAL)?;
//!     let channel = Channel::new(dev, c"my-device", Arc::new(Events, GFP_KERNEL)?)?;
//!     Transaction::run(|transaction| {
//!         let node = dev.nodename();
//!         for gref in ring.memory().grefs() {
//!             transaction.write(node, c"ring-ref", fmt!("{gref}"))?;
//!         }
//!         transaction.write(node, c"event-channel", fmt!("{}", channel.port()))
//!     })?;
//!     Ok(Connection { channel, ring })
//! }
//!
//! impl xenbus::Driver for MyDriver {
//!     type Side = xenbus::Frontend;
//!     type Data<'bound> = MyDevice;
//!     const DEVICE_TYPE: &'static CStr = c"mine";
//!
//!     fn probe<'bound>(
//!         _dev: &'bound xenbus::Device<device::Core<'_>>,
//!     ) -> impl PinInit<MyDevice, Error> + 'bound {
//!         try_pin_init!(MyDevice { connection <- new_mutex!(None) })
//!     }
//!
//!     fn otherend_changed<'bound>(
//!         dev: &'bound xenbus::Device<device::Bound>,
//!         data: Pin<&MyDevice>,
//!         theirs: State,
//!     ) {
//!         match (dev.state(), theirs) {
//!             (State::Initialising, State::InitWait) => match connect(&DeviceRef::from(dev)) {
//!                 Ok(connection) => {
//!                     *data.connection.lock() = Some(connection);
//!                     dev.switch_state(State::Initialised);
//!                 }
//!                 Err(error) => dev.fatal(error, fmt!("making the ring")),
//!             },
//!             (State::Initialised, State::Connected) => dev.switch_state(State::Connected),
//!             (_, State::Closing | State::Closed) => {
//!                 data.connection.lock().take();
//!                 dev.frontend_closed();
//!             }
//!             _ => {}
//!         }
//!     }
//!
//!     fn unbind<'bound>(
//!         _dev: &'bound xenbus::Device<device::Core<'_>>,
//!         data: Pin<&MyDevice>,
//!     ) {
//!         // What is shared must be gone when this returns, not when the data is dropped: the bus
//!         // tells the backend in between that the device is closed.
//!         data.connection.lock().take();
//!     }
//! }
//!
//! /// Sending is to fill slots, push them, and wake the backend if it asks for that.
//! fn send(connection: &mut Connection, request: &<Blkif as xen::ring::Protocol>::Request) -> Result {
//!     connection.ring.reserve().ok_or(EBUSY)?.fill(request);
//!     if connection.ring.push() == Notify::Needed {
//!         connection.channel.notify();
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Two things that the example does not do, a real driver must: `otherend_changed` runs on the one
//! thread that serves all devices of the guest, so whatever may have to wait goes to [`work`]; and
//! a request in flight needs an owner that ends it when the connection is dropped, as
//! [`blk::mq::Request`] does.
//!
//! # Pure logic
//!
//! Files that decide about data of the other side ([`ring`], [`io`], `xenbus/value.rs`,
//! `grant/quota.rs`, `blk/piece.rs`, `moderation/`) use no kernel function but through [`memory`], so that the same files run under
//! `cargo test` on the host and under KUnit in the kernel. Their tests are beside them.

pub mod bindings;
pub mod blk;
pub mod compat;
pub mod debugfs;
pub mod domain;
pub mod evtchn;
pub mod grant;
pub mod io;
pub mod memory;
pub mod moderation;
pub mod net;
pub mod param;
mod print;
pub mod ring;
pub mod shrinker;
pub mod sysfs;
pub mod thread;
pub mod work;
pub mod xenbus;
