//! The progress engine: ties fastboxes, queue and matching together for one rank.
//!
//! Sans-IO: the engine reads and writes the segment and the buffers it was given, and nothing else. It has no clock
//! and does not wait; whoever embeds it calls [`Engine::progress`] until a request is done, decides how to pass the
//! time in between, backs fastbox memory when [`Engine::poll_want`] asks, wakes whom [`Engine::poll_bell`] names, and says
//! when a peer is gone.
//!
//! The progress invariant: an operation that cannot go on sits in a list that every `progress` visits. Every packet
//! between two ranks has a sequence number, whichever way it takes; packets are taken in that order.
//!
//! Source: `[Nemesis07]` §3.1 (cells over iovecs, pending sends, active fastboxes, unexpected messages copied out of
//! their cells at once) and §3.3 (posted-receive bypass).

mod announced;
mod arrive;
mod bypass;
mod called;
mod cells;
mod cursor;
mod failure;
mod granted;
mod held;
mod in_use;
mod matched;
mod negotiation;
mod network;
mod offered;
mod packet;
mod parcels;
mod peer;
mod receive;
mod request;
mod ring;
mod rtr;
mod send;
mod short;
mod sign;
mod speculation;
mod told;
mod transfer;
mod waiting;

pub use bypass::{Bypass, Want};
pub use cursor::{Cursor, Part};
pub use held::Held;
pub use in_use::InUse;
pub use matched::MessageId;
pub use network::{Begun, Broken, Channel, Direct, Taken, Way};
pub use peer::Gone;
pub use receive::Received;
pub use request::{
    Fault, Outcome, Owner, ProgressError, RequestId, SendMode, StartError, Status, StillClaimed,
};
pub use send::Sent;
pub use short::SentShort;
pub use sign::Sign;
pub use speculation::Rtrs;
pub use told::Mark;

use crate::layout::{CellIndex, Segment};
use crate::lmt::Transfer;
use crate::matching::{Posted, Unexpected};
use crate::memory::{Memory, OutOfMemory, Pinned, Slab, Table};
use crate::rndv::{self, Rendezvous};
use crate::wire::FASTBOX_LENGTH_MAX;
use announced::{Descriptors, Outbound};
use arrive::{Body, Message};
use called::Call;
use cells::CellPool;
use granted::Inbound;
use negotiation::OwnChoice;
use network::{Announced, Invited, Reading, Stream, Word, Writing};
use peer::{Outbox, Peer};
use request::{Entry, Request};
use speculation::Wanted;

/// Numbers that a user may tune.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tuning {
    /// Longest message that goes through a fastbox, bytes; more than [`FASTBOX_LENGTH_MAX`] is as good as that. Zero shuts the
    /// fastboxes.
    pub fastbox_max: usize,
    /// Longest message that is copied through fastbox and cells, bytes. A longer one stays where it is until its receive is
    /// there.
    pub eager_max: usize,
    /// Longest message that goes through the stream to another node, bytes. A longer one goes beside it.
    pub stream_max: usize,
    /// Longest message that goes in parcels while enough of them are here, bytes; those beyond `eager_max` only under
    /// [`Transfer::Auto`]. Zero keeps all of them shut.
    pub parcel_max: usize,
    /// Private memory that one peer's unexpected messages may take, bytes. Beyond it the peer keeps its messages until their
    /// receives are there; what it had handed over by then still comes.
    pub unexpected_max: usize,
    /// How messages beyond `eager_max` travel on the node.
    pub transfer: Transfer,
    /// How they and those beyond `stream_max` are negotiated, but in contexts with a choice of their own ([`Engine::choose_rendezvous`]).
    pub rendezvous: Rendezvous,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            fastbox_max: 2048,
            eager_max: 12 * 1024,
            stream_max: 16 * 1024,
            parcel_max: 64 * 1024,
            unexpected_max: 4 << 20,
            transfer: Transfer::Auto,
            rendezvous: Rendezvous::default(),
        }
    }
}

/// Longest message that goes by lines although parcels are here, bytes.
const LINES_FIRST: usize = 1024;

