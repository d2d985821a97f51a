// SPDX-License-Identifier: GPL-2.0

//! Single values as they are in xenstore.

use super::input::Input;
use crate::{
    blkback::features::{
        is_writable,
        parse_device, //
    },
    blkfront::number::DiskNumber,
    moderation::settings::Setting,
    netback::credit::Rate,
    netif::parse_address,
    xen::xenbus::state::State,
    xenbus::value::{
        AnyRadix,
        Excerpt,
        Value, //
    },
};

/// Most digits of a number.
const MOST_DIGITS: usize = 24;

/// A number of digits only, by the standard library's parser.
pub fn number(text: &[u8], radix: u32) -> Option<u64> {
    let is_digit = |&byte: &u8| char::from(byte).is_digit(radix);
    if text.len() > MOST_DIGITS || !text.iter().all(is_digit) {
        return None;
    }
    u64::from_str_radix(core::str::from_utf8(text).ok()?, radix).ok()
}

/// A text without the white space around it.
fn trim(text: &[u8]) -> &[u8] {
    // What C's isspace() has but for the vertical tab, which nobody writes.
    let is_space = |byte: &u8| b" \t\n\r\x0c".contains(byte);
    let start = text.iter().position(|byte| !is_space(byte));
    let end = text.iter().rposition(|byte| !is_space(byte));
    match (start, end) {
        (Some(start), Some(end)) => &text[start..=end],
        _ => &[],
    }
}

fn small(value: Option<u64>) -> Option<u32> {
    value.and_then(|value| value.try_into().ok())
}

fn check_numbers(text: &[u8]) {
    let bare = trim(text);
    let decimal = number(bare, 10);
    assert_eq!(u64::parse(text), decimal);
    assert_eq!(u32::parse(text), small(decimal));
    assert_eq!(bool::parse(text), small(decimal).map(|value| value != 0));
    let hexadecimal = bare
        .strip_prefix(b"0x")
        .or_else(|| bare.strip_prefix(b"0X"));
    let any = match (hexadecimal, bare) {
        (Some(digits), _) => number(digits, 16),
        (None, [b'0', digits @ ..]) if !digits.is_empty() => number(digits, 8),
        (None, digits) => number(digits, 10),
    };
    assert_eq!(AnyRadix::parse(text), small(any).map(AnyRadix));

    for setting in Setting::ALL {
        let (least, most) = setting.range();
        let digits = text.strip_suffix(b"\n").unwrap_or(text);
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        // Longer ones are still numbers, but too large for any setting, or full of zeros.
        let start = digits.iter().position(|&byte| byte != b'0');
        let digits = &digits[start.unwrap_or(digits.len())..];
        let value = match digits {
            [] => Some(0),
            _ => small(number(digits, 10)),
        };
        match setting.parse(text) {
            Ok(found) => {
                assert!(is_number && (least..=most).contains(&found));
                assert_eq!(Some(found), value);
            }
            Err(refused) => {
                assert_eq!(refused.is_out_of_range(), is_number);
                let fits = value.is_some_and(|value| (least..=most).contains(&value));
                assert!(!is_number || !fits);
                assert!(refused.to_string().starts_with(setting.name()));
            }
        }
    }
}

/// What is said of other keys with a form of their own.
fn check_forms(text: &[u8]) {
    let bare = trim(text);
    let is_hexadecimal = |part: &[u8]| part.iter().all(u8::is_ascii_hexdigit);
    let parts: Vec<&[u8]> = bare.split(|&byte| byte == b':').collect();

    let byte = |part: &&[u8]| {
        let fits = (1..=2).contains(&part.len()) && is_hexadecimal(part);
        let value = number(part, 16).filter(|_| fits)?;
        u8::try_from(value).ok()
    };
    let bytes: Option<Vec<u8>> = parts.iter().map(byte).collect();
    let address: Option<[u8; 6]> = bytes.and_then(|bytes| bytes.try_into().ok());
    assert_eq!(parse_address(text), address);

    let part = |index: usize| {
        let part: &[u8] = parts.get(index)?;
        let value = number(part, 16).filter(|_| (1..=8).contains(&part.len()))?;
        small(Some(value))
    };
    let device = match (part(0), part(1)) {
        (Some(major @ 0..=0xfff), Some(minor @ 0..=0xf_ffff)) if parts.len() == 2 => {
            Some((major, minor))
        }
        _ => None,
    };
    assert_eq!(parse_device(text), device);

    let halves: Vec<&[u8]> = bare.splitn(2, |&byte| byte == b',').collect();
    let rate = match halves[..] {
        [amount, usecs] => number(amount, 10).zip(number(usecs, 10)),
        _ => None,
    };
    let found = Rate::parse(text).map(|rate| (rate.amount, rate.usecs));
    assert_eq!(found, rate);

    let writable = text.iter().filter(|&&byte| byte == b'w').count() > 0;
    assert_eq!(is_writable(text), writable);
}

/// Whatever a text is, what is shown of it can be printed, and is short.
fn check_excerpt(text: &[u8]) {
    let shown = Excerpt(text).to_string();
    assert!(shown.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    assert!(shown.len() <= 4 * Excerpt::MOST + 3);
    assert!(text.len() <= 32 || shown.ends_with("..."));
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric();
    if text.len() <= 32 && text.iter().all(is_plain) {
        assert_eq!(shown.as_bytes(), text);
    }
}

/// Numbers that are written are read as they were meant.
fn check_round_trips(value: u64) {
    assert_eq!(u64::parse(value.to_string().as_bytes()), Some(value));
    let low = value as u32;
    for text in [format!("{low}"), format!("{low:#x}"), format!("0{low:o}")] {
        assert_eq!(AnyRadix::parse(text.as_bytes()), Some(AnyRadix(low)));
    }
    let [a, b, c, d, e, f, ..] = value.to_le_bytes();
    let text = format!("{a:02x}:{b:x}:{c:02X}:{d:02x}:{e:02x}:{f:02x}\n");
    assert_eq!(parse_address(text.as_bytes()), Some([a, b, c, d, e, f]));

    // A state is one of the protocol's, or unknown.
    let state = State::from_number(low);
    let again = state.into_raw();
    assert_eq!(again, if (1..=8).contains(&low) { low } else { 0 });
    assert_eq!(State::from_number(again), state);
}

/// A disk has minor numbers that Linux can express, and a name of letters, and perhaps a number.
fn check_disk(vdevice: u32) {
    let Ok(number) = DiskNumber::decode(vdevice) else {
        return;
    };
    assert!([1, 16, 256].contains(&number.minors()));
    assert!(number.first_minor() + number.minors() <= 1 << 20);
    let name = number.to_string();
    let letters = name.strip_prefix("xvd").expect("a name of Xen's disks");
    let partition = letters.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    assert!(letters.len() > partition.len() && name.len() < 32);
    assert_eq!(partition.is_empty(), number.minors() > 1);
    if let Ok(partition) = partition.parse::<u32>() {
        let all = if vdevice >> 28 != 0 { 256 } else { 16 };
        assert_eq!(number.first_minor() % all, partition);
    }
}

/// Values of any kind.
pub fn values(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    check_round_trips(input.u64());
    check_disk(input.u32());
    while !input.is_empty() {
        let text = input.text();
        check_numbers(text);
        check_forms(text);
        check_excerpt(text);
    }
}
