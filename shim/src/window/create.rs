//! Making a window together, and giving it back together.
//!
//! Every member says in a *card* what it has made of its part, and all of them read all cards. So either everybody has the
//! window or nobody has, and everybody knows.

use core::any::Any;
use core::cell::{Cell, RefCell};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::layout::{Corrupt, Segment};
use strait_core::reduce::Op;
use strait_core::rma::Block;
use strait_core::sync::CACHE_LINE;

use super::epoch::Epochs;
use super::part::{Part, Reach};
use super::{AtomicityDomain, FLUSHES_PER_POLL, Window, WindowError};
use crate::{Endpoint, Error, Group, Rank, SharedMemory, World};

/// What a member gives to a window.
#[derive(Debug)]
pub(super) struct Own {
    /// Where its part begins.
    base: NonNull<u8>,
    /// Its block in the segment.
    _block: SharedMemory<u8>,
    /// What its part lies in, and with a shared window that of all others; `None`: the embedder keeps it.
    _memory: Option<Box<dyn Any>>,
}

/// Where a member's part is to lie.
#[derive(Debug)]
struct Offer {
    base: NonNull<u8>,
    length: usize,
    keeper: Option<Box<dyn Any>>,
}

/// Memory that a window may be made over: vectors and boxed slices, and slices in the segment, which peers reach fastest.
pub trait Exposable: sealed::Expose {}

mod sealed {
    use core::any::Any;
    use core::ptr::NonNull;

    pub trait Expose {
        /// Where the memory lies, its bytes, and what to drop when nobody reaches it any more.
        fn expose(self) -> (NonNull<u8>, usize, Box<dyn Any>);
    }
}

/// A vector that nobody reaches by its own name.
struct Exposed<T> {
    start: NonNull<T>,
    length: usize,
    capacity: usize,
}

impl<T> Drop for Exposed<T> {
    fn drop(&mut self) {
        // SAFETY: taken from a vector in `expose`, and given back once.
        drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.length, self.capacity) });
    }
}

impl<T: AnyBitPattern + NoUninit> Exposable for Vec<T> {}

impl<T: AnyBitPattern + NoUninit> sealed::Expose for Vec<T> {
    fn expose(self) -> (NonNull<u8>, usize, Box<dyn Any>) {
        let mut vector = ManuallyDrop::new(self);
        let (length, capacity) = (vector.len(), vector.capacity());
        let start = NonNull::from(&mut vector[..]).cast::<T>();
        (start.cast(), length * size_of::<T>(), Box::new(Exposed { start, length, capacity }))
    }
}

impl<T: AnyBitPattern + NoUninit> Exposable for Box<[T]> {}

impl<T: AnyBitPattern + NoUninit> sealed::Expose for Box<[T]> {
    fn expose(self) -> (NonNull<u8>, usize, Box<dyn Any>) {
        self.into_vec().expose()
    }
}

impl<T: AnyBitPattern + NoUninit> Exposable for SharedMemory<T> {}

