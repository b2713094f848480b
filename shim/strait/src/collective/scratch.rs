//! The memory into which a collective operation receives what it has to combine or to pass on.

use crate::world::meeting::KeptScratch;

/// Most bytes that lie on the stack.
const SHORT: usize = 128;

/// Alignment of the memory, which elements of a reduction may need.
pub(super) const ALIGN: usize = 64;

/// Most bytes of one memory that a world keeps between two operations.
const KEPT_MAX: usize = 8 << 20;

/// Memory of an operation. Long memory comes from the world and goes back to it, since new pages
/// would cost more than the copy into them.
pub(super) struct Scratch<'a> {
    kept: &'a KeptScratch,
    long: Vec<u8>,
    short: Short,
    start: usize,
    bytes: usize,
}

#[repr(C, align(64))]
struct Short([u8; SHORT]);

const _: () = assert!(align_of::<Short>() == ALIGN);

impl<'a> Scratch<'a> {
    /// Returns memory of this many bytes, with any content.
    pub(super) fn new(kept: &'a KeptScratch, bytes: usize) -> Self {
        let short = Short([0; SHORT]);
        if bytes <= SHORT {
            return Self { kept, long: Vec::new(), short, start: 0, bytes };
        }
        let [mut long, second] = kept.take();
        kept.set([second, Vec::new()]);
        if long.len() < bytes + ALIGN {
            // The old content is not worth a copy.
            long = vec![0; bytes + ALIGN];
        }
        let start = long.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self { kept, long, short, start, bytes }
    }

    /// Returns the memory.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        match self.bytes {
            0..=SHORT => &mut self.short.0[..self.bytes],
            _ => &mut self.long[self.start..self.start + self.bytes],
        }
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if !self.long.is_empty() && self.long.len() <= KEPT_MAX {
            let [second, _] = self.kept.take();
            self.kept.set([core::mem::take(&mut self.long), second]);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    #[test]
    fn memory_is_aligned_and_kept_for_the_next_operation() {
        let kept = Cell::default();
        for bytes in [0, 1, SHORT, SHORT + 1, 5000, 200] {
            let mut scratch = Scratch::new(&kept, bytes);
            assert_eq!(scratch.bytes().len(), bytes);
            assert!(scratch.bytes().as_ptr().addr().is_multiple_of(ALIGN));
        }
        assert_eq!(kept.take().map(|kept| kept.len()), [5000 + ALIGN, 0]);
        drop(Scratch::new(&kept, KEPT_MAX));
        assert!(kept.take()[0].is_empty(), "too much to keep");
    }

    #[test]
    fn memory_of_an_operation_and_of_its_step_is_kept() {
        let kept = Cell::default();
        let used = [(); 2].map(|()| {
            let mut outer = Scratch::new(&kept, 1000);
            let mut inner = Scratch::new(&kept, 2000);
            [outer.bytes().as_ptr(), inner.bytes().as_ptr()]
        });
        assert_eq!(used[0], used[1]);
    }
}
