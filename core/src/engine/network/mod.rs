//! Peers on other nodes: messages as packets in a stream of bytes to each peer, and in one back.
//!
//! The engine does no IO itself. The bytes go through a [`Channel`] that the embedder lends for a
//! call, and [`Engine::poll_network`] does what progress does on the node. A packet is a
//! [`StreamHead`](crate::wire::StreamHead), and behind some heads the bytes of a message. They are
//! put from the user's buffer. They are got into the buffer of the receive, or into the engine's
//! memory when no receive is posted.
//!
//! A stream keeps its order, so packets need no numbers. Matching, unexpected messages, offers and
//! pull requests are the same as on the node.
//!
//! A message above `stream_max` goes beside the streams. The receiver reads it where it lies, or
//! the sender writes it to the address that its receive gave. No message waits for ever
//! behind the bytes of another. A message that is sent unasked is taken even without a receive. A
//! message beyond the share of its source is put when its receive has pulled it. So a rank inside
//! the library takes every packet that comes, and control messages travel between the messages.
//!
//! Source: `[RdmaChannel04]` §3: the channel interface below an engine that matches; `[SpecRndv09]`
//! §3.1: large messages.

mod announcement;
mod bypass;
mod channel;
mod control;
mod cts;
mod deaths;
mod ending;
mod exposure;
mod halt;
mod incoming;
mod invitation;
mod origin;
mod outgoing;
mod read;
mod rndv_read;
mod rndv_recv_cts;
mod rndv_recv_posted;
mod rndv_send;
mod rndv_write;
mod standing;
mod stream;
mod words;
mod write;

pub use channel::{Begun, Broken, Channel, ChannelProgress, Direct};
pub(super) use write::There;

use super::message_buffers::OwnedBuffer;
use super::peer::StandIn;
use super::{Engine, Gone, ProgressError};
use crate::layout::Wait;
use crate::memory::{Memory, OutOfMemory, Pinned, Slab};
use announcement::Announced;
use control::Controls;
use cts::ClearToSend;
use deaths::Deaths;
use exposure::Exposures;
use halt::{Halt, NONSENSE};
use invitation::Invited;
use read::Reading;
use standing::StandingReceive;
use stream::PeerStreams;
use write::Writing;

/// What this rank keeps about peers on other nodes, apart from the lines of sends to them.
#[derive(Debug)]
pub(super) struct Network<M: Memory> {
    /// Streams to peers with which there was contact, and back.
    streams: Pinned<PeerStreams, M>,
    /// Number of peers that can still be reached, with contact or without.
    reachable: u32,
    /// Set when this rank leaves.
    leaves: bool,
    /// Peers that have left without contact, as far as this rank knows. Their links are still to be
    /// looked at.
    leaving: Slab<u32, M>,
    /// Control messages to peers.
    controls: Controls<M>,
    deaths: Deaths<M>,
    /// Large messages that peers may read.
    announced: Slab<Announced, M>,
    /// The registrations of those messages, and of those that are written to peers.
    exposed: Exposures<M>,
    /// Large messages that are read from peers.
    readings: Slab<Reading, M>,
    /// Receives to which peers write the messages that they announced.
    cleared: Slab<ClearToSend, M>,
    /// Receives that peers may write to.
    invited: Slab<Invited, M>,
    /// Large messages that are written to peers.
    writings: Slab<Writing, M>,
    /// Messages that went beside the streams.
    went: RemoteTransfers,
    /// The receive that is lent to the poll under way.
    standing: Option<StandingReceive>,
}

/// Counts of the messages that went between nodes beside the streams
/// ([`Engine::remote_transfers`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RemoteTransfers {
    /// Announced messages that this rank read.
    pub read: u64,
    /// Announced messages that their senders wrote at this rank's request.
    pub written: u64,
    /// Messages that left this rank from several parts, announced or by an RTR.
    pub scattered: u64,
}

impl<M: Memory + Clone> Network<M> {
    /// Returns the state of a rank without peers on other nodes.
    pub(super) fn new(memory: &M) -> Self {
        Self {
            streams: Pinned::new(memory.clone()),
            reachable: 0,
            leaves: false,
            leaving: Slab::new(memory.clone()),
            controls: Controls::new(memory.clone()),
            deaths: Deaths::new(memory.clone()),
            announced: Slab::new(memory.clone()),
            exposed: Exposures::new(memory.clone()),
            readings: Slab::new(memory.clone()),
            cleared: Slab::new(memory.clone()),
            invited: Slab::new(memory.clone()),
            writings: Slab::new(memory.clone()),
            went: RemoteTransfers::default(),
            standing: None,
        }
    }

