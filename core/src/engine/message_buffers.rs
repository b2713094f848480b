//! Memory for messages that wait in this rank: those without a receive, and the rest of sends that
//! the user gave up.
//!
//! An allocator takes longer for aligned memory than the message takes to arrive, and it gives long
//! buffers back to the system, which then clears every page of the next one. So a few released
//! buffers of each size are kept for the next messages.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use crate::memory::{Memory, OutOfMemory};

/// Memory that the engine owns, from [`Memory`].
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnedBuffer {
    pub(super) base: NonNull<u8>,
    pub(super) length: usize,
}

/// Size of the smallest class of buffers, in bytes: a cache line, so that copies run at full speed.
const LEAST: usize = crate::sync::CACHE_LINE;

/// Number of classes, each of twice the size of the one before. Buffers of more than 1 MiB are not
/// kept.
const CLASSES: usize = 15;

/// Bytes that a class keeps at most, unless two of its buffers are longer.
const KEPT: usize = 128 << 10;

/// The spare buffers of one size. Each begins with the address of the next.
#[derive(Debug, Default)]
struct SpareBuffers {
    first: Cell<Option<NonNull<u8>>>,
    count: Cell<usize>,
}

/// The source of [`OwnedBuffer`]s.
#[derive(Debug)]
pub(super) struct MessageBuffers<M: Memory> {
    memory: M,
    spare: [SpareBuffers; CLASSES],
}

// SAFETY: the spare buffers belong to this value alone, as those of a vector do.
unsafe impl<M: Memory + Send> Send for MessageBuffers<M> {}

impl<M: Memory> MessageBuffers<M> {
    pub(super) fn new(memory: M) -> Self {
        Self { memory, spare: Default::default() }
    }

    pub(super) const fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns memory for `length` bytes, at least one.
    pub(super) fn take(&self, length: usize) -> Result<OwnedBuffer, OutOfMemory> {
        let length = length.max(1);
        if let Some(base) = class_of(length).and_then(|class| self.spare[class].take()) {
            return Ok(OwnedBuffer { base, length });
        }
        let base = self.memory.allocate(layout(length)?);
        Ok(OwnedBuffer { base: base.ok_or(OutOfMemory { bytes: length })?, length })
    }

    /// Takes back a buffer that [`MessageBuffers::take`] returned. Its only user is done with it.
    pub(super) fn put_back(&self, OwnedBuffer { base, length }: OwnedBuffer) {
        let is_kept = class_of(length).is_some_and(|class| {
            let has_room =
                (self.spare[class].count.get() + 1) * size_of_class(class) <= kept(class);
            if has_room {
                self.spare[class].put(base);
            }
            has_room
        });
        if !is_kept {
            self.free(base, length);
        }
    }

    fn free(&self, base: NonNull<u8>, length: usize) {
        if let Ok(layout) = layout(length) {
            // SAFETY: the memory was allocated with this very layout, and nothing uses it.
            unsafe { self.memory.release(base, layout) };
        }
    }
}

impl<M: Memory> Drop for MessageBuffers<M> {
    fn drop(&mut self) {
        for (class, spare) in self.spare.iter().enumerate() {
            while let Some(base) = spare.take() {
                self.free(base, size_of_class(class));
            }
        }
    }
}

impl SpareBuffers {
    fn take(&self) -> Option<NonNull<u8>> {
        let first = self.first.get()?;
        // SAFETY: `put` has written the address of the next there, and nothing else uses the
        // buffer.
        self.first.set(unsafe { first.cast::<Option<NonNull<u8>>>().read() });
        self.count.set(self.count.get() - 1);
        Some(first)
    }

    /// Adds a buffer that nothing uses.
    fn put(&self, base: NonNull<u8>) {
        // SAFETY: a buffer has room for an address, and is aligned to more.
        unsafe { base.cast::<Option<NonNull<u8>>>().write(self.first.get()) };
        self.first.set(Some(base));
        self.count.set(self.count.get() + 1);
    }
}

/// Returns the class of buffers that `length` bytes take, unless they are too long for all.
const fn class_of(length: usize) -> Option<usize> {
    let class = length.div_ceil(LEAST).next_power_of_two().trailing_zeros() as usize;
    if class < CLASSES { Some(class) } else { None }
}

const fn size_of_class(class: usize) -> usize {
    LEAST << class
}

/// Returns how many bytes the spare buffers of a class have at most.
fn kept(class: usize) -> usize {
    KEPT.max(2 * size_of_class(class))
}

/// Returns the layout with which `length` bytes are allocated and released.
fn layout(length: usize) -> Result<Layout, OutOfMemory> {
    let size = class_of(length).map_or(length, size_of_class);
    Layout::from_size_align(size, LEAST).map_err(|_| OutOfMemory { bytes: length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counted::Counted;

    #[test]
    fn released_buffers_serve_again_and_are_freed_in_the_end() {
        Counted::lend(|counted| {
            let buffers = MessageBuffers::new(counted.clone());
            let [first, second] = [100, 128].map(|length| buffers.take(length).unwrap());
            // SAFETY: both are this test's, and have that many bytes.
            unsafe {
                first.base.write_bytes(1, 100);
                second.base.write_bytes(2, 128);
            }
            [first, second].into_iter().for_each(|owned| buffers.put_back(owned));
            let again = [65, 128].map(|length| buffers.take(length).unwrap());
            assert_eq!(again.map(|owned| owned.base), [second.base, first.base]);
            let other = buffers.take(64).unwrap();
            assert_eq!(counted.asked(), 3, "it has another size");
            [again[0], again[1], other].into_iter().for_each(|owned| buffers.put_back(owned));
        });
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_longest_buffers_are_not() {
        let buffers = MessageBuffers::new(Counted::default());
        for length in [1, LEAST, 4096, 64 << 10, size_of_class(CLASSES - 1), 2 << 20] {
            let all: [OwnedBuffer; 200] = core::array::from_fn(|_| buffers.take(length).unwrap());
            all.into_iter().for_each(|owned| buffers.put_back(owned));
        }
        for (class, spare) in buffers.spare.iter().enumerate() {
            assert!(spare.count.get() * size_of_class(class) <= kept(class));
        }
        assert!(buffers.spare[0].count.get() > 0 && buffers.spare[CLASSES - 1].count.get() > 0);
    }

    #[test]
    fn long_buffers_serve_again_whatever_other_lengths_were_kept() {
        Counted::lend(|counted| {
            let buffers = MessageBuffers::new(counted.clone());
            let others: [OwnedBuffer; 100] =
                core::array::from_fn(|_| buffers.take(32 << 10).unwrap());
            others.into_iter().for_each(|owned| buffers.put_back(owned));
            let asked = counted.asked();
            for length in [128 << 10, 100_000, 128 << 10, 1 << 20, 1 << 20] {
                buffers.put_back(buffers.take(length).unwrap());
            }
            assert_eq!(counted.asked(), asked + 2);
        });
    }
}
