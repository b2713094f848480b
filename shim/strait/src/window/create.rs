//! Collective creation and collective release of windows.
//!
//! Every member publishes a *part descriptor* of its part, and all members read all descriptors. So
//! either all members have the window or none has it, and all of them know which.

use core::cell::{Cell, RefCell};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use strait_core::buffer::Part as Buffer;
use strait_core::hca::Address;
use strait_core::reduce::Op;
use strait_core::rma::WindowBlock;
use strait_platform::Rank;

use super::baseline_id::BaselineId;
use super::epochs::Epochs;
use super::expose::Exposable;
use super::internode::InternodeMemory;
use super::options::{Accumulates, AtomicityDomain, WindowOptions};
use super::own::{Own, PartMemory};
use super::part::WindowPart;
use super::part_descriptor::{
    DYNAMIC, FAILED, MAPPED, MemberRegions, PRIVATE, PartDescriptor, SINGLE,
};
use super::parts::first_barred;
use super::passive::opening::Opening;
use super::{FLUSHES_PER_POLL, Window};
use crate::{Error, Group, WindowDesign, WindowError, World, env};

impl<'world> Group<'world> {
    /// Makes a window with parts in the segment. The part of this member has `bytes` bytes, zeroed
    /// and aligned to a page. A displacement in it counts `unit` bytes. Every member calls this,
    /// each with its own numbers.
    ///
    /// # Errors
    ///
    /// At this member: [`Error::Segment`] when there is no room, [`WindowError::Unit`],
    /// [`Error::Network`] when the device has no room. All other members then get
    /// [`WindowError::Member`]. [`WindowError::OtherNode`] when a member is on another node and
    /// there is no network. [`Error::Fault`] when a member died or left.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.2, `MPI_WIN_ALLOCATE`.
    pub fn allocate_window(&self, bytes: usize, unit: usize) -> Result<Window<'world>, Error> {
        self.allocate_window_for(bytes, unit, WindowOptions::default())
    }

    /// Makes a window as [`Group::allocate_window`] does, with a promise about its accumulates
    /// ([`Accumulates`]), a design of its locks ([`crate::LockDesign`]), or both.
    ///
    /// # Errors
    ///
    /// Fails as [`Group::allocate_window`] does; [`WindowError::LockDesign`] at all members when
    /// they ask for different designs.
    pub fn allocate_window_for(
        &self,
        bytes: usize,
        unit: usize,
        options: impl Into<WindowOptions>,
    ) -> Result<Window<'world>, Error> {
        self.make(unit, options.into(), |world| allocated(world, bytes))
    }

    /// Makes a window with consecutive parts in the segment, in the order of the members and
    /// without gaps. So [`crate::Local`] reaches all of them. The heap of the member in place 0
    /// holds all parts.
    ///
    /// # Errors
    ///
    /// Fails as [`Group::allocate_window`] does; [`WindowError::OtherNode`] when the members are
    /// not all on one node.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.3, `MPI_WIN_ALLOCATE_SHARED`.
    pub fn shared_window(&self, bytes: usize, unit: usize) -> Result<Window<'world>, Error> {
        self.shared_window_for(bytes, unit, WindowOptions::default())
    }

    /// Makes a window as [`Group::shared_window`] does, with the options of
    /// [`Group::allocate_window_for`].
    ///
    /// # Errors
    ///
    /// Fails as [`Group::shared_window`] and [`Group::allocate_window_for`] do.
    pub fn shared_window_for(
        &self,
        bytes: usize,
        unit: usize,
        options: impl Into<WindowOptions>,
    ) -> Result<Window<'world>, Error> {
        if let Some(rank) = self.first_elsewhere() {
            return Err(WindowError::OtherNode { rank }.into());
        }
        let mut lengths = vec![0_u64; self.ranks().len()];
        lengths[self.place() as usize] = bytes as u64;
        self.allreduce(&mut lengths, Op::BitOr)?;
        let total = lengths.iter().try_fold(0_u64, |sum, length| sum.checked_add(*length));
        let mut window = self.make(unit, options.into().by_rdma(), |world| {
            let all = if self.place() == 0 { total.unwrap_or(u64::MAX) } else { 0 };
            allocated(world, usize::try_from(all).unwrap_or(usize::MAX))
        })?;
        let start = window.parts[0].reach.get();
        let mut before = 0;
        for (part, length) in window.parts.iter_mut().zip(lengths) {
            part.length = length as usize;
            part.reach.set(start.after(before));
            before += part.length;
        }
        Ok(window)
    }

    /// Makes a window over memory that this member has. Peers reach a [`SharedMemory`] of this
    /// world as they reach allocated parts. For other memory the kernel copies. The window keeps
    /// the memory; [`crate::Local`] reads it.
    ///
    /// # Errors
    ///
    /// Fails as [`Group::allocate_window`] does; [`WindowError::Barred`] at all members when one
    /// may not reach another's private memory.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.1, `MPI_WIN_CREATE`.
    pub fn create_window(
        &self,
        memory: impl Exposable,
        unit: usize,
    ) -> Result<Window<'world>, Error> {
        self.create_window_for(memory, unit, WindowOptions::default())
    }

    /// Makes a window as [`Group::create_window`] does, with the options of
    /// [`Group::allocate_window_for`].
    ///
    /// # Errors
    ///
    /// Fails as [`Group::create_window`] and [`Group::allocate_window_for`] do.
    pub fn create_window_for(
        &self,
        memory: impl Exposable,
        unit: usize,
        options: impl Into<WindowOptions>,
    ) -> Result<Window<'world>, Error> {
        let (base, length, keeper) = memory.expose();
        self.make(unit, options.into(), |_| Ok(PartMemory { base, length, keeper: Some(keeper) }))
    }

    /// Makes a window over memory that the caller keeps, as a C interface needs it.
    ///
    /// # Errors
    ///
    /// Fails as [`Group::create_window_for`] does.
    ///
    /// # Safety
    ///
    /// The `length` bytes at `base` are valid for reads and writes until [`Window::free`] has
    /// succeeded or this process ends. Until then this program reaches them only through raw
    /// pointers, and not while a peer may.
    pub unsafe fn create_window_over(
        &self,
        base: NonNull<u8>,
        length: usize,
        unit: usize,
        options: impl Into<WindowOptions>,
    ) -> Result<Window<'world>, Error> {
        self.make(unit, options.into(), |_| Ok(PartMemory { base, length, keeper: None }))
    }

    /// Makes a window over the part that `offer` returns.
    fn make(
        &self,
        unit: usize,
        options: WindowOptions,
        offer: impl FnOnce(&World) -> Result<PartMemory, Error>,
    ) -> Result<Window<'world>, Error> {
        self.make_of(MAPPED, unit, options, offer)
    }

    /// Makes a window of a kind; [`MAPPED`] stands for a part wherever it lies.
    pub(super) fn make_of(
        &self,
        kind: u64,
        unit: usize,
        options: WindowOptions,
        offer: impl FnOnce(&World) -> Result<PartMemory, Error>,
    ) -> Result<Window<'world>, Error> {
        let world = self.world();
        let design = options.design();
        let by_messages = matches!(design, Ok(WindowDesign::SendRecv));
        let spans = self.first_elsewhere().is_some() && !by_messages;
        let made = prepare(self, kind, (spans, design), unit, options, offer);
        let descriptors = self.exchange(
            made.as_ref().map_or_else(|_| PartDescriptor::failed(), |made| made.descriptor),
        );
        let Prepared { own, descriptor: _, addresses, opening, baseline } = made?;
        // No member has a window before all have agreed, so until then the resources can be
        // released.
        let descriptors = descriptors.and_then(|descriptors| {
            let wrong = BaselineId::disagreement(&descriptors, self.ranks());
            match wrong.or_else(|| Opening::disagreement(&descriptors, self.ranks())) {
                Some(error) => Err(error.into()),
                None => Ok(descriptors),
            }
        });
        let addresses = match descriptors.as_ref().map(|_| spans) {
            Ok(true) => self.exchange_addresses(&addresses),
            _ => Ok(Vec::new()),
        };
        let (descriptors, addresses) = match (descriptors, addresses) {
            (Ok(descriptors), Ok(addresses)) => (descriptors, addresses),
            (Err(error), _) | (_, Err(error)) => {
                own.give_back(world);
                return Err(error);
            }
        };
        // From here on a peer may have the window, even if this member never learns of that.
        let mut own = ManuallyDrop::new(own);
        let connected = own.connect(self, &descriptors, &addresses);
        // The lock manager exists before any member has the window.
        let parts = connected.and_then(|()| self.parts(&descriptors, &own)).and_then(|parts| {
            let theirs = baseline.map(|_| BaselineId::of_members(&descriptors)).transpose()?;
            let passive = opening.open(self, &descriptors, &parts, &own.block_words, spans)?;
            Ok((parts, passive, theirs))
        });
        if let Err(error) = self.agree(parts.as_ref().ok().map(|(parts, ..)| &**parts)) {
            // No member that learns of this error has the window. A member that does not may still
            // have it.
            if matches!(error, Error::Window(_)) {
                opening.close(world);
                ManuallyDrop::into_inner(own).give_back(world);
            }
            return Err(parts.err().unwrap_or(error));
        }
        let part = Buffer { base: own.base, length: own.length };
        let handled = !by_messages && !PartDescriptor::have_atomics(&descriptors);
        let promise = |descriptor: &PartDescriptor| descriptor.accumulates == SINGLE;
        let domain = match descriptors.iter().all(|descriptor| descriptor.kind == MAPPED) {
            _ if spans && !handled && descriptors.iter().all(promise) => AtomicityDomain::Device,
            _ if by_messages => AtomicityDomain::Processor,
            true if !spans => AtomicityDomain::Processor,
            _ => AtomicityDomain::Locks,
        };
        let (epochs, until_poll) =
            (RefCell::new(Epochs::new(self.ranks().len() as u32)), Cell::new(FLUSHES_PER_POLL));
        let own_up_to = Cell::new(env::accumulate_max()?);
        let (group, block) = (self.again(), own.block_words);
        let (parts, passive, theirs) = parts?;
        if let Some((id, theirs)) = baseline.zip(theirs) {
            id.open(self, theirs, part, block);
        }
        Ok(Window {
            world,
            group,
            parts,
            domain,
            handled,
            block,
            epochs,
            passive,
            until_poll,
            own_up_to,
            design: if by_messages { WindowDesign::SendRecv } else { WindowDesign::Rdma },
            baseline,
            packed_up_to: Cell::new(env::pack_max()?),
            own,
        })
    }

    /// Returns the first member on another node.
    fn first_elsewhere(&self) -> Option<Rank> {
        let world = self.world();
        let mut ranks = self.ranks().iter().copied();
        ranks.find(|rank| world.node_of(*rank) != Some(world.node()))
    }

    /// Returns all parts as this member reaches them.
    fn parts(&self, descriptors: &[PartDescriptor], own: &Own) -> Result<Box<[WindowPart]>, Error> {
        let members = descriptors.iter().zip(self.ranks()).enumerate();
        members
            .map(|(place, (descriptor, &rank))| descriptor.part(self, place, rank, own))
            .collect()
    }

    /// Checks that every member has its parts and reaches them. All members report the same
    /// failure: that of the highest rank.
    fn agree(&self, parts: Option<&[WindowPart]>) -> Result<(), Error> {
        let world = self.world();
        let barred = parts.and_then(|parts| first_barred(world, parts));
        let mut worst = [match (parts, barred) {
            (None, _) => u64::from(world.rank() + 1) << 32,
            (Some(_), Some(target)) => u64::from(world.rank() + 1) << 32 | u64::from(target + 1),
            (Some(_), None) => 0,
        }];
        self.allreduce(&mut worst, Op::Max)?;
        let Some(rank) = ((worst[0] >> 32) as u32).checked_sub(1) else { return Ok(()) };
        let target = (worst[0] as u32).checked_sub(1);
        let barred = target.map(|target| WindowError::Barred { rank, target });
        Err(barred.unwrap_or(WindowError::Member { rank }).into())
    }

    /// Exchanges the part descriptors, once all members have one.
    fn exchange(&self, descriptor: PartDescriptor) -> Result<Vec<PartDescriptor>, Error> {
        let mut words = vec![0_u64; self.ranks().len() * PartDescriptor::WORDS];
        let (descriptors, _) = words.as_chunks_mut::<{ PartDescriptor::WORDS }>();
        descriptors[self.place() as usize] = descriptor.words();
        self.allreduce(&mut words, Op::BitOr)?;
        let (descriptors, _) = words.as_chunks::<{ PartDescriptor::WORDS }>();
        let descriptors: Vec<_> =
            descriptors.iter().map(|words| PartDescriptor::of(*words)).collect();
        let failed = descriptors.iter().position(|descriptor| descriptor.kind == FAILED);
        match failed {
            Some(place) if descriptor.kind != FAILED => {
                Err(WindowError::Member { rank: self.ranks()[place] }.into())
            }
            _ => Ok(descriptors),
        }
    }
}

