//! The parts of a window, as one member reaches them.

use core::cell::Cell;
use core::ptr::NonNull;
use std::io;

use strait_core::lmt::Direction;
use strait_core::progress::{Cursor, Fault, Sign, Way};
use strait_core::rma::{self, Block, Errands, Shape};

use super::far::{Far, Stretch};
use super::{Window, WindowError};
use crate::cma::Piece;
use crate::liveness;
use crate::{Error, Rank, World};

/// The part of one member.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) rank: Rank,
    /// In a dynamic window how what was last looked up is reached.
    pub(super) reach: Cell<Reach>,
    /// Bytes.
    pub(super) length: usize,
    /// Its bytes are attached to it, and looked up.
    pub(super) is_dynamic: bool,
    /// Bytes of one displacement.
    pub(super) unit: usize,
    /// Its words, if they are mapped here.
    pub(super) block: Option<Block>,
    /// Where the device finds it, in a window that spans nodes.
    pub(super) far: Option<Far>,
    /// What this member has had done there.
    pub(super) errands: Cell<Errands>,
    /// Whether what is done to it may be done after the call: by the device, or by messages.
    pub(super) completes_later: bool,
    /// Whether an access epoch was started whose post has not been seen, or whose lock is not had.
    pub(super) awaited: Cell<bool>,
}

/// How a part is reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    /// It is mapped here: it lies in the segment, or is this rank's own.
    Mapped(NonNull<u8>),
    /// By the kernel, at an address of its owner's.
    Process(u64),
    /// By the device, at an address of its owner's: that is on another node.
    Device(u64),
    /// By messages to its owner, in that place of the group; at an address, but for a multiple of the page.
    Messages { place: u32, address: u64 },
}

impl Reach {
    /// What lies `bytes` further on, in the same memory.
    pub(super) fn after(self, bytes: usize) -> Self {
        match self {
            // SAFETY: within the memory, or one past its end.
            Self::Mapped(base) => Self::Mapped(unsafe { base.add(bytes) }),
            Self::Process(address) => Self::Process(address.wrapping_add(bytes as u64)),
            Self::Device(address) => Self::Device(address.wrapping_add(bytes as u64)),
            Self::Messages { place, address } => {
                Self::Messages { place, address: address.wrapping_add(bytes as u64) }
            }
        }
    }
}

impl Part {
    /// Whether all that is done to it, and all that is said to its owner, goes by messages.
    pub(super) const fn goes_by_messages(&self) -> bool {
        matches!(self.reach.get(), Reach::Messages { .. })
    }
}

