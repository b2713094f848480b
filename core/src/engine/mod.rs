//! The engine: one rank's part of the protocol, as a value that its embedder drives.
//!
//! The engine reads and writes only the segment and the buffers that it is given. It has no clock,
//! makes no system call and never waits. The embedder moves time, memory and wake-ups.
//!
//! # Calls
//!
//! 1. [`Engine::new`] returns the engine of one rank, or [`OutOfMemory`].
//! 2. [`Engine::set_remote`] and [`Engine::set_unreachable`] tell how peers on other nodes are
//!    reached, before the first operation with them. [`Engine::linked`] tells of each link.
//! 3. [`Engine::isend`] and [`Engine::irecv`] start an operation. They return `Done`, `Pending`
//!    with a [`RequestId`], or [`StartError`] with nothing changed.
//! 4. [`Engine::progress`] moves what can move without waiting, and returns whether anything moved,
//!    or [`ProgressError`].
//! 5. [`Engine::poll_network`] does the same for peers on other nodes, if [`Engine::has_network`].
//! 6. [`Engine::poll_transfer`] returns a [`crate::lmt::CopyJob`]. The embedder carries it out at
//!    once and answers with [`Engine::transfer_done`]. If [`Engine::wants_time`], it tells the time
//!    before ([`Engine::tell_time`]).
//! 7. [`Engine::poll_want`] returns a peer to which a fastbox wants memory. The answer is
//!    [`Engine::fastbox_backed`].
//! 8. [`Engine::poll_bell`] returns a sleeping peer that has something to look at.
//! 9. [`Engine::test`] returns the [`Outcome`] of a request, once; `None` while it is under way.
//! 10. [`Engine::detach`] and [`Engine::cancel`] end the claim of an operation on its buffer early.
//!     After [`StillClaimed`] make progress and ask again.
//! 11. [`Engine::peer_gone`] reports that a peer has died or left. After `false` make progress and
//!     report it again.
//! 12. [`Engine::is_flushed`] returns whether this rank may leave. Before that,
//!     [`Engine::leave_network`] tells the peers on other nodes, once. [`Engine::discard_kept`]
//!     drops messages that this rank will not receive.
//! 13. [`Engine::stop`] ends all operations without an outcome, after an unrecoverable error.
//!
//! A loop that waits repeats 4 to 9. Calls 7 and 8 come after every call that moves messages. Each
//! poll is repeated until it returns `None`.
//!
//! [`Engine::irecv_short`] and [`Engine::recv_lines`] are shortcuts of 3 for messages in lines, and
//! [`Engine::serve_lines`] is one of 4.
//!
//! Two calls are shortcuts of 3 for blocking operations. [`Engine::send_short`] sends by lines
//! only, and [`Engine::recv_short`] looks at one source only. If they decline, use
//! [`Engine::isend`] and [`Engine::irecv`].
//!
//! Probes return a [`Status`] or `None`. [`Engine::iprobe`] leaves the message where it is.
//! [`Engine::improbe`] takes it out of matching, until [`Engine::imrecv`] receives it or
//! [`Engine::put_back`] puts it back.
//!
//! For observers of the job, [`Engine::publish_counts`] and [`Engine::unexpected_summary`] tell
//! what the engine holds, and [`Engine::record_events`] starts the record of events.
//!
//! Large messages use two more kinds of memory. [`Engine::wants_parcels`] and
//! [`Engine::wants_ring`] ask for it; [`Engine::parcels_backed`] and [`Engine::ring_backed`]
//! answer. [`Engine::time_line`] and [`Engine::is_fill_due`] ask for the time of something, by
//! which the engine chooses its copies. [`Engine::prepare_large`] prepares the first one.
//!
//! # State
//!
//! The state is in machines. Each has private fields, methods that say what they do, and tests:
//!
//! | machine | state |
//! |---|---|
//! | `peers` | a place for each rank, and a `peer` for each one with `contact` |
//! | `peer` | one peer, in parts: `short_paths`, `peer_parcels`, `large_paths`, `reassembly`, … |
//! | `requests` | operations under way, and their lines |
//! | `unexpected` | messages that met no receive, and their share of memory (`budget`) |
//! | `message_buffers` | memory for messages that wait here |
//! | `outbox` | sends to ranks of the node that are not placed: `cells`, blocked peers, wake-ups |
//! | `inbox` | the short ways in that are polled |
//! | `pull_requests` | receives that met offered messages |
//! | `negotiation` | RTRs that are here or sent, `rendezvous_choices` |
//! | `transfers` | large messages of the node, `descriptors`, `method_transfers`, the time |
//! | `network` | peers on other nodes: `stream`, `control`, `deaths`, large messages |
//!
//! The other files are the engine's calls, one concept each. They move values between machines.
//!
//! # Guarantees
//!
//! - An operation that cannot continue is in a list that every [`Engine::progress`] visits.
//! - Each packet between two ranks has a sequence number, on every path. A receiver takes packets
//!   in the order of their numbers.
//! - A value that another process wrote is checked before use. A bad value is an error.
//!
//! # Example
//!
//! Two ranks on one thread. In production each rank is a process that maps the same memory.
//!
//! ```
//! use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
//! use std::ptr::NonNull;
//!
//! use strait_core::buffer::{Cursor, Part};
//! use strait_core::engine::{Engine, Owner, Received, Sent, Tuning};
//! use strait_core::layout::{PAGE, Segment, SegmentConfig, SegmentPlan};
//! use strait_core::matching::Pattern;
//! use strait_core::memory::Memory;
//! use strait_core::wire::Key;
//!
//! #[derive(Clone)]
//! struct System;
//!
//! // SAFETY: the memory comes from the system allocator with the layout that was asked for.
//! unsafe impl Memory for System {
//!     fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
//!         // SAFETY: the layout is not empty (contract of `Memory`).
//!         NonNull::new(unsafe { alloc(layout) })
//!     }
//!
//!     unsafe fn release(&self, memory: NonNull<u8>, layout: Layout) {
//!         // SAFETY: the memory came from `allocate` with this layout (contract of `release`).
//!         unsafe { dealloc(memory.as_ptr(), layout) }
//!     }
//! }
//!
//! fn cursor(bytes: &mut [u8]) -> Cursor {
//!     let part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
//!     // SAFETY: both arrays outlive the engines.
//!     unsafe { Cursor::contiguous(part) }
//! }
//!
//! let (mut message, mut buffer) = (*b"hello", [0; 8]);
//! let plan = SegmentPlan::new(SegmentConfig { heap_bytes: 4096, ..SegmentConfig::new(2) })?;
//! let shape = Layout::from_size_align(plan.total_bytes(), PAGE)?;
//! // SAFETY: a segment is never empty.
//! let base = NonNull::new(unsafe { alloc_zeroed(shape) }).ok_or("no memory")?;
//! // SAFETY: the memory is zero, aligned and as long as the plan says.
//! let segment = unsafe { Segment::format(base, plan, 1) };
//! let mut rank_0 = Engine::new(System, segment, 0, Tuning::default())?;
//! let mut rank_1 = Engine::new(System, segment, 1, Tuning::default())?;
//! let wanted = Pattern { context: 0, source: 0, tag: 7 };
//! // SAFETY: the buffers stay as they are until the operations are over.
//! let received = unsafe { rank_1.irecv(wanted, cursor(&mut buffer), Owner::BLOCKING) }?;
//! let sent = unsafe { rank_0.isend(1, Key::new(0, 7), cursor(&mut message), Owner::BLOCKING) }?;
//! assert_eq!(sent, Sent::Done);
//! let Received::Pending(request) = received else { panic!("nothing was sent before") };
//! let status = loop {
//!     rank_1.progress()?;
//!     if let Some(outcome) = rank_1.test(request) {
//!         break outcome?;
//!     }
//! };
//! assert_eq!((status.source, status.bytes), (0, 5));
//! drop((rank_0, rank_1));
//! assert_eq!(&buffer[..5], b"hello");
//! // SAFETY: no engine uses the memory any more.
//! unsafe { dealloc(base.as_ptr(), shape) };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Source
//!
//! `[Nemesis07]` §3.1 (cells over iovecs, pending sends, active fastboxes, unexpected messages that
//! are copied out of their cells at once) and §3.3 (posted-receive bypass).