impl Window<'_> {
    /// Frees the window, when all members have called this. Their operations are then complete, and
    /// no member reaches its memory any more.
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] when a member died or left. Other members may then still reach this rank's
    /// memory, so it is kept until the process ends.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.5, `MPI_WIN_FREE`.
    pub fn free(self) -> Result<(), Error> {
        self.flush_all()?;
        self.group.barrier()?;
        self.close_lock_manager()?;
        self.close_baseline()?;
        let Self { world, own, .. } = self;
        ManuallyDrop::into_inner(own).give_back(world);
        Ok(())
    }
}

fn allocated(world: &World, bytes: usize) -> Result<PartMemory, Error> {
    let memory = world.alloc::<u8>(bytes)?;
    Ok(PartMemory { base: memory.start(), length: bytes, keeper: Some(Box::new(memory)) })
}

/// The preparations of a member before it meets the others.
struct Prepared {
    own: Own,
    descriptor: PartDescriptor,
    /// Addresses of its lanes, one for each member.
    addresses: Vec<Address>,
    opening: Opening,
    /// The number of the window, if it uses messages.
    baseline: Option<BaselineId>,
}

/// Prepares this member's part, its block, and the descriptor of both.
fn prepare(
    group: &Group<'_>,
    kind: u64,
    (spans, design): (bool, Result<WindowDesign, Error>),
    unit: usize,
    options: WindowOptions,
    offer: impl FnOnce(&World) -> Result<PartMemory, Error>,
) -> Result<Prepared, Error> {
    if unit == 0 {
        return Err(WindowError::Unit.into());
    }
    let (world, members) = (group.world(), group.ranks().len() as u32);
    let design = design?;
    let by_messages = design == WindowDesign::SendRecv;
    let opening = Opening::new(world, options, spans, by_messages)?;
    let baseline = (spans || by_messages).then(|| BaselineId::next(world));
    let [lock, lock_manager] = opening.words();
    let PartMemory { base, length, keeper } = offer(world)?;
    let bytes = WindowBlock::bytes(members);
    let block = world.alloc::<u8>(bytes)?;
    let segment = world.segment();
    let own = |address, length| segment.heap_offset(world.rank(), address, length);
    let (kind, place) = match own(base, length) {
        Some(offset) => (kind, offset),
        None if length == 0 => (kind, 0),
        None => (PRIVATE, base.addr().get() as u64),
    };
    let block_place = own(block.start(), bytes).unwrap_or(u64::MAX);
    let (beyond, addresses) = if spans {
        let (part, words) =
            (Buffer { base, length }, Buffer { base: block.start(), length: bytes });
        let (beyond, addresses) = InternodeMemory::open(world, group.ranks(), part, words)?;
        (Some(beyond), addresses)
    } else {
        (None, Vec::new())
    };
    let registered =
        beyond.as_ref().map_or_else(MemberRegions::default, InternodeMemory::registered);
    let (part, length, unit) = (length, length as u64, unit as u64);
    let accumulates = if options.accumulates == Accumulates::Single { SINGLE } else { 0 };
    let descriptor = PartDescriptor {
        kind,
        place,
        length,
        unit,
        block: block_place,
        accumulates,
        internode: registered,
        lock,
        manager: lock_manager,
        baseline: BaselineId::word(baseline, design),
    };
    // SAFETY: the block was just allocated for this use, zeroed and aligned to a page, and lives as
    // long.
    let block_words = unsafe { WindowBlock::new(block.start(), members) };
    opening.preset(&block_words.locks(), members, spans);
    let attachments = (kind == DYNAMIC).then(RefCell::default);
    let (_block, _memory) = (block, keeper);
    let own = Own { base, length: part, block_words, beyond, attachments, _block, _memory };
    Ok(Prepared { own, descriptor, addresses, opening, baseline })
}
