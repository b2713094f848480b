//! A rank of a universe, for callers that keep the buffers valid themselves, such as the transport
//! of another MPI.
//!
//! [`crate::Endpoint`] and [`crate::Scope`] ensure the validity of buffers by borrows. Here it is a
//! contract of unsafe functions, operations are numbers, and a caller waits in its own loop.

use core::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;

use strait_core::buffer::{Cursor, Direction, Part};
use strait_core::engine::{
    Begun, Bypass, Channel, Direct, Gone, Mark, Outcome, Owner, Received, RequestId, SendMode,
    Sent, StartError, Status, Want,
};
use strait_core::hca::{Access, Region};
use strait_core::layout::Life;
use strait_core::matching::Pattern;
use strait_core::rndv::Rendezvous;
use strait_core::wire::Key;
use strait_hca::DeviceKind;
use strait_platform::Nodes;
use strait_platform::backoff::POLLS_PER_LISTEN;
use strait_platform::boot::{self, BootError, Universe};
use strait_platform::cma::Piece;
use strait_platform::{Rank, liveness, topology};

mod asking;
mod regions;
mod unexpected;
mod waits;

use crate::network::{self, ConnectionListener, RemotePeers};
pub use crate::world::PortWait;
use crate::world::{PollRecord, World};
use crate::{Error, NetworkError, Warning, env};
use regions::PortRegions;
pub use regions::{REGIONS_MAX, RegionError, RegionKey};
pub use strait_platform::backoff::{Backoff, CallBackoff, Next};
pub use strait_platform::boot::PeerAddress;

/// The owner of all operations of a port.
const OWNER: Owner = Owner::UNSCOPED;

/// A rank of a universe. One thread at a time uses it. Dropping it leaves the universe as
/// [`Port::close`] does.
#[derive(Debug)]
pub struct Port {
    world: World,
    peer_address: PeerAddress,
    regions: PortRegions,
    /// Number of processors that this process may use.
    cpus: usize,
    /// The remote peers, until there is a network.
    pending_peers: RefCell<Option<RemotePeers>>,
    looks: Cell<u32>,
    /// The wait that was recorded last.
    polls: PollRecord,
}

impl Port {
    /// Claims a rank of `universe` for the caller.
    ///
    /// # Errors
    ///
    /// [`Error::Boot`] when the universe has no room or no memory; [`Error::Environment`] when a
    /// `STRAIT_*` variable is unusable.
    pub fn open(universe: &Universe) -> Result<Self, Error> {
        // A software device reaches no other host.
        Self::open_with(
            universe,
            env::hca()?.is_some_and(|choice| choice.kind().far() == DeviceKind::Verbs),
        )
    }

    /// Opens a port like [`Port::open`]. `is_open`: other hosts may connect.
    fn open_with(universe: &Universe, is_open: bool) -> Result<Self, Error> {
        env::check()?;
        let (tuning, cpus) = (env::tuning()?, env::cpus()?);
        let rank = universe.claim()?;
        let map = Arc::clone(universe.map());
        let nodes = Nodes::one(map.ranks());
        // The table exists before the world, which lets peers see that the rank is there.
        let regions = PortRegions::new(Arc::clone(&map), rank).map_err(BootError::Segment)?;
        let mut world = World::alone(map, rank, nodes, cpus, tuning)?;
        // Remote peers would not wake a sleeping rank, so the rank yields.
        world.set_idle(std::thread::yield_now);
        let nonce = universe.nonce();
        let own = PeerAddress { nonce, rank, host: boot::host(), address: None, key: [0; 16] };
        let listener = ConnectionListener::open(own, is_open).map_err(NetworkError::Listener)?;
        let peer_address = listener.own();
        let config = network::config(env::ring()?, env::ring_copy_max()?);
        let peers =
            RemotePeers::of_unknown_peers(config, listener, Arc::clone(universe.directory()));
        let pending_peers = RefCell::new(Some(peers));
        Ok(Self {
            world,
            peer_address,
            regions,
            cpus,
            pending_peers,
            looks: Cell::new(0),
            polls: PollRecord::default(),
        })
    }

    /// Returns the port's rank in its universe.
    #[inline(always)]
    #[must_use]
    pub const fn rank(&self) -> Rank {
        self.world.rank()
    }