impl<T: AnyBitPattern + NoUninit> sealed::Expose for SharedMemory<T> {
    fn expose(self) -> (NonNull<u8>, usize, Box<dyn Any>) {
        (self.start().cast(), size_of_val(&*self), Box::new(self))
    }
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
    /// [`WindowError::OtherNode`] at all; [`Error::Fault`] when a member died or left.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.2, `MPI_WIN_ALLOCATE`.
    pub fn allocate_window(&self, bytes: usize, unit: usize) -> Result<Window<'world>, Error> {
        self.make(unit, |world| allocated(world, bytes))
    }

    /// A window whose parts follow each other in the segment, in the order of the members and without gaps, so that
    /// [`super::Local`] reaches all of them. Otherwise as [`Group::allocate_window`]; the member in place 0 has the room for all.
    ///
    /// # Errors
    ///
    /// As [`Group::allocate_window`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.3, `MPI_WIN_ALLOCATE_SHARED`.
    pub fn shared_window(&self, bytes: usize, unit: usize) -> Result<Window<'world>, Error> {
        let mut lengths = vec![0_u64; self.ranks().len()];
        lengths[self.place() as usize] = bytes as u64;
        self.allreduce(&mut lengths, Op::BitOr)?;
        let total = lengths.iter().try_fold(0_u64, |sum, length| sum.checked_add(*length));
        let mut window = self.make(unit, |world| {
            let all = if self.place() == 0 { total.unwrap_or(u64::MAX) } else { 0 };
            allocated(world, usize::try_from(all).unwrap_or(usize::MAX))
        })?;
        let start = window.parts[0].reach;
        let mut before = 0;
        for (part, length) in window.parts.iter_mut().zip(lengths) {
            part.length = length as usize;
            part.reach = start.after(before);
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
        let (base, length, keeper) = memory.expose();
        self.make(unit, |_| Ok(Offer { base, length, keeper: Some(keeper) }))
    }

    /// As [`Group::create_window`], over memory that stays the caller's: what a C interface needs.
    ///
    /// # Errors
    ///
    /// As [`Group::create_window`].
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
    ) -> Result<Window<'world>, Error> {
        self.make(unit, |_| Ok(Offer { base, length, keeper: None }))
    }

    /// Makes a window of the part that `offer` gives.
    fn make(
        &self,
        unit: usize,
        offer: impl FnOnce(&World) -> Result<Offer, Error>,
    ) -> Result<Window<'world>, Error> {
        let world = self.world();
        let elsewhere = |rank: &&Rank| world.node_of(**rank) != Some(world.node());
        if let Some(&rank) = self.ranks().iter().find(elsewhere) {
            return Err(WindowError::OtherNode { rank }.into());
        }
        let members = self.ranks().len() as u32;
        let made = prepare(world, members, unit, offer);
        let cards = self.exchange(made.as_ref().map_or(Card::FAILED, |(_, card)| *card));
        let (own, _) = made?;
        let cards = cards?;
        // From here on a peer may have a window of it, even if this member never hears of that.
        let own = ManuallyDrop::new(own);
        let part = |(card, &rank): (&Card, _)| card.part(self, rank, own.base);
        let parts: Result<Box<[Part]>, Error> = cards.iter().zip(self.ranks()).map(part).collect();
        let barred = parts.as_ref().ok().and_then(|parts| first_barred(world, parts));
        // All hear of the highest, and so of the same.
        let mut worst = [match (&parts, barred) {
            (Err(_), _) => u64::from(world.rank() + 1) << 32,
            (Ok(_), Some(target)) => u64::from(world.rank() + 1) << 32 | u64::from(target + 1),
            (Ok(_), None) => 0,
        }];
        self.allreduce(&mut worst, Op::Max)?;
        let parts = parts?;
        if let Some(rank) = ((worst[0] >> 32) as u32).checked_sub(1) {
            // Nobody has a window, so nobody reaches what was given.
            drop(ManuallyDrop::into_inner(own));
            let target = (worst[0] as u32).checked_sub(1);
            let barred = target.map(|target| WindowError::Barred { rank, target });
            return Err(barred.unwrap_or(WindowError::Member { rank }).into());
        }
        let is_mapped = |card: &Card| card.kind == MAPPED;
        let domain = match cards.iter().all(is_mapped) {
            true => AtomicityDomain::Processor,
            false => AtomicityDomain::Locks,
        };
        let (epochs, until_poll) =
            (RefCell::new(Epochs::new(members)), Cell::new(FLUSHES_PER_POLL));
        Ok(Window { world, group: self.again(), parts, domain, epochs, until_poll, own })
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
        self.group.barrier()?;
        let Self { own, .. } = self;
        drop(ManuallyDrop::into_inner(own));
        Ok(())
    }
}

