//! The entries of a completion queue: those of operations that have ended, until the user reads
//! them.

use core::cell::{Cell, RefCell};
use core::ffi::CStr;
use core::mem::MaybeUninit;
use std::collections::VecDeque;
use std::io::{Cursor, Write as _};

use crate::abi::{
    AnswersArg, CqEntry, CqErrEntry, ERROR_TEXT_MAX, ErrorEntryArg, FiAddr, LengthArg, MemoryArg,
};
use crate::cause::ErrorCause;

/// Size in bytes of an entry in each format, by the number of the format.
const ENTRY_BYTES: [usize; 5] = [8, 8, 24, 40, 48];

/// The entries of a completion queue.
#[derive(Debug)]
pub(crate) struct CompletionEntries {
    entry_bytes: usize,
    /// The address of the next entry in the reader's memory, and the number of entries that still
    /// fit. It is zero while no call reads.
    place: Cell<*mut CqEntry>,
    room: Cell<usize>,
    done: RefCell<VecDeque<(CqEntry, u32)>>,
    failed: RefCell<VecDeque<FailedEntry>>,
    /// Number of entries in both queues.
    kept: Cell<usize>,
    /// The text of the failure that was read last, for users without a buffer for it.
    text: Cell<[u8; ERROR_TEXT_MAX]>,
}

/// The entry of an operation that failed.
#[derive(Debug)]
struct FailedEntry {
    entry: CqEntry,
    /// Bytes of the message that did not fit.
    olen: usize,
    cause: ErrorCause,
}

impl CompletionEntries {
    /// Returns an empty queue, or `None` if there is no such format.
    pub(crate) fn new(format: usize) -> Option<Self> {
        Some(Self {
            entry_bytes: *ENTRY_BYTES.get(format)?,
            place: Cell::new(core::ptr::null_mut()),
            room: Cell::new(0),
            done: RefCell::default(),
            failed: RefCell::default(),
            kept: Cell::new(0),
            text: Cell::new([0; ERROR_TEXT_MAX]),
        })
    }

    /// Adds the entry of an operation that succeeded.
    #[inline(always)]
    pub(crate) fn complete(&self, entry: CqEntry, source: u32) {
        let (place, room) = (self.place.get(), self.room.get());
        if room == 0 {
            return self.keep(entry, source);
        }
        // SAFETY: the user has room for one more entry in the full format (`begin_direct`).
        unsafe { place.write_unaligned(entry) };
        self.place.set(place.wrapping_add(1));
        self.room.set(room - 1);
    }

    #[inline(never)]
    fn keep(&self, entry: CqEntry, source: u32) {
        self.done.borrow_mut().push_back((entry, source));
        self.kept.set(self.kept.get() + 1);
    }

    /// Adds the entry of an operation that failed. `olen`: bytes of the message that did not fit.
    pub(crate) fn fail(&self, entry: CqEntry, olen: usize, cause: ErrorCause) {
        self.failed.borrow_mut().push_back(FailedEntry { entry, olen, cause });
        self.kept.set(self.kept.get() + 1);
    }

