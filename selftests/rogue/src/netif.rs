// SPDX-License-Identifier: GPL-2.0

//! Wire format of the network protocol, as a frontend writes it: fields are whatever a test wants.
//!
//! C header: `include/xen/interface/io/netif.h`.

/// Slots of a transmit or a receive ring.
pub const SLOTS: u32 = 256;

/// C: `XEN_NETTXF_csum_blank`.
pub const TX_BLANK: u16 = 1;
/// C: `XEN_NETTXF_more_data`, and `XEN_NETRXF_more_data`.
pub const MORE_DATA: u16 = 4;
/// C: `XEN_NETTXF_extra_info`, and `XEN_NETRXF_extra_info`.
pub const EXTRA_INFO: u16 = 8;

/// C: `XEN_NETIF_RSP_OKAY` and its like.
pub const OKAY: i16 = 0;
/// The packet was not sent on.
pub const ERROR: i16 = -1;
/// The slot had an extra info.
pub const NULL: i16 = 1;

/// C: `struct xen_netif_tx_request`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxRequest {
    /// The frame.
    pub gref: u32,
    /// Where in the frame the data starts, in bytes.
    pub offset: u16,
    /// `TX_*` and others.
    pub flags: u16,
    /// What the response is called.
    pub id: u16,
    /// Of the whole packet in its first request, of this piece in others.
    pub size: u16,
}

impl TxRequest {
    /// As it is on the ring.
    pub fn words(self) -> [u32; 3] {
        let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
        [
            self.gref,
            pair(self.offset, self.flags),
            pair(self.id, self.size),
        ]
    }
}

/// C: `struct xen_netif_tx_response`: id and status.
pub fn tx_response(words: &[u32]) -> (u16, i16) {
    // CAST: Both halves of a word.
    (words[0] as u16, (words[0] >> 16) as i16)
}

/// C: `struct xen_netif_extra_info`: its type, whether another one follows, and what it says.
pub fn extra(kind: u8, more: bool, data: [u8; 6]) -> [u32; 3] {
    let [a, b, c, d, e, f] = data;
    [
        u32::from_le_bytes([kind, more.into(), a, b]),
        u32::from_le_bytes([c, d, e, f]),
        0,
    ]
}

/// An extra info that says that a packet is to be cut up.
pub fn gso(size: u16, kind: u8) -> [u32; 3] {
    let [low, high] = size.to_le_bytes();
    extra(1, false, [low, high, kind, 0, 0, 0])
}

/// C: `struct xen_netif_rx_request`.
pub fn rx_request(id: u16, gref: u32) -> [u32; 2] {
    [id.into(), gref]
}

/// C: `struct xen_netif_rx_response`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxResponse {
    /// That of the request.
    pub id: u16,
    /// Where in the frame the data starts, in bytes.
    pub offset: u16,
    /// `XEN_NETRXF_*`.
    pub flags: u16,
    /// Bytes, or what is wrong.
    pub status: i16,
}

impl RxResponse {
    /// From the ring.
    pub fn new(words: &[u32]) -> Self {
        // CAST: Halves of words.
        Self {
            id: words[0] as u16,
            offset: (words[0] >> 16) as u16,
            flags: words[1] as u16,
            status: (words[1] >> 16) as i16,
        }
    }
}

/// C: `struct xen_netif_ctrl_request`.
pub fn control_request(id: u16, operation: u16, data: [u32; 3]) -> [u32; 4] {
    let [a, b, c] = data;
    [u32::from(id) | u32::from(operation) << 16, a, b, c]
}

/// C: `struct xen_netif_ctrl_response`: id, operation, status and data.
pub fn control_response(words: &[u32]) -> (u16, u16, u32, u32) {
    // CAST: Halves of a word.
    (words[0] as u16, (words[0] >> 16) as u16, words[1], words[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_they_belong() {
        let request = TxRequest {
            gref: 0x1234_5678,
            offset: 1,
            flags: 2,
            id: 3,
            size: 4,
        };
        assert_eq!(request.words(), [0x1234_5678, 0x0002_0001, 0x0004_0003]);
        assert_eq!(tx_response(&[0xffff_0007]), (7, ERROR));
        assert_eq!(gso(0x0102, 3), [0x0102_0001, 3, 0]);
        let response = RxResponse::new(&[0x0002_0001, 0xfffe_0003]);
        assert_eq!(
            response,
            RxResponse {
                id: 1,
                offset: 2,
                flags: 3,
                status: -2
            }
        );
        let (id, operation, status, data) = control_response(&[0x0002_0001, 3, 4]);
        assert_eq!((id, operation, status, data), (1, 2, 3, 4));
    }
}