    /// Returns the address of this process for its peers.
    #[must_use]
    pub const fn peer_address(&self) -> PeerAddress {
        self.peer_address
    }

    /// Returns whether more processes of the universe are alive on this host than there are
    /// processors for them.
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

    /// Returns whether any process has claimed `rank`.
    #[must_use]
    pub fn is_claimed(&self, rank: Rank) -> bool {
        liveness::is_born(&self.world.segment(), rank)
    }

    /// Allows messages to and from `rank`, which [`Universe::number`] returned. The caller calls
    /// this before its first operation with `rank`. The connection to a process of another universe
    /// is made with the first message.
    ///
    /// # Errors
    ///
    /// [`Error::Network`] when the process is in another universe, and no network reaches it.
    pub fn meet(&self, rank: Rank) -> Result<(), Error> {
        if self.is_elsewhere(rank) {
            self.enter_network()?;
        }
        self.world.meet(rank)
    }

    /// Connects to `rank` before there is a message for it, if it is in another universe, so that a
    /// waiting caller learns of its end.
    pub fn call(&self, rank: Rank) {
        if self.is_elsewhere(rank) {
            // A peer that cannot be called is gone, which the next progress call reports.
            self.world.with_network(|network| network.call(rank));
        }
    }

    /// Returns whether the process with this number is in another universe.
    #[inline]
    #[must_use]
    pub const fn is_elsewhere(&self, rank: Rank) -> bool {
        rank >= self.world.size()
    }

    fn enter_network(&self) -> Result<(), Error> {
        let pending_peers = self.pending_peers.take();
        pending_peers.map_or(Ok(()), |others| self.world.enter_network(others))
    }

    /// Opens the network if a first process of another universe calls.
    fn attend(&self) -> Result<(), Error> {
        self.looks.set(self.looks.get().wrapping_add(1));
        if !self.looks.get().is_multiple_of(POLLS_PER_LISTEN) {
            return Ok(());
        }
        let mut pending_peers = self.pending_peers.borrow_mut();
        let called = pending_peers.as_mut().is_some_and(|others| others.listener.is_called());
        drop(pending_peers);
        if called { self.enter_network() } else { Ok(()) }
    }

    /// Sends a message of a few bytes if that is possible at once, like
    /// [`strait_core::engine::Engine::send_short`]. Returns whether it did.
    #[inline(always)]
    #[must_use]
    pub fn send_short(&self, destination: Rank, key: Key, bytes: &[u8]) -> bool {
        let sent = self.world.engine().send_short(destination, key, bytes);
        self.world.wake_after(sent, destination)
    }

    /// Sends a message if that is possible at once, like
    /// [`strait_core::engine::Engine::send_medium`]. Returns whether it did.
    #[inline]
    #[must_use]
    pub fn send_medium(&self, destination: Rank, key: Key, bytes: &[u8]) -> bool {
        let sent = self.world.engine().send_medium(destination, key, bytes);
        self.world.wake_after(sent, destination)
    }

    /// Sends a message at once and returns its mark, like
    /// [`strait_core::engine::Engine::send_marked`].
    #[must_use]
    pub fn send_marked(&self, destination: Rank, key: Key, bytes: &[u8]) -> Option<Mark> {
        let (mark, sent) = self.world.engine().send_marked(destination, key, bytes)?;
        self.world.wake_after(sent, destination).then_some(mark)
    }

    /// Returns whether `destination` has taken the message of `mark`
    /// ([`strait_core::engine::Engine::is_taken`]).
    #[must_use]
    pub fn is_taken(&self, destination: Rank, mark: Mark) -> bool {
        self.world.engine().is_taken(destination, mark)
    }

    /// Tells `source` that the messages from its fastbox have been taken
    /// ([`strait_core::engine::Engine::tell_taken`]).
    pub fn tell_taken(&self, source: Rank) {
        self.world.engine().tell_taken(source);
    }

    /// Receives the next short message, like [`strait_core::engine::Engine::take_next_short`].
    #[inline(always)]
    pub fn take_next_short(&self, source: Rank, want: Want, buffer: &mut [u8]) -> Bypass {
        self.world.engine().take_next_short(source, want, buffer)
    }

