//! A rank of a universe, for whoever answers for buffers himself: another MPI's transport.
//!
//! What [`crate::Endpoint`] and [`crate::Scope`] promise by borrows is here a contract of unsafe functions, operations are numbers,
//! and a caller that waits does so in its own loop.

use core::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;

use strait_core::hca::{Access, Region};
use strait_core::layout::Life;
use strait_core::lmt::Direction;
use strait_core::matching::Pattern;
use strait_core::progress::{
    Begun, Bypass, Channel, Cursor, Direct, Gone, Mark, Outcome, Owner, Part, Received, RequestId,
    SendMode, Sent, StartError, Status, Want,
};
use strait_core::rndv::Rendezvous;
use strait_core::wire::Key;

mod regions;

pub use crate::boot::Contact;
use crate::boot::{self, BootError, Universe};
use crate::cma::Piece;
use crate::hca::Choice;
use crate::network::{self, Door, Others};
use crate::nodes::Nodes;
use crate::world::World;
use crate::{Error, NetworkError, Rank, env, liveness, topology};
use regions::Regions;
pub(crate) use regions::TABLE_BYTES;
pub use regions::{REGIONS_MAX, RegionError, RegionKey};

/// Of all operations of a port.
const OWNER: Owner = Owner::UNSCOPED;

/// A rank of a universe. One thread at a time uses it. Dropping it leaves the universe as [`Port::close`] does.
#[derive(Debug)]
pub struct Port {
    world: World,
    contact: Contact,
    regions: Regions,
    /// Processors that this process may use.
    cpus: usize,
    /// Until there is a network.
    lobby: RefCell<Option<Others>>,
    looks: Cell<u32>,
}

/// Polls between two looks at the door, where nobody elsewhere is known.
const LOOKS: u32 = 64;

impl Universe {
    /// Claims a rank of this universe for the caller.
    ///
    /// # Errors
    ///
    /// [`Error::Boot`] when there is no room or no memory; [`Error::Environment`] when a `STRAIT_*` variable is unusable.
    pub fn port(&self) -> Result<Port, Error> {
        // A software device reaches no other host.
        self.port_with(matches!(env::hca()?, Some(Choice::Verbs(_))))
    }

    /// As [`Universe::port`], with a door that is open to other hosts or is not.
    fn port_with(&self, open: bool) -> Result<Port, Error> {
        env::check()?;
        let (tuning, cpus) = (env::tuning()?, env::cpus()?);
        let rank = self.claim()?;
        let map = Arc::clone(self.map());
        let nodes = Nodes::one(map.segment().ranks());
        // Before the world, which lets peers see that the rank is there.
        let regions = Regions::new(Arc::clone(&map), rank).map_err(BootError::Segment)?;
        let mut world = World::alone(map, rank, nodes, cpus, tuning)?;
        // Of those elsewhere nobody would wake it.
        world.set_idle(std::thread::yield_now);
        let own =
            Contact { nonce: self.nonce(), rank, host: boot::host(), address: None, key: [0; 16] };
        let door = Door::open(own, open).map_err(NetworkError::Door)?;
        let contact = door.own();
        let config = network::config(env::ring()?);
        let lobby = Others::strangers(config, door, Arc::clone(self.directory()));
        let lobby = RefCell::new(Some(lobby));
        Ok(Port { world, contact, regions, cpus, lobby, looks: Cell::new(0) })
    }
}

impl Port {
    /// The port's rank in its universe.
    #[inline(always)]
    #[must_use]
    pub const fn rank(&self) -> Rank {
        self.world.rank()
    }

    /// What others have to know of this process.
    #[must_use]
    pub const fn contact(&self) -> Contact {
        self.contact
    }

