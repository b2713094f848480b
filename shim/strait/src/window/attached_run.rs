//! Accesses that span several attachments of a dynamic window, without a gap between them.
//!
//! Each attachment has an address, a key and locks of its own. So such an access is cut where one
//! attachment ends, and each piece goes the way of an access to one attachment. Accumulates that
//! name the same number then take the same lock, whatever else they access.
//!
//! A number of an accumulate that lies in two attachments is refused, because it would be under two
//! locks.

use core::ops::Range;

use strait_core::buffer::Direction;
use strait_core::reduce::Op;
use strait_core::rma::{Attachment, AttachmentTag, AttachmentWords, find, find_run};

use super::Window;
use super::part::{RunPiece, Stretch, WindowPart};
use crate::{Error, Number, WindowError};

/// An attachment in a member's table.
pub(super) type FoundAttachment = (Attachment, AttachmentTag);

/// Finds the attachment that contains the `extent` bytes at a displacement. If only several contain
/// them, adds these to `run`.
pub(super) fn find_or_run(
    entries: impl Iterator<Item = (usize, AttachmentWords)> + Clone,
    displacement: u64,
    extent: u64,
    run: &mut Vec<FoundAttachment>,
) -> Option<FoundAttachment> {
    let found = find(entries.clone(), displacement, extent);
    if found.is_none() {
        let each = |attachment, tag| run.push((attachment, tag));
        if !find_run(entries, displacement, extent, each) {
            run.clear();
        }
    }
    found
}

impl Window<'_> {
    /// Returns the pieces of an access to the `extent` bytes from the address `start` on. `run` has
    /// the attachments that contain them.
    pub(super) fn pieces(
        &self,
        part: &WindowPart,
        run: &[FoundAttachment],
        start: u64,
        extent: u64,
    ) -> Result<Vec<RunPiece>, Error> {
        let mut at = start;
        let piece = |&(attachment, tag): &FoundAttachment| {
            let access = self.access(part, attachment, tag)?;
            let from = core::mem::replace(&mut at, attachment.address + attachment.length);
            let bytes = (from - start) as usize..(at - start).min(extent) as usize;
            Ok(RunPiece { access, bytes, offset: (from - attachment.address) as usize })
        };
        run.iter().map(piece).collect()
    }

    /// Calls `act` for each attachment in which some of `bytes` lie, with the offset there of the
    /// first of them, and with them. Meanwhile the part stands for that attachment.
    fn in_each(
        part: &WindowPart,
        bytes: &Range<usize>,
        mut act: impl FnMut(usize, Range<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (run, whole) = (part.run.take(), part.reach.get());
        let acted = run.iter().try_for_each(|piece| {
            let (from, end) = (bytes.start.max(piece.bytes.start), bytes.end.min(piece.bytes.end));
            if from >= end {
                return Ok(());
            }
            piece.access.enter(part);
            act(piece.offset + (from - piece.bytes.start), from..end)
        });
        part.run.replace(run);
        part.reach.set(whole);
        acted
    }

    /// Copies between memory of the origin and several attachments.
    ///
    /// # Safety
    ///
    /// The caller meets the contract of [`Window::copy`].
    #[cold]
    pub(super) unsafe fn copy_run(
        &self,
        part: &WindowPart,
        direction: Direction,
        (origin, offset, length): Stretch,
    ) -> Result<(), Error> {
        Self::in_each(part, &(offset..offset + length), |there, bytes| {
            // SAFETY: the bytes lie in the origin's memory, which is as long as the access.
            let origin = unsafe { origin.add(bytes.start - offset) };
            // SAFETY: the bytes lie in the attachment that the part stands for now, and the caller
            // guarantees the origin's memory (contract of `copy_run`).
            unsafe { self.copy(part, there, direction, origin, bytes.len()) }
        })
    }

    /// Combines consecutive numbers in several attachments.
    #[cold]
    pub(super) fn combine_in_run<T: Number>(
        &self,
        (part, offset): (&WindowPart, usize),
        operands: &[T],
        mut results: Option<&mut [T]>,
        op: Op,
        function: fn(T, T) -> T,
    ) -> Result<(), Error> {
        let all = offset..offset + size_of_val(operands);
        let is_cut = |piece: &RunPiece| {
            let end = piece.bytes.end;
            all.contains(&end) && !(end - all.start).is_multiple_of(size_of::<T>())
        };
        if part.run.borrow().iter().any(is_cut) {
            return Err(WindowError::Alignment { offset, of: T::NAME }.into());
        }
        Self::in_each(part, &all, |there, bytes| {
            let place = |at: usize| (at - all.start) / size_of::<T>();
            let numbers = place(bytes.start)..place(bytes.end);
            let results = results.as_deref_mut().map(|results| &mut results[numbers.clone()]);
            self.combine_run(part, there, &operands[numbers], results, op, function)
        })
    }
}
