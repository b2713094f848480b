//! Collective creation and collective release of windows.
//!
//! Every member publishes a *part descriptor* of its part, and all members read all descriptors. So
//! either all members have the window or none has it, and all of them know which.

use core::cell::{Cell, RefCell};
use core::mem::ManuallyDrop;

use strait_core::buffer::Part as Buffer;
use strait_core::hca::Address;
use strait_core::reduce::Op;
use strait_core::rma::WindowBlock;
use strait_platform::Rank;

use super::baseline_id::BaselineId;
use super::epochs::Epochs;
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
    /// Makes a window over the part that `offer` returns.
    pub(super) fn make(
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
        let group = match self.for_window() {
            Ok(group) => group,
            Err(error) => {
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
            passive.start_thread(world, baseline.map(|BaselineId(number)| number))?;
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
        let block = own.block_words;
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
            records_events: world.lock_progress().records_events(),
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
    pub(super) fn first_elsewhere(&self) -> Option<Rank> {
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
        let mut words = vec![[0_u64; PartDescriptor::WORDS]; self.ranks().len()];
        self.allgather(&[descriptor.words()], &mut words)?;
        let descriptors: Vec<_> = words.into_iter().map(PartDescriptor::of).collect();
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
    /// ```
    /// use strait::Window;
    ///
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// window.free()?;
    /// # Ok(()) }).unwrap();
    /// ```
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

pub(super) fn allocated(world: &World, bytes: usize) -> Result<PartMemory, Error> {
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
    let is_dynamic = kind == DYNAMIC;
    let bytes =
        if is_dynamic { WindowBlock::dynamic_bytes(members) } else { WindowBlock::bytes(members) };
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
    let block_words = unsafe {
        match is_dynamic {
            true => WindowBlock::dynamic(block.start(), members),
            false => WindowBlock::new(block.start(), members),
        }
    };
    opening.preset(&block_words.locks(), members, spans);
    let attachments = is_dynamic.then(RefCell::default);
    let (_block, _memory) = (block, keeper);
    let own = Own { base, length: part, block_words, beyond, attachments, _block, _memory };
    Ok(Prepared { own, descriptor, addresses, opening, baseline })
}