    /// Whether more processes of the universe are alive on this host than there are processors for them.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        let segment = self.world.segment();
        let living = || {
            let blocks = (0..segment.ranks()).map(|rank| &segment.rank_block(rank).liveness);
            blocks.filter(|liveness| liveness.state() == Life::Alive)
        };
        let count = living().count();
        count > self.cpus
            && count > topology::allowed_together(living().map(|liveness| liveness.process().0))
    }

    /// Whether `rank` has been claimed, by whoever.
    #[must_use]
    pub fn is_claimed(&self, rank: Rank) -> bool {
        liveness::is_born(&self.world.segment(), rank)
    }

    /// Says that `rank`, which [`Universe::number`] gave, may be talked to. To be said before the first operation with it. The connection to one
    /// elsewhere is made with the first message.
    ///
    /// # Errors
    ///
    /// [`Error::Network`]: it is elsewhere, and there is no way out of this universe.
    pub fn meet(&self, rank: Rank) -> Result<(), Error> {
        if self.is_elsewhere(rank) {
            self.enter_network()?;
        }
        self.world.meet(rank)
    }

    /// Connects to `rank` before there is a message for it, if it is elsewhere: for who waits for it, and wants to hear of its end.
    pub fn call(&self, rank: Rank) {
        if self.is_elsewhere(rank) {
            // Who cannot be called is gone, which the next progress says.
            self.world.with_network(|network| network.call(rank));
        }
    }

    /// Whether the process that has this number is of another universe.
    #[inline]
    #[must_use]
    pub const fn is_elsewhere(&self, rank: Rank) -> bool {
        rank >= self.world.size()
    }

    fn enter_network(&self) -> Result<(), Error> {
        let lobby = self.lobby.take();
        lobby.map_or(Ok(()), |others| self.world.enter_network(others))
    }

    /// Lets in who calls from elsewhere, if it is the first.
    fn attend(&self) -> Result<(), Error> {
        self.looks.set(self.looks.get().wrapping_add(1));
        if !self.looks.get().is_multiple_of(LOOKS) {
            return Ok(());
        }
        let mut lobby = self.lobby.borrow_mut();
        let called = lobby.as_mut().is_some_and(|others| others.door.is_called());
        drop(lobby);
        if called { self.enter_network() } else { Ok(()) }
    }

    /// Sends a message of a few bytes if that can be done at once. As [`strait_core::progress::Engine::send_short`].
    #[inline(always)]
    #[must_use]
    pub fn send_short(&self, destination: Rank, key: Key, bytes: &[u8]) -> bool {
        let sent = self.world.short_ways().send_short(destination, key, bytes);
        self.world.wake_after(sent, destination)
    }

    /// Sends a message if that can be done at once. As [`strait_core::progress::Engine::send_medium`].
    #[inline]
    #[must_use]
    pub fn send_medium(&self, destination: Rank, key: Key, bytes: &[u8]) -> bool {
        let sent = self.world.short_ways().send_medium(destination, key, bytes);
        self.world.wake_after(sent, destination)
    }

    /// As [`strait_core::progress::Engine::send_marked`].
    #[must_use]
    pub fn send_marked(&self, destination: Rank, key: Key, bytes: &[u8]) -> Option<Mark> {
        let (mark, sent) = self.world.short_ways().send_marked(destination, key, bytes)?;
        self.world.wake_after(sent, destination).then_some(mark)
    }

    /// As [`strait_core::progress::Engine::is_taken`].
    #[must_use]
    pub fn is_taken(&self, destination: Rank, mark: Mark) -> bool {
        self.world.short_ways().is_taken(destination, mark)
    }

    /// As [`strait_core::progress::Engine::tell_taken`].
    pub fn tell_taken(&self, source: Rank) {
        self.world.short_ways().tell_taken(source);
    }

    /// As [`strait_core::progress::Engine::take_next_short`].
    #[inline(always)]
    pub fn take_next_short(&self, source: Rank, want: Want, buffer: &mut [u8]) -> Bypass {
        self.world.short_ways().take_next_short(source, want, buffer)
    }

    /// As [`strait_core::progress::Engine::take_next_medium`].
    #[inline]
    pub fn take_next_medium(&self, source: Rank, want: Want, buffer: &mut [u8]) -> Bypass {
        self.world.short_ways().take_next_medium(source, want, buffer)
    }

    /// As [`strait_core::progress::Engine::has_next`].
    #[inline(always)]
    #[must_use]
    pub fn has_next(&self, source: Rank) -> bool {
        self.world.short_ways().has_next(source)
    }

    /// As [`strait_core::progress::Engine::serve_context`].
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], [`Error::OutOfMemory`].
    #[inline]
    pub fn serve_context(&self, source: Rank, context: u32) -> Result<bool, Error> {
        Ok(self.world.short_ways().serve_context(source, context)?)
    }

    /// Chooses how large messages of `context` are negotiated.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]: the choice is as it was.
    pub fn choose_rendezvous(&self, context: u32, choice: Rendezvous) -> Result<(), Error> {
        self.world.endpoint().with_context(context).choose_rendezvous(Some(choice))
    }

    /// As [`strait_core::progress::Engine::inbox`].
    #[inline(always)]
    #[must_use]
    pub fn inbox(&self, place: usize) -> Option<Rank> {
        self.world.short_ways().inbox(place)
    }

    /// As [`strait_core::progress::Engine::has_work`].
    #[inline(always)]
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.world.short_ways().has_work()
    }

    /// Begins to send.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing was sent.
    ///
    /// # Safety
    ///
    /// What `data` points to stays valid and unchanged until the send is over: until this returns [`Sent::Done`] or an error, until
    /// [`Port::test`] gives an outcome, or until [`Port::settle`] returns.
    pub unsafe fn isend(
        &self,
        destination: Rank,
        key: Key,
        data: Cursor,
    ) -> Result<Sent, StartError> {
        // SAFETY: by the contract.
        unsafe { self.world.isend(SendMode::Standard, destination, key, data, OWNER) }
    }

    /// Begins to receive.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing was received or posted.
    ///
    /// # Safety
    ///
    /// What `buffer` points to stays valid and is touched by nobody else until the receive is over, as for [`Port::isend`].
    pub unsafe fn irecv(&self, pattern: Pattern, buffer: Cursor) -> Result<Received, StartError> {
        // SAFETY: by the contract.
        unsafe { self.world.irecv(pattern, buffer, OWNER) }
    }

    /// The outcome of an operation, once it is over: its number ends with this answer.
    #[inline]
    #[must_use]
    pub fn test(&self, id: RequestId) -> Option<Outcome> {
        self.world.turn().test(id)
    }

    /// Ends an operation's claim on its buffer without its outcome: a send goes on from a copy, a receive is dropped.
    pub fn settle(&self, id: RequestId) {
        self.world.settle(id);
    }

    /// Describes the oldest message that matches, if one has arrived.
    ///
    /// # Errors
    ///
    /// [`StartError`] for a pattern that no message matches, and for a source that is gone.
    pub fn iprobe(&self, pattern: Pattern) -> Result<Option<Status>, StartError> {
        self.world.turn().iprobe(pattern)
    }

    /// Moves whatever can move, and looks now and then who is gone.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], [`Error::OutOfMemory`].
    pub fn poll(&self) -> Result<(), Error> {
        self.attend()?;
        self.world.poll()
    }

    /// How `rank` went, if it did.
    #[must_use]
    pub fn gone(&self, rank: Rank) -> Option<Gone> {
        self.world.turn().gone(rank)
    }

    /// Says that `bytes` of a message from `source` are kept until somebody receives it. Beyond its share `source` is told to keep
    /// what it sends ([`Port::is_told_to_keep`]).
    pub fn hold(&self, source: Rank, bytes: usize) {
        self.world.turn().hold(source, bytes);
    }

    /// Says that a message of which [`Port::hold`] heard is kept no more.
    pub fn let_go(&self, source: Rank, bytes: usize) {
        self.world.turn().let_go(source, bytes);
    }

    /// Whether `destination` holds as much of ours as it will.
    #[inline]
    #[must_use]
    pub fn is_told_to_keep(&self, destination: Rank) -> bool {
        let engine = self.world.short_ways();
        engine.is_told_to_keep(destination)
            || self.is_elsewhere(destination) && engine.is_told_to_keep_from_afar(destination)
    }

    /// Copies pieces between this process's memory and a region of `peer`, all of them, by the kernel. The pieces' remote sides are
    /// consecutive, from `address` on.
    ///
    /// # Errors
    ///
    /// [`CopyError`]. If the kernel refuses, some of it may have been copied.
    ///
    /// # Safety
    ///
    /// Each piece's own side is valid for the reads or writes of this direction.
    pub unsafe fn copy(
        &self,
        peer: Rank,
        direction: Direction,
        (key, address): (RegionKey, u64),
        pieces: &[Part],
    ) -> Result<(), CopyError> {
        let length = pieces.iter().map(|piece| piece.length).sum();
        let allows = |access: Access| match direction {
            Direction::Read => access.remote_read,
            Direction::Write => access.remote_write,
        };
        let claimed = self.regions.claim(peer, key, (address, length), allows);
        let _claimed = claimed.map_err(CopyError::Region)?;
        let mut remote = address;
        let pieces = pieces.iter().map(|&Part { base, length }| {
            let piece = Piece { local: base, remote, length };
            remote += length as u64;
            piece
        });
        let segment = self.world.segment();
        // SAFETY: by the contract.
        let copied = unsafe { self.world.turn().cma().copy(&segment, peer, direction, pieces) };
        copied.map_err(CopyError::Refused)
    }

    /// Opens memory to peers on this host, under a key that no other open region of this port has.
    ///
    /// # Errors
    ///
    /// [`Error::Boot`]: the table of regions has no room for a further one, or there is no memory for it.
    pub fn open_region(
        &self,
        key: RegionKey,
        access: Access,
        (base, length): (usize, usize),
    ) -> Result<(), Error> {
        let opened = self.regions.open(key, access, (base as u64, length as u64));
        opened.map_err(|error| BootError::Segment(error).into())
    }

    /// Closes a region to peers on this host. Waits until none of them reaches it any more.
    pub fn close_region(&self, key: RegionKey) {
        self.regions.close(key);
    }

    /// Registers memory with the device that reaches processes elsewhere. `None`: there is none, or the system does not let it.
    ///
    /// # Safety
    ///
    /// The memory stays until [`Port::release`], and is nobody else's while a transfer that names it is under way.
    #[must_use]
    pub unsafe fn register(&self, part: Part, access: Access) -> Option<Region> {
        // SAFETY: by the contract.
        self.world.with_network(|network| unsafe { network.register(part, access) }).flatten()
    }

    /// Gives a registration back. No transfer that is under way uses it.
    pub fn release(&self, region: Region) {
        self.world.with_network(|network| network.release(region));
    }

    /// Begins to move bytes between registered memory of this process and of `rank`, which is elsewhere: all, or the first of them. `None`: not now.
    /// A message that is sent when a write is over is behind it.
    ///
    /// # Safety
    ///
    /// The memory is registered here under the key, and valid for the device until [`Port::is_transferred`], or until the peer is [gone](Port::gone).
    #[must_use]
    pub unsafe fn transfer(&self, rank: Rank, direct: &Direct) -> Option<Begun> {
        // SAFETY: by the contract. A link that is broken says so to who reads, and then the peer is gone.
        self.world.with_network(|network| unsafe { network.transfer(rank, direct) })?.ok()?
    }

    /// Whether the transfer `number` with `rank` is over, and so all before it.
    #[must_use]
    pub fn is_transferred(&self, rank: Rank, number: u64) -> bool {
        self.world.with_network(|network| network.is_done(rank, number)).unwrap_or(false)
    }

    /// Whether a write that is over is in the peer's memory. Where it is not, a message behind it comes after it.
    #[must_use]
    pub fn acknowledges(&self) -> bool {
        self.world.with_network(|network| network.acknowledges()).unwrap_or(true)
    }

    /// Leaves the universe: waits until everything that was sent has been handed over, then says so to the peers.
    ///
    /// # Errors
    ///
    /// [`Error`] when what was sent could not be handed over; the universe is left all the same.
    pub fn close(self) -> Result<(), Error> {
        self.world.finalize()
    }
}

/// Why a peer's memory was not copied.
#[derive(Debug)]
pub enum CopyError {
    /// The access does not suit the region.
    Region(RegionError),
    /// The kernel does not do it.
    Refused(io::Error),
}

#[cfg(test)]
mod tests;