fn allocated(world: &World, bytes: usize) -> Result<Offer, Error> {
    let memory = world.alloc::<u8>(bytes)?;
    Ok(Offer { base: memory.start(), length: bytes, keeper: Some(Box::new(memory)) })
}

/// This member's part and block, and the card that tells of them.
fn prepare(
    world: &World,
    members: u32,
    unit: usize,
    offer: impl FnOnce(&World) -> Result<Offer, Error>,
) -> Result<(Own, Card), Error> {
    if unit == 0 {
        return Err(WindowError::Unit.into());
    }
    let Offer { base, length, keeper } = offer(world)?;
    let block = world.alloc::<u8>(Block::bytes(members))?;
    let segment = world.segment();
    let own = |address, length| segment.heap_offset(world.rank(), address, length);
    let (kind, place) = match own(base, length) {
        Some(offset) => (MAPPED, offset),
        None if length == 0 => (MAPPED, 0),
        None => (PRIVATE, base.addr().get() as u64),
    };
    let block_place = own(block.start(), Block::bytes(members)).unwrap_or(u64::MAX);
    let card = Card { kind, place, length: length as u64, unit: unit as u64, block: block_place };
    Ok((Own { base, _block: block, _memory: keeper }, card))
}

/// The first part whose owner's private memory this rank cannot reach.
fn first_barred(world: &World, parts: &[Part]) -> Option<Rank> {
    let segment = world.segment();
    let is_barred = |part: &&Part| {
        matches!(part.reach, Reach::Process(_)) && !world.turn().cma().reaches(&segment, part.rank)
    };
    parts.iter().find(is_barred).map(|part| part.rank)
}

const FAILED: u64 = 1;
const MAPPED: u64 = 2;
const PRIVATE: u64 = 3;

/// What a member says of its part.
#[derive(Clone, Copy, Debug)]
struct Card {
    kind: u64,
    /// Distance from the start of its heap; or an address in its memory.
    place: u64,
    length: u64,
    unit: u64,
    /// Its block, as a distance from the start of its heap.
    block: u64,
}

impl Card {
    const WORDS: usize = 5;

    const FAILED: Self = Self { kind: FAILED, place: 0, length: 0, unit: 0, block: 0 };

    const fn words(self) -> [u64; Self::WORDS] {
        [self.kind, self.place, self.length, self.unit, self.block]
    }

    const fn of([kind, place, length, unit, block]: [u64; Self::WORDS]) -> Self {
        Self { kind, place, length, unit, block }
    }

    /// The part of `rank`, as this process reaches it; this rank's own begins at `own`.
    fn part(&self, group: &Group<'_>, rank: Rank, own: NonNull<u8>) -> Result<Part, Error> {
        let world = group.world();
        let segment: Segment = world.segment();
        let count = |found| usize::try_from(found).map_err(|_| self.corrupt(found));
        let (length, unit) = (count(self.length)?, count(self.unit)?);
        let reach = match self.kind {
            MAPPED => Reach::Mapped(segment.heap_place(rank, self.place, length)?),
            PRIVATE if rank == world.rank() => Reach::Mapped(own),
            PRIVATE => Reach::Process(self.place),
            found => return Err(Corrupt::Place { found: found as u32 }.into()),
        };
        let members = group.ranks().len() as u32;
        let block = segment.heap_place(rank, self.block, Block::bytes(members))?;
        if !block.addr().get().is_multiple_of(CACHE_LINE) {
            return Err(self.corrupt(self.block).into());
        }
        // SAFETY: in a mapped heap, by `heap_place`, and aligned; its owner allocated it zeroed, for this, and keeps it.
        let block = unsafe { Block::new(block, members) };
        Ok(Part { rank, reach, length, unit, block, awaited: Cell::new(false) })
    }

    const fn corrupt(&self, found: u64) -> Corrupt {
        Corrupt::Heap { found, length: self.length, heap: 0 }
    }
}