    /// Receives the next message, like [`strait_core::engine::Engine::take_next_medium`].
    #[inline]
    pub fn take_next_medium(&self, source: Rank, want: Want, buffer: &mut [u8]) -> Bypass {
        self.world.engine().take_next_medium(source, want, buffer)
    }

    /// Returns true when the next message from `source` has come by baton or fastbox
    /// ([`strait_core::engine::Engine::has_next`]).
    #[inline(always)]
    #[must_use]
    pub fn has_next(&self, source: Rank) -> bool {
        self.world.engine().has_next(source)
    }

    /// Passes packets of `context` from `source` to their receives
    /// ([`strait_core::engine::Engine::serve_context`]). Returns whether there were any.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::OutOfMemory`].
    #[inline]
    pub fn serve_context(&self, source: Rank, context: u32) -> Result<bool, Error> {
        Ok(self.world.engine().serve_context(source, context)?)
    }

    /// Returns the warnings since the last call of this function, like
    /// [`World::take_warnings`](crate::World::take_warnings).
    #[must_use]
    pub fn take_warnings(&self) -> Vec<Warning> {
        self.world.take_warnings()
    }

    /// Chooses how large messages of `context` are negotiated.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], and then the choice is unchanged.
    pub fn choose_rendezvous(&self, context: u32, choice: Rendezvous) -> Result<(), Error> {
        self.world.endpoint().with_context(context).choose_rendezvous(Some(choice))
    }

    /// Returns the source at `place` in the list of sources to poll, or `None` beyond its end
    /// ([`strait_core::engine::Engine::inbox`]).
    #[inline(always)]
    #[must_use]
    pub fn inbox(&self, place: usize) -> Option<Rank> {
        self.world.engine().inbox(place)
    }

