//! Making a window together, and giving it back together.
//!
//! Every member says in a *card* what it has made of its part, and all of them read all cards. So either everybody has the
//! window or nobody has, and everybody knows.

use core::any::Any;
use core::cell::{Cell, RefCell};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use strait_core::hca::Address;
use strait_core::progress::Part as Buffer;
use strait_core::reduce::Op;
use strait_core::rma::Block;

use super::attach::Attachments;
use super::beyond::Beyond;
use super::card::{Card, DYNAMIC, FAILED, MAPPED, PRIVATE, Registered, SINGLE};
use super::epoch::Epochs;
use super::expose::Exposable;
use super::part::{Part, first_barred};
use super::passive::Opening;
use super::send_recv::BaselineId;
use super::{
    Accumulates, AtomicityDomain, FLUSHES_PER_POLL, Window, WindowDesign, WindowError,
    WindowOptions,
};
use crate::{Endpoint, Error, Group, Rank, SharedMemory, World, env};

/// What a member gives to a window.
#[derive(Debug)]
pub(super) struct Own {
    /// Where its part begins.
    pub(super) base: NonNull<u8>,
    length: usize,
    /// Its words.
    block_words: Block,
    /// What the device needs, if the window spans nodes.
    pub(super) beyond: Option<Beyond>,
    /// The block in the segment where the words are.
    _block: SharedMemory<u8>,
    /// What it has attached, if the window is dynamic.
    pub(super) attachments: Option<RefCell<Attachments>>,
    /// What its part lies in, and with a shared window that of all others; `None`: the embedder keeps it.
    _memory: Option<Box<dyn Any>>,
}

impl Own {
    /// Connects the lanes, and has the handler work.
    fn connect(
        &mut self,
        group: &Group<'_>,
        cards: &[Card],
        ends: &[(Rank, Address)],
    ) -> Result<(), Error> {
        let part = Buffer { base: self.base, length: self.length };
        let Some(beyond) = &mut self.beyond else { return Ok(()) };
        let world = group.world();
        beyond.connect(world, ends)?;
        // SAFETY: the block is kept until all is given back.
        unsafe { beyond.open_handler(world, group.place(), self.block_words, cards) }?;
        if self.attachments.is_none() {
            // SAFETY: parts are reached through raw pointers alone, and this one is kept until all is given back.
            unsafe { beyond.add_ground(world, 0, part) };
        }
        Ok(())
    }

    /// Nobody reaches it any more.
    fn give_back(self, world: &World) {
        let Self { beyond, attachments, .. } = self;
        attachments.into_iter().for_each(|all| all.into_inner().give_back(world));
        beyond.into_iter().for_each(|beyond| beyond.give_back(world));
    }
}

/// Where a member's part is to lie.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) base: NonNull<u8>,
    pub(super) length: usize,
    pub(super) keeper: Option<Box<dyn Any>>,
}

impl<'world> Endpoint<'world> {
    /// A window of all ranks, over memory that each of them allocates: see [`Group::allocate_window`].
    ///
    /// # Errors
    ///
    /// As [`Group::allocate_window`].
    pub fn allocate_window(&self, bytes: usize, unit: usize) -> Result<Window<'world>, Error> {
        self.group_of_all()?.allocate_window(bytes, unit)
    }

    /// A window of all ranks, over consecutive memory: see [`Group::shared_window`].
    ///
    /// # Errors
    ///
    /// As [`Group::shared_window`].
    pub fn shared_window(&self, bytes: usize, unit: usize) -> Result<Window<'world>, Error> {
        self.group_of_all()?.shared_window(bytes, unit)
    }

    /// A window of all ranks, over memory that they have: see [`Group::create_window`].
    ///
    /// # Errors
    ///
    /// As [`Group::create_window`].
    pub fn create_window(
        &self,
        memory: impl Exposable,
        unit: usize,
    ) -> Result<Window<'world>, Error> {
        self.group_of_all()?.create_window(memory, unit)
    }

    fn group_of_all(&self) -> Result<Group<'world>, Error> {
        let all: Vec<Rank> = (0..self.world().size()).collect();
        Ok(self.group(&all)?)
    }
}

