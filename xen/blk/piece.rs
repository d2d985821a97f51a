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

/// The part of `pieces` that begins `skip` bytes behind their start and is at most `length` bytes long.
pub struct Window<I> {
    pieces: I,
    skip: u32,
    length: u32,
}

impl<I: Iterator<Item = Piece>> Window<I> {
    /// Looks at a part of `pieces`.
    #[inline]
    pub fn new(pieces: I, skip: u32, length: u32) -> Self {
        Self {
            pieces,
            skip,
            length,
        }
    }
}

impl<I: Iterator<Item = Piece>> Iterator for Window<I> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.length == 0 {
            return None;
        }
        let mut piece = self.pieces.next()?;
        while let Some(skip) = self.skip.checked_sub(piece.length) {
            self.skip = skip;
            piece = self.pieces.next()?;
        }
        // The rest to be skipped is less than this piece has.
        piece.offset = piece.offset.saturating_add(self.skip);
        piece.length = (piece.length - self.skip).min(self.length);
        self.skip = 0;
        self.length -= piece.length;
        Some(piece)
    }
}

/// How many bytes of `pieces` go into one message that has room for `most` of them, if it must be a
/// multiple of `unit` bytes. 0 if not even one unit fits.
pub fn fitting(pieces: impl Iterator<Item = Piece>, most: usize, unit: u32) -> u32 {
    let sum = pieces
        .take(most)
        .fold(0u32, |sum, piece| sum.saturating_add(piece.length));
    sum - sum.checked_rem(unit).unwrap_or(sum)
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

    /// What a window shows of three pieces of 1024, 4096 and 512 bytes.
    fn seen(skip: u32, length: u32) -> [Option<Piece>; 4] {
        let pieces = [piece(7, 512, 1024), piece(9, 0, 4096), piece(4, 1024, 512)];
        let mut window = Window::new(pieces.into_iter(), skip, length);
        [window.next(), window.next(), window.next(), window.next()]
    }

    #[test]
    fn window_on_everything() {
        let all = [
            Some(piece(7, 512, 1024)),
            Some(piece(9, 0, 4096)),
            Some(piece(4, 1024, 512)),
            None,
        ];
        assert_eq!(seen(0, u32::MAX), all);
        assert_eq!(seen(0, 5632), all);
    }

    #[test]
    fn window_begins_and_ends_within_pieces() {
        assert_eq!(
            seen(512, 1024),
            [
                Some(piece(7, 1024, 512)),
                Some(piece(9, 0, 512)),
                None,
                None
            ]
        );
        assert_eq!(
            seen(1024, 4096),
            [Some(piece(9, 0, 4096)), None, None, None]
        );
        assert_eq!(
            seen(1536, 4096),
            [
                Some(piece(9, 512, 3584)),
                Some(piece(4, 1024, 512)),
                None,
                None
            ]
        );
        assert_eq!(
            seen(5120, 512),
            [Some(piece(4, 1024, 512)), None, None, None]
        );
    }

    #[test]
    fn window_on_nothing() {
        assert_eq!(seen(0, 0), [None; 4]);
        assert_eq!(seen(5632, 512), [None; 4]);
        assert_eq!(seen(u32::MAX, u32::MAX), [None; 4]);
    }

    #[test]
    fn fitting_is_whole_units() {
        let pieces =
            || (0..20usize).map(|frame| piece(frame, 0, if frame == 0 { 3584 } else { 4096 }));
        assert_eq!(fitting(pieces(), 11, 512), 3584 + 10 * 4096);
        assert_eq!(fitting(pieces(), 11, 4096), 10 * 4096);
        assert_eq!(fitting(pieces(), 100, 512), 3584 + 19 * 4096);
        // Not one unit.
        assert_eq!(fitting(pieces(), 1, 4096), 0);
        assert_eq!(fitting(pieces(), 0, 512), 0);
        assert_eq!(fitting(core::iter::empty(), 11, 512), 0);
        assert_eq!(fitting(pieces(), 11, 0), 0);
    }

    /// Parts of a request that do not fit into one message are all of it, in order.
    #[test]
    fn parts_are_the_whole() {
        // What a buffer that begins in the midst of a page is made of.
        let pieces = || {
            (0..40usize).map(|frame| match frame {
                0 => piece(frame, 1536, 2560),
                39 => piece(frame, 0, 1536),
                _ => piece(frame, 0, 4096),
            })
        };
        let total = 39 * 4096;
        for unit in [512, 1024, 2048, 4096] {
            for most in [2, 3, 11, 32, 100] {
                let mut done = 0;
                while done < total {
                    let part = fitting(Window::new(pieces(), done, u32::MAX), most, unit);
                    assert!(part > 0 && part % unit == 0);
                    let mut length = 0;
                    let mut count = 0;
                    for piece in Window::new(pieces(), done, part) {
                        // Byte `done + length` is where it belongs.
                        let at = done + length + 1536;
                        assert_eq!(piece.frame, (at / 4096) as usize);
                        assert_eq!(piece.offset, at % 4096);
                        length += piece.length;
                        count += 1;
                    }
                    assert_eq!(length, part);
                    assert!(count <= most);
                    done += part;
                }
                assert_eq!(done, total);
            }
        }
    }
}
