//! One-sided communication (MPI-4.1 chapter 12, `[OneSided04]` chapter 3).
//!
//! A [`Window`] is memory of each member of a group, its *part*, that the others reach without its help. Operations start at
//! once. On one node the origin moves the bytes itself, and they are done when their call returns. To another node the device
//! does ([`far`]). The part's owner need not be inside the library, nor be running at all.
//!
//! Which epochs allow which operations is the business of the layer above. Here an operation may be called at any time; what
//! synchronisation adds is the order in which ranks see each other's operations.

mod accumulate;
mod attach;
mod beyond;
mod card;
mod combine_far;
mod create;
mod epoch;
mod errand;
mod error;
mod expose;
mod far;
mod local;
mod part;
mod passive;
mod request;
mod send_recv;

use core::cell::{Cell, RefCell};
use core::fmt;
use core::mem::ManuallyDrop;
use std::io::{IoSlice, IoSliceMut};

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::lmt::Direction;
use strait_core::progress::{Cursor, Part as Buffer};
use strait_core::rma::{self, Block, Shape};
use strait_core::sync::{Step, reached};

pub use attach::Attached;
pub use epoch::Assert;
pub use error::WindowError;
pub use expose::Exposable;
pub(crate) use far::failed;
pub use local::Local;
pub(crate) use passive::Desks;
pub use passive::{LockCounters, LockDesign, LockPolicy, WindowOptions};
pub(crate) use send_recv::Baselines;
pub use send_recv::WindowDesign;

use crate::endpoint::{part_of, part_of_mut};
use crate::{Error, Group, World};
use create::Own;
use epoch::Epochs;
use part::{Part, Reach};
use passive::Passive;
use send_recv::BaselineId;

/// Flushes between two looks at everything else, so that a rank that makes no other calls serves its peers, and learns of
/// their deaths.
const FLUSHES_PER_POLL: u32 = 64;

/// What makes the accumulates of a window atomic. All of a window's are so towards each other, whoever makes them, and towards
/// nothing else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AtomicityDomain {
    /// The processor's atomic instructions on the numbers themselves: every part lies in the segment, or its owner alone reaches it
    /// ([`WindowDesign::SendRecv`]). The owner's atomic accesses ([`Local`]) belong to it.
    Processor,
    /// Locks, each for some of a part's bytes: some part is private memory, or the window spans nodes. The owner reaches its
    /// part atomically by accumulates alone. Devices take them where all have atomics, and the processors of the part's node where
    /// one has none.
    Locks,
    /// The atomics of the device on numbers of 8 bytes, and locks for shorter ones: the window spans nodes, and its members
    /// promised [`Accumulates::Single`], with devices that have atomics. Its owner, too, reaches its part atomically by accumulates alone.
    Device,
}

/// What the members promise of a window's accumulates. It counts when all of them promise it, the window spans nodes, and the devices
/// have atomics.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Accumulates {
    /// Nothing.
    #[default]
    Any,
    /// Most are of one number of 8 bytes, as of a counter: each is one atomic of the device, or some. Longer ones go number
    /// by number.
    Single,
}

/// An operation, as [`Window::needs_target`] asks for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// [`Window::put`] and its like.
    Put,
    /// [`Window::get`] and its like.
    Get,
    /// [`Window::put_vectored`] and [`Window::get_vectored`] of many blocks.
    Blocks,
    /// [`Window::accumulate`], [`Window::get_accumulate`] and their like.
    Accumulate,
    /// [`Window::fetch_and_op`] and [`Window::compare_and_swap`].
    FetchAndOp,
}

/// Memory of each member of a group that all of them reach: the analogue of an MPI window (MPI-4.1 §12.2).
///
/// Targets are places in the group, from 0. Displacements count in units of the target's, which it chose when it made the
/// window.
///
/// A window that is dropped and not freed ([`Window::free`]) keeps its memory until the process ends: peers may still reach it.
/// The program is wrong, since MPI frees windows collectively, but it ends. In a window by messages, a rank that leaves
/// ([`World::finalize`]) first hands over the operations that it has not flushed; targets that have left or died discard them.
/// Members that call [`Window::free`] meanwhile get an [`Error::Fault`].
///
/// ```
/// # fn main() -> Result<(), strait::Error> {
/// # let world = strait::World::in_process(1)?.remove(0);
/// let window = world.endpoint().allocate_window(1024, 8)?;
/// window.put(&[1.5_f64, 2.5], 0, 3)?;
/// window.fence(strait::Assert::NONE)?;
/// let mut found = [0.0_f64; 2];
/// window.get(&mut found, 0, 3)?;
/// assert_eq!(found, [1.5, 2.5]);
/// window.free()
/// # }
/// ```
pub struct Window<'world> {
    world: &'world World,
    /// The members, and where they meet.
    group: Group<'world>,
    parts: Box<[Part]>,
    domain: AtomicityDomain,
    /// The window spans nodes, and some device has no atomics: accumulates to another node are its handler's.
    handled: bool,
    /// This member's own.
    block: Block,
    epochs: RefCell<Epochs>,
    passive: Passive,
    until_poll: Cell<u32>,
    /// Bytes of the longest accumulate between nodes that this member carries out by itself.
    own_up_to: Cell<usize>,
    design: WindowDesign,
    /// Its name among those whose operations go by messages: all, or some between nodes.
    baseline: Option<BaselineId>,
    /// Bytes of the longest blocks between nodes that are packed.
    packed_up_to: Cell<usize>,
    /// What this member gave; peers may reach it until [`Window::free`].
    own: ManuallyDrop<Own>,
}

