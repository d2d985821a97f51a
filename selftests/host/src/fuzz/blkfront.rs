// SPDX-License-Identifier: GPL-2.0

//! Responses of a disk's backend.

use super::{
    input::Input,
    ring::{
        FrontRing,
        MOST_STEPS, //
    },
};
use crate::{
    blkfront::answer,
    io::blkif::{
        Blkif,
        Operation,
        Request,
        Response,
        Segment,
        Status, //
    },
};
use std::collections::HashMap;

/// Requests that may be in flight; fewer than a ring has slots, so that numbers are used again soon.
const PLACES: usize = 24;

/// A request in flight, if there is one: the operation that was asked for, and its number among all.
type Place = Option<(u8, u32)>;

fn request(id: u64, input: &mut Input<'_>) -> Request {
    let (kind, sector) = (input.u8() % 6, input.u64());
    let mut request = match kind {
        0 => Request::new(Operation::Read, 7, id, sector),
        1 => Request::new(Operation::Write, 7, id, sector),
        2 => Request::new(Operation::WriteBarrier, 7, id, sector),
        3 => Request::new(Operation::FlushDiskcache, 7, id, sector),
        4 => return Request::discard(id, sector, input.u64(), input.flag()),
        _ => {
            let (write, count) = (input.flag(), usize::from(input.u16()));
            let grefs = (0..8).map(|_| input.u32()).collect::<Vec<_>>();
            let frames = count.div_ceil(512);
            let request =
                Request::indirect(write, 7, id, sector, count, grefs.into_iter().take(frames));
            assert_eq!(request.is_some(), (1..=4096).contains(&count));
            return request.unwrap_or(Request::discard(id, sector, 0, false));
        }
    };
    let wanted = usize::from(input.u8() % 14);
    for count in 0..wanted {
        let segment = Segment::new(input.u32(), 512, 1024).expect("a part of a frame");
        // There is room for so many, and no more.
        assert_eq!(request.push_segment(segment), count < 11);
    }
    request
}

pub fn responses(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut ring = FrontRing::<Blkif>::new();
    let mut places: Vec<Place> = vec![None; PLACES];
    // What the driver should find.
    let mut in_flight: HashMap<u64, (u8, u32)> = HashMap::new();
    let mut number = 0;
    for _ in 0..MOST_STEPS {
        if input.is_empty() || ring.is_dead {
            break;
        }
        for _ in 0..input.u8() % 8 {
            let free = places.iter().position(Option::is_none);
            let (Some(id), true) = (free, ring.free() > 0) else {
                break;
            };
            let request = request(id as u64, &mut input);
            let wire = ring.send(&request);
            assert_eq!(wire[8..16], (id as u64).to_le_bytes());
            let operation = if wire[0] == 6 { wire[1] } else { wire[0] };
            assert_eq!(request.answered_operation(), operation);
            places[id] = Some((operation, number));
            in_flight.insert(id as u64, (operation, number));
            number += 1;
        }
        ring.push(input.u8().into());
        match input.u8() % 4 {
            // An honest backend, of which there may be one for a while.
            0 | 1 => {
                let mut ids: Vec<_> = in_flight.keys().copied().collect();
                ids.sort_unstable();
                if let Some(id) = ids.get(usize::from(input.u8()) % ids.len().max(1)) {
                    let (operation, _) = in_flight[id];
                    let mut bytes = [0; 16];
                    bytes[..8].copy_from_slice(&id.to_le_bytes());
                    bytes[8] = operation;
                    bytes[10..12].copy_from_slice(&input.array::<2>());
                    ring.answer(&bytes);
                }
            }
            _ => ring.step(&mut input),
        }
        while let Some(response) = ring.next() {
            if !take(&response, &mut places, &mut in_flight) {
                // The driver does not go on with a backend that has answered what nobody has asked.
                return;
            }
        }
        ring.rest(input.u8().into());
    }
}

/// Takes the request that a response is about; [`false`] if there is none.
fn take(
    response: &Response,
    places: &mut [Place],
    in_flight: &mut HashMap<u64, (u8, u32)>,
) -> bool {
    let expected = in_flight.remove(&response.id);
    let others = places.iter().flatten().count();
    let found = answer::take(places, response.id, Option::take);
    assert_eq!(found.as_ref().map(|(_, request)| *request), expected);
    assert!(found.is_none_or(|(place, _)| place.is_none()));
    // Nobody else's is taken.
    let left = places.iter().flatten().count();
    assert_eq!(left + usize::from(expected.is_some()), others);
    let status = Status::from_wire(response.status);
    match response.status {
        0 => assert_eq!(status, Status::Okay),
        -2 => assert_eq!(status, Status::NotSupported),
        _ => assert_eq!(status, Status::Error),
    }
    expected.is_some()
}
