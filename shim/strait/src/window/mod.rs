//! One-sided communication (MPI-4.1 chapter 12, `[OneSided04]` chapter 3).
//!
//! A [`Window`] gives access to memory of each member of a group. The memory of one member is its
//! *part*, and the other members reach it without that member's help. Operations start at once. On
//! one node the origin moves the bytes itself, and the operation is complete when its call returns.
//! Between nodes the device moves the bytes ([`remote`]). The owner of a part need not be inside
//! the library and need not be running.
//!
//! The layer above decides which epochs allow which operations. This module accepts an operation at
//! any time. Synchronisation adds the order in which ranks see each other's operations.

mod accumulate;
mod add;
mod am;
mod attach;
mod attached_run;
pub(crate) mod attachments;
mod baseline_id;
pub(crate) mod builder;
mod combine_remote;
mod copy;
mod create;
mod epoch;
pub(crate) mod epochs;
mod events;
mod exchange;
pub(crate) mod expose;
mod gather;
mod gathered;
mod internode;
pub(crate) mod local;
mod mapped;
pub(crate) mod options;
mod own;
mod part;
mod part_descriptor;
mod parts;
pub(crate) mod passive;
mod put_get;
mod remote;
mod request;
mod send_recv;
mod started;
mod started_transfers;
mod stripes;
mod words;

use core::cell::{Cell, RefCell};
use core::fmt;
use core::mem::ManuallyDrop;

use strait_core::rma::{self, WindowBlock};
use strait_core::sync::{Step, reached};

use crate::error::unless_gone;
use crate::{Error, Group, WindowDesign, WindowError, World};
use baseline_id::BaselineId;
use epochs::Epochs;
use options::AtomicityDomain;
use own::Own;
use part::{PartAccess, WindowPart};
use passive::state::Passive;

/// Number of flushes between two polls of the world. The poll lets a rank that makes no other calls
/// serve its peers and learn of their deaths.
const FLUSHES_PER_POLL: u32 = 64;

/// The operations that [`Window::needs_target`] distinguishes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RmaOperation {
    /// [`Window::put`] and other puts of contiguous bytes.
    Put,
    /// [`Window::get`] and other gets of contiguous bytes.
    Get,
    /// [`Window::put_vectored`] and [`Window::get_vectored`] of many blocks.
    Blocks,
    /// [`Window::accumulate`], [`Window::get_accumulate`] and their vectored forms.
    Accumulate,
    /// [`Window::fetch_and_op`] and [`Window::compare_and_swap`].
    FetchAndOp,
}

/// Memory of each member of a group that all members reach: the analogue of an MPI window (MPI-4.1
/// §12.2).
///
/// A target is a place in the group, counted from 0. A displacement counts in the unit of the
/// target, which the target chose when it made the window.
///
/// A window that is dropped without [`Window::free`] keeps its memory until the process ends,
/// because peers may still reach it. Such a program is wrong, since MPI frees windows collectively,
/// but it ends. In a window by messages, a rank that leaves ([`World::finalize`]) first hands over
/// the operations that it has not flushed. Targets that have left or died discard them. Members
/// that call [`Window::free`] meanwhile get an [`Error::Fault`].
///
/// ```
/// # fn main() -> Result<(), strait::Error> {
/// # let world = strait::World::in_process(1)?.remove(0);
/// let window = strait::Window::builder(world.endpoint()).unit(8).allocate(1024)?;
/// window.put(&[1.5_f64, 2.5], 0, 3)?;
/// window.fence(strait::Assert::NONE)?;
/// let mut found = [0.0_f64; 2];
/// window.get(&mut found, 0, 3)?;
/// assert_eq!(found, [1.5, 2.5]);
/// window.free()
/// # }
/// ```
#[must_use = "a window that is dropped keeps its memory until the process ends: free it"]
pub struct Window<'world> {
    world: &'world World,
    /// The members of the window, which synchronise through it.
    group: Group<'world>,
    parts: Box<[WindowPart]>,
    domain: AtomicityDomain,
    /// True when the window spans nodes and some device has no atomics. The handler of the target
    /// then carries out accumulates from other nodes.
    handled: bool,
    /// The block of this member.
    block: WindowBlock,
    epochs: RefCell<Epochs>,
    /// Whether this member records events. It is fixed when the window is made.
    records_events: bool,
    passive: Passive,
    until_poll: Cell<u32>,
    /// Length in bytes of the longest internode accumulate that this member carries out by itself.
    own_up_to: Cell<usize>,
    design: WindowDesign,
    /// Number of the window among those that use messages, for all operations or for some internode
    /// operations.
    baseline: Option<BaselineId>,
    /// Length in bytes of the longest internode blocks that are packed.
    packed_up_to: Cell<usize>,
    /// Resources of this member, which peers may reach until [`Window::free`].
    own: ManuallyDrop<Own>,
}