impl fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ranks, domain) = (self.group.ranks(), self.domain);
        f.debug_struct("Window").field("ranks", &ranks).field("domain", &domain).finish()
    }
}

impl<'world> Window<'world> {
    /// The members; a target is a place in it.
    #[must_use]
    pub const fn group(&self) -> &Group<'world> {
        &self.group
    }

    /// What accumulates are atomic by. Fixed when the window is made, the same for all its members.
    #[must_use]
    pub const fn atomicity(&self) -> AtomicityDomain {
        self.domain
    }

    /// Whether an operation may need the target's processor to come to its end: its calls of the library, or its progress thread.
    /// All do by [`WindowDesign::SendRecv`]. Otherwise only some do that are done to a member on another node: many blocks that are
    /// no longer than [`Window::pack_up_to`] says; and what is done atomically, if it is longer than [`Window::hand_over_above`]
    /// says, and whatever it is where a member's device has no atomics, as on iWARP.
    #[must_use]
    pub fn needs_target(&self, operation: Operation) -> bool {
        match operation {
            _ if self.design == WindowDesign::SendRecv => true,
            Operation::Put | Operation::Get => false,
            Operation::Blocks => self.packs() && self.packed_up_to.get() > 0,
            Operation::FetchAndOp => self.handled,
            Operation::Accumulate => {
                self.handled || (self.hands_over() && self.own_up_to.get() < usize::MAX)
            }
        }
    }

    /// Bytes and displacement unit of the target's part.
    ///
    /// # Errors
    ///
    /// [`WindowError::Target`].
    pub fn shape_of(&self, target: u32) -> Result<(usize, usize), WindowError> {
        let part = self.part(target)?;
        Ok((part.length, part.unit))
    }

    /// Writes `data` to the target's part. `data` may be changed again when this returns; to another node, more than 4096 bytes
    /// are there by then, and fewer are by the next synchronisation.
    ///
    /// # Errors
    ///
    /// [`Error::Window`] when the target does not exist, the bytes do not all lie in its part, or the kernel refuses;
    /// [`Error::Fault`] when the target died.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.1, `MPI_PUT`.
    #[inline]
    pub fn put<T: NoUninit>(
        &self,
        data: &[T],
        target: u32,
        displacement: usize,
    ) -> Result<(), Error> {
        let Buffer { base, length } = part_of(bytemuck::must_cast_slice(data));
        let (part, offset) = self.locate(target, displacement, length)?;
        // SAFETY: in the part, by `locate`; `data` is borrowed.
        unsafe { self.copy(part, offset, Direction::Write, base, length) }?;
        reached(Step::WindowPut);
        Ok(())
    }

    /// Reads from the target's part into `buffer`.
    ///
    /// # Errors
    ///
    /// As [`Window::put`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.2, `MPI_GET`.
    #[inline]
    pub fn get<T: NoUninit + AnyBitPattern>(
        &self,
        buffer: &mut [T],
        target: u32,
        displacement: usize,
    ) -> Result<(), Error> {
        let Buffer { base, length } = part_of_mut(bytemuck::must_cast_slice_mut(buffer));
        let (part, offset) = self.locate(target, displacement, length)?;
        // SAFETY: in the part, by `locate`; `buffer` is borrowed, and any bytes are good for it.
        unsafe { self.copy(part, offset, Direction::Read, base, length) }
    }

    /// Writes the concatenation of `data` to the bytes of `shape`, from a displacement on.
    ///
    /// # Errors
    ///
    /// As [`Window::put`]; [`WindowError::Lengths`] when the two have different lengths.
    pub fn put_vectored(
        &self,
        data: &[IoSlice<'_>],
        target: u32,
        displacement: usize,
        shape: Shape<'_>,
    ) -> Result<(), Error> {
        let buffers: Vec<_> = data.iter().map(|part| part_of(part)).collect();
        // SAFETY: `data` is borrowed.
        let origin = unsafe { Cursor::parts(&buffers) };
        let (part, offset) = self.locate_shape(target, displacement, &shape, origin.remaining())?;
        // SAFETY: in the part, and as long, by `locate_shape`.
        unsafe { self.copy_shape(part, offset, Direction::Write, origin, &shape) }
    }

    /// Reads the bytes of `shape`, from a displacement on, into `buffers`, one after the other.
    ///
    /// # Errors
    ///
    /// As [`Window::put_vectored`].
    pub fn get_vectored(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        target: u32,
        displacement: usize,
        shape: Shape<'_>,
    ) -> Result<(), Error> {
        let buffers: Vec<_> = buffers.iter_mut().map(|part| part_of_mut(part)).collect();
        // SAFETY: the buffers are borrowed.
        let origin = unsafe { Cursor::parts(&buffers) };
        let (part, offset) = self.locate_shape(target, displacement, &shape, origin.remaining())?;
        // SAFETY: in the part, and as long, by `locate_shape`.
        unsafe { self.copy_shape(part, offset, Direction::Read, origin, &shape) }
    }

    /// Completes this rank's operations at the target: whoever reaches its part from now on finds what they did.
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] when the target is known to have died.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.4, `MPI_WIN_FLUSH`.
    #[inline]
    pub fn flush(&self, target: u32) -> Result<(), Error> {
        if let Some(part) = self.parts.get(target as usize)
            && !(part.completes_later || part.awaited.get())
            && let Some(less) = self.until_poll.get().checked_sub(1)
            && self.world.is_plainly_here(part.rank)
        {
            self.until_poll.set(less);
            rma::flush();
            reached(Step::WindowFlushing);
            return Ok(());
        }
        self.flush_longer(target)
    }

    #[inline(never)]
    fn flush_longer(&self, target: u32) -> Result<(), Error> {
        let part = self.part(target)?;
        if part.awaited.get() {
            self.await_asked_lock(target)?;
        }
        rma::flush();
        reached(Step::WindowFlushing);
        self.poll_sometimes()?;
        self.flush_part(part)?;
        self.loss_of(target).map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// Waits for what is not done when its call returns: what the device does, and what goes by messages.
    fn flush_part(&self, part: &Part) -> Result<(), Error> {
        match part.reach.get() {
            Reach::Messages { place, .. } => self.flush_records(place),
            _ => self.flush_far(part).and_then(|()| self.flush_blocks(part)),
        }
    }

    /// As [`Window::flush`], for all targets.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], [`Error::OutOfMemory`]: no progress can be made. The death of a member is no error.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.4, `MPI_WIN_FLUSH_ALL`.
    #[inline]
    pub fn flush_all(&self) -> Result<(), Error> {
        rma::flush();
        self.poll_sometimes()?;
        self.flush_parts()
    }

    /// As `flush_part`, for all targets that need it. The death of a member is no error.
    #[inline(always)]
    fn flush_parts(&self) -> Result<(), Error> {
        if self.parts.iter().any(|part| part.completes_later) {
            return self.flush_late_parts();
        }
        Ok(())
    }

    #[inline(never)]
    fn flush_late_parts(&self) -> Result<(), Error> {
        let later = self.parts.iter().filter(|part| part.completes_later);
        later.map(|part| unless_gone(self.flush_part(part))).fold(Ok(()), Result::and)
    }

    /// Completes this rank's operations here: their buffers may be used again. They are complete anyway.
    ///
    /// # Errors
    ///
    /// [`WindowError::Target`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.4, `MPI_WIN_FLUSH_LOCAL`.
    #[inline]
    pub fn flush_local(&self, target: u32) -> Result<(), Error> {
        self.part(target)?;
        Ok(())
    }

    /// Orders this rank's own accesses to its part ([`Local`]) with its operations and those of others.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.4, `MPI_WIN_SYNC`.
    #[inline]
    pub fn sync(&self) {
        rma::flush();
    }

    #[inline(always)]
    fn poll_sometimes(&self) -> Result<(), Error> {
        if let Some(less) = self.until_poll.get().checked_sub(1) {
            self.until_poll.set(less);
            return Ok(());
        }
        self.until_poll.set(FLUSHES_PER_POLL);
        self.world.poll()
    }
}

/// As it was, but that a member is gone is no error: for calls that go on with the others.
fn unless_gone(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.gone_peer().is_some() => Ok(()),
        done => done,
    }
}