impl Tuning {
    /// Whether messages of `length` bytes are announced to anybody, on this node or another.
    const fn may_announce(&self, length: usize) -> bool {
        length > self.eager_max || length > self.stream_max
    }

    /// Whether messages of `length` bytes go by lines although parcels are here.
    #[inline(always)]
    const fn by_lines_first(&self, length: usize) -> bool {
        length <= LINES_FIRST && length <= self.fastbox_max
    }

    /// Whether messages of `length` bytes go in parcels while there are enough. Who names a transfer for large ones gets it.
    #[inline(always)]
    #[must_use]
    pub const fn suits_parcels(&self, length: usize) -> bool {
        let announced = length > self.eager_max && !matches!(self.transfer, Transfer::Auto);
        // The packets that name parcels go where lines do.
        self.fastbox_max > 0
            && !self.by_lines_first(length)
            && !announced
            && length <= self.parcel_max
            && length <= self.unexpected_max
    }

    fn within_limits(self) -> Self {
        Self { fastbox_max: self.fastbox_max.min(FASTBOX_LENGTH_MAX), ..self }
    }
}

/// One rank's end of every channel in a segment.
#[derive(Debug)]
pub struct Engine<M: Memory + Clone> {
    peers: Table<Peer, M>,
    posted: Posted<M>,
    unexpected: Unexpected<M>,
    segment: Segment,
    rank: u32,
    tuning: Tuning,
    own_choices: Slab<OwnChoice, M>,
    cells: CellPool<M>,
    requests: Slab<Entry, M>,
    messages: Slab<Message, M>,
    /// Messages so far that met no receive when they arrived.
    arrivals: u64,
    /// Of those that are left, how many a probe has matched.
    matched: u32,
    held: Held,
    /// What our receives may ask for.
    asking: rndv::Receiver<M>,
    /// What the receivers of our messages have asked for.
    asked_by: rndv::Sender<Wanted, M>,
    /// Looks at Eager-flags so far.
    looks: u64,
    rtrs: Rtrs,
    /// Receives that met offered messages.
    calls: Slab<Call, M>,
    /// Large messages that were announced or are about to be.
    senders: Slab<Outbound, M>,
    /// Large messages that met their receives.
    receivers: Slab<Inbound, M>,
    descriptors: Descriptors<M>,
    /// Streams to peers on other nodes, and back.
    streams: Pinned<Stream, M>,
    /// Large messages that peers on other nodes may read.
    announced: Slab<Announced, M>,
    /// Large messages that are read from peers on other nodes.
    readings: Slab<Reading, M>,
    /// Receives that peers on other nodes may write.
    invited: Slab<Invited, M>,
    /// Large messages that are written to peers on other nodes.
    writings: Slab<Writing, M>,
    /// What is to be said to peers on other nodes.
    words: Slab<Word, M>,
    /// Nanoseconds, as they were told last.
    now: u64,
    /// Whether the next job is sought among the receivers first.
    reads_first: bool,
    /// Peers whose fastbox to us is open.
    inboxes: RankList<M>,
    /// Peers with sends that wait for cells, or to be called for.
    blocked: RankList<M>,
    /// Peers to whom a fastbox is wanted.
    wanted: RankList<M>,
    /// Peers that sleep and have something to look at.
    bells: RankList<M>,
    /// A cell that was taken from the queue and could not be delivered for want of memory.
    stalled: Option<CellIndex>,
    stopped: bool,
    memory: M,
}

