// SPDX-License-Identifier: GPL-2.0

//! The two halves of a ring, interrupted at every access to the memory that they share.
//!
//! Where the model in `xen/ring/model.rs` has the handshake as it is meant, this has the code as it
//! is.

use crate::{
    ring::{
        Back,
        Entries,
        Front,
        Memory,
        Notify,
        Protocol, //
    },
    schedule::{
        explore,
        Side,
        Stuck, //
    },
};
use std::{
    cell::UnsafeCell,
    ptr::NonNull,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A protocol with a number for each message.
pub struct Echo;

// SAFETY: Integers have no padding and any bits are valid.
unsafe impl Protocol for Echo {
    type Request = u32;
    type Response = u32;
    const SLOT_SIZE: usize = 4;
}

const SLOTS: usize = 2;

#[repr(C, align(64))]
struct Page(UnsafeCell<[u8; Entries::HEADER + SLOTS * 4]>);

/// The memory of a ring in a page.
pub struct View(Arc<Page>);

// SAFETY: The view has a share of the page, which stays where it is; it is aligned, and as large as told.
unsafe impl Memory for View {
    fn base(&self) -> NonNull<u8> {
        NonNull::new(self.0 .0.get()).expect("a page").cast()
    }

    fn bytes(&self) -> usize {
        size_of::<Page>().min(Entries::HEADER + SLOTS * 4)
    }
}

/// A ring with both of its halves, each used by one thread.
pub struct Ring {
    pub front: Mutex<Front<Echo, View>>,
    pub back: Mutex<Back<Echo, View>>,
}

// SAFETY: The page is reached through the halves only, which access it like two domains do.
unsafe impl Send for Ring {}
// SAFETY: As above.
unsafe impl Sync for Ring {}

impl Ring {
    pub fn new() -> Self {
        let page = Arc::new(Page(UnsafeCell::new([0; Entries::HEADER + SLOTS * 4])));
        let front = Front::new(View(page.clone())).unwrap_or_else(|_| panic!("no ring"));
        let back = Back::attach(View(page)).unwrap_or_else(|_| panic!("no ring"));
        Self {
            front: Mutex::new(front),
            back: Mutex::new(back),
        }
    }
}

fn send(side: &Side, notify: Notify) {
    if notify == Notify::Needed {
        side.notify();
    }
}

/// A frontend that keeps the ring as full as it can.
fn submit(count: u32) -> impl Fn(&Ring, &Side) -> Result<(), Stuck> + Sync {
    move |ring, side| {
        let mut front = ring.front.lock().expect("one user");
        let (mut sent, mut answered) = (0, 0);
        while answered < count {
            while sent < count {
                let Some(slot) = front.reserve() else { break };
                slot.fill(&(sent + 100));
                sent += 1;
            }
            send(side, front.push());
            while let Some(response) = front.next_response().expect("honest") {
                assert_eq!(response, answered + 1000);
                answered += 1;
            }
            // There may be room for more requests now.
            if (answered < count && sent == count || front.free() == 0)
                && !front.wait_for_responses().expect("honest")
            {
                side.wait()?;
            }
        }
        Ok(())
    }
}

/// A frontend that waits for several responses at once, if so many can come, and moves the event that it
/// waits for further ahead when it sends more. It has no timer, since it never waits for more than will come.
fn submit_holding_off(
    count: u32,
    checks: bool,
) -> impl Fn(&Ring, &Side) -> Result<(), Stuck> + Sync {
    move |ring, side| {
        let mut front = ring.front.lock().expect("one user");
        let (mut sent, mut answered) = (0, 0);
        while answered < count {
            let mut due = true;
            while sent < count {
                let Some(slot) = front.reserve() else { break };
                slot.fill(&(sent + 100));
                sent += 1;
                let ahead = front.taken();
                let pushed = front.push_holding_off(ahead);
                due = pushed.due;
                send(side, pushed.notify);
                if due {
                    break;
                }
                // It goes idle, and is asked to send another one meanwhile.
                let ahead = front.outstanding().max(1);
                due = front
                    .wait_for_responses_beyond(ahead - 1, || ())
                    .expect("honest");
                if due {
                    break;
                }
            }
            if !due || !checks {
                side.wait()?;
            }
            while let Some(response) = front.next_response().expect("honest") {
                assert_eq!(response, answered + 1000);
                answered += 1;
            }
            if answered < count && sent == count {
                let ahead = front.outstanding().max(1);
                if !front
                    .wait_for_responses_beyond(ahead - 1, || ())
                    .expect("honest")
                {
                    side.wait()?;
                }
            }
        }
        Ok(())
    }
}

/// Answers what is there, and says how much that was.
fn serve(back: &mut Back<Echo, View>, done: u32) -> u32 {
    let mut count = 0;
    while let Some(request) = back.next_request().expect("honest") {
        assert_eq!(request, done + count + 100);
        assert!(back.respond(&(done + count + 1000)));
        count += 1;
    }
    count
}

fn answer(count: u32) -> impl Fn(&Ring, &Side) -> Result<(), Stuck> + Sync {
    move |ring, side| {
        let mut back = ring.back.lock().expect("one user");
        let mut done = 0;
        while done < count {
            done += serve(&mut back, done);
            send(side, back.push());
            if done < count && !back.wait_for_requests().expect("honest") {
                side.wait()?;
            }
        }
        Ok(())
    }
}

/// How many orders there were, if none got stuck.
fn orders(result: Result<usize, Stuck>) -> usize {
    let orders = result.expect("no wake-up to be lost");
    println!("{orders} orders");
    orders
}

#[test]
fn one_message() {
    assert!(orders(explore(6, Ring::new, submit(1), answer(1))) > 100);
}

#[test]
fn full_ring() {
    assert!(orders(explore(5, Ring::new, submit(2), answer(2))) > 1000);
}

#[test]
fn more_messages_than_slots() {
    assert!(orders(explore(3, Ring::new, submit(5), answer(5))) > 1000);
}

#[test]
fn holding_off_what_will_come() {
    assert!(
        orders(explore(
            3,
            Ring::new,
            submit_holding_off(2, true),
            answer(2)
        )) > 1000
    );
}

#[test]
fn holding_off_needs_its_last_look() {
    let careless = submit_holding_off(2, false);
    assert_eq!(explore(3, Ring::new, careless, answer(2)), Err(Stuck));
}

#[test]
fn who_does_not_ask_is_not_woken() {
    // A backend that goes idle on finding nothing, without saying that it does.
    let idle = |ring: &Ring, side: &Side| {
        let mut back = ring.back.lock().expect("one user");
        let mut done = 0;
        while done < 3 {
            done += serve(&mut back, done);
            send(side, back.push());
            if done < 3 {
                side.wait()?;
            }
        }
        Ok(())
    };
    assert_eq!(explore(2, Ring::new, submit(3), idle), Err(Stuck));
}