mod answers;
mod arrive;
mod budget;
mod bypass;
mod cells;
mod contact;
mod copy_ring;
mod credit_seen;
mod deferred_send;
mod delivery;
mod descriptors;
mod eager_flags;
mod early_look;
mod failure;
mod failure_cause;
mod fill_stores;
mod first_receive;
mod gone;
mod in_use;
mod inbound;
mod inbox;
mod large_paths;
mod leaving;
mod line_room;
mod lines;
mod matched_probe;
mod message;
mod message_buffers;
mod method_news;
mod method_recv;
mod method_send;
mod method_transfers;
mod named;
mod negotiation;
mod network;
mod observed;
mod observers;
mod offers;
mod oneself;
mod outbound;
mod outbox;
mod packet;
mod parcels;
mod peer;
mod peer_parcels;
mod peers;
mod prepare;
mod pull_request;
mod pull_requests;
mod queued_receive;
mod rank_list;
mod reassembly;
mod receive;
mod recent_buffers;
mod rendezvous_choices;
mod request;
mod requests;
mod retune;
mod ring;
mod rndv_recv;
mod rndv_send;
mod rtr;
mod rtrs;
mod send;
mod short;
mod short_paths;
mod short_probe;
mod short_receive;
mod speculation;
mod started;
mod straight_receive;
mod synchronous;
#[cfg(test)]
mod testing;
mod ticket;
mod tickets;
mod transfer;
mod transfers;
mod truncation;
mod tuning;
mod unexpected;
mod unexpected_budget;
mod wait_list;
mod waiting;