impl<M: Memory + Clone> Engine<M> {
    /// The engine of `rank`, which must have its place in `segment` to itself.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn new(
        memory: M,
        segment: Segment,
        rank: u32,
        tuning: Tuning,
    ) -> Result<Self, OutOfMemory> {
        Self::among(segment.ranks() as usize, memory, segment, rank, tuning)
    }

    /// An engine that knows no peer, and refuses every send and receive as one that does not go the short way. For an embedder
    /// whose engine is elsewhere.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn away(
        memory: M,
        segment: Segment,
        rank: u32,
        tuning: Tuning,
    ) -> Result<Self, OutOfMemory> {
        Self::among(0, memory, segment, rank, tuning)
    }

    fn among(
        ranks: usize,
        memory: M,
        segment: Segment,
        rank: u32,
        tuning: Tuning,
    ) -> Result<Self, OutOfMemory> {
        let list = || RankList::new(memory.clone(), ranks);
        Ok(Self {
            peers: Table::new(memory.clone(), ranks, |peer| {
                Peer::new(&segment, rank, peer as u32)
            })?,
            posted: Posted::new(memory.clone()),
            unexpected: Unexpected::new(memory.clone()),
            cells: CellPool::new(memory.clone(), &segment, rank)?,
            requests: Slab::new(memory.clone()),
            messages: Slab::new(memory.clone()),
            arrivals: 0,
            matched: 0,
            held: Held::default(),
            asking: rndv::Receiver::new(memory.clone()),
            asked_by: rndv::Sender::new(memory.clone()),
            looks: 0,
            rtrs: Rtrs::default(),
            calls: Slab::new(memory.clone()),
            senders: Slab::new(memory.clone()),
            receivers: Slab::new(memory.clone()),
            descriptors: Descriptors::new(memory.clone())?,
            streams: Pinned::new(memory.clone()),
            announced: Slab::new(memory.clone()),
            readings: Slab::new(memory.clone()),
            invited: Slab::new(memory.clone()),
            writings: Slab::new(memory.clone()),
            words: Slab::new(memory.clone()),
            now: 0,
            reads_first: false,
            inboxes: list()?,
            blocked: list()?,
            wanted: list()?,
            bells: list()?,
            stalled: None,
            stopped: false,
            segment,
            rank,
            tuning: tuning.within_limits(),
            own_choices: Slab::new(memory.clone()),
            memory,
        })
    }

    /// This rank.
    #[inline(always)]
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// The segment this engine works on.
    #[must_use]
    pub const fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The numbers in force.
    #[must_use]
    pub const fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// Puts other numbers in force, for messages that begin from now on. Ranks need not agree on them.
    pub fn retune(&mut self, tuning: Tuning) {
        self.tuning = tuning.within_limits();
    }

    /// Moves everything that can move without waiting, and says whether anything did.
    ///
    /// # Errors
    ///
    /// [`ProgressError`].
    pub fn progress(&mut self) -> Result<bool, ProgressError> {
        let mut moved = self.take_in()?;
        if !self.no_transfers() {
            moved |= self.advance_transfers()?;
        }
        if !self.blocked.is_empty() {
            moved |= self.push_blocked()?;
        }
        Ok(moved)
    }

    /// Takes in what has come from ranks of this node, and says whether anything did. Of large messages it moves nothing.
    ///
    /// # Errors
    ///
    /// [`ProgressError`].
    #[inline(always)]
    pub fn take_in(&mut self) -> Result<bool, ProgressError> {
        if self.stopped {
            return Err(ProgressError::Stopped);
        }
        let mut came = self.poll_queue()?;
        for place in 0..self.inboxes.len() {
            came |= self.poll_fastbox(self.inboxes.get(place))?;
        }
        Ok(came)
    }

    /// Asks for memory for the fastbox to `peer`, when the pair first talks.
    fn want_fastbox(&mut self, peer: u32) {
        let outbox = &mut self.peers[peer as usize].outbox;
        if *outbox == Outbox::Unopened && self.tuning.fastbox_max > 0 {
            *outbox = Outbox::Wanted;
            self.wanted.insert(peer);
        }
    }

    /// A peer to whom the engine would like to open its fastbox. Back the range that
    /// [`crate::layout::Plan::pair_range`] gives for (this rank, peer) with memory, then say how it went with
    /// [`Engine::fastbox_backed`].
    #[inline]
    pub fn poll_want(&mut self) -> Option<u32> {
        self.wanted.pop()
    }

    /// A peer that sleeps and has something to look at: ring its bell ([`crate::shm::Doorbell::ring`]), and wake it if
    /// that says so. Asked after every call that moves messages.
    #[inline]
    pub fn poll_bell(&mut self) -> Option<u32> {
        self.bells.pop()
    }

    /// Has `rank` woken if it sleeps. Called after something was published that it may wait for.
    #[inline]
    fn notify(&mut self, rank: u32) {
        if self.peers[rank as usize].bell.get().is_wanted() {
            self.bells.insert(rank);
        }
    }

    /// The answer to [`Engine::poll_want`]: with `backed` false the queue serves this peer for good.
    pub fn fastbox_backed(&mut self, peer: u32, backed: bool) {
        let entry = &mut self.peers[peer as usize];
        if entry.outbox != Outbox::Wanted {
            return;
        }
        entry.outbox = if backed { Outbox::Backed } else { Outbox::Refused };
        if backed {
            entry.find_baton(&self.segment, self.rank, peer);
        }
    }

    /// The outcome of an operation, once it is over: its id ends with this answer. `None`: still under way.
    #[inline]
    pub fn test(&mut self, id: RequestId) -> Option<Outcome> {
        let Some(Request::Done(outcome)) = self.request(id.0) else { return None };
        self.requests.remove(id.0);
        Some(outcome)
    }

    /// Stops the engine for good: no operation touches its buffer any more, none will have an outcome. For the one case
    /// where a claim on a buffer must end and [`Engine::detach`] cannot end it well. False: a peer is still moving a piece
    /// of a large message; ask again. `is_gone` says which ranks can no longer touch anything.
    #[must_use]
    pub fn stop(&mut self, is_gone: impl Fn(u32) -> bool) -> bool {
        self.stopped = true;
        self.hush(is_gone)
    }

    fn request(&self, id: u32) -> Option<Request> {
        self.requests.get(id).map(|entry| entry.request)
    }

    fn request_mut(&mut self, id: u32) -> Option<&mut Request> {
        self.requests.get_mut(id).map(|entry| &mut entry.request)
    }

    /// True when no message that was sent, or is arriving, needs this rank any more.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        !self.is_blocked()
            && self.calls.is_empty()
            && self.readings.is_empty()
            && self.no_transfers()
            && self.network_is_flushed()
    }
}