    /// Returns whether no entry is queued.
    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.kept.get() == 0
    }

    /// Returns whether the next entry is of an operation that failed.
    pub(crate) fn has_failure(&self) -> bool {
        !self.failed.borrow().is_empty()
    }

    /// Returns whether entries have the full format, in which they can be written directly to the
    /// user's memory.
    #[inline(always)]
    pub(crate) const fn is_full_format(&self) -> bool {
        self.entry_bytes == size_of::<CqEntry>()
    }

    /// From now on entries of the full format go to the user's memory at once, behind the `given`
    /// entries that are there already.
    #[inline(always)]
    pub(crate) fn begin_direct(&self, into: MemoryArg, given: usize, count: LengthArg) {
        self.place.set(into.as_ptr().cast::<CqEntry>().wrapping_add(given));
        self.room.set(count.get() - given);
    }

    /// Ends what [`CompletionEntries::begin_direct`] began with the same numbers. Returns the
    /// number of entries that were written.
    #[inline(always)]
    pub(crate) fn end_direct(&self, given: usize, count: LengthArg) -> usize {
        count.get() - given - self.room.replace(0)
    }

    /// Returns queued entries to the user, oldest first, and their number. `address_of` returns the
    /// address of a source.
    pub(crate) fn give(
        &self,
        into: MemoryArg,
        count: LengthArg,
        sources: AnswersArg<'_, FiAddr>,
        address_of: impl Fn(u32) -> FiAddr,
    ) -> usize {
        let sources = sources.slice(count);
        let mut done = self.done.borrow_mut();
        let mut given = 0;
        while given < count.get()
            && let Some((entry, source)) = done.pop_front()
        {
            // SAFETY: the user has room for `count` entries of the queue's format, and every format
            // is a prefix of the longest.
            unsafe {
                let to = into.as_ptr().cast::<u8>().add(given * self.entry_bytes);
                to.copy_from_nonoverlapping((&raw const entry).cast(), self.entry_bytes);
            }
            if let Some(wanted) = sources.get(given) {
                wanted.set(MaybeUninit::new(address_of(source)));
            }
            given += 1;
        }
        self.kept.set(self.kept.get() - given);
        given
    }

    /// Returns the oldest failure to the user, with the text of its cause. Returns false if there
    /// is none. `has_buffer`: the user's entry may name a buffer for the text.
    pub(crate) fn give_failure(&self, to: ErrorEntryArg<'_>, has_buffer: bool) -> bool {
        let Some(FailedEntry { entry, olen, cause }) = self.failed.borrow_mut().pop_front() else {
            return false;
        };
        self.kept.set(self.kept.get() - 1);
        let mut text = Cursor::new([0; ERROR_TEXT_MAX]);
        // What does not fit is left out; the last byte stays zero.
        let _ = write!(&mut text, "{cause}");
        let mut bytes = text.into_inner();
        bytes[ERROR_TEXT_MAX - 1] = 0;
        self.text.set(bytes);
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        let entry = CqErrEntry {
            entry,
            olen,
            err: cause.errno(),
            prov_errno: cause.provider_number(),
            err_data: self.text.as_ptr().cast(),
            err_data_size: text.count_bytes() + 1,
        };
        to.write(entry, text, has_buffer);
        true
    }
}

#[cfg(test)]
mod tests {
    use strait_core::engine::{FailureCause, Fault};

    use super::*;
    use crate::cause::text_of;

    const ENTRY: CqEntry = CqEntry {
        op_context: core::ptr::null_mut(),
        flags: 1,
        len: 2,
        buf: core::ptr::null_mut(),
        data: 3,
        tag: 4,
    };

    fn text(bytes: &[u8]) -> &str {
        CStr::from_bytes_until_nul(bytes).unwrap().to_str().unwrap()
    }

    #[test]
    fn a_failure_carries_its_cause() {
        let completions = CompletionEntries::new(3).unwrap();
        let fault = Fault::PeerFailed { rank: 5, sign: FailureCause::Nonsense };
        completions.fail(ENTRY, 0, fault.into());
        assert!(completions.has_failure() && !completions.is_empty());
        let place = Cell::new(MaybeUninit::<CqErrEntry>::zeroed());
        assert!(completions.give_failure(ErrorEntryArg::at(&place), true));
        // SAFETY: the call has written it.
        let entry = unsafe { place.get().assume_init() };
        assert_eq!((entry.err, entry.entry.tag), (libc::ECONNRESET, 4));
        assert_ne!(text_of(entry.prov_errno), text_of(0), "the number has a text of its own");
        assert!(text(&completions.text.get()).contains("rank 5"));
        assert_eq!(entry.err_data, completions.text.as_ptr().cast());
        assert!(completions.is_empty());
        assert!(!completions.give_failure(ErrorEntryArg::at(&place), true));
    }

    #[test]
    fn the_text_goes_into_the_buffer_of_the_user_as_far_as_it_fits() {
        let completions = CompletionEntries::new(3).unwrap();
        let fault = Fault::Truncated { source: 1, tag: 2, message: 30, buffer: 20 };
        completions.fail(ENTRY, 10, fault.into());
        let mut buffer = [7_u8; 12];
        let place = Cell::new(MaybeUninit::new(CqErrEntry {
            entry: ENTRY,
            olen: 0,
            err: 0,
            prov_errno: 0,
            err_data: buffer.as_mut_ptr().cast(),
            err_data_size: 10,
        }));
        assert!(completions.give_failure(ErrorEntryArg::at(&place), true));
        // SAFETY: the call has written it.
        let entry = unsafe { place.get().assume_init() };
        assert_eq!((entry.err, entry.olen, entry.err_data_size), (265, 10, 10));
        assert!(buffer.starts_with(b"strait: ") && buffer.ends_with(b"\0\x07\x07"));
    }
}
