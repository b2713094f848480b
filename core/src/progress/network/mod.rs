//! Peers on other nodes: messages as packets in a stream of bytes to each, and one back.
//!
//! The engine stays sans-IO: the bytes go through a [`Channel`] that the embedder lends for a call, and [`Engine::poll_network`]
//! does what progress does on the node. A packet is a [`StreamHead`], and behind some heads the bytes of a message: put from the
//! user's buffer, got into that of the receive, or into the engine's memory when no receive is there. A stream keeps its order, so
//! packets need no numbers; matching, unexpected messages, offers and calls are those of the node.
//!
//! A message above `stream_max` goes beside the streams: the receiver reads it where it lies, or the sender writes it where a
//! receiver that came first wants it. Nothing waits for ever behind the
//! bytes of another. One that is sent unasked is taken wherever its receive is; one beyond the share of its source is put when
//! its receive has called for it. So whoever is inside the library takes what comes, and what is said about messages travels
//! between them.
//!
//! Source: `[RdmaChannel04]` §3: the channel interface below an engine that matches; `[SpecRndv09]` §3.1: large messages.

mod announced;
mod channel;
mod ending;
mod incoming;
mod invited;
mod outgoing;
mod reading;
mod words;
mod writing;

pub(super) use announced::Announced;
pub use channel::{Begun, Broken, Channel, Direct, Taken, Way};
pub(super) use invited::Invited;
pub(super) use reading::Reading;
pub(super) use words::Word;
pub(super) use writing::{There, Writing};

use super::peer::{Peer, Waiting};
use super::request::Owned;
use super::{Engine, Gone, Part, ProgressError, Sign};
use crate::memory::{Memory, OutOfMemory};
use crate::wire::{Offer, StreamHead};
use incoming::Incoming;
use outgoing::Outgoing;

/// Both streams with one peer. Its place in memory is fixed: a device may work on its heads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    peer: u32,
    outgoing: Outgoing,
    incoming: Incoming,
    /// What is being read from the peer's memory, oldest first.
    readings: Waiting,
    /// How it went, if it is known to run no more; what it left may not all be delivered yet.
    ended: Option<Gone>,
    /// It has said that nothing comes after. What it took of ours may not all be counted yet.
    left: bool,
    /// For the bytes of messages that nobody wants.
    scrap: Option<Owned>,
}

impl Stream {
    /// The peer is to know whether there is room for its messages.
    pub(super) const fn tell_full(&mut self, full: bool) {
        self.outgoing.keep = Some(full);
    }

    /// The peer is to know that an offered message is wanted.
    pub(super) const fn call(&mut self, offer: Offer) {
        self.outgoing.call = Some(offer);
    }

    /// What is to be given back.
    pub(super) const fn scrap(&self) -> Option<Owned> {
        self.scrap
    }
}

/// Why the packets of a stream are not taken on.
#[derive(Clone, Copy, Debug)]
enum Halt {
    /// The stream is at its end, or nobody can make sense of it.
    Broken(Sign),
    /// No private memory; the packet waits.
    OutOfMemory(OutOfMemory),
}

/// Nobody can make sense of the stream.
const NONSENSE: Halt = Halt::Broken(Sign::Nonsense);

impl From<Broken> for Halt {
    fn from(Broken(sign): Broken) -> Self {
        Self::Broken(sign)
    }
}

impl From<ProgressError> for Halt {
    fn from(error: ProgressError) -> Self {
        match error {
            ProgressError::OutOfMemory(error) => Self::OutOfMemory(error),
            ProgressError::Corrupt(_) | ProgressError::Stopped => NONSENSE,
        }
    }
}

