//! Nonblocking messages and their results.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::SeqCst;

use strait::raw::{ANY_SOURCE, Part, RawEndpoint as _, RawWorld as _, Unscoped};
use strait::{ANY_TAG, Endpoint, Error, Fault, SharedMemory, Status};

use super::job::Plant;
use super::rank::Rank;
use super::stream::{Context, Stream};

/// The least room of a receive, in bytes, so that it holds the head of a message.
const ROOM: usize = 64;
/// The most sends that this rank leaves pending by choice.
const SENDS: usize = 16;
/// The most receives that this rank leaves pending by choice.
const RECEIVES: usize = 8;
/// Number of receives for control messages.
const CONTROLS: usize = 3;

/// The memory of a message.
pub(super) enum Buffer {
    Private(Vec<u8>),
    Segment(SharedMemory<u8>),
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Private(bytes) => bytes,
            Self::Segment(bytes) => bytes,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Private(bytes) => bytes,
            Self::Segment(bytes) => bytes,
        }
    }
}

/// A receive as it was posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) context: Context,
    pub(super) source: u32,
    pub(super) tag: u32,
    pub(super) order: u64,
    pub(super) is_cancelled: bool,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A message of a stream, or the last message to a peer.
    Send {
        peer: u32,
        stream: Option<Stream>,
    },
    Receive(Posted),
}

/// A nonblocking operation. It keeps its buffer until it is complete.
pub(super) struct Pending {
    pub(super) operation: Unscoped,
    /// The segments of its buffer, if there are several.
    _list: Box<[Part]>,
    buffer: Buffer,
    pub(super) what: What,
}

/// Returns the bytes in the form that the interface for any owner takes.
pub(super) fn part(bytes: &mut [u8]) -> Part {
    Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() }
}

