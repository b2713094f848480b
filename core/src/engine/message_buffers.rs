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

/// Size of the largest class that has its own limit, in bytes.
const SHORT: usize = 16 << 10;

/// Bytes that a class of short buffers keeps at most.
const SHORT_KEPT: usize = 128 << 10;

/// Bytes that all longer classes keep at most, together.
const LONG_KEPT: usize = 2 << 20;

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
    /// Bytes of the longer classes that are kept.
    long_kept: Cell<usize>,
}

// SAFETY: the spare buffers belong to this value alone, as those of a vector do.
unsafe impl<M: Memory + Send> Send for MessageBuffers<M> {}

impl<M: Memory> MessageBuffers<M> {
    pub(super) fn new(memory: M) -> Self {
        Self { memory, spare: Default::default(), long_kept: Cell::new(0) }
    }

    pub(super) const fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns memory for `length` bytes, at least one.
    pub(super) fn take(&self, length: usize) -> Result<OwnedBuffer, OutOfMemory> {
        let length = length.max(1);
        if let Some(class) = class_of(length)
            && let Some(base) = self.spare[class].take()
        {
            if size_of_class(class) > SHORT {
                self.long_kept.set(self.long_kept.get() - size_of_class(class));
            }
            return Ok(OwnedBuffer { base, length });
        }
        let base = self.memory.allocate(layout(length)?);
        Ok(OwnedBuffer { base: base.ok_or(OutOfMemory { bytes: length })?, length })
    }

    /// Takes back a buffer that [`MessageBuffers::take`] returned. Its only user is done with it.
    pub(super) fn put_back(&self, OwnedBuffer { base, length }: OwnedBuffer) {
        let is_kept = class_of(length).is_some_and(|class| self.keep(base, class));
        if !is_kept {
            self.free(base, length);
        }
    }

    /// Keeps a buffer for the next messages if there is room for it.
    fn keep(&self, base: NonNull<u8>, class: usize) -> bool {
        let (spare, size) = (&self.spare[class], size_of_class(class));
        if size <= SHORT {
            if (spare.count.get() + 1) * size > SHORT_KEPT {
                return false;
            }
        } else {
            let kept = self.long_kept.get() + size;
            if kept > LONG_KEPT {
                return false;
            }
            self.long_kept.set(kept);
        }
        spare.put(base);
        true
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
        let longest = size_of_class(CLASSES - 1);
        for length in [1, LEAST, 4096, SHORT, SHORT + 1, longest, longest + 1] {
            let all: [OwnedBuffer; 200] = core::array::from_fn(|_| buffers.take(length).unwrap());
            all.into_iter().for_each(|owned| buffers.put_back(owned));
        }
        let kept =
            |(class, spare): (usize, &SpareBuffers)| spare.count.get() * size_of_class(class);
        let (short, long) = buffers.spare.split_at(class_of(SHORT).unwrap() + 1);
        assert!(short.iter().enumerate().all(|spare| kept(spare) <= SHORT_KEPT));
        let long: usize = long.iter().enumerate().map(|(i, s)| kept((short.len() + i, s))).sum();
        assert_eq!(long, buffers.long_kept.get());
        assert!(long <= LONG_KEPT && buffers.spare[0].count.get() > 0);
    }

    #[test]
    fn long_buffers_serve_again() {
        Counted::lend(|counted| {
            let buffers = MessageBuffers::new(counted.clone());
            for length in [128 << 10, 100_000, 128 << 10] {
                buffers.put_back(buffers.take(length).unwrap());
            }
            assert_eq!(counted.asked(), 1);
            let many = (LONG_KEPT / (128 << 10)) as u32 + 1;
            let all: Vec<_> = (0..many).map(|_| buffers.take(128 << 10).unwrap()).collect();
            all.into_iter().for_each(|owned| buffers.put_back(owned));
            let again: Vec<_> = (0..many).map(|_| buffers.take(128 << 10).unwrap()).collect();
            assert_eq!(counted.asked(), many + 1, "all but one were kept");
            again.into_iter().for_each(|owned| buffers.put_back(owned));
        });
    }
}