impl<'world> Group<'world> {
    /// A window whose parts lie in the segment, `bytes` bytes for this member, zeroed and aligned to a page. Every member calls
    /// it, each with its own numbers; `unit` is the number of bytes that a displacement in this member's part counts.
    ///
    /// # Errors
    ///
    /// [`Error::Segment`] when there is no room, [`WindowError::Unit`], at this member; [`WindowError::Member`] at all others.
    /// [`WindowError::OtherNode`] where a member is on another node and there is no network; [`Error::Network`] when the device has no
    /// room, at this member; [`Error::Fault`] when a member died or left.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.2, `MPI_WIN_ALLOCATE`.
    pub fn allocate_window(&self, bytes: usize, unit: usize) -> Result<Window<'world>, Error> {
        self.allocate_window_for(bytes, unit, WindowOptions::default())
    }

    /// As [`Group::allocate_window`], with a promise of what accumulates there will be ([`Accumulates`]), a design of its locks
    /// ([`super::LockDesign`]), or both.
    ///
    /// # Errors
    ///
    /// As [`Group::allocate_window`]; [`WindowError::LockDesign`] at all when members ask for different designs.
    pub fn allocate_window_for(
        &self,
        bytes: usize,
        unit: usize,
        options: impl Into<WindowOptions>,
    ) -> Result<Window<'world>, Error> {
        self.make(unit, options.into(), |world| allocated(world, bytes))
    }

    /// A window whose parts follow each other in the segment, in the order of the members and without gaps, so that
    /// [`super::Local`] reaches all of them. Otherwise as [`Group::allocate_window`]; the member in place 0 has the room for all.
    ///
    /// # Errors
    ///
    /// As [`Group::allocate_window`]; [`WindowError::OtherNode`] when the members are not all on one node.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.3, `MPI_WIN_ALLOCATE_SHARED`.
    pub fn shared_window(&self, bytes: usize, unit: usize) -> Result<Window<'world>, Error> {
        self.shared_window_for(bytes, unit, WindowOptions::default())
    }

    /// As [`Group::shared_window`], with options as for [`Group::allocate_window_for`].
    ///
    /// # Errors
    ///
    /// As [`Group::shared_window`] and [`Group::allocate_window_for`].
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

    /// A window over memory that this member has. Where it is a [`SharedMemory`] of this world's peers reach it as they do
    /// allocated parts; otherwise the kernel copies for them. The window keeps it; [`super::Local`] reads it.
    ///
    /// # Errors
    ///
    /// As [`Group::allocate_window`]; [`WindowError::Barred`] at all when a member may not reach another's private memory.
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

    /// As [`Group::create_window`], with options as for [`Group::allocate_window_for`].
    ///
    /// # Errors
    ///
    /// As [`Group::create_window`] and [`Group::allocate_window_for`].
    pub fn create_window_for(
        &self,
        memory: impl Exposable,
        unit: usize,
        options: impl Into<WindowOptions>,
    ) -> Result<Window<'world>, Error> {
        let (base, length, keeper) = memory.expose();
        self.make(unit, options.into(), |_| Ok(Offer { base, length, keeper: Some(keeper) }))
    }

    /// As [`Group::create_window_for`], over memory that stays the caller's: what a C interface needs.
    ///
    /// # Errors
    ///
    /// As [`Group::create_window_for`].
    ///
    /// # Safety
    ///
    /// The `length` bytes at `base` are valid for reads and writes until [`Window::free`] has succeeded, or this process ends;
    /// until then this program reaches them through raw pointers alone, and not while a peer may.
    pub unsafe fn create_window_over(
        &self,
        base: NonNull<u8>,
        length: usize,
        unit: usize,
        options: impl Into<WindowOptions>,
    ) -> Result<Window<'world>, Error> {
        self.make(unit, options.into(), |_| Ok(Offer { base, length, keeper: None }))
    }

    /// Makes a window of the part that `offer` gives.
    fn make(
        &self,
        unit: usize,
        options: WindowOptions,
        offer: impl FnOnce(&World) -> Result<Offer, Error>,
    ) -> Result<Window<'world>, Error> {
        self.make_of(MAPPED, unit, options, offer)
    }

    /// As [`Group::make`], of a kind; [`MAPPED`]: as it lies.
    pub(super) fn make_of(
        &self,
        kind: u64,
        unit: usize,
        options: WindowOptions,
        offer: impl FnOnce(&World) -> Result<Offer, Error>,
    ) -> Result<Window<'world>, Error> {
        let world = self.world();
        let design = options.design();
        let by_messages = matches!(design, Ok(WindowDesign::SendRecv));
        let spans = self.first_elsewhere().is_some() && !by_messages;
        let made = prepare(self, kind, (spans, design), unit, options, offer);
        let cards = self.exchange(made.as_ref().map_or_else(|_| Card::failed(), |made| made.card));
        let Prepared { own, card: _, addresses, opening, baseline } = made?;
        // Nobody has a window before all have agreed, so until then what was given comes back.
        let cards = cards.and_then(|cards| {
            let wrong = BaselineId::disagreement(&cards, self.ranks());
            match wrong.or_else(|| Opening::disagreement(&cards, self.ranks())) {
                Some(error) => Err(error.into()),
                None => Ok(cards),
            }
        });
        let addresses = match cards.as_ref().map(|_| spans) {
            Ok(true) => self.exchange_addresses(&addresses),
            _ => Ok(Vec::new()),
        };
        let (cards, addresses) = match (cards, addresses) {
            (Ok(cards), Ok(addresses)) => (cards, addresses),
            (Err(error), _) | (_, Err(error)) => {
                own.give_back(world);
                return Err(error);
            }
        };
        // From here on a peer may have a window of it, even if this member never hears of that.
        let mut own = ManuallyDrop::new(own);
        let connected = own.connect(self, &cards, &addresses);
        // The lock manager is there before anybody has the window.
        let parts = connected.and_then(|()| self.parts(&cards, &own)).and_then(|parts| {
            let theirs = baseline.map(|_| BaselineId::of_members(&cards)).transpose()?;
            let passive = opening.open(self, &cards, &parts, &own.block_words, spans)?;
            Ok((parts, passive, theirs))
        });
        if let Err(error) = self.agree(parts.as_ref().ok().map(|(parts, ..)| &**parts)) {
            // Nobody has a window, so nobody reaches what was given; but who does not hear of that may have one.
            if matches!(error, Error::Window(_)) {
                opening.close(world);
                ManuallyDrop::into_inner(own).give_back(world);
            }
            return Err(parts.err().unwrap_or(error));
        }
        let part = Buffer { base: own.base, length: own.length };
        let handled = !by_messages && !Opening::have_atomics(&cards);
        let promise = |card: &Card| card.accumulates == SINGLE;
        let domain = match cards.iter().all(|card| card.kind == MAPPED) {
            _ if spans && !handled && cards.iter().all(promise) => AtomicityDomain::Device,
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

    /// The first member on another node than this one's.
    fn first_elsewhere(&self) -> Option<Rank> {
        let world = self.world();
        let mut ranks = self.ranks().iter().copied();
        ranks.find(|rank| world.node_of(*rank) != Some(world.node()))
    }

    /// All parts, as this member reaches them.
    fn parts(&self, cards: &[Card], own: &Own) -> Result<Box<[Part]>, Error> {
        let members = cards.iter().zip(self.ranks()).enumerate();
        members.map(|(place, (card, &rank))| card.part(self, place, rank, own)).collect()
    }

    /// Whether every member has its parts and reaches them. All hear of the highest who has not, and so of the same.
    fn agree(&self, parts: Option<&[Part]>) -> Result<(), Error> {
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

    /// Every member's card, once all have one.
    fn exchange(&self, card: Card) -> Result<Vec<Card>, Error> {
        let mut words = vec![0_u64; self.ranks().len() * Card::WORDS];
        let (cards, _) = words.as_chunks_mut::<{ Card::WORDS }>();
        cards[self.place() as usize] = card.words();
        self.allreduce(&mut words, Op::BitOr)?;
        let (cards, _) = words.as_chunks::<{ Card::WORDS }>();
        let cards: Vec<_> = cards.iter().map(|words| Card::of(*words)).collect();
        let failed = cards.iter().position(|card| card.kind == FAILED);
        match failed {
            Some(place) if card.kind != FAILED => {
                Err(WindowError::Member { rank: self.ranks()[place] }.into())
            }
            _ => Ok(cards),
        }
    }
}

impl Window<'_> {
    /// Gives the window back, when all members have called this: their operations are done, and nobody reaches its memory any
    /// more.
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] when a member died or left. Others may then still be reaching this rank's memory, so that is kept
    /// until the process ends.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.5, `MPI_WIN_FREE`.
    pub fn free(self) -> Result<(), Error> {
        self.flush_all()?;
        self.group.barrier()?;
        self.close_desk()?;
        self.close_baseline()?;
        let Self { world, own, .. } = self;
        ManuallyDrop::into_inner(own).give_back(world);
        Ok(())
    }
}