impl From<OutOfMemory> for Halt {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Says that `rank` is on another node, and reached through the channel that [`Engine::poll_network`] is given. To be said
    /// before the first operation with it. A rank beyond those of the segment gets a place of its own: the numbers of peers
    /// elsewhere have no end.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn set_remote(&mut self, rank: u32) -> Result<(), OutOfMemory> {
        self.make_place(rank)?;
        let stream = Stream {
            peer: rank,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            readings: Waiting::default(),
            ended: None,
            left: false,
            scrap: None,
        };
        let number = self.streams.insert(stream)?;
        self.peers[rank as usize].set_remote(number);
        Ok(())
    }

    /// Extends the tables of peers, so that `rank` is in them.
    fn make_place(&mut self, rank: u32) -> Result<(), OutOfMemory> {
        let (count, needed) = (self.peers.len(), rank as usize + 1);
        if needed <= count {
            return Ok(());
        }
        let ranks = needed.max(count.saturating_mul(2));
        for list in [&mut self.inboxes, &mut self.blocked, &mut self.wanted, &mut self.bells] {
            list.extend(ranks)?;
        }
        let (segment, own) = (self.segment, self.rank);
        self.peers.extend(ranks, |_| Peer::beyond(&segment, own))
    }

    /// True when a peer on another node can still be talked to: then [`Engine::poll_network`] is part of all progress.
    #[inline(always)]
    #[must_use]
    pub fn has_network(&self) -> bool {
        !self.streams.is_empty()
    }

    /// As [`Engine::progress`], for the peers on other nodes.
    ///
    /// # Errors
    ///
    /// [`ProgressError::OutOfMemory`] and [`ProgressError::Stopped`].
    pub fn poll_network(&mut self, channel: &mut impl Channel) -> Result<bool, ProgressError> {
        if self.stopped {
            return Err(ProgressError::Stopped);
        }
        let (mut moved, mut result, mut from) = (false, Ok(()), 0);
        while let Some(number) = self.next_stream(from) {
            from = number + 1;
            match self.poll_stream(number, channel) {
                Ok(did) => moved |= did,
                Err(error) => result = Err(error.into()),
            }
        }
        result.map(|()| moved)
    }

    /// The first stream whose number is at least `from`.
    fn next_stream(&self, from: u32) -> Option<u32> {
        self.streams.iter_from(from).next().map(|(number, _)| number)
    }

    /// Moves what can be moved on both streams with one peer. What came is delivered before anything else is believed of the
    /// peer; and after lack of memory the other stream still moves, or nobody might ever free any.
    fn poll_stream(
        &mut self,
        number: u32,
        channel: &mut impl Channel,
    ) -> Result<bool, OutOfMemory> {
        let pulled = self.pull(number, channel);
        let read = self.read_on(number, channel);
        let Some(&Stream { peer, ended, left, .. }) = self.streams.get(number) else {
            return Ok(false);
        };
        match pulled {
            Err(Halt::Broken(sign)) => {
                self.end_stream(number, channel, Gone::Failed(sign));
                return Ok(true);
            }
            Ok(false) if !left && let Some(how) = ended => {
                self.end_stream(number, channel, how);
                return Ok(true);
            }
            _ => {}
        }
        let written = self.invite_on(peer, channel) | self.write_on(peer, channel);
        // A stream that breaks here says so when all that had arrived is taken.
        let pushed = self.push_stream(number, channel);
        let holds = self.streams.get(number).is_some_and(|stream| stream.outgoing.holds);
        // The peer may know that a message is written, and leave, before the device says so here.
        let holds = holds || left && self.writes_to(peer);
        if left && (ended.is_some() || !holds || pushed.is_err()) {
            self.end_stream(number, channel, Gone::Finished);
            return Ok(true);
        }
        match pulled {
            Err(Halt::OutOfMemory(error)) => Err(error),
            pulled => Ok(pulled.unwrap_or(false) | read? | written | pushed.unwrap_or(false)),
        }
    }

    /// True when `rank`, which is on another node, said that it holds too much of ours.
    #[must_use]
    pub fn is_told_to_keep_from_afar(&self, rank: u32) -> bool {
        self.stream(rank).is_some_and(|stream| stream.outgoing.told_to_keep)
    }

    /// The stream to and from `rank`, if it is on another node and not gone. A number that a stream
    /// has left may be another peer's stream by now.
    fn stream(&self, rank: u32) -> Option<&Stream> {
        let number = self.peers[rank as usize].stream?;
        self.streams.get(number).filter(|stream| stream.peer == rank)
    }

    /// The stream to and from `rank`, to change.
    pub(super) fn stream_mut(&mut self, rank: u32) -> Option<&mut Stream> {
        let number = self.peers[rank as usize].stream?;
        self.streams.get_mut(number).filter(|stream| stream.peer == rank)
    }

    /// Whether a device works on the message that arrives from `rank`: then the bytes stay where they go.
    pub(super) fn holds_arriving(&self, rank: u32) -> bool {
        self.stream(rank).is_some_and(|stream| stream.incoming.holds)
    }

    /// The peer whose device works on the message of the send `id`, if one does.
    pub(super) fn holder_of_send(&self, id: u32) -> Option<u32> {
        let mut holding = self.streams.iter().filter(|(_, stream)| stream.outgoing.holds);
        let (_, stream) = holding.find(|(_, stream)| {
            let ends = self.peers[stream.peer as usize].waiting.ends;
            ends.is_some_and(|(first, _)| first == id)
        })?;
        Some(stream.peer)
    }
}

/// What is left of a head that is `left` bytes from its end.
const fn rest_of(head: core::ptr::NonNull<[u8; StreamHead::LENGTH]>, left: usize) -> Part {
    // SAFETY: `left` is at most the length.
    Part { base: unsafe { head.cast::<u8>().add(StreamHead::LENGTH - left) }, length: left }
}
