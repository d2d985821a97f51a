// SPDX-License-Identifier: GPL-2.0

//! Numbers as they are written in xenstore.

/// A type that a xenstore node's text can be parsed into.
pub trait Value: Sized {
    /// What the text should have been, for messages: "a number", say.
    const EXPECTED: &'static str;

    /// Parses the whole text. White space around it does not count.
    fn parse(text: &[u8]) -> Option<Self>;
}

/// Longest text that any number has, white space excluded.
const MAX_DIGITS: usize = 24;

fn digits(text: &[u8], radix: u64) -> Option<u64> {
    if text.is_empty() || text.len() > MAX_DIGITS {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in text {
        let digit = (byte as char).to_digit(16).map(u64::from)?;
        if digit >= radix {
            return None;
        }
        value = value.checked_mul(radix)?.checked_add(digit)?;
    }
    Some(value)
}

impl Value for u64 {
    const EXPECTED: &'static str = "a decimal number of up to 64 bits";

    fn parse(text: &[u8]) -> Option<Self> {
        digits(text.trim_ascii(), 10)
    }
}

impl Value for u32 {
    const EXPECTED: &'static str = "a decimal number of up to 32 bits";

    fn parse(text: &[u8]) -> Option<Self> {
        u64::parse(text)?.try_into().ok()
    }
}

/// A switch: 0 is off, any other number is on.
impl Value for bool {
    const EXPECTED: &'static str = "0 or 1";

    fn parse(text: &[u8]) -> Option<Self> {
        Some(u32::parse(text)? != 0)
    }
}

/// A number whose prefix tells its radix: `0x` sixteen, `0` eight, otherwise ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyRadix(pub u32);

impl Value for AnyRadix {
    const EXPECTED: &'static str = "a number of up to 32 bits";

    fn parse(text: &[u8]) -> Option<Self> {
        let value = match text.trim_ascii() {
            [b'0', b'x' | b'X', rest @ ..] => digits(rest, 16)?,
            [b'0', rest @ ..] if !rest.is_empty() => digits(rest, 8)?,
            decimal => digits(decimal, 10)?,
        };
        value.try_into().ok().map(Self)
    }
}
