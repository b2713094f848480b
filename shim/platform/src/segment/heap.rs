//! The allocator of one rank's heap, and the memory behind the heap.
//!
//! The list of free ranges is private to the rank; the segment holds only the bytes. An allocation
//! is first backed by memory, in whole pages. A freed allocation gives its memory back to the
//! system.
//!
//! An allocation of [`HUGE_PAGE`] bytes or more takes whole huge pages. The kernel is asked to make
//! them huge, which it may refuse.

use core::ops::Range;
use core::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use range_alloc::RangeAllocator;
use strait_core::layout::{HUGE_PAGE, PAGE};

use super::{SegmentError, SegmentMap};

/// The heap of one rank.
#[derive(Debug)]
pub struct Heap {
    map: Arc<SegmentMap>,
    book: Mutex<Book>,
}

/// The allocator's state. Ranges are in bytes from the segment's start.
#[derive(Debug)]
struct Book {
    /// The free ranges.
    free: RangeAllocator<usize>,
    /// Ranges that were freed and not reported since; `None` when no report is wanted.
    given_back: Option<Vec<Range<usize>>>,
}

/// Number of freed ranges that may wait for their report. Beyond it, the whole heap is reported as
/// one range.
const REPORTS: usize = 64;

impl Heap {
    /// Creates the heap of `rank`, with nothing allocated.
    pub fn new(map: Arc<SegmentMap>, rank: u32) -> Self {
        let (start, length) = map.view().plan().heap_range(rank);
        let free = RangeAllocator::new(start..start + length);
        Self { map, book: Mutex::new(Book { free, given_back: None }) }
    }

    /// Allocates `bytes` bytes, which is not zero, and backs them with memory: zeroed, and aligned
    /// to a page.
    ///
    /// # Errors
    ///
    /// [`SegmentError::HeapFull`] when the heap has no room, [`SegmentError::NoHeapMemory`] when
    /// there is no memory.
    pub fn take(&self, bytes: usize) -> Result<Range<usize>, SegmentError> {
        let unit = if bytes < HUGE_PAGE { PAGE } else { HUGE_PAGE };
        let taken = {
            let free = &mut self.book().free;
            let heap = free.initial_range().len();
            let length = bytes.checked_next_multiple_of(unit).filter(|length| *length <= heap);
            let taken = length.and_then(|length| free.allocate_range_aligned(length, unit).ok());
            taken.ok_or_else(|| SegmentError::HeapFull {
                need: bytes as u64,
                free: free.total_available() as u64,
                heap: heap as u64,
            })?
        };
        self.map.back_heap(&taken).inspect_err(|_| self.give_back(taken.clone()))?;
        Ok(taken)
    }

    /// Frees a range that [`Heap::take`] returned. The caller no longer uses it.
    pub fn give_back(&self, taken: Range<usize>) {
        self.map.unback_heap(&taken);
        let Book { free, given_back } = &mut *self.book();
        if let Some(reports) = given_back {
            if reports.len() == REPORTS {
                reports.clear();
                reports.push(free.initial_range().clone());
            }
            reports.push(taken.clone());
        }
        free.free_range(taken);
    }

    /// Makes [`Heap::next_given_back`] report the ranges that are freed from now on.
    pub fn report(&self) {
        self.book().given_back.get_or_insert_default();
    }

    /// Returns the next address range behind which the memory has changed, or `None`.
    pub fn next_given_back(&self) -> Option<Range<usize>> {
        let given_back = self.book().given_back.as_mut()?.pop()?;
        Some(self.addresses_of(&given_back))
    }

    /// Returns the addresses of the whole heap.
    pub fn addresses(&self) -> Range<usize> {
        let whole = self.book().free.initial_range().clone();
        self.addresses_of(&whole)
    }

    fn addresses_of(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.place(range).addr().get();
        start..start + range.len()
    }

    /// Returns the address of the first byte of an allocation.
    pub fn place(&self, taken: &Range<usize>) -> NonNull<u8> {
        self.map.place(taken.start)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Each critical section leaves the allocator's state consistent, so a poisoned lock is
        // usable.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use strait_core::layout::SegmentConfig;

    use super::super::available;
    use super::*;

    fn heap(heap_bytes: usize) -> Heap {
        let config = SegmentConfig {
            cells_per_rank: 2,
            heap_bytes: heap_bytes as u64,
            ..SegmentConfig::new(2)
        };
        Heap::new(Arc::new(SegmentMap::create(config, 0x5eed).unwrap()), 1)
    }

    /// Checks the formula of `docs/layout.md` against the kernel's count.
    #[test]
    fn what_is_taken_is_backed_and_what_is_given_back_is_not() {
        let heap = heap(64 * HUGE_PAGE);
        let plan = *heap.map.view().plan();
        let allocated = || heap.map.backed_bytes() - plan.bytes_with_active_pairs(0);
        let small = heap.take(5000).unwrap();
        assert_eq!((small.len(), allocated()), (2 * PAGE, 2 * PAGE));
        let large = heap.take(HUGE_PAGE + 1).unwrap();
        assert_eq!((large.len(), allocated()), (2 * HUGE_PAGE, 2 * PAGE + 2 * HUGE_PAGE));
        assert!(heap.place(&large).addr().get().is_multiple_of(HUGE_PAGE));
        let (start, length) = plan.heap_range(1);
        assert!(start <= small.start && small.end <= large.start && large.end <= start + length);
        heap.give_back(small);
        heap.give_back(large);
        assert_eq!(allocated(), 0);
    }

    #[test]
    fn memory_that_is_taken_again_is_zero_again() {
        let heap = heap(4 * PAGE);
        for _ in 0..3 {
            let taken = heap.take(4 * PAGE).unwrap();
            let memory = NonNull::slice_from_raw_parts(heap.place(&taken), taken.len());
            // SAFETY: the memory was allocated by this test, and no other reference to it exists.
            let memory: &mut [u8] = unsafe { &mut *memory.as_ptr() };
            assert!(memory.iter().all(|byte| *byte == 0));
            memory.fill(7);
            heap.give_back(taken);
        }
    }

    #[test]
    fn a_full_heap_reports_its_free_bytes() {
        let heap = heap(4 * HUGE_PAGE);
        let parts = [(); 3].map(|()| heap.take(HUGE_PAGE).unwrap());
        let error = heap.take(2 * HUGE_PAGE).unwrap_err();
        let text = "no room for 4 MiB in this rank's heap of 8 MiB, of which 2 MiB are free: \
                    allocate less, or start the job with larger heaps (strait run --heap-bytes)";
        assert_eq!(error.to_string(), text);
        assert!(heap.take(usize::MAX).is_err());
        parts.into_iter().for_each(|part| heap.give_back(part));
        assert_eq!(heap.take(4 * HUGE_PAGE).unwrap().len(), 4 * HUGE_PAGE);
    }

    #[test]
    fn more_than_the_machine_has_is_an_error_before_it_is_touched() {
        // Twice the available memory; not more, because the thread sanitizer has few addresses to
        // give.
        let available = available::bytes().expect("the system says what memory it has");
        let too_much = (2 * available as usize).next_multiple_of(HUGE_PAGE);
        let heap = heap(too_much);
        let error = heap.take(too_much).unwrap_err();
        assert!(matches!(error, SegmentError::NoHeapMemory { .. }), "{error:?}");
        assert!(error.to_string().contains("MiB available"), "{error}");
        // The room in the heap is still free.
        assert!(heap.take(1).is_ok());
    }
}