impl Window<'_> {
    /// The target's part, and where in it an operation begins that reaches `extent` bytes.
    #[inline(always)]
    pub(super) fn locate(
        &self,
        target: u32,
        displacement: usize,
        extent: usize,
    ) -> Result<(&Part, usize), Error> {
        let part = self.part(target)?;
        if part.awaited.get() {
            self.await_access(target)?;
        }
        let offset = displacement.checked_mul(part.unit);
        let end = offset.and_then(|offset| offset.checked_add(extent));
        match (offset, end) {
            (Some(offset), Some(end)) if end <= part.length => Ok((part, offset)),
            _ if part.is_dynamic => self.locate_attached(part, target, displacement, extent),
            _ => Err(beyond(part, target, displacement, extent)),
        }
    }

    /// As [`Window::locate`], for the runs of a shape, for which the origin has `origin` bytes.
    pub(super) fn locate_shape(
        &self,
        target: u32,
        displacement: usize,
        shape: &Shape<'_>,
        origin: usize,
    ) -> Result<(&Part, usize), Error> {
        let Some((bytes, extent)) = shape.extent() else {
            return Err(beyond(self.part(target)?, target, displacement, usize::MAX));
        };
        if bytes != origin {
            return Err(WindowError::Lengths { origin, other: bytes }.into());
        }
        self.locate(target, displacement, extent)
    }

    #[inline(always)]
    pub(super) fn part(&self, target: u32) -> Result<&Part, WindowError> {
        let members = self.parts.len() as u32;
        self.parts.get(target as usize).ok_or(WindowError::Target { target, members })
    }

    /// Copies between one contiguous buffer of the origin's and as many bytes of a part.
    ///
    /// # Safety
    ///
    /// The bytes at `offset` lie in the part; `origin` is valid for the reads or writes of this direction.
    #[inline(always)]
    pub(super) unsafe fn copy(
        &self,
        part: &Part,
        offset: usize,
        direction: Direction,
        origin: NonNull<u8>,
        length: usize,
    ) -> Result<(), Error> {
        match part.reach.get() {
            Reach::Mapped(base) => {
                // SAFETY: by the contract; parts are valid as long as the window, which has not been freed.
                unsafe { copy_mapped(base, offset, direction, origin, length) };
                Ok(())
            }
            Reach::Process(address) => {
                let remote = address.wrapping_add(offset as u64);
                // SAFETY: by the contract.
                unsafe {
                    self.carry(part.rank, direction, [Piece { local: origin, remote, length }])
                }
            }
            Reach::Device(_) => {
                // SAFETY: by the contract.
                unsafe { self.copy_by_device(part, direction, [(origin, offset, length)]) }
            }
            Reach::Messages { place, .. } => {
                // SAFETY: by the contract.
                unsafe { self.copy_by_messages(place, direction, [(origin, offset, length)]) }
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Window::copy_far`].
    #[inline(never)]
    unsafe fn copy_by_device(
        &self,
        part: &Part,
        direction: Direction,
        pieces: impl IntoIterator<Item = Stretch>,
    ) -> Result<(), Error> {
        let far = part.far.as_ref().ok_or(WindowError::OtherNode { rank: part.rank })?;
        let way = match direction {
            Direction::Read => Way::Read,
            Direction::Write => Way::Write,
        };
        // SAFETY: by the contract.
        unsafe { self.copy_far(far, way, pieces) }
    }

    /// # Safety
    ///
    /// As for [`Window::copy_far`].
    #[inline(never)]
    unsafe fn copy_by_messages(
        &self,
        place: u32,
        direction: Direction,
        pieces: impl IntoIterator<Item = Stretch>,
    ) -> Result<(), Error> {
        // SAFETY: by the contract.
        unsafe {
            match direction {
                Direction::Write => self.put_records(place, pieces),
                Direction::Read => self.get_records(place, pieces),
            }
        }
    }

    /// As [`Window::copy`], between a buffer of several parts and the runs of a shape at `offset`.
    ///
    /// # Safety
    ///
    /// The shape's runs at `offset` lie in the part, and are as long together as what `origin` has left, which is valid for the
    /// reads or writes of this direction.
    pub(super) unsafe fn copy_shape(
        &self,
        part: &Part,
        offset: usize,
        direction: Direction,
        origin: Cursor,
        shape: &Shape<'_>,
    ) -> Result<(), Error> {
        let (mut pieces, mut far) = (Vec::new(), Vec::new());
        shape.pieces(origin, |local, within, length| match part.reach.get() {
            Reach::Mapped(base) => {
                // SAFETY: by the contract.
                unsafe { copy_mapped(base, offset + within, direction, local, length) };
                Ok::<_, Error>(())
            }
            Reach::Process(address) => {
                let remote = address.wrapping_add((offset + within) as u64);
                pieces.push(Piece { local, remote, length });
                Ok(())
            }
            Reach::Device(_) | Reach::Messages { .. } => {
                far.push((local, offset + within, length));
                Ok(())
            }
        })?;
        if let Reach::Messages { place, .. } = part.reach.get() {
            // SAFETY: by the contract.
            return unsafe { self.copy_by_messages(place, direction, far) };
        }
        if let Some(there) = part.far.as_ref().filter(|_| self.are_packed(&far)) {
            // SAFETY: by the contract.
            unsafe { self.copy_by_messages(there.place, direction, far) }?;
            return self.press(there.place);
        }
        if !far.is_empty() {
            // SAFETY: by the contract.
            return unsafe { self.copy_by_device(part, direction, far) };
        }
        if pieces.is_empty() {
            return Ok(());
        }
        // SAFETY: by the contract.
        unsafe { self.carry(part.rank, direction, pieces) }
    }

    /// Has the kernel copy.
    ///
    /// # Safety
    ///
    /// As for [`crate::cma::Cma::copy`].
    unsafe fn carry(
        &self,
        rank: Rank,
        direction: Direction,
        pieces: impl IntoIterator<Item = Piece>,
    ) -> Result<(), Error> {
        let segment = self.world.segment();
        // SAFETY: by the contract.
        let copied = unsafe { self.world.turn().cma().copy(&segment, rank, direction, pieces) };
        copied.map_err(|error| self.refusal(rank, &error))
    }

    #[cold]
    fn refusal(&self, rank: Rank, error: &io::Error) -> Error {
        let errno = error.raw_os_error().unwrap_or(0);
        if liveness::is_ending(&self.world.segment().rank_block(rank).liveness, errno) {
            Fault::PeerFailed { rank, sign: Sign::Ended }.into()
        } else {
            WindowError::Refused { rank, errno }.into()
        }
    }
}

/// # Safety
///
/// As for [`Window::copy`], of a part that is mapped at `base`.
#[inline(always)]
unsafe fn copy_mapped(
    base: NonNull<u8>,
    offset: usize,
    direction: Direction,
    origin: NonNull<u8>,
    length: usize,
) {
    // SAFETY: by the contract. The origin's buffer is no part of the window: it is borrowed, and parts are never.
    unsafe {
        let place = base.add(offset);
        match direction {
            Direction::Write => rma::transfer(origin, place, length),
            Direction::Read => rma::transfer(place, origin, length),
        }
    }
}

#[cold]
fn beyond(part: &Part, target: u32, displacement: usize, extent: usize) -> Error {
    let (unit, part) = (part.unit, part.length);
    WindowError::Bounds { target, displacement, unit, extent, part }.into()
}

/// The first part whose owner's private memory this rank cannot reach.
pub(super) fn first_barred(world: &World, parts: &[Part]) -> Option<Rank> {
    let segment = world.segment();
    let is_barred = |part: &&Part| {
        matches!(part.reach.get(), Reach::Process(_))
            && !world.turn().cma().reaches(&segment, part.rank)
    };
    parts.iter().find(is_barred).map(|part| part.rank)
}
