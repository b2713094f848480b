//! A rank of a universe, for whoever answers for buffers himself: another MPI's transport.
//!
//! What [`crate::Endpoint`] and [`crate::Scope`] promise by borrows is here a contract of unsafe functions, operations are numbers,
//! and a caller that waits does so in its own loop.

use std::io;
use std::sync::Arc;

use strait_core::lmt::Direction;
use strait_core::matching::Pattern;
use strait_core::progress::{
    Bypass, Cursor, Gone, Outcome, Owner, Received, RequestId, Sent, StartError, Status, Want,
};
use strait_core::rndv::Rendezvous;
use strait_core::wire::Key;

use crate::boot::Universe;
pub use crate::cma::Piece;
use crate::nodes::Nodes;
use crate::world::World;
use crate::{Error, Rank, env, liveness};

/// Of all operations of a port.
const OWNER: Owner = Owner::UNSCOPED;

/// A rank of a universe. One thread at a time uses it. Dropping it leaves the universe as [`Port::close`] does.
#[derive(Debug)]
pub struct Port {
    world: World,
}

impl Universe {
    /// Claims a rank of this universe for the caller.
    ///
    /// # Errors
    ///
    /// [`Error::Boot`] when there is no room or no memory; [`Error::Environment`] when a `STRAIT_*` variable is unusable.
    pub fn port(&self) -> Result<Port, Error> {
        let (tuning, cpus) = (env::tuning()?, env::cpus()?);
        let rank = self.claim()?;
        let map = Arc::clone(self.map());
        let nodes = Nodes::one(map.segment().ranks());
        Ok(Port { world: World::alone(map, rank, nodes, cpus, tuning)? })
    }
}

impl Port {
    /// The port's rank in its universe.
    #[inline(always)]
    #[must_use]
    pub const fn rank(&self) -> Rank {
        self.world.rank()
    }

    /// Ranks that the universe has room for.
    #[must_use]
    pub const fn room(&self) -> u32 {
        self.world.size()
    }

    /// Whether `rank` has been claimed, by whoever.
    #[must_use]
    pub fn is_claimed(&self, rank: Rank) -> bool {
        liveness::is_born(&self.world.segment(), rank)
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
        unsafe { self.world.isend(destination, key, data, OWNER) }
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
        self.world.short_ways().is_told_to_keep(destination)
    }

    /// Copies pieces between this process's memory and that of `peer`, all of them, by the kernel.
    ///
    /// # Errors
    ///
    /// What the kernel says. Some of it may have been copied.
    ///
    /// # Safety
    ///
    /// Each piece's own side is valid for the reads or writes of this direction.
    pub unsafe fn copy(
        &self,
        peer: Rank,
        direction: Direction,
        pieces: impl IntoIterator<Item = Piece>,
    ) -> io::Result<()> {
        let segment = self.world.segment();
        // SAFETY: by the contract.
        unsafe { self.world.turn().cma().copy(&segment, peer, direction, pieces) }
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