pub use answers::Unanswered;
pub use budget::UnexpectedUsage;
pub use failure_cause::FailureCause;
pub use gone::Gone;
pub use in_use::InUse;
pub use message::MessageId;
pub use network::{Begun, Broken, Channel, ChannelProgress, Direct, RemoteTransfers};
pub use request::{
    Fault, Outcome, Owner, ProgressError, RequestId, SendMode, StartError, Status, StillClaimed,
};
pub use rtrs::Rtrs;
pub use short_receive::{Bypass, Want};
pub use started::{LineRoom, Mark, Received, ReceivedShort, Sent, SentShort};
pub use ticket::{Ticket, Ticketed};
pub use tuning::{LINES_FIRST, Tuning};

use crate::layout::Segment;
use crate::matching::PostedQueue;
use crate::memory::{Memory, OutOfMemory};
use early_look::EarlyLook;
use inbox::Inbox;
use message_buffers::MessageBuffers;
use negotiation::Negotiation;
use network::Network;
use observed::Observed;
use outbox::Outbox;
use peer::Peer;
use peers::Peers;
use pull_requests::PullRequests;
use recent_buffers::RecentBuffers;
use request::RequestState;
use requests::Requests;
use transfers::Transfers;
use unexpected::UnexpectedMessages;

/// One rank's end of every channel in a segment.
#[derive(Debug)]
pub struct Engine<M: Memory + Clone> {
    peers: Peers<M>,
    posted: PostedQueue<M>,
    early: EarlyLook,
    unexpected: UnexpectedMessages<M>,
    segment: Segment,
    rank: u32,
    tuning: Tuning,
    requests: Requests<M>,
    outbox: Outbox<M>,
    inbox: Inbox<M>,
    pulls: PullRequests<M>,
    negotiation: Negotiation<M>,
    transfers: Transfers<M>,
    recent_buffers: RecentBuffers,
    network: Network<M>,
    stopped: bool,
    /// Whether a receive from any source took from the queue first, and may not do so next time.
    queue_is_next: bool,
    any_gone: bool,
    buffers: MessageBuffers<M>,
    observed: Observed,
}

impl<M: Memory + Clone> Engine<M> {
    /// Returns the engine of `rank`. No other engine uses the place of `rank` in `segment`.
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