    /// Returns whether no peer on another node can be reached.
    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.reachable == 0
    }

    /// Makes room in the lists of peers.
    pub(super) fn make_room(&mut self, peers: usize) -> Result<(), OutOfMemory> {
        self.deaths.make_room(peers)
    }

    /// Makes the streams with `peer`, and returns their number.
    pub(super) fn open_stream(&mut self, peer: u32) -> Result<u32, OutOfMemory> {
        let mut streams = PeerStreams::new(peer);
        if self.leaves {
            streams.outgoing.leave();
        }
        self.streams.insert(streams)
    }

    /// Removes streams that were not used.
    pub(super) fn close_stream(&mut self, number: u32) {
        self.streams.remove(number);
    }

    /// Returns whether this rank reads an announced message from a peer, or a peer writes one here.
    pub(super) const fn is_receiving(&self) -> bool {
        !self.readings.is_empty() || !self.cleared.is_empty()
    }

    /// Returns the number of large messages under way, and of receives that have asked for theirs.
    pub(super) const fn transfers(&self) -> u32 {
        let incoming = self.readings.len() + self.cleared.len() + self.invited.len();
        incoming + self.announced.len() + self.writings.len()
    }

    /// Reserves memory for a message that is to be read, or written by its sender.
    pub(super) fn reserve_reading(&mut self) -> Result<(), OutOfMemory> {
        self.readings.reserve()?;
        self.cleared.reserve()?;
        self.controls.reserve()
    }

    /// Returns the destination of a message that its receiver may read.
    pub(super) fn destination_of_announced(&self, number: u32) -> Option<u32> {
        self.announced.get(number).map(Announced::destination)
    }

    /// Returns the destination of a message that is being written.
    pub(super) fn destination_of_writing(&self, number: u32) -> Option<u32> {
        self.writings.get(number).map(Writing::destination)
    }

    /// Returns what a receive that reads its message waits for.
    pub(super) fn wait_of_reading(&self, number: u32) -> Option<Wait> {
        self.readings.get(number).map(Reading::wait)
    }

    /// Returns what a receive waits for that has its announced message written.
    pub(super) fn wait_of_cleared(&self, number: u32) -> Option<Wait> {
        self.cleared.get(number).map(ClearToSend::wait)
    }

    /// Returns what a receive that is being written waits for.
    pub(super) fn wait_of_invited(&self, number: u32) -> Option<Wait> {
        self.invited.get(number).map(Invited::wait)
    }

    /// Returns the memory of the streams, and of lists of runs, to be released.
    pub(super) fn buffers(&self) -> impl Iterator<Item = OwnedBuffer> {
        let scrap = self.streams.iter().filter_map(|(_, stream)| stream.incoming.scrap());
        let announced = self.announced.iter().map(|(_, announced)| announced.exposure);
        let written = self.writings.iter().map(|(_, writing)| writing.exposure);
        let lists = announced.chain(written).filter_map(|exposure| exposure.list());
        let read = self.readings.iter().filter_map(|(_, reading)| reading.from.list());
        scrap.chain(lists).chain(read)
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Marks `rank` as a rank on another node that is reached through the channel of
    /// [`Engine::poll_network`]. Call this before the first operation with the rank. A rank beyond
    /// those of the segment gets a place of its own; peers of other universes have unbounded
    /// numbers.
    ///
    /// The state about the rank is made at the first contact: a send to it, a receive that names
    /// it, or a link ([`Engine::linked`]).
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn set_remote(&mut self, rank: u32) -> Result<(), OutOfMemory> {
        self.make_place(rank)?;
        match self.peers[rank as usize].stands_in() {
            Some(StandIn::Remote | StandIn::Leaving) => return Ok(()),
            Some(_) => self.peers.note(&self.segment, self.rank, (rank, StandIn::Remote))?,
            // An operation with the rank failed before.
            None if self.stream(rank).is_none() => {
                let number = self.network.open_stream(rank)?;
                self.peers[rank as usize].set_remote(number);
            }
            None => return Ok(()),
        }
        self.network.reachable += 1;
        Ok(())
    }

    /// Returns counts of the messages that went between nodes beside the streams.
    #[must_use]
    pub const fn remote_transfers(&self) -> RemoteTransfers {
        self.network.went
    }

    /// Extends the tables of peers, so that `rank` is in them.
    fn make_place(&mut self, rank: u32) -> Result<(), OutOfMemory> {
        let (count, needed) = (self.peers.len(), rank as usize + 1);
        if needed <= count {
            return Ok(());
        }
        let ranks = needed.max(count.saturating_mul(2));
        self.peers.extend(&self.segment, self.rank, ranks)
    }

    /// Returns whether any peer on another node can still be reached. If so,
    /// [`Engine::poll_network`] is part of all progress.
    #[inline(always)]
    #[must_use]
    pub fn has_network(&self) -> bool {
        !self.network.is_empty()
    }

    /// Makes the progress of the peers on other nodes, and returns whether anything moved.
    ///
    /// # Errors
    ///
    /// [`ProgressError::OutOfMemory`] and [`ProgressError::Stopped`].
    pub fn poll_network(&mut self, channel: &mut impl Channel) -> Result<bool, ProgressError> {
        if self.stopped {
            return Err(ProgressError::Stopped);
        }
        let (mut moved, mut result) = (false, Ok(()));
        self.visit_streams(|engine, number| match engine.poll_stream(number, channel) {
            Ok(did) => moved |= did,
            Err(error) => result = Err(error.into()),
        });
        if !self.network.leaving.is_empty() {
            moved = true;
            self.end_leaving(channel)?;
        }
        self.push_deaths(channel);
        result.map(|()| moved)
    }

    /// Calls `visit` with the number of each stream. A visit may end its stream.
    fn visit_streams(&mut self, mut visit: impl FnMut(&mut Self, u32)) {
        let mut next = 0;
        loop {
            let found = self.network.streams.iter_from(next).next().map(|(number, _)| number);
            let Some(number) = found else { return };
            next = number + 1;
            visit(self, number);
        }
    }

    /// Moves what can be moved on both streams with one peer. The bytes that came are delivered
    /// before any other report about the peer is believed. Without memory for one stream the other
    /// still moves, since otherwise no memory might ever be freed.
    fn poll_stream(
        &mut self,
        number: u32,
        channel: &mut impl Channel,
    ) -> Result<bool, OutOfMemory> {
        let pulled = self.pull(number, channel);
        let read = self.read_on(number, channel);
        let Some(stream) = self.network.streams.get(number) else { return Ok(false) };
        let (peer, ended, left) = (stream.peer(), stream.ended(), stream.has_left());
        match (pulled, ended) {
            (Err(Halt::Broken(sign)), _) => {
                self.end_stream(number, channel, Gone::Failed(sign));
                return Ok(true);
            }
            (Ok(false), Some(how)) if !left => {
                self.end_stream(number, channel, how);
                return Ok(true);
            }
            _ => {}
        }
        if let Err(Halt::Broken(sign)) = read {
            self.end_stream(number, channel, Gone::Failed(sign));
            return Ok(true);
        }
        let cleared = self.clear_on(peer, channel);
        let written = self.invite_on(peer, channel) | self.write_on(peer, channel);
        // A stream that breaks here reports that once all bytes that had arrived are taken.
        let pushed = self.push_stream(number, channel);
        let holds = self.network.streams.get(number).is_some_and(|stream| stream.outgoing.holds());
        // The peer may know that a message is written, and leave, before the device reports it
        // here.
        let holds = holds || left && self.writes_to(peer);
        if left && (ended.is_some() || !holds || pushed.is_err()) {
            self.end_stream(number, channel, Gone::Finished);
            return Ok(true);
        }
        match pulled {
            Err(Halt::OutOfMemory(error)) => Err(error),
            pulled => {
                let read = match read {
                    Err(Halt::OutOfMemory(error)) => return Err(error),
                    read => read.unwrap_or(false),
                };
                let received = pulled.unwrap_or(false) | read | cleared?;
                Ok(received | written | pushed.unwrap_or(false))
            }
        }
    }

    /// Returns whether `rank`, which is on another node, has reported that it holds too much from
    /// this rank.
    #[must_use]
    pub fn is_told_to_keep_from_afar(&self, rank: u32) -> bool {
        self.stream(rank).is_some_and(|stream| stream.outgoing.is_told_to_keep())
    }

    /// Returns the stream to and from `rank`, if it is on another node and not gone. A number that
    /// a stream has left may be another peer's stream by now.
    fn stream(&self, rank: u32) -> Option<&PeerStreams> {
        let number = self.peers[rank as usize].stream()?;
        self.network.streams.get(number).filter(|stream| stream.peer() == rank)
    }

    /// Returns the stream to and from `rank`, to change.
    pub(super) fn stream_mut(&mut self, rank: u32) -> Option<&mut PeerStreams> {
        let number = self.peers[rank as usize].stream()?;
        self.network.streams.get_mut(number).filter(|stream| stream.peer() == rank)
    }

    /// Returns whether a device works on the message that arrives from `rank`. If so, the bytes
    /// keep their place.
    pub(super) fn holds_arriving(&self, rank: u32) -> bool {
        self.stream(rank).is_some_and(|stream| stream.incoming.holds())
    }

    /// Returns the peer with the device that works on the message of the send `id`, if any.
    pub(super) fn holder_of_send(&self, id: u32) -> Option<u32> {
        let mut holding = self.network.streams.iter().filter(|(_, stream)| stream.outgoing.holds());
        let (_, stream) = holding
            .find(|(_, stream)| self.peers[stream.peer() as usize].waiting.first() == Some(id))?;
        Some(stream.peer())
    }
}
