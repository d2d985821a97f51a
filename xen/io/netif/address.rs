// SPDX-License-Identifier: GPL-2.0

//! Ethernet addresses as they are written in xenstore.

/// The address that a `mac` key's text is: six bytes of one or two hexadecimal digits, with colons
/// between them. White space around it does not count. [`None`] if it is none.
///
/// Any six bytes will do, even those that no interface should have.
pub fn parse_address(text: &[u8]) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.trim_ascii().split(|&byte| byte == b':');
    for byte in &mut address {
        *byte = parse_byte(parts.next()?)?;
    }
    parts.next().is_none().then_some(address)
}

fn parse_byte(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = match *text {
        [low] => digit(low)?,
        [high, low] => digit(high)? * 16 + digit(low)?,
        _ => return None,
    };
    value.try_into().ok()
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netif_address))]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let xen = Some([0x00, 0x16, 0x3e, 0x0a, 0xbc, 0xde]);
        for (text, address) in [
            (&b"00:16:3e:0a:bc:de"[..], xen),
            (b"00:16:3E:0A:BC:DE", xen),
            (b"0:16:3e:a:bc:de", xen),
            (b" 00:16:3e:0a:bc:de\n", xen),
            (b"ff:ff:ff:ff:ff:ff", Some([0xff; 6])),
            (b"0:0:0:0:0:0", Some([0; 6])),
        ] {
            assert_eq!(parse_address(text), address);
        }
    }

    #[test]
    fn junk_is_no_address() {
        for text in [
            &b""[..],
            b":",
            b":::::",
            b"::::::",
            b"00:16:3e:0a:bc",
            b"00:16:3e:0a:bc:",
            b":00:16:3e:0a:bc",
            b"00:16:3e:0a:bc:de:",
            b"00:16:3e:0a:bc:de:f0",
            b"00:16:3e:0a:bc:def",
            b"00:16:3e:0a:bc:0x1",
            b"00:16:3e:0a:bc:+1",
            b"00:16:3e:0a:bc:-1",
            b"00:16:3e:0a:bc:g0",
            b"00:16:3e:0a:bc: 1",
            b"00:16:3e:0a:bc:1 2",
            b"00-16-3e-0a-bc-de",
            b"00163e0abcde",
            b"00:16:3e:0a:bc:de\0",
            b"\xff:16:3e:0a:bc:de",
        ] {
            assert_eq!(parse_address(text), None);
        }
    }

    #[test]
    fn every_pair_of_digits() {
        for high in 0..=u8::MAX {
            for low in 0..=u8::MAX {
                let text = [
                    b'1', b':', b'2', b':', b'3', b':', high, low, b':', b'5', b':', b'6',
                ];
                let value = |byte: u8| char::from(byte).to_digit(16);
                let expected = match (value(high), value(low)) {
                    (Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
                    _ => None,
                };
                // A colon among the digits makes one part too many.
                assert_eq!(
                    parse_address(&text),
                    expected.map(|byte| [1, 2, 3, byte, 5, 6])
                );
            }
        }
    }
}