impl<M: Memory + Clone> Drop for Engine<M> {
    /// Gives back what the engine kept for others: rests of sends, and messages that nobody received.
    fn drop(&mut self) {
        let kept = self.requests.iter().filter_map(|(_, entry)| match entry.request {
            Request::Sending { detached, .. } => detached,
            _ => None,
        });
        let unreceived = self.messages.iter().filter_map(|(_, message)| match message.body {
            Body::Here(payload) => payload,
            Body::There(_) | Body::Lost => None,
        });
        let announced = self.senders.iter().filter_map(|(_, outbound)| outbound.owned);
        let scraps = self.streams.iter().filter_map(|(_, stream)| stream.scrap());
        let all = kept.chain(unreceived).chain(announced).chain(scraps);
        all.for_each(|owned| self.release(owned));
    }
}

/// A list of ranks, each at most once.
#[derive(Debug)]
struct RankList<M: Memory> {
    ranks: Table<u32, M>,
    length: usize,
}

impl<M: Memory> RankList<M> {
    fn new(memory: M, ranks: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { ranks: Table::new(memory, ranks, |_| 0)?, length: 0 })
    }

    /// Makes room for `ranks` different ranks.
    fn extend(&mut self, ranks: usize) -> Result<(), OutOfMemory> {
        self.ranks.extend(ranks, |_| 0)
    }

    fn len(&self) -> usize {
        self.length
    }

    fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn get(&self, place: usize) -> u32 {
        self.ranks[place]
    }

    fn insert(&mut self, rank: u32) {
        if !self.ranks[..self.length].contains(&rank) {
            self.ranks[self.length] = rank;
            self.length += 1;
        }
    }

    fn remove(&mut self, rank: u32) {
        if let Some(place) = self.ranks[..self.length].iter().position(|other| *other == rank) {
            self.length -= 1;
            self.ranks[place] = self.ranks[self.length];
        }
    }

    fn pop(&mut self) -> Option<u32> {
        self.length = self.length.checked_sub(1)?;
        Some(self.ranks[self.length])
    }
}
