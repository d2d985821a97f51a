// SPDX-License-Identifier: GPL-2.0

//! Pieces of a request's memory.
//!
//! Pure logic, tested on the host and by KUnit.

/// A piece of memory that lies in one frame of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The frame's number.
    pub frame: usize,
    /// Where in the frame it starts, in bytes; less than 4096.
    pub offset: u32,
    /// How long it is, in bytes; it does not leave the frame.
    pub length: u32,
}

impl Piece {
    /// This piece and the `next` one as one, if they touch.
    #[inline]
    pub fn join(self, next: Self) -> Option<Self> {
        let end = self.offset.checked_add(self.length)?;
        if self.frame != next.frame || end != next.offset {
            return None;
        }
        Some(Self {
            length: self.length.checked_add(next.length)?,
            ..self
        })
    }
}

/// Pieces, with those that touch made one.
///
/// The block layer counts a request's segments like that, so that there are no more of these than
/// the limits allow.
pub struct Joined<I: Iterator<Item = Piece>>(core::iter::Peekable<I>);

impl<I: Iterator<Item = Piece>> Joined<I> {
    /// Joins what `pieces` has.
    #[inline]
    pub fn new(pieces: I) -> Self {
        Self(pieces.peekable())
    }
}

impl<I: Iterator<Item = Piece>> Iterator for Joined<I> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let mut joined = self.0.next()?;
        while let Some(longer) = self.0.peek().and_then(|next| joined.join(*next)) {
            joined = longer;
            self.0.next();
        }
        Some(joined)
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blk_piece))]
mod tests {
    use super::*;

    const fn piece(frame: usize, offset: u32, length: u32) -> Piece {
        Piece {
            frame,
            offset,
            length,
        }
    }

    #[test]
    fn pieces_that_touch_are_one() {
        assert_eq!(
            piece(7, 0, 512).join(piece(7, 512, 1024)),
            Some(piece(7, 0, 1536))
        );
        assert_eq!(
            piece(7, 1024, 512).join(piece(7, 1536, 2560)),
            Some(piece(7, 1024, 3072))
        );
    }

    #[test]
    fn pieces_that_do_not_touch_stay_apart() {
        // Another frame, a gap, an overlap, the same again, the wrong order.
        assert_eq!(piece(7, 0, 512).join(piece(8, 512, 512)), None);
        assert_eq!(piece(7, 0, 512).join(piece(7, 1024, 512)), None);
        assert_eq!(piece(7, 0, 1024).join(piece(7, 512, 512)), None);
        assert_eq!(piece(7, 0, 512).join(piece(7, 0, 512)), None);
        assert_eq!(piece(7, 512, 512).join(piece(7, 0, 512)), None);
        // The next frame's start does not touch this one's end.
        assert_eq!(piece(7, 3584, 512).join(piece(8, 0, 512)), None);
    }

    #[test]
    fn pieces_too_long_to_count_stay_apart() {
        assert_eq!(piece(7, u32::MAX, 1).join(piece(7, 0, 1)), None);
        assert_eq!(piece(7, 1, u32::MAX - 1).join(piece(7, u32::MAX, 2)), None);
    }

    #[test]
    fn joined_makes_one_of_those_that_touch() {
        let pieces = [
            piece(7, 0, 512),
            piece(7, 512, 512),
            piece(7, 1024, 512),
            piece(7, 2048, 512),
            piece(8, 0, 4096),
            piece(9, 0, 4096),
        ];
        let mut joined = Joined::new(pieces.iter().copied());
        assert_eq!(joined.next(), Some(piece(7, 0, 1536)));
        assert_eq!(joined.next(), Some(piece(7, 2048, 512)));
        assert_eq!(joined.next(), Some(piece(8, 0, 4096)));
        assert_eq!(joined.next(), Some(piece(9, 0, 4096)));
        assert_eq!(joined.next(), None);
    }
}
