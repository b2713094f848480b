//! Copies between memory of the origin and a part.

use core::ptr::NonNull;
use std::io;

use strait_core::buffer::{Cursor, Direction};
use strait_core::engine::{FailureCause, Fault};
use strait_core::rma::{self, Shape};
use strait_platform::Rank;
use strait_platform::cma::Piece;
use strait_platform::liveness;

use super::Window;
use super::part::{PartAccess, Stretch, WindowPart};
use crate::{Error, WindowError};

impl Window<'_> {
    /// Returns the target's part, and the byte offset of an operation that covers `extent` bytes.
    #[inline(always)]
    pub(super) fn locate(
        &self,
        target: u32,
        displacement: usize,
        extent: usize,
    ) -> Result<(&WindowPart, usize), Error> {
        let part = self.part(target)?;
        if part.awaited.get() {
            self.await_access(target)?;
        }
        match part.offset_of(displacement, extent) {
            Some(offset) => Ok((part, offset)),
            None if part.is_dynamic => self.locate_attached(part, target, displacement, extent),
            None => Err(out_of_bounds(part, target, displacement, extent)),
        }
    }

    /// Returns the part and the offset of an operation on the runs of a shape. The origin has
    /// `origin` bytes for it.
    pub(super) fn locate_shape(
        &self,
        target: u32,
        displacement: usize,
        shape: &Shape<'_>,
        origin: usize,
    ) -> Result<(&WindowPart, usize), Error> {
        let Some((bytes, extent)) = shape.extent() else {
            return Err(out_of_bounds(self.part(target)?, target, displacement, usize::MAX));
        };
        if bytes != origin {
            return Err(WindowError::Lengths { origin, other: bytes }.into());
        }
        self.locate(target, displacement, extent)
    }

    #[inline(always)]
    pub(super) fn part(&self, target: u32) -> Result<&WindowPart, WindowError> {
        let members = self.parts.len() as u32;
        self.parts.get(target as usize).ok_or(WindowError::Target { target, members })
    }

    /// Copies between one contiguous buffer of the origin and as many bytes of a part.
    ///
    /// # Safety
    ///
    /// The bytes at `offset` lie in the part; `origin` is valid for the reads or writes of this
    /// direction.
    #[inline(always)]
    pub(super) unsafe fn copy(
        &self,
        part: &WindowPart,
        offset: usize,
        direction: Direction,
        origin: NonNull<u8>,
        length: usize,
    ) -> Result<(), Error> {
        match part.reach.get() {
            PartAccess::Mapped(base) => {
                // SAFETY: the caller guarantees both sides (contract of `copy`). Parts are valid as
                // long as the window, which has not been freed.
                unsafe { copy_mapped(base, offset, direction, origin, length) };
                Ok(())
            }
            PartAccess::Process(address) => {
                let remote = address.wrapping_add(offset as u64);
                // SAFETY: the caller guarantees both sides (contract of `copy`).
                unsafe {
                    self.carry(part.rank, direction, [Piece { local: origin, remote, length }])
                }
            }
            PartAccess::Device(_) => {
                // SAFETY: the caller guarantees both sides (contract of `copy`).
                unsafe { self.copy_by_device(part, direction, [(origin, offset, length)]) }
            }
            PartAccess::Messages { place, .. } => {
                // SAFETY: the caller guarantees both sides (contract of `copy`).
                unsafe { self.copy_by_messages(place, direction, [(origin, offset, length)]) }
            }
            PartAccess::Attachments(_) => {
                // SAFETY: the caller guarantees both sides (contract of `copy`).
                unsafe { self.copy_run(part, direction, (origin, offset, length)) }
            }
        }
    }

    /// # Safety
    ///
    /// The caller meets the contract of [`Window::copy_remote`].
    #[inline(never)]
    unsafe fn copy_by_device(
        &self,
        part: &WindowPart,
        direction: Direction,
        pieces: impl IntoIterator<Item = Stretch>,
    ) -> Result<(), Error> {
        let remote = part.remote.as_ref().ok_or(WindowError::OtherNode { rank: part.rank })?;
        // SAFETY: the caller guarantees both sides of each piece (contract of `copy_remote`).
        unsafe { self.copy_remote(remote, direction, pieces) }
    }

    /// # Safety
    ///
    /// The caller meets the contract of [`Window::copy_remote`].
    #[inline(never)]
    unsafe fn copy_by_messages(
        &self,
        place: u32,
        direction: Direction,
        pieces: impl IntoIterator<Item = Stretch>,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees both sides of each piece (contract of `copy_remote`).
        unsafe {
            match direction {
                Direction::Write => self.put_records(place, pieces),
                Direction::Read => self.get_records(place, pieces),
            }
        }
    }

    /// Copies between a buffer of several parts and the runs of a shape at `offset`.
    ///
    /// # Safety
    ///
    /// The shape's runs at `offset` lie in the part. They are as long together as the rest of
    /// `origin`, which is valid for the reads or writes of this direction.
    pub(super) unsafe fn copy_shape(
        &self,
        part: &WindowPart,
        offset: usize,
        direction: Direction,
        origin: Cursor,
        shape: &Shape<'_>,
    ) -> Result<(), Error> {
        let (mut pieces, mut pieces_elsewhere) = (Vec::new(), Vec::new());
        shape.pieces(origin, |local, within, length| match part.reach.get() {
            PartAccess::Mapped(base) => {
                // SAFETY: the caller guarantees that runs and origin are valid (contract of
                // `copy_shape`).
                unsafe { copy_mapped(base, offset + within, direction, local, length) };
                Ok::<_, Error>(())
            }
            PartAccess::Process(address) => {
                let remote = address.wrapping_add((offset + within) as u64);
                pieces.push(Piece { local, remote, length });
                Ok(())
            }
            PartAccess::Device(_) | PartAccess::Messages { .. } => {
                pieces_elsewhere.push((local, offset + within, length));
                Ok(())
            }
            PartAccess::Attachments(_) => {
                // SAFETY: the caller guarantees that runs and origin are valid (contract of
                // `copy_shape`).
                unsafe { self.copy_run(part, direction, (local, offset + within, length)) }
            }
        })?;
        if let PartAccess::Attachments(_) = part.reach.get() {
            return Ok(());
        }
        if let PartAccess::Messages { place, .. } = part.reach.get() {
            // SAFETY: the caller guarantees that runs and origin are valid (contract of
            // `copy_shape`).
            return unsafe { self.copy_by_messages(place, direction, pieces_elsewhere) };
        }
        if let Some(there) = part.remote.as_ref().filter(|_| self.are_packed(&pieces_elsewhere)) {
            // SAFETY: the caller guarantees that runs and origin are valid (contract of
            // `copy_shape`).
            unsafe { self.copy_by_messages(there.place, direction, pieces_elsewhere) }?;
            return self.press(there.place);
        }
        if !pieces_elsewhere.is_empty() {
            // SAFETY: the caller guarantees that runs and origin are valid (contract of
            // `copy_shape`).
            return unsafe { self.copy_by_device(part, direction, pieces_elsewhere) };
        }
        if pieces.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller guarantees that runs and origin are valid (contract of `copy_shape`).
        unsafe { self.carry(part.rank, direction, pieces) }
    }

    /// Copies through the kernel.
    ///
    /// # Safety
    ///
    /// The caller meets the contract of [`strait_platform::cma::Cma::copy`].
    unsafe fn carry(
        &self,
        rank: Rank,
        direction: Direction,
        pieces: impl IntoIterator<Item = Piece>,
    ) -> Result<(), Error> {
        let segment = self.world.segment();
        // SAFETY: the caller guarantees the contract of `Cma::copy`.
        let copied =
            unsafe { self.world.lock_progress().cma().copy(&segment, rank, direction, pieces) };
        copied.map_err(|error| self.refusal(rank, &error))
    }

    #[cold]
    fn refusal(&self, rank: Rank, error: &io::Error) -> Error {
        let errno = error.raw_os_error().unwrap_or(0);
        if liveness::is_ending(&self.world.segment().rank_block(rank).liveness, errno) {
            Fault::PeerFailed { rank, sign: FailureCause::Ended }.into()
        } else {
            WindowError::Refused { rank, errno }.into()
        }
    }
}

/// # Safety
///
/// The caller meets the contract of [`Window::copy`], for a part that is mapped at `base`.
#[inline(always)]
unsafe fn copy_mapped(
    base: NonNull<u8>,
    offset: usize,
    direction: Direction,
    origin: NonNull<u8>,
    length: usize,
) {
    // SAFETY: the caller guarantees both sides (contract of `Window::copy`). The origin's buffer
    // does not overlap the part: the buffer is borrowed, and parts never are.
    unsafe {
        let place = base.add(offset);
        match direction {
            Direction::Write => rma::transfer(origin, place, length),
            Direction::Read => rma::transfer(place, origin, length),
        }
    }
}

#[cold]
fn out_of_bounds(part: &WindowPart, target: u32, displacement: usize, extent: usize) -> Error {
    let (unit, part) = (part.unit, part.length);
    WindowError::Bounds { target, displacement, unit, extent, part }.into()
}
