//! The bytes of a part that an operation accesses: one run, or several.

use core::ptr::NonNull;

use crate::buffer::{Cursor, Part};

/// A run of consecutive bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ByteRun {
    /// Offset of the first byte, in bytes from the displacement of the operation.
    pub offset: usize,
    /// Number of bytes.
    pub length: usize,
}

/// The bytes of a part that an operation accesses, relative to its displacement. Their order is
/// that of the origin's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shape<'a> {
    /// One run, from the displacement on.
    Contiguous {
        /// Number of bytes.
        length: usize,
    },
    /// Blocks at equal distances, as in `MPI_Type_vector`.
    Strided {
        /// Number of blocks.
        count: usize,
        /// Size of a block in bytes.
        block: usize,
        /// Distance in bytes from the start of one block to the start of the next.
        stride: usize,
    },
    /// Arbitrary runs, as in `MPI_Type_indexed`.
    Runs(&'a [ByteRun]),
}

impl Shape<'_> {
    fn count(&self) -> usize {
        match self {
            Self::Contiguous { .. } => 1,
            Self::Strided { count, .. } => *count,
            Self::Runs(runs) => runs.len(),
        }
    }

    /// Returns run number `number`. The offset wraps if it exceeds all addresses; [`Shape::extent`]
    /// has refused such shapes.
    fn run(&self, number: usize) -> ByteRun {
        match *self {
            Self::Contiguous { length } => ByteRun { offset: 0, length },
            Self::Strided { block, stride, .. } => {
                ByteRun { offset: number.wrapping_mul(stride), length: block }
            }
            Self::Runs(runs) => runs[number],
        }
    }

    /// Returns the runs, in order.
    pub fn runs(&self) -> impl Iterator<Item = ByteRun> {
        (0..self.count()).map(|number| self.run(number))
    }

    /// Returns the number of bytes of all runs, and the end of the run that ends last. Returns
    /// `None` if a number overflows.
    #[must_use]
    pub fn extent(&self) -> Option<(usize, usize)> {
        match *self {
            Self::Contiguous { length } => Some((length, length)),
            Self::Strided { count: 0, .. } => Some((0, 0)),
            Self::Strided { count, block, stride } => {
                let last = (count - 1).checked_mul(stride)?;
                Some((count.checked_mul(block)?, last.checked_add(block)?))
            }
            Self::Runs(runs) => runs.iter().try_fold((0_usize, 0), |(bytes, end), run| {
                let own_end = run.offset.checked_add(run.length)?;
                Some((bytes.checked_add(run.length)?, end.max(own_end)))
            }),
        }
    }

    /// Calls `each` for consecutive pieces that are contiguous on both sides.
    ///
    /// Its arguments are an address in the origin's buffer, an offset from the displacement, and a
    /// length. The origin's buffer has as many bytes as the shape.
    ///
    /// # Errors
    ///
    /// The first error of `each`.
    pub fn pieces<E>(
        &self,
        mut origin: Cursor,
        mut each: impl FnMut(NonNull<u8>, usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        for ByteRun { mut offset, mut length } in self.runs() {
            while length > 0 {
                let Some(Part { base, length: part }) = origin.first() else { return Ok(()) };
                let piece = part.min(length);
                each(base, offset, piece)?;
                origin = origin.after(piece);
                offset += piece;
                length -= piece;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    const RUNS: [ByteRun; 3] = [
        ByteRun { offset: 9, length: 2 },
        ByteRun { offset: 0, length: 3 },
        ByteRun { offset: 5, length: 0 },
    ];

    #[test]
    fn an_extent_has_the_bytes_and_the_furthest_end() {
        assert_eq!(Shape::Contiguous { length: 7 }.extent(), Some((7, 7)));
        assert_eq!(Shape::Strided { count: 3, block: 2, stride: 10 }.extent(), Some((6, 22)));
        assert_eq!(Shape::Strided { count: 0, block: 2, stride: 10 }.extent(), Some((0, 0)));
        assert_eq!(Shape::Runs(&RUNS).extent(), Some((5, 11)));
        let too_long = Shape::Strided { count: 3, block: 1, stride: usize::MAX / 2 + 1 };
        assert_eq!(too_long.extent(), None);
        let past_end = [ByteRun { offset: usize::MAX, length: 1 }];
        assert_eq!(Shape::Runs(&past_end).extent(), None);
    }

    #[test]
    fn pieces_are_contiguous_on_both_sides() {
        let (mut first, mut second) = ([1_u8, 2, 3], [4_u8, 5]);
        let part = |bytes: &mut [u8]| Part {
            base: NonNull::from(&mut *bytes).cast(),
            length: bytes.len(),
        };
        let parts = [part(&mut first), part(&mut second)];
        let found = |shape: Shape<'_>| {
            let mut found = Vec::new();
            // SAFETY: the arrays outlive the cursor.
            let cursor = unsafe { Cursor::parts(&parts) };
            let all = shape.pieces(cursor, |place, offset, length| {
                // SAFETY: the address is that of a piece of one of the arrays.
                found.push((unsafe { place.read() }, offset, length));
                Ok::<_, ()>(())
            });
            assert_eq!(all, Ok(()));
            found
        };
        let strided = Shape::Strided { count: 5, block: 1, stride: 4 };
        assert_eq!(found(strided), [(1, 0, 1), (2, 4, 1), (3, 8, 1), (4, 12, 1), (5, 16, 1)]);
        assert_eq!(found(Shape::Contiguous { length: 5 }), [(1, 0, 3), (4, 3, 2)]);
        assert_eq!(found(Shape::Runs(&RUNS)), [(1, 9, 2), (3, 0, 1), (4, 1, 2)]);
    }
}