    /// Returns an engine that knows no peer, for an embedder with its engine elsewhere. It refuses
    /// every send and receive, as if the short path did not serve it.
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
        let mut posted = PostedQueue::new(memory.clone());
        posted.allow_bypass(tuning.bypass);
        Ok(Self {
            peers: Peers::new(memory.clone(), &segment, rank, ranks)?,
            posted,
            early: EarlyLook::new(&tuning),
            unexpected: UnexpectedMessages::new(memory.clone()),
            outbox: Outbox::new(&memory, &segment, rank)?,
            inbox: Inbox::new(memory.clone()),
            requests: Requests::new(memory.clone()),
            negotiation: Negotiation::new(&memory),
            transfers: Transfers::new(&memory, rank)?,
            recent_buffers: RecentBuffers::default(),
            pulls: PullRequests::new(memory.clone()),
            network: Network::new(&memory),
            stopped: false,
            queue_is_next: false,
            any_gone: false,
            observed: Observed::nothing(),
            segment,
            rank,
            tuning: tuning.within_limits(),
            buffers: MessageBuffers::new(memory),
        })
    }

    /// Returns the number of this rank.
    #[inline(always)]
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the segment on which this engine works.
    #[must_use]
    pub const fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Moves everything that can move without waiting, and returns whether anything moved.
    ///
    /// # Errors
    ///
    /// [`ProgressError`].
    pub fn progress(&mut self) -> Result<bool, ProgressError> {
        let mut moved = self.take_in()?;
        if !self.transfers.is_empty() {
            moved |= self.advance_transfers()?;
        }
        if !self.outbox.is_empty() {
            moved |= self.push_blocked()?;
        }
        Ok(moved)
    }

    /// Takes the packets that came from ranks of this node, and returns whether there were any.
    /// Moves no bytes of large messages.
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
        for place in 0..self.inbox.len() {
            came |= self.poll_fastbox(self.inbox.source_at(place))?;
        }
        Ok(came)
    }

    /// Asks for memory for the fastbox to `peer`, at the first message of the pair.
    fn want_fastbox(&mut self, peer: u32) {
        let paths = &mut self.peers[peer as usize].paths;
        if paths.is_unopened() && self.tuning.fastbox_max > 0 {
            paths.want_fastbox();
            self.outbox.want_fastbox(peer);
        }
    }

    /// Returns a peer to which the engine would like to open its fastbox. Back the range that
    /// [`crate::layout::SegmentPlan::pair_range`] returns for (this rank, peer) with memory. Then
    /// report the result with [`Engine::fastbox_backed`].
    #[inline]
    pub fn poll_want(&mut self) -> Option<u32> {
        self.outbox.next_want()
    }

    /// Returns a peer that sleeps and has something to look at. Ring its doorbell
    /// ([`crate::shm::Doorbell::ring`]), and wake it if that returns `Some`. Call this after every
    /// call that moves messages.
    #[inline]
    pub fn poll_bell(&mut self) -> Option<u32> {
        self.outbox.next_bell()
    }

    /// Notes that `rank` must be woken if it sleeps, after something was published for which it may
    /// wait.
    #[inline]
    fn notify(&mut self, rank: u32) {
        // There is contact with every rank for which something was published: it is the source of
        // a packet, or the destination of one.
        if self.peers.known(rank as usize).is_some_and(Peer::wants_bell) {
            self.outbox.ring(rank);
        }
    }

    /// Takes the answer to [`Engine::poll_want`]. If `backed` is false, messages to this peer
    /// always go through the queue.
    pub fn fastbox_backed(&mut self, peer: u32, backed: bool) {
        let paths = &mut self.peers[peer as usize].paths;
        paths.fastbox_backed(backed, &self.segment, (self.rank, peer));
    }

    /// Returns the outcome of an operation that is over, and ends its id. Returns `None` while
    /// it is under way.
    #[inline]
    pub fn test(&mut self, id: RequestId) -> Option<Outcome> {
        self.requests.take_outcome(id.0)
    }

    /// Stops the engine for ever: no operation touches its buffer any more, and none will have an
    /// outcome. For the one case where a claim on a buffer must end and [`Engine::detach`] cannot
    /// end it. Returns false if a peer is still moving a piece of a large message; call again.
    /// `is_gone` returns whether a rank can no longer touch any memory.
    #[must_use]
    pub fn stop(&mut self, is_gone: impl Fn(u32) -> bool) -> bool {
        self.stopped = true;
        self.transfers.hush(&self.segment, is_gone)
    }

    /// Returns whether no message that was sent or is arriving needs this rank any more.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        !self.is_blocked()
            && self.pulls.is_empty()
            && !self.network.is_receiving()
            && self.transfers.is_empty()
            && self.network_is_flushed()
    }
}

impl<M: Memory + Clone> Drop for Engine<M> {
    /// Releases the memory that the engine kept: rests of sends, and messages that were not
    /// received.
    fn drop(&mut self) {
        let kept = self.requests.iter().filter_map(|(_, request)| match request {
            RequestState::Sending { detached, .. } => detached,
            _ => None,
        });
        let all = kept
            .chain(self.unexpected.buffers())
            .chain(self.transfers.buffers())
            .chain(self.network.buffers());
        all.for_each(|owned| self.buffers.put_back(owned));
    }
}