fn allocated(world: &World, bytes: usize) -> Result<Offer, Error> {
    let memory = world.alloc::<u8>(bytes)?;
    Ok(Offer { base: memory.start(), length: bytes, keeper: Some(Box::new(memory)) })
}

/// What a member has made before it meets the others.
struct Prepared {
    own: Own,
    card: Card,
    /// Of its lanes, for each member.
    addresses: Vec<Address>,
    opening: Opening,
    /// If it goes by messages.
    baseline: Option<BaselineId>,
}

/// This member's part and block, and the card that tells of them.
fn prepare(
    group: &Group<'_>,
    kind: u64,
    (spans, design): (bool, Result<WindowDesign, Error>),
    unit: usize,
    options: WindowOptions,
    offer: impl FnOnce(&World) -> Result<Offer, Error>,
) -> Result<Prepared, Error> {
    if unit == 0 {
        return Err(WindowError::Unit.into());
    }
    let (world, members) = (group.world(), group.ranks().len() as u32);
    let design = design?;
    let by_messages = design == WindowDesign::SendRecv;
    let opening = Opening::new(world, options, spans, by_messages)?;
    let baseline = (spans || by_messages).then(|| BaselineId::next(world));
    let [lock, desk] = opening.words();
    let Offer { base, length, keeper } = offer(world)?;
    let bytes = Block::bytes(members);
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
        let (beyond, addresses) = Beyond::open(world, group.ranks(), part, words)?;
        (Some(beyond), addresses)
    } else {
        (None, Vec::new())
    };
    let registered = beyond.as_ref().map_or_else(Registered::default, Beyond::registered);
    let (part, length, unit) = (length, length as u64, unit as u64);
    let accumulates = if options.accumulates == Accumulates::Single { SINGLE } else { 0 };
    let card = Card {
        kind,
        place,
        length,
        unit,
        block: block_place,
        accumulates,
        beyond: registered,
        lock,
        desk,
        baseline: BaselineId::word(baseline, design),
    };
    // SAFETY: allocated zeroed and aligned to a page just now, for this, and kept as long.
    let block_words = unsafe { Block::new(block.start(), members) };
    opening.preset(&block_words.locks(), members, spans);
    let attachments = (kind == DYNAMIC).then(RefCell::default);
    let (_block, _memory) = (block, keeper);
    let own = Own { base, length: part, block_words, beyond, attachments, _block, _memory };
    Ok(Prepared { own, card, addresses, opening, baseline })
}