    /// Returns whether progress has work besides batons and fastboxes
    /// ([`strait_core::engine::Engine::has_work`]).
    #[inline(always)]
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.world.engine().has_work()
    }

    /// Starts a send.
    ///
    /// # Errors
    ///
    /// [`StartError`], and then nothing was sent.
    ///
    /// # Safety
    ///
    /// The bytes of `data` stay valid and unchanged until the send is over. It is over when this
    /// returns [`Sent::Done`] or an error, when [`Port::test`] returns an outcome, or when
    /// [`Port::settle`] returns.
    pub unsafe fn isend(
        &self,
        destination: Rank,
        key: Key,
        data: Cursor,
    ) -> Result<Sent, StartError> {
        // SAFETY: the caller guarantees the same (contract of `isend`).
        unsafe { self.world.isend(SendMode::Standard, destination, key, data, OWNER) }
    }

    /// Starts a receive.
    ///
    /// # Errors
    ///
    /// [`StartError`], and then nothing was received or posted.
    ///
    /// # Safety
    ///
    /// The bytes of `buffer` stay valid, and nothing else accesses them, until the receive is over,
    /// which is defined as for [`Port::isend`].
    pub unsafe fn irecv(&self, pattern: Pattern, buffer: Cursor) -> Result<Received, StartError> {
        // SAFETY: the caller guarantees the same (contract of `irecv`).
        unsafe { self.world.irecv(pattern, buffer, OWNER) }
    }

    /// Returns the outcome of an operation once it is over. The number of the operation is invalid
    /// afterwards.
    #[inline]
    #[must_use]
    pub fn test(&self, id: RequestId) -> Option<Outcome> {
        self.world.lock_progress().test(id)
    }

    /// Ends an operation's claim on its buffer without its outcome. A send goes on from a copy, and
    /// a receive is dropped.
    pub fn settle(&self, id: RequestId) {
        self.world.settle(id);
    }

    /// Describes the oldest matching message, if one has arrived.
    ///
    /// # Errors
    ///
    /// [`StartError`] for a pattern that matches no message, and for a source that is gone.
    pub fn iprobe(&self, pattern: Pattern) -> Result<Option<Status>, StartError> {
        self.world.lock_progress().iprobe(pattern)
    }

    /// Moves all data that can move, and checks from time to time which peers are gone.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::OutOfMemory`] when no progress can be made.
    pub fn poll(&self) -> Result<(), Error> {
        self.attend()?;
        self.world.poll()
    }

    /// Returns how `rank` ended, if it is gone.
    #[must_use]
    pub fn gone(&self, rank: Rank) -> Option<Gone> {
        self.world.lock_progress().gone(rank)
    }

    /// Starts a wait for an event that no call of the user ends.
    #[must_use]
    pub const fn backoff(&self) -> Backoff {
        Backoff::new(self.world.spin())
    }

    /// Copies all pieces between this process's memory and a region of `peer`, by the kernel. The
    /// remote sides of the pieces are consecutive, from `address` on.
    ///
    /// # Errors
    ///
    /// [`CopyError`]. When the kernel refuses, a part may have been copied.
    ///
    /// # Safety
    ///
    /// The local side of each piece is valid for the reads or writes of this direction.
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
        // SAFETY: the caller guarantees the same (contract of `copy`).
        let copied =
            unsafe { self.world.lock_progress().cma().copy(&segment, peer, direction, pieces) };
        copied.map_err(CopyError::Refused)
    }

    /// Opens memory to peers on this host, under a key that no other open region of this port has.
    ///
    /// # Errors
    ///
    /// [`Error::Boot`] when the table of regions has no room or no memory for a further region.
    pub fn open_region(
        &self,
        key: RegionKey,
        access: Access,
        (base, length): (usize, usize),
    ) -> Result<(), Error> {
        let opened = self.regions.open(key, access, (base as u64, length as u64));
        opened.map_err(|error| BootError::Segment(error).into())
    }

    /// Closes a region to peers on this host. Waits until no peer accesses it any more.
    pub fn close_region(&self, key: RegionKey) {
        self.regions.close(key);
    }

    /// Registers memory with the device that reaches other universes. Returns `None` without a
    /// device, and when the system refuses.
    ///
    /// # Safety
    ///
    /// The memory stays valid until [`Port::release`]. No other code accesses it during a transfer
    /// that names it.
    #[must_use]
    pub unsafe fn register(&self, part: Part, access: Access) -> Option<Region> {
        // SAFETY: the caller guarantees the same (contract of `register`).
        self.world.with_network(|network| unsafe { network.register(part, access) }).flatten()
    }

    /// Releases a registration that no current transfer uses.
    pub fn release(&self, region: Region) {
        self.world.with_network(|network| network.release(region));
    }

    /// Starts to move bytes between registered memory of this process and of `rank`, which is in
    /// another universe. It moves all bytes or the first of them. Returns `None` when that is not
    /// possible now. A message that is sent after a completed write arrives behind it.
    ///
    /// # Safety
    ///
    /// The memory is registered here under the key. It stays valid for the device until
    /// [`Port::is_transferred`] returns true, or until the peer is [gone](Port::gone).
    #[must_use]
    pub unsafe fn transfer(&self, rank: Rank, direct: &Direct) -> Option<Begun> {
        // SAFETY: the caller guarantees the same (contract of `transfer`). A broken link is
        // reported to its reader, and then the peer is gone.
        self.world.with_network(|network| unsafe { network.transfer(rank, direct) })?.ok()?
    }

    /// Returns whether the transfer `number` with `rank` is over. All earlier ones are then over,
    /// too.
    #[must_use]
    pub fn is_transferred(&self, rank: Rank, number: u64) -> bool {
        self.world.with_network(|network| network.is_done(rank, number)).unwrap_or(false)
    }

    /// Returns whether a completed write is in the peer's memory. Otherwise, a message behind the
    /// write arrives after it.
    #[must_use]
    pub fn acknowledges(&self) -> bool {
        self.world.with_network(|network| network.acknowledges()).unwrap_or(true)
    }

    /// Leaves the universe: waits until all sent messages have been handed over, then tells the
    /// peers.
    ///
    /// # Errors
    ///
    /// [`Error`] when a sent message could not be handed over. The port has left the universe
    /// nevertheless.
    pub fn close(self) -> Result<(), Error> {
        self.world.finalize()
    }
}

/// The reason why memory of a peer was not copied.
#[derive(Debug)]
pub enum CopyError {
    /// The access does not fit the region.
    Region(RegionError),
    /// The kernel refuses the copy.
    Refused(io::Error),
}

#[cfg(test)]
mod tests;