impl Rank<'_> {
    pub(super) fn endpoint(&self, context: Context) -> Endpoint<'_> {
        self.world.endpoint().with_context(context.number())
    }

    /// Draws any rank, sometimes this one.
    pub(super) fn any_rank(&mut self) -> u32 {
        let rank = self.random.u32(..self.ranks);
        if rank == self.me { self.random.u32(..self.ranks) } else { rank }
    }

    pub(super) fn stream_to(&self, destination: u32, context: Context, tag: u32) -> Stream {
        Stream { source: self.me, destination, context, tag }
    }

    /// Returns the next message of a stream, which counts as begun from now on.
    pub(super) fn next_message(&mut self, stream: Stream) -> Vec<u8> {
        let number = self.begun.entry(stream).or_default();
        let message = stream.message(self.settings, *number);
        *number += 1;
        self.board.begun(stream).store(*number, SeqCst);
        message
    }

    /// Returns the number of the next receive.
    pub(super) fn next_order(&mut self) -> u64 {
        self.receives += 1;
        self.receives
    }

    fn buffer(&mut self, bytes: Vec<u8>) -> Buffer {
        if self.random.u8(..4) == 0
            && let Ok(mut memory) = self.world.alloc::<u8>(bytes.len())
        {
            memory.copy_from_slice(&bytes);
            return Buffer::Segment(memory);
        }
        Buffer::Private(bytes)
    }

    /// Cuts a buffer into segments, or leaves it whole.
    fn parts(&mut self, buffer: &mut [u8]) -> Box<[Part]> {
        if self.random.u8(..3) > 0 {
            return Box::default();
        }
        let (mut rest, mut parts) = (buffer, Vec::new());
        for _ in 0..self.random.usize(0..4) {
            let (first, others) = rest.split_at_mut(self.random.usize(..=rest.len()));
            parts.push(part(first));
            rest = others;
        }
        parts.push(part(rest));
        parts.into()
    }

    /// Begins to send the next message of a stream.
    pub(super) fn begin_send(&mut self, stream: Stream) {
        let message = self.next_message(stream);
        self.begin_message(stream.destination, stream.context, stream.tag, message, Some(stream));
    }

    fn begin_message(
        &mut self,
        peer: u32,
        context: Context,
        tag: u32,
        message: Vec<u8>,
        stream: Option<Stream>,
    ) {
        let mut buffer = self.buffer(message);
        let list = self.parts(&mut buffer);
        let whole = part(&mut buffer);
        let synchronous = self.random.u8(..4) == 0;
        let numbers = [peer.into(), u64::from(context.number()) << 8 | u64::from(tag)];
        self.begin("isend", [numbers[0], numbers[1], buffer.len() as u64]);
        let endpoint = self.endpoint(context);
        // SAFETY: `pending` keeps the buffer and the list, at a fixed place on the heap, until the
        // operation is complete.
        let begun = unsafe {
            match (synchronous, list.is_empty()) {
                (false, true) => endpoint.begin_send(whole, peer, tag),
                (true, true) => endpoint.begin_ssend(whole, peer, tag),
                (false, false) => endpoint.begin_send_vectored(&list, peer, tag),
                (true, false) => endpoint.begin_ssend_vectored(&list, peer, tag),
            }
        };
        match begun {
            Ok(operation) => {
                let what = What::Send { peer, stream };
                self.pending.push(Pending { operation, _list: list, buffer, what });
            }
            Err(error) => self.excuse_peer(&error, peer, "a send does not begin"),
        }
    }

    /// Posts a receive.
    pub(super) fn post(&mut self, context: Context, source: u32, tag: u32, room: usize) {
        let mut buffer = self.buffer(vec![0; room]);
        let list = self.parts(&mut buffer);
        let whole = part(&mut buffer);
        self.begin(
            "irecv",
            [source.into(), u64::from(context.number()) << 8 | u64::from(tag), room as u64],
        );
        let order = self.next_order();
        let endpoint = self.endpoint(context);
        // SAFETY: `pending` keeps the buffer and the list, at a fixed place on the heap, until the
        // operation is complete.
        let begun = unsafe {
            match list.is_empty() {
                true => endpoint.begin_recv(whole, source, tag),
                false => endpoint.begin_recv_vectored(&list, source, tag),
            }
        };
        let posted = Posted { context, source, tag, order, is_cancelled: false };
        self.keep_receive(begun, list, buffer, posted);
    }

    pub(super) fn keep_receive(
        &mut self,
        begun: Result<Unscoped, Error>,
        list: Box<[Part]>,
        buffer: Buffer,
        posted: Posted,
    ) {
        match begun {
            Ok(operation) => {
                let what = What::Receive(posted);
                self.pending.push(Pending { operation, _list: list, buffer, what });
            }
            Err(error) => self.take(posted, Err(error), &buffer),
        }
    }

    /// Begins to receive a message that a probe has matched.
    pub(super) fn keep_matched(
        &mut self,
        status: Status,
        message: &strait::raw::Matched,
        context: Context,
        order: u64,
    ) {
        let mut buffer = self.buffer(vec![0; status.bytes]);
        let whole = part(&mut buffer);
        // SAFETY: `pending` keeps the buffer, at a fixed place on the heap, until the operation is
        // complete.
        let begun = unsafe { self.world.begin_mrecv(message, whole) };
        let posted =
            Posted { context, source: status.source, tag: status.tag, order, is_cancelled: false };
        self.keep_receive(begun, Box::default(), buffer, posted);
    }

    pub(super) fn send_freely(&mut self) {
        let is_send = |pending: &&Pending| matches!(pending.what, What::Send { .. });
        if self.pending.iter().filter(is_send).count() < SENDS {
            let (peer, context) = (self.any_rank(), self.random.bool());
            let context = if context { Context::Free } else { Context::Own };
            let tag = self.random.u32(..Stream::TAGS);
            self.begin_send(self.stream_to(peer, context, tag));
        }
    }

    pub(super) fn pattern(&mut self) -> (u32, u32) {
        let source = if self.random.bool() { ANY_SOURCE } else { self.any_rank() };
        let tag = if self.random.bool() { ANY_TAG } else { self.random.u32(..Stream::TAGS) };
        (source, tag)
    }

    /// Draws the room for a message of any stream, sometimes too little.
    pub(super) fn room(&mut self) -> usize {
        let longest = self.settings.longest.max(ROOM);
        if self.random.u8(..6) == 0 { self.random.usize(ROOM..=longest) } else { longest }
    }

    pub(super) fn post_freely(&mut self) {
        let is_free = |pending: &&Pending| {
            matches!(pending.what, What::Receive(Posted { context: Context::Free, .. }))
        };
        if self.pending.iter().filter(is_free).count() < RECEIVES {
            let ((source, tag), room) = (self.pattern(), self.room());
            self.post(Context::Free, source, tag, room);
        }
    }

    pub(super) fn cancel(&mut self) {
        self.begin("cancel", [0; 3]);
        let world = self.world;
        let free = self.pending.iter_mut().filter_map(|pending| match &mut pending.what {
            What::Receive(posted) if posted.context == Context::Free => {
                Some((&mut pending.operation, posted))
            }
            _ => None,
        });
        let mut free: Vec<_> = free.collect();
        if let Some((operation, posted)) = self.random.choice(&mut free) {
            posted.is_cancelled = true;
            operation.cancel(world);
        }
    }

    /// Makes progress, and handles the operations that have ended.
    pub(super) fn pump(&mut self) {
        self.world.endpoint().progress().expect("progress");
        let mut at = 0;
        while at < self.pending.len() {
            if !self.pending[at].operation.look(self.world) {
                at += 1;
                continue;
            }
            let Pending { operation, buffer, what, .. } = self.pending.swap_remove(at);
            let ended = match operation.status() {
                Ok(status) => Ok(status.expect("the status of what is over")),
                Err(error) => Err(error),
            };
            match what {
                What::Send { peer, stream } => self.sent(peer, stream, ended),
                What::Receive(posted) => self.take(posted, ended, &buffer),
            }
        }
        self.post_controls();
    }

    fn post_controls(&mut self) {
        let is_control = |pending: &&Pending| {
            matches!(pending.what, What::Receive(Posted { context: Context::Control, .. }))
        };
        let all_ended = self.ended.iter().all(|ended| ended[Context::Control as usize]);
        let posted = self.pending.iter().filter(is_control).count();
        if posted < CONTROLS
            && !all_ended
            && self.board.phase(self.me) == super::board::Phase::Traffic
        {
            self.post(Context::Control, ANY_SOURCE, ANY_TAG, ROOM);
        }
    }

    /// Handles a send that has ended.
    pub(super) fn sent(&mut self, peer: u32, stream: Option<Stream>, ended: Result<Status, Error>) {
        match (ended, stream) {
            (Ok(_), Some(stream)) => {
                self.board.sent(stream).fetch_add(1, SeqCst);
            }
            (Ok(_), None) => {}
            (Err(error), _) => self.excuse_peer(&error, peer, "a send"),
        }
    }

    /// Fails unless the error reports that this very peer is gone, and it is.
    #[track_caller]
    pub(super) fn excuse_peer(&self, error: &Error, peer: u32, about: &str) {
        self.excuse(error, about);
        let named = error.gone_peer();
        assert!(named == Some(peer), "{about} with rank {peer}: {error}");
    }

    /// Handles a receive that has ended: judges its message.
    pub(super) fn take(&mut self, posted: Posted, ended: Result<Status, Error>, buffer: &[u8]) {
        let (source, tag, length) = match ended {
            Ok(Status { source, tag, bytes }) => (source, tag, bytes),
            Err(Error::Fault(Fault::Truncated { source, tag, message, buffer: room })) => {
                assert!(room == buffer.len() && message > room, "a message of {message} in {room}");
                (source, tag, message)
            }
            Err(Error::Fault(Fault::Cancelled)) if posted.is_cancelled => return,
            Err(error) if posted.source == ANY_SOURCE => return self.excuse(&error, "a receive"),
            Err(error) => {
                if posted.context == Context::Announced {
                    self.announced[posted.source as usize] = Default::default();
                }
                return self.excuse_peer(&error, posted.source, "a receive");
            }
        };
        let matches =
            [ANY_SOURCE, source].contains(&posted.source) && ([ANY_TAG, tag].contains(&posted.tag));
        assert!(matches, "{posted:?} got a message from {source} with tag {tag}");
        let mut bytes = buffer[..length.min(buffer.len())].to_vec();
        if self.plant == Some(Plant::Flip) && length > 0 && self.random.u8(..8) == 0 {
            let at = self.random.usize(..bytes.len());
            bytes[at] ^= 1 << self.random.u8(..8);
        }
        self.enter(posted, (source, tag), &bytes, length);
    }

    /// Enters a message in the account.
    fn enter(&mut self, posted: Posted, (source, tag): (u32, u32), bytes: &[u8], length: usize) {
        let Posted { context, order, .. } = posted;
        if tag == Stream::LAST {
            let ended = &mut self.ended[source as usize][context as usize];
            assert!(!core::mem::replace(ended, true), "rank {source} ended {context:?} twice");
            return;
        }
        let stream = Stream { source, destination: self.me, context, tag };
        let mut times = 1;
        let mut order = order;
        if context == Context::Free && self.random.u8(..8) == 0 {
            match self.plant {
                Some(Plant::Lose) => times = 0,
                Some(Plant::Double) => times = 2,
                Some(Plant::Swap) => order = order.saturating_sub(1000),
                _ => {}
            }
        }
        for _ in 0..times {
            let entered = self.account.enter(self.settings, stream, order, (bytes, length));
            assert!(entered.is_ok(), "{}", entered.unwrap_err());
        }
        self.board.received(stream).fetch_add(1, SeqCst);
        match (context, tag) {
            (Context::Control, 0) => self.credits[source as usize] += 1,
            (Context::Control, tag) => self.announced[source as usize][tag as usize - 1] += 1,
            (Context::Announced, tag) => self.announced[source as usize][tag as usize] -= 1,
            _ => {}
        }
    }

    /// Tells every rank that no more messages follow, receives all that arrive, and judges whether
    /// they are complete.
    pub(super) fn close_accounts(&mut self) {
        self.begin("close accounts", [0; 3]);
        self.board.set_phase(self.me, super::board::Phase::Accounting);
        for context in Context::ALL {
            for peer in 0..self.ranks {
                self.begin_message(peer, context, Stream::LAST, vec![7; 8], None);
            }
        }
        self.await_last_messages();
        let world = self.world;
        for pending in &mut self.pending {
            if let What::Receive(posted) = &mut pending.what {
                posted.is_cancelled = true;
                pending.operation.cancel(world);
            }
        }
        self.begin("await operations", [self.pending.len() as u64, 0, 0]);
        while !self.pending.is_empty() {
            self.pump();
            std::thread::yield_now();
        }
        self.begin("judge messages", [0; 3]);
        for source in 0..self.ranks {
            let is_whole = !self.board.is_doomed(source);
            for (context, tag) in
                Context::ALL.into_iter().flat_map(|c| (0..Stream::TAGS).map(move |t| (c, t)))
            {
                let stream = Stream { source, destination: self.me, context, tag };
                let begun = self.board.begun(stream).load(SeqCst);
                let closed = self.account.close(self.settings, stream, begun, is_whole);
                assert!(closed.is_ok(), "{}", closed.unwrap_err());
            }
        }
    }

    /// Keeps a receive posted for each peer and context, until the last message has arrived or the
    /// peer is dead.
    fn await_last_messages(&mut self) {
        loop {
            let mut waits = 0;
            for (peer, context) in (0..self.ranks).flat_map(|p| Context::ALL.map(|c| (p, c))) {
                if self.ended[peer as usize][context as usize] || self.board.is_gone(peer) {
                    continue;
                }
                waits += 1;
                let serves = |pending: &Pending| {
                    let What::Receive(posted) = pending.what else { return false };
                    (posted.context, posted.source, posted.tag) == (context, peer, ANY_TAG)
                };
                if !self.pending.iter().any(serves) {
                    self.board.begin(self.me, "await the last", [peer.into(), context as u64, 0]);
                    let room = self.settings.longest.max(ROOM);
                    self.post(context, peer, ANY_TAG, room);
                }
            }
            if waits == 0 {
                return;
            }
            self.pump();
            std::thread::yield_now();
        }
    }
}
