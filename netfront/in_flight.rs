// SPDX-License-Identifier: GPL-2.0

//! The requests of a transmit ring that the backend has not answered, by their numbers.
//!
//! A packet takes one or more numbers. The first of them has the packet and is in use until all are answered, in
//! whatever order. A number that the backend answers is looked for in the table, which is what believes nothing
//! of it.
//!
//! Pure logic, tested on the host and by KUnit.

/// A request with its number. `L` is what the backend may read of it, `P` a packet.
pub(crate) struct Slot<L, P> {
    /// [`None`] if it has been answered, or was never sent.
    loan: Option<L>,
    /// The number of the packet's first request, which has the packet.
    first: u16,
    /// The packet, its bytes, and how many of its requests are not answered.
    packet: Option<P>,
    length: u32,
    left: u16,
}

/// What an answer has ended besides the loan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended<P> {
    /// The packet and its bytes, if this was the last answer to it.
    pub(crate) packet: Option<(P, u32)>,
    /// Numbers that are free now.
    pub(crate) free: [Option<u16>; 2],
}

impl<L, P> Slot<L, P> {
    /// A number that is free.
    pub(crate) const fn new(number: u16) -> Self {
        Self {
            loan: None,
            first: number,
            packet: None,
            length: 0,
            left: 0,
        }
    }

    /// What the backend may read, if the request is not answered.
    #[inline]
    pub(crate) fn loan(&self) -> Option<&L> {
        self.loan.as_ref()
    }

    /// Whether it has a packet that is not answered.
    pub(crate) fn has_packet(&self) -> bool {
        self.packet.is_some()
    }
}

/// A request with a free number is sent, of the packet whose first request has the number `first`. With that one
/// come the packet, if there is one, and its bytes.
#[inline]
pub(crate) fn send<L, P>(
    slots: &mut [Slot<L, P>],
    number: u16,
    first: u16,
    loan: L,
    packet: (Option<P>, u32),
) {
    if let Some(slot) = slots.get_mut(usize::from(number)) {
        slot.loan = Some(loan);
        slot.first = first;
        slot.left = 0;
        (slot.packet, slot.length) = packet;
    }
    if let Some(slot) = slots.get_mut(usize::from(first)) {
        slot.left += 1;
    }
}

/// The backend has answered a request: takes back what it may read. [`None`] if it has no request of that number.
#[inline]
pub(crate) fn take_loan<L, P>(slots: &mut [Slot<L, P>], number: u16) -> Option<L> {
    slots.get_mut(usize::from(number))?.loan.take()
}

/// The same request is done with, its [loan](take_loan) having been taken.
#[inline]
pub(crate) fn end<L, P>(slots: &mut [Slot<L, P>], number: u16) -> Option<Ended<P>> {
    let first = slots.get(usize::from(number))?.first;
    let head = slots.get_mut(usize::from(first))?;
    head.left = head.left.saturating_sub(1);
    let is_last = head.left == 0;
    let packet = if is_last { head.packet.take() } else { None };
    Some(Ended {
        packet: packet.map(|packet| (packet, head.length)),
        // The packet is found by its first number, which is in use until all are answered.
        free: [
            (number != first).then_some(number),
            is_last.then_some(first),
        ],
    })
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netfront_in_flight))]
mod tests {
    use super::*;

    type Table = [Slot<char, &'static str>; 4];

    const fn table() -> Table {
        [Slot::new(0), Slot::new(1), Slot::new(2), Slot::new(3)]
    }

    fn answer(table: &mut Table, number: u16) -> Option<(char, Ended<&'static str>)> {
        let loan = take_loan(table, number)?;
        Some((loan, end(table, number)?))
    }

    fn send_three(table: &mut Table) {
        send(table, 2, 2, 'a', (Some("packet"), 3000));
        send(table, 0, 2, 'b', (None, 3000));
        send(table, 3, 2, 'c', (None, 3000));
    }

    #[test]
    fn a_packet_ends_with_its_last_answer() {
        const ORDERS: [[u16; 3]; 6] = [
            [2, 0, 3],
            [2, 3, 0],
            [0, 2, 3],
            [0, 3, 2],
            [3, 2, 0],
            [3, 0, 2],
        ];
        for order in ORDERS {
            let mut table = table();
            send_three(&mut table);
            assert!(table[2].has_packet());
            for (count, number) in (1..).zip(order) {
                let other = (number != 2).then_some(number);
                let (packet, first) = if count == 3 {
                    (Some(("packet", 3000)), Some(2))
                } else {
                    (None, None)
                };
                let ended = Ended {
                    packet,
                    free: [other, first],
                };
                let loan = match number {
                    2 => 'a',
                    0 => 'b',
                    _ => 'c',
                };
                assert_eq!(answer(&mut table, number), Some((loan, ended)));
            }
            assert!(!table[2].has_packet());
        }
    }

    #[test]
    fn nobody_is_answered_who_has_not_asked() {
        let mut table = table();
        send_three(&mut table);
        for number in [1, 4, 5, 255, u16::MAX] {
            assert_eq!(answer(&mut table, number), None);
        }
        assert!(answer(&mut table, 2).is_some());
        // Twice, though the number is not free yet.
        assert_eq!(answer(&mut table, 2), None);
        assert!(table[2].has_packet());
    }

    #[test]
    fn messages_have_no_packet() {
        let mut table = table();
        send(&mut table, 1, 1, 'm', (None, 0));
        assert_eq!(table[1].loan(), Some(&'m'));
        let ended = Ended {
            packet: None,
            free: [None, Some(1)],
        };
        assert_eq!(answer(&mut table, 1), Some(('m', ended)));
        assert_eq!(table[1].loan(), None);
    }
}