impl fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ranks, domain) = (self.group.ranks(), self.domain);
        f.debug_struct("Window").field("ranks", &ranks).field("domain", &domain).finish()
    }
}

impl<'world> Window<'world> {
    /// Returns the members of the window. A target is a place in this group.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// assert_eq!(window.group().ranks(), [0, 1]);
    /// window.free()
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub const fn group(&self) -> &Group<'world> {
        &self.group
    }

    /// Returns the mechanism that makes accumulates atomic. It is fixed when the window is made and
    /// equal for all members.
    ///
    /// ```
    /// # use strait::{Assert, Window, AtomicityDomain};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// assert_eq!(window.atomicity(), AtomicityDomain::Processor);
    /// window.free()
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub const fn atomicity(&self) -> AtomicityDomain {
        self.domain
    }

    /// Returns whether an operation may need the target's processor to complete: the target's calls
    /// of the library, or its progress thread. All operations of a [`WindowDesign::SendRecv`]
    /// window need it. In other windows only these operations on a member on another node need it:
    /// - many blocks that are no longer than the limit of [`Window::pack_up_to`];
    /// - accumulates that are longer than the limit of [`Window::hand_over_above`];
    /// - all atomic operations where a member's device has no atomics, as on iWARP.
    ///
    /// ```
    /// # use strait::{Assert, Window, RmaOperation};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// assert!(!window.needs_target(RmaOperation::Put), "the target may compute meanwhile");
    /// window.free()
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn needs_target(&self, operation: RmaOperation) -> bool {
        match operation {
            _ if self.design == WindowDesign::SendRecv => true,
            RmaOperation::Put | RmaOperation::Get => false,
            RmaOperation::Blocks => self.packs() && self.packed_up_to.get() > 0,
            RmaOperation::FetchAndOp => self.handled,
            RmaOperation::Accumulate => {
                self.handled || (self.uses_active_messages() && self.own_up_to.get() < usize::MAX)
            }
        }
    }

    /// Returns the length in bytes and the displacement unit of the target's part.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// assert_eq!(window.shape_of(1)?, (1024, 8));
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WindowError::Target`] when the target does not exist.
    pub fn shape_of(&self, target: u32) -> Result<(usize, usize), WindowError> {
        let part = self.part(target)?;
        Ok((part.length, part.unit))
    }

    /// Completes this rank's operations at the target. Every later access to the target's part
    /// finds their results.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// window.lock_all(Assert::NONE)?;
    /// window.put(&[1.5], 1 - world.rank(), 0)?;
    /// window.flush(1 - world.rank())?;
    /// // Here the number is in the target's part.
    /// window.unlock_all()?;
    /// window.free()
    /// # }).unwrap();
    /// ```
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
            && self.world.engine().is_plainly_here(part.rank)
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

    /// Waits for operations that may complete after their call: those of the device, and those by
    /// messages.
    fn flush_part(&self, part: &WindowPart) -> Result<(), Error> {
        match part.reach.get() {
            PartAccess::Messages { place, .. } => self.flush_records(place),
            _ => self.flush_remote(part).and_then(|()| self.flush_blocks(part)),
        }
    }

    /// Completes this rank's operations at all targets.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(3, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// window.lock_all(Assert::NONE)?;
    /// for target in 0..3 {
    ///     window.put(&[1.5], target, world.rank() as usize)?;
    /// }
    /// window.flush_all()?;
    /// window.unlock_all()?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::OutOfMemory`] when no progress is possible. The death of a
    /// member is no error.
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

    /// Calls `flush_part` for each target that needs it. The death of a member is no error.
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

    /// Completes this rank's operations locally, so that their buffers may be reused. Every safe
    /// operation is locally complete when its call returns. Those of
    /// [`RawWindow`](crate::raw::RawWindow) may continue until this call.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// let mut bytes = [1_u8; 8];
    /// window.put(&bytes, 0, 0)?;
    /// window.flush_local(0)?;
    /// bytes.fill(2);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WindowError::Target`] when the target does not exist; [`Error::Fault`] when it died before
    /// operations that continue after their call were complete.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.4, `MPI_WIN_FLUSH_LOCAL`.
    #[inline]
    pub fn flush_local(&self, target: u32) -> Result<(), Error> {
        let part = self.part(target)?;
        if part.completes_later {
            return self.complete_started(part);
        }
        Ok(())
    }

    /// Orders this rank's own accesses to its part ([`crate::Local`]) with its operations and those
    /// of other ranks.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// window.local().store(0, 7_u64)?;
    /// window.sync();
    /// let mut found = [0_u64];
    /// window.get(&mut found, 0, 0)?;
    /// assert_eq!(found, [7]);
    /// window.free()
    /// # }).unwrap();
    /// ```
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
        self.give_up_bias();
        self.world.poll()
    }
}
