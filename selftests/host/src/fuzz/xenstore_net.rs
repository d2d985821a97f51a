// SPDX-License-Identifier: GPL-2.0

//! The keys of an interface, of the backend's and of the frontend's directory.

use super::{
    input::Input,
    xenstore_blk::{
        interesting,
        key, //
    },
};
use crate::{
    netback::{
        credit::{
            Limiter,
            Rate,
            Verdict,
            LONGEST_WAIT, //
        },
        features::{
            check_rings,
            headroom,
            ChannelKeys,
            Channels,
            ControlKeys,
            FeatureError,
            FrontendKeys,
            QueueChoice, //
        },
    },
    netfront::features::{
        self as front,
        is_trusted,
        mtu,
        BackendKeys,
        MulticastControl, //
    },
    netif::{
        OffloadKeys,
        Offloads, //
    },
};
use std::cell::RefCell;

/// A number of a key, if it is there: as text, or as one that is worth to be tried.
fn number(input: &mut Input<'_>) -> Option<u32> {
    match input.u8() % 4 {
        0 => None,
        1 => key(input),
        2 => Some(u32::from(input.flag())),
        _ => Some(interesting(input) as u32),
    }
}

fn on(key: Option<u32>) -> bool {
    key.is_some_and(|value| value != 0)
}

fn offloads(input: &mut Input<'_>) -> OffloadKeys {
    let input = RefCell::new(input);
    let keys = OffloadKeys::read(|name| {
        let mut input = input.borrow_mut();
        match input.u8() {
            // It cannot be read, or makes no sense.
            0xff => Err(name),
            _ => Ok(number(&mut input)),
        }
    });
    let keys = keys.unwrap_or_else(|name| {
        assert!(name.to_bytes().starts_with(b"feature-"));
        OffloadKeys::default()
    });
    check_offloads(keys, keys.check());
    keys
}

/// What is to be cut into several has several slots, and a blank checksum.
fn check_offloads(keys: OffloadKeys, found: Offloads) {
    assert_eq!(found.sg, on(keys.feature_sg));
    assert_eq!(found.csum_v4, !on(keys.feature_no_csum_offload));
    assert_eq!(found.csum_v6, on(keys.feature_ipv6_csum_offload));
    assert!(!found.gso_v4 || found.sg && found.csum_v4 && on(keys.feature_gso_tcpv4));
    assert!(!found.gso_v6 || found.sg && found.csum_v6 && on(keys.feature_gso_tcpv6));
}

/// What a backend makes of its frontend's keys.
fn backend(input: &mut Input<'_>) {
    let choice = QueueChoice {
        queues: number(input),
        max_queues: number(input).unwrap_or(0),
    };
    let most = choice.max_queues.max(1);
    match choice.check() {
        Ok(layout) => {
            assert!((1..=most).contains(&layout.queues));
            assert_eq!(layout.queues, choice.queues.unwrap_or(1));
            assert_eq!(layout.own_directories, layout.queues > 1);
        }
        Err(error) => {
            let queues = choice.queues.unwrap_or(1);
            assert_eq!(error, FeatureError::Queues(queues, most));
            assert!(queues == 0 || queues > most);
        }
    }
    let keys = ChannelKeys {
        tx: number(input),
        rx: number(input),
        shared: number(input),
    };
    match keys.check() {
        Ok(Channels::Split { tx, rx }) => assert_eq!((Some(tx), Some(rx)), (keys.tx, keys.rx)),
        Ok(Channels::Shared(port)) => {
            assert_eq!(Some(port), keys.shared);
            assert!(keys.tx.is_none() || keys.rx.is_none());
        }
        Err(_) => assert!(keys.shared.is_none() && (keys.tx.is_none() || keys.rx.is_none())),
    }
    let keys = ControlKeys {
        gref: number(input),
        port: number(input),
    };
    match keys.check() {
        Ok(Some(ring)) => assert_eq!((Some(ring.gref), Some(ring.port)), (keys.gref, keys.port)),
        Ok(None) => assert!(keys.gref.is_none()),
        Err(_) => assert!(keys.gref.is_some() && keys.port.is_none()),
    }
    let grefs: Vec<u32> = (0..input.u8() % 16).map(|_| input.u8().into()).collect();
    let mut unique = grefs.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(
        check_rings(grefs.iter().copied()).is_ok(),
        unique.len() == grefs.len()
    );

    let keys = FrontendKeys {
        request_rx_copy: number(input),
        feature_rx_notify: number(input),
        offloads: offloads(input),
        request_multicast_control: number(input),
        xdp_headroom: number(input),
    };
    match keys.check() {
        Ok(features) => {
            assert!(on(keys.request_rx_copy));
            assert_eq!(features.rx_notify, on(keys.feature_rx_notify));
            let multicast = on(keys.request_multicast_control);
            assert_eq!(features.multicast_control, multicast);
            // An Ethernet header fits in behind it.
            assert!(features.xdp_headroom <= 4096 - 14);
            assert_eq!(features.xdp_headroom, headroom(keys.xdp_headroom));
            let wanted = keys.xdp_headroom.unwrap_or(0);
            assert!(u32::from(features.xdp_headroom) == wanted || wanted > 4096 - 14);
            check_offloads(keys.offloads, features.offloads);
        }
        Err(error) => {
            assert_eq!(error, FeatureError::RxCopy);
            assert!(!on(keys.request_rx_copy));
        }
    }
}

