//! A buffer of several parts as regular sequences of blocks.

use super::{Cursor, Part};

/// The longest gap between two blocks of a run, in bytes, and one more: the size of the smallest
/// page. A shorter gap contains no whole page, so each page of a run's extent holds a byte of the
/// buffer.
const PAGE_LEAST: usize = 4096;

/// Blocks of one length at equal distances, with gaps that contain no whole page.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The first block; not empty.
    pub block: Part,
    /// Distance from the start of one block to the start of the next, in bytes. Zero for a single
    /// block.
    pub stride: usize,
    /// Number of blocks; not zero.
    pub count: usize,
}

impl Run {
    const fn of(block: Part) -> Self {
        Self { block, stride: 0, count: 1 }
    }

    /// Returns the memory from the first byte to the last, with the gaps. All of its pages are in
    /// memory, since each holds a byte of a block.
    #[must_use]
    pub const fn extent(&self) -> Part {
        let length = self.stride * (self.count - 1) + self.block.length;
        Part { base: self.block.base, length }
    }

    /// Adds `block` at the end, if that keeps the run regular.
    fn extend(&mut self, block: Part) -> bool {
        let start = |part: &Part| part.base.addr().get();
        let last = start(&self.block) + self.stride * (self.count - 1);
        let Some(stride) = start(&block).checked_sub(last) else { return false };
        let gap = stride.checked_sub(self.block.length);
        let is_regular = block.length == self.block.length
            && gap.is_some_and(|gap| gap < PAGE_LEAST)
            && (self.count == 1 || stride == self.stride);
        if is_regular {
            (self.stride, self.count) = (stride, self.count + 1);
        }
        is_regular
    }
}

/// The runs of a buffer, in the order of its bytes.
#[derive(Clone, Debug)]
pub struct Runs {
    rest: Cursor,
    /// A block that the last run could not take.
    next: Option<Part>,
}

impl Runs {
    /// Returns the runs of `buffer`. Parts that touch are one block, and empty parts are none.
    #[must_use]
    pub const fn of(buffer: Cursor) -> Self {
        Self { rest: buffer, next: None }
    }

    /// Returns whether `buffer` has at most so many blocks. Looks at no block beyond those.
    #[must_use]
    pub fn has_at_most(buffer: Cursor, blocks: usize) -> bool {
        let mut runs = Self::of(buffer);
        (0..=blocks).any(|_| runs.block().is_none())
    }

    /// Returns the next block: parts of which each begins where the one before ends.
    fn block(&mut self) -> Option<Part> {
        if let Some(block) = self.next.take() {
            return Some(block);
        }
        let mut block = self.rest.first()?;
        self.rest = self.rest.after(block.length);
        while let Some(part) = self.rest.first()
            && part.base.addr().get() == block.base.addr().get() + block.length
        {
            block.length += part.length;
            self.rest = self.rest.after(part.length);
        }
        Some(block)
    }
}

impl Iterator for Runs {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let mut run = Run::of(self.block()?);
        while let Some(block) = self.block() {
            if !run.extend(block) {
                self.next = Some(block);
                break;
            }
        }
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::NonNull;
    use std::vec::Vec;

    /// Returns the runs of the parts that lie at these offsets and have these lengths, as (offset,
    /// block, stride, count).
    fn runs(parts: &[(usize, usize)]) -> Vec<(usize, usize, usize, usize)> {
        let mut memory = std::vec![0_u8; 100_000];
        let base = NonNull::from(memory.as_mut_slice()).cast::<u8>();
        // SAFETY: every offset lies in the memory.
        let part = |&(at, length)| Part { base: unsafe { base.add(at) }, length };
        let parts: Vec<Part> = parts.iter().map(part).collect();
        // SAFETY: the parts outlive the cursor.
        let buffer = unsafe { Cursor::parts(&parts) };
        let all: Vec<Run> = Runs::of(buffer).collect();
        let bytes: usize = all.iter().map(|run| run.block.length * run.count).sum();
        assert_eq!(bytes, buffer.remaining());
        let start = base.addr().get();
        let tell = |run: &Run| {
            let at = run.block.base.addr().get() - start;
            assert_eq!(run.extent().length, run.stride * (run.count - 1) + run.block.length);
            (at, run.block.length, run.stride, run.count)
        };
        all.iter().map(tell).collect()
    }

    #[test]
    fn a_vector_is_one_run() {
        let parts: Vec<_> = (0..50).map(|block| (block * 1000, 600)).collect();
        assert_eq!(runs(&parts), [(0, 600, 1000, 50)]);
    }

    #[test]
    fn parts_that_touch_are_one_block_and_empty_parts_are_none() {
        assert_eq!(runs(&[(0, 0), (8, 10), (18, 0), (18, 2), (5, 0)]), [(8, 12, 0, 1)]);
        assert_eq!(runs(&[(0, 4), (4, 4), (20, 8), (40, 8)]), [(0, 8, 20, 3)]);
        assert_eq!(runs(&[(0, 0)]), []);
    }

    #[test]
    fn another_length_or_distance_or_direction_begins_a_run() {
        assert_eq!(runs(&[(0, 8), (20, 8), (40, 7)]), [(0, 8, 20, 2), (40, 7, 0, 1)]);
        assert_eq!(runs(&[(0, 8), (20, 8), (41, 8)]), [(0, 8, 20, 2), (41, 8, 0, 1)]);
        assert_eq!(runs(&[(60, 8), (40, 8), (20, 8)]).len(), 3);
        assert_eq!(runs(&[(0, 8), (0, 8), (4, 8)]).len(), 3, "they overlap");
    }

    #[test]
    fn blocks_are_counted_up_to_a_limit() {
        let mut memory = [0_u8; 64];
        let base = NonNull::from(&mut memory).cast::<u8>();
        // SAFETY: every part lies in the memory.
        let part = |at| Part { base: unsafe { base.add(at) }, length: 8 };
        let parts = [0, 8, 24, 40].map(part);
        // SAFETY: the parts outlive the cursor.
        let buffer = unsafe { Cursor::parts(&parts) };
        let limits = [0, 2, 3, 4].map(|blocks| Runs::has_at_most(buffer, blocks));
        assert_eq!(limits, [false, false, true, true]);
    }

    #[test]
    fn a_gap_with_room_for_a_page_begins_a_run() {
        assert_eq!(runs(&[(0, 8), (8 + 4095, 8)]), [(0, 8, 4103, 2)]);
        assert_eq!(runs(&[(0, 8), (8 + 4096, 8)]).len(), 2);
    }
}
