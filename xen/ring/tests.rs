// SPDX-License-Identifier: GPL-2.0

//! Unit tests of the ring: both halves against each other, and against a liar.

#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_ring))]
mod suite {
    use super::super::{
        AttachError,
        Back,
        Entries,
        Front,
        Impossible,
        Index,
        Layout,
        Memory,
        Notify,
        Protocol, //
    };
    use core::{
        cell::UnsafeCell,
        fmt::{
            self,
            Write, //
        },
        ptr::NonNull, //
    };

    /// A protocol with small slots.
    struct Echo;

    // SAFETY: Arrays of integers have no padding and any bits are valid; 12 is a multiple of 4.
    unsafe impl Protocol for Echo {
        type Request = [u32; 3];
        type Response = [u32; 2];
        const SLOT_SIZE: usize = 12;
    }

    const SLOTS: u32 = 8;
    const BYTES: usize = Entries::HEADER + 12 * SLOTS as usize;

    /// Memory that both ends share; small enough for the kernel's stack.
    #[repr(C, align(64))]
    struct Page(UnsafeCell<[u8; BYTES]>);

    impl Page {
        fn new() -> Self {
            Self(UnsafeCell::new([0; BYTES]))
        }
    }

    /// The page as one end sees it, or a part of it.
    struct View<'a>(&'a Page, usize);

    // SAFETY: The page is aligned, outlives the view, and is at least as large as the view.
    unsafe impl Memory for View<'_> {
        fn base(&self) -> NonNull<u8> {
            NonNull::from(self.0).cast()
        }

        fn bytes(&self) -> usize {
            self.1
        }
    }

    type Fore<'a> = Front<Echo, View<'a>>;
    type Aft<'a> = Back<Echo, View<'a>>;
    type Outcome = Result<(), &'static str>;

    /// Where indices start so that they wrap after a few messages.
    const START: Index = Index::new(u32::MAX - 4);

    fn front(page: &Page) -> Result<Fore<'_>, &'static str> {
        Front::starting_at(View(page, BYTES), START).map_err(|_| "no ring in the page")
    }

    fn pair(page: &Page) -> Result<(Fore<'_>, Aft<'_>), &'static str> {
        let front = front(page)?;
        let back = Back::attach(View(page, BYTES)).map_err(|_| "cannot attach")?;
        Ok((front, back))
    }

    /// The page as a liar writes to it.
    fn liar(page: &Page) -> Result<Layout<Echo, View<'_>>, &'static str> {
        Layout::new(View(page, BYTES)).map_err(|_| "no ring in the page")
    }

    /// Fills `count` requests whose words are derived from `first` on, and pushes nothing.
    fn fill(front: &mut Fore<'_>, first: u32, count: u32) -> Outcome {
        for n in first..first + count {
            front
                .reserve()
                .ok_or("no slot free")?
                .fill(&[n, !n, n ^ 0x5a5a]);
        }
        Ok(())
    }

    /// Fills and pushes `count` requests.
    fn submit(front: &mut Fore<'_>, first: u32, count: u32) -> Result<Notify, &'static str> {
        fill(front, first, count)?;
        Ok(front.push())
    }

    /// Takes `count` requests.
    fn take(back: &mut Aft<'_>, first: u32, count: u32) -> Outcome {
        for n in first..first + count {
            let request = back.next_request().map_err(|_| "impossible request")?;
            if request != Some([n, !n, n ^ 0x5a5a]) {
                return Err("not the request that was sent");
            }
        }
        Ok(())
    }

    /// Writes and pushes `count` responses.
    fn answer(back: &mut Aft<'_>, first: u32, count: u32) -> Result<Notify, &'static str> {
        for n in first..first + count {
            if !back.respond(&[n, n.wrapping_mul(7)]) {
                return Err("no request to answer");
            }
        }
        Ok(back.push())
    }

    /// Takes `count` responses.
    fn finish(front: &mut Fore<'_>, first: u32, count: u32) -> Outcome {
        for n in first..first + count {
            let response = front.next_response().map_err(|_| "impossible response")?;
            if response != Some([n, n.wrapping_mul(7)]) {
                return Err("not the response that was sent");
            }
        }
        Ok(())
    }

    fn shows(value: &impl fmt::Display, expected: &str) -> bool {
        struct Rest<'a>(&'a str);

        impl Write for Rest<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
                Ok(())
            }
        }

        let mut rest = Rest(expected);
        write!(rest, "{value}").is_ok() && rest.0.is_empty()
    }

    #[test]
    fn new_ring_asks_for_the_first_message() -> Outcome {
        let page = Page::new();
        let Ok(front) = Fore::new(View(&page, BYTES)) else {
            return Err("no ring in the page");
        };
        let words = liar(&page)?;
        assert_eq!(front.entries(), SLOTS);
        assert_eq!(front.free(), SLOTS);
        assert_eq!(words.req_prod().raw(), 0);
        assert_eq!(words.rsp_prod().raw(), 0);
        assert_eq!(words.req_event().raw(), 1);
        assert_eq!(words.rsp_event().raw(), 1);
        assert_eq!(front.memory().bytes(), BYTES);
        Ok(())
    }

    #[test]
    fn new_ring_needs_room() {
        let page = Page::new();
        // The memory comes back.
        let view = Fore::new(View(&page, Entries::HEADER + 11)).err();
        assert_eq!(view.map(|view| view.1), Some(Entries::HEADER + 11));
        assert!(
            Fore::new(View(&page, Entries::HEADER + 12)).is_ok_and(|front| front.entries() == 1)
        );
    }

    #[test]
    fn messages_arrive_in_order() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        // Batches of all sizes, many times around and past the wrap of the indices.
        let mut next = 0;
        for round in 0..100 {
            let count = round % SLOTS + 1;
            let _ = submit(&mut front, next, count)?;
            take(&mut back, next, count)?;
            assert_eq!(back.unanswered(), count);
            assert!(back.next_request().is_ok_and(|request| request.is_none()));
            let _ = answer(&mut back, next, count)?;
            assert_eq!(back.unanswered(), 0);
            finish(&mut front, next, count)?;
            assert!(front
                .next_response()
                .is_ok_and(|response| response.is_none()));
            assert_eq!(front.free(), SLOTS);
            next += count;
        }
        Ok(())
    }

    #[test]
    fn messages_arrive_while_others_are_underway() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        // The front stays five ahead of the back, and the back three ahead of its answers.
        let _ = submit(&mut front, 0, 5)?;
        take(&mut back, 0, 3)?;
        for n in 0..50 {
            let _ = submit(&mut front, n + 5, 1)?;
            take(&mut back, n + 3, 1)?;
            let _ = answer(&mut back, n, 1)?;
            assert_eq!(back.unanswered(), 3);
            assert_eq!(front.free(), SLOTS - 6);
            finish(&mut front, n, 1)?;
            assert_eq!(front.free(), SLOTS - 5);
        }
        Ok(())
    }

    #[test]
    fn full_ring_has_no_slot() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        fill(&mut front, 0, SLOTS)?;
        assert_eq!(front.free(), 0);
        assert!(front.reserve().is_none());
        let _ = front.push();
        assert!(front.reserve().is_none());
        take(&mut back, 0, SLOTS)?;
        assert!(front.reserve().is_none());
        // A slot is free when its response is taken, not when it is there.
        let _ = answer(&mut back, 0, 1)?;
        assert!(front.reserve().is_none());
        finish(&mut front, 0, 1)?;
        assert_eq!(front.free(), 1);
        let _ = submit(&mut front, SLOTS, 1)?;
        assert!(front.reserve().is_none());
        take(&mut back, SLOTS, 1)?;
        Ok(())
    }

    #[test]
    fn a_polled_ring_gets_no_events() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        front.want_no_events();
        for round in 0..20 {
            submit(&mut front, round * 3, 3)?;
            take(&mut back, round * 3, 3)?;
            for n in 0..3 {
                assert_eq!(answer(&mut back, round * 3 + n, 1)?, Notify::NotNeeded);
            }
            finish(&mut front, round * 3, 3)?;
            assert_eq!(front.next_response(), Ok(None));
        }
        Ok(())
    }

    #[test]
    fn an_event_for_several_responses() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        // Wherever the indices are.
        for round in 0..10 {
            let first = round * 4;
            let _ = submit(&mut front, first, 4)?;
            let mut held = false;
            let waits = front.wait_for_responses_beyond(2, || held = true);
            assert_eq!((waits, held), (Ok(false), true));
            take(&mut back, first, 4)?;
            assert_eq!(answer(&mut back, first, 1)?, Notify::NotNeeded);
            assert_eq!(answer(&mut back, first + 1, 1)?, Notify::NotNeeded);
            assert_eq!(answer(&mut back, first + 2, 1)?, Notify::Needed);
            assert_eq!(answer(&mut back, first + 3, 1)?, Notify::NotNeeded);
            // There are some to be taken first.
            let waits = front.wait_for_responses_beyond(2, || ());
            assert_eq!(waits, Ok(true));
            finish(&mut front, first, 4)?;
        }
        Ok(())
    }

    #[test]
    fn the_event_moves_ahead_with_more_requests() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        for round in 0..10 {
            let first = round * 3;
            assert_eq!(front.wait_for_responses(), Ok(false));
            fill(&mut front, first, 1)?;
            let pushed = front.push_holding_off(1);
            assert!(!pushed.held_off && !pushed.due);
            fill(&mut front, first + 1, 1)?;
            let pushed = front.push_holding_off(2);
            assert!(pushed.held_off && !pushed.due);
            fill(&mut front, first + 2, 1)?;
            let pushed = front.push_holding_off(3);
            assert!(!pushed.held_off && !pushed.due);
            // Never back, and not without a request.
            let pushed = front.push_holding_off(1);
            assert!(!pushed.held_off && !pushed.due);
            assert!(!front.push_holding_off(4).held_off);
            take(&mut back, first, 3)?;
            assert_eq!(answer(&mut back, first, 2)?, Notify::NotNeeded);
            assert_eq!(answer(&mut back, first + 2, 1)?, Notify::Needed);
            finish(&mut front, first, 3)?;
        }
        Ok(())
    }

    #[test]
    fn responses_that_no_event_comes_for_are_noticed() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        let _ = submit(&mut front, 0, 2)?;
        assert_eq!(front.wait_for_responses_beyond(1, || ()), Ok(false));
        take(&mut back, 0, 2)?;
        assert_eq!(answer(&mut back, 0, 2)?, Notify::Needed);
        // The event has been sent. Another one is asked for that could never come.
        fill(&mut front, 2, 1)?;
        assert!(!front.push_holding_off(2).due);
        fill(&mut front, 3, 1)?;
        take(&mut back, 2, 1)?;
        assert_eq!(answer(&mut back, 2, 1)?, Notify::NotNeeded);
        assert!(front.push_holding_off(3).due);
        finish(&mut front, 0, 3)?;
        // While nobody waits, nothing is moved.
        fill(&mut front, 4, 1)?;
        let pushed = front.push_holding_off(2);
        assert!(!pushed.held_off && !pushed.due);
        Ok(())
    }

    #[test]
    fn a_liar_is_noticed_when_requests_are_pushed() -> Outcome {
        let page = Page::new();
        let mut front = front(&page)?;
        assert_eq!(front.wait_for_responses(), Ok(false));
        fill(&mut front, 0, 2)?;
        liar(&page)?.set_rsp_prod(START.advance(100));
        assert!(front.push_holding_off(2).due);
        assert!(front.next_response().is_err());
        Ok(())
    }

    #[test]
    fn responses_that_were_seen_cannot_be_taken_back() -> Outcome {
        let page = Page::new();
        let mut front = front(&page)?;
        let liar = liar(&page)?;
        let _ = submit(&mut front, 0, 4)?;
        // They come just when an event is asked for, and are too few to be told of.
        let hold = || liar.set_rsp_prod(START.advance(2));
        assert_eq!(front.wait_for_responses_beyond(3, hold), Ok(false));
        liar.set_rsp_prod(START.advance(1));
        fill(&mut front, 4, 1)?;
        assert!(front.push_holding_off(5).due);
        Ok(())
    }

    #[test]
    fn unused_slot_stays_free() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        assert!(front.reserve().is_some());
        assert_eq!(front.free(), SLOTS);
        assert_eq!(front.push(), Notify::NotNeeded);
        assert!(back.next_request().is_ok_and(|request| request.is_none()));
        Ok(())
    }

    #[test]
    fn nothing_is_seen_before_the_push() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        fill(&mut front, 0, 2)?;
        assert_eq!(front.unpushed(), 2);
        assert!(back.next_request().is_ok_and(|request| request.is_none()));
        assert_eq!(front.push(), Notify::Needed);
        assert_eq!(front.unpushed(), 0);
        take(&mut back, 0, 2)?;
        assert!(back.respond(&[0, 0]));
        assert!(front
            .next_response()
            .is_ok_and(|response| response.is_none()));
        assert_eq!(back.push(), Notify::Needed);
        finish(&mut front, 0, 1)?;
        Ok(())
    }

    #[test]
    fn empty_push_is_silent() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        let words = liar(&page)?;
        // Not even when the other side asks for an event right here.
        words.set_req_event(START);
        words.set_rsp_event(START);
        assert_eq!(front.push(), Notify::NotNeeded);
        assert_eq!(back.push(), Notify::NotNeeded);
        assert_eq!(words.req_prod(), START);
        assert_eq!(words.rsp_prod(), START);
        Ok(())
    }

    #[test]
    fn backend_is_woken_when_it_asks() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        // A new ring asks for the first request, nobody asks for the second.
        assert_eq!(submit(&mut front, 0, 1)?, Notify::Needed);
        assert_eq!(submit(&mut front, 1, 1)?, Notify::NotNeeded);
        assert_eq!(back.wait_for_requests(), Ok(true));
        assert_eq!(submit(&mut front, 2, 1)?, Notify::NotNeeded);
        take(&mut back, 0, 3)?;
        assert_eq!(back.wait_for_requests(), Ok(false));
        assert_eq!(submit(&mut front, 3, 3)?, Notify::Needed);
        assert_eq!(submit(&mut front, 6, 1)?, Notify::NotNeeded);
        Ok(())
    }

    #[test]
    fn frontend_is_woken_when_it_asks() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        let _ = submit(&mut front, 0, 8)?;
        take(&mut back, 0, 8)?;
        assert_eq!(answer(&mut back, 0, 1)?, Notify::Needed);
        assert_eq!(answer(&mut back, 1, 1)?, Notify::NotNeeded);
        assert_eq!(front.wait_for_responses(), Ok(true));
        assert_eq!(answer(&mut back, 2, 1)?, Notify::NotNeeded);
        finish(&mut front, 0, 3)?;
        assert_eq!(front.wait_for_responses(), Ok(false));
        assert_eq!(answer(&mut back, 3, 3)?, Notify::Needed);
        assert_eq!(answer(&mut back, 6, 1)?, Notify::NotNeeded);
        Ok(())
    }

    #[test]
    fn events_can_be_held_off() -> Outcome {
        let page = Page::new();
        let (mut front, _back) = pair(&page)?;
        // The backend wants to hear of the third request from here.
        liar(&page)?.set_req_event(START.advance(3));
        assert_eq!(submit(&mut front, 0, 1)?, Notify::NotNeeded);
        assert_eq!(submit(&mut front, 1, 1)?, Notify::NotNeeded);
        assert_eq!(submit(&mut front, 2, 1)?, Notify::Needed);
        assert_eq!(submit(&mut front, 3, 1)?, Notify::NotNeeded);
        Ok(())
    }

    #[test]
    fn waiting_asks_for_the_next_message() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        let words = liar(&page)?;
        let _ = submit(&mut front, 0, 2)?;
        take(&mut back, 0, 2)?;
        assert_eq!(words.req_event(), START.advance(1));
        assert_eq!(back.wait_for_requests(), Ok(false));
        assert_eq!(words.req_event(), START.advance(3));
        let _ = answer(&mut back, 0, 2)?;
        finish(&mut front, 0, 2)?;
        assert_eq!(words.rsp_event(), START.advance(1));
        assert_eq!(front.wait_for_responses(), Ok(false));
        assert_eq!(words.rsp_event(), START.advance(3));
        Ok(())
    }

    #[test]
    fn waiting_can_be_for_several_messages() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        assert_eq!(back.wait_for_requests_beyond(2), Ok(false));
        assert_eq!(submit(&mut front, 0, 2)?, Notify::NotNeeded);
        assert_eq!(back.wait_for_requests_beyond(2), Ok(false));
        assert_eq!(submit(&mut front, 2, 1)?, Notify::Needed);
        assert_eq!(back.wait_for_requests_beyond(2), Ok(true));
        assert_eq!(
            (back.pending(), back.wait_for_requests()),
            (Ok(3), Ok(true))
        );
        Ok(())
    }

    #[test]
    fn no_response_without_a_request() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        assert!(!back.respond(&[1, 2]));
        let _ = submit(&mut front, 0, 1)?;
        // Published is not taken.
        assert!(!back.respond(&[1, 2]));
        take(&mut back, 0, 1)?;
        assert!(back.respond(&[1, 2]));
        assert!(!back.respond(&[1, 2]));
        Ok(())
    }

    #[test]
    fn too_many_requests_are_impossible() -> Outcome {
        let page = Page::new();
        let (_front, mut back) = pair(&page)?;
        let lie = START.advance(SLOTS + 1);
        liar(&page)?.set_req_prod(lie);
        let expected = Impossible {
            produced: lie,
            consumed: START,
            limit: SLOTS,
        };
        assert_eq!(back.next_request(), Err(expected));
        assert_eq!(back.wait_for_requests(), Err(expected));
        // As many as there are slots can be there.
        liar(&page)?.set_req_prod(START.advance(SLOTS));
        for _ in 0..SLOTS {
            assert!(back.next_request().is_ok_and(|request| request.is_some()));
        }
        assert!(back.next_request().is_ok_and(|request| request.is_none()));
        Ok(())
    }

    #[test]
    fn unanswered_requests_keep_their_slots() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        let _ = submit(&mut front, 0, 5)?;
        take(&mut back, 0, 5)?;
        liar(&page)?.set_req_prod(START.advance(SLOTS + 1));
        assert_eq!(
            back.next_request(),
            Err(Impossible {
                produced: START.advance(SLOTS + 1),
                consumed: START.advance(5),
                limit: SLOTS - 5,
            })
        );
        liar(&page)?.set_req_prod(START.advance(SLOTS));
        assert_eq!(back.wait_for_requests(), Ok(true));
        Ok(())
    }

    #[test]
    fn requests_cannot_be_taken_back() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        let _ = submit(&mut front, 0, 3)?;
        take(&mut back, 0, 3)?;
        liar(&page)?.set_req_prod(START.advance(2));
        assert!(back.next_request().is_err());
        assert!(back.wait_for_requests().is_err());
        // Neither by a few nor by half of all indices.
        liar(&page)?.set_req_prod(START.advance(3 + (1 << 31)));
        assert!(back.next_request().is_err());
        Ok(())
    }

    #[test]
    fn too_many_responses_are_impossible() -> Outcome {
        let page = Page::new();
        let (mut front, _back) = pair(&page)?;
        let _ = submit(&mut front, 0, 2)?;
        let lie = START.advance(3);
        liar(&page)?.set_rsp_prod(lie);
        let expected = Impossible {
            produced: lie,
            consumed: START,
            limit: 2,
        };
        assert_eq!(front.next_response(), Err(expected));
        assert_eq!(front.wait_for_responses(), Err(expected));
        assert_eq!(front.free(), SLOTS - 2);
        Ok(())
    }

    #[test]
    fn unpublished_requests_have_no_response() -> Outcome {
        let page = Page::new();
        let (mut front, _back) = pair(&page)?;
        let _ = submit(&mut front, 0, 2)?;
        // This one is in its slot, but no honest backend knows of it.
        fill(&mut front, 2, 1)?;
        liar(&page)?.set_rsp_prod(START.advance(3));
        assert!(front.next_response().is_err());
        liar(&page)?.set_rsp_prod(START.advance(2));
        assert!(front
            .next_response()
            .is_ok_and(|response| response.is_some()));
        Ok(())
    }

    #[test]
    fn responses_cannot_be_taken_back() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        let _ = submit(&mut front, 0, 5)?;
        take(&mut back, 0, 5)?;
        let _ = answer(&mut back, 0, 3)?;
        finish(&mut front, 0, 3)?;
        liar(&page)?.set_rsp_prod(START.advance(2));
        assert!(front.next_response().is_err());
        assert!(front.wait_for_responses().is_err());
        liar(&page)?.set_rsp_prod(START.advance(3 + (1 << 31)));
        assert!(front.next_response().is_err());
        Ok(())
    }

    #[test]
    fn a_message_taken_is_a_copy() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        let _ = submit(&mut front, 7, 1)?;
        let Ok(Some(request)) = back.next_request() else {
            return Err("no request");
        };
        liar(&page)?.write_request(START, &[0; 3]);
        assert_eq!(request, [7, !7, 7 ^ 0x5a5a]);
        Ok(())
    }

    #[test]
    fn lies_about_events_only_cost_events() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        let words = liar(&page)?;
        for n in 0..64u32 {
            words.set_req_event(Index::new(n.wrapping_mul(0x9e37_79b9)));
            words.set_rsp_event(Index::new(n.wrapping_mul(0x85eb_ca6b)));
            let _ = submit(&mut front, n, 1)?;
            take(&mut back, n, 1)?;
            let _ = answer(&mut back, n, 1)?;
            finish(&mut front, n, 1)?;
        }
        assert_eq!(front.free(), SLOTS);
        Ok(())
    }

    #[test]
    fn attach_needs_room() -> Outcome {
        let page = Page::new();
        let _front = front(&page)?;
        let error = Aft::attach(View(&page, Entries::HEADER + 11)).err();
        assert_eq!(error, Some(AttachError::TooSmall));
        Ok(())
    }

    #[test]
    fn attach_checks_the_indices() -> Outcome {
        let page = Page::new();
        let _front = front(&page)?;
        let lie = START.advance(SLOTS + 1);
        liar(&page)?.set_req_prod(lie);
        assert_eq!(
            Aft::attach(View(&page, BYTES)).err(),
            Some(AttachError::Impossible(Impossible {
                produced: lie,
                consumed: START,
                limit: SLOTS,
            }))
        );
        // Nor can there be more responses than requests.
        liar(&page)?.set_req_prod(START);
        liar(&page)?.set_rsp_prod(START.advance(1));
        assert!(Aft::attach(View(&page, BYTES)).is_err());
        Ok(())
    }

    #[test]
    fn attach_to_a_ring_in_use() -> Outcome {
        let page = Page::new();
        let (mut front, mut back) = pair(&page)?;
        let _ = submit(&mut front, 0, 7)?;
        take(&mut back, 0, 5)?;
        let _ = answer(&mut back, 0, 2)?;
        drop(back);
        // What was taken but not answered is seen again, and then the rest.
        let mut back = Aft::attach(View(&page, BYTES)).map_err(|_| "cannot attach again")?;
        assert_eq!(back.entries(), SLOTS);
        assert_eq!(back.unanswered(), 0);
        take(&mut back, 2, 5)?;
        assert!(back.next_request().is_ok_and(|request| request.is_none()));
        let _ = answer(&mut back, 2, 5)?;
        finish(&mut front, 0, 7)?;
        assert_eq!(front.free(), SLOTS);
        Ok(())
    }

    #[test]
    fn impossible_says_what_is() {
        let impossible = Impossible {
            produced: Index::new(41),
            consumed: Index::new(7),
            limit: 32,
        };
        assert!(shows(
            &impossible,
            "impossible producer index 41 (consumed up to 7, at most 32 can follow)"
        ));
    }
}