/// What a frontend makes of its backend's keys, and of its own that the toolstack has written.
fn frontend(input: &mut Input<'_>) {
    let keys = BackendKeys {
        multi_queue_max_queues: number(input),
        feature_split_event_channels: number(input),
        feature_rx_copy: number(input),
        offloads: offloads(input),
        feature_xdp_headroom: number(input),
        feature_multicast_control: number(input),
        feature_dynamic_multicast_control: number(input),
        feature_ctrl_ring: number(input),
    };
    let ours = input.u32();
    match keys.check(ours) {
        Ok(features) => {
            assert!(on(keys.feature_rx_copy));
            let count = features.queues.count;
            let theirs = keys.multi_queue_max_queues.unwrap_or(1);
            assert!((1..=256).contains(&count));
            assert!(count <= ours.min(theirs).max(1));
            assert_eq!(features.queues.own_directories, count > 1);
            let announce = keys.multi_queue_max_queues.is_some();
            assert_eq!(features.queues.announce, announce);
            let any =
                on(keys.feature_multicast_control) || on(keys.feature_dynamic_multicast_control);
            assert_eq!(features.multicast_control != MulticastControl::None, any);
            let dynamic = on(keys.feature_dynamic_multicast_control);
            let is_dynamic = features.multicast_control == MulticastControl::Dynamic;
            assert_eq!(is_dynamic, dynamic);
            check_offloads(keys.offloads, features.offloads);
        }
        Err(_) => assert!(!on(keys.feature_rx_copy)),
    }
    let text = input.flag().then(|| input.text());
    match (front::address(text), text) {
        (Ok(_), None) => panic!("an address of nothing"),
        (Ok(address), Some(text)) => {
            assert_eq!(crate::netif::parse_address(text), Some(address));
        }
        (Err(error), text) => {
            let expected = match text {
                None => front::FeatureError::NoAddress,
                Some(_) => front::FeatureError::Address,
            };
            assert_eq!(error, expected);
        }
    }
    let (wanted, sg) = (number(input), input.flag());
    match mtu(wanted, sg) {
        Ok(found) => {
            assert!((68..=65_517).contains(&found) && (sg || found <= 1500));
            assert!(found == wanted.unwrap_or(1500) || found == 1500 && !sg);
        }
        Err(_) => assert!(!(68..=65_517).contains(&wanted.unwrap_or(1500))),
    }
    let (key, parameter) = (number(input), input.flag());
    assert_eq!(is_trusted(key, parameter), parameter && key != Some(0));
}

/// What may be sent with some limit never exceeds it.
fn limiter(input: &mut Input<'_>) {
    let Some(rate) = Rate::parse(input.text()) else {
        return;
    };
    let mut now = input.u64() >> 1;
    let start = now;
    let mut limiter = Limiter::new(Some(rate), None, now);
    assert_eq!(limiter.is_limited(), rate.usecs != 0);
    // What has been saved up at first is what there is of burst.
    let burst = u128::from(rate.amount.max(131_072));
    let mut sent = 0u128;
    for _ in 0..32 {
        if input.is_empty() {
            break;
        }
        now = now.saturating_add(u64::from(input.u32()) << (input.u8() % 16));
        let bytes = u32::from(input.u16());
        match limiter.ask(now, bytes) {
            Verdict::Go => sent += u128::from(bytes),
            Verdict::Wait(time) => assert!(time > 0 && time <= LONGEST_WAIT),
        }
        if rate.usecs != 0 {
            let micros = u128::from(rate.usecs) * 1000;
            let earned = u128::from(rate.amount) * u128::from(now - start) / micros;
            assert!(sent <= burst + earned + 1);
        }
    }
}

/// Keys of both ends.
pub fn keys(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    backend(&mut input);
    frontend(&mut input);
    limiter(&mut input);
}
