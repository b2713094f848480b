//! The state of a rank for its windows by messages: records to send, and records that have arrived.
//!
//! It is part of progress: the call or thread that makes progress for this rank carries out what
//! has arrived. Nothing here waits.

use core::ptr::NonNull;
use std::collections::VecDeque;

use strait_core::buffer::{Cursor, Part as Buffer};
use strait_core::engine::{Owner, ProgressError, RequestId, SendMode, Sent};
use strait_core::rma::{AnswerNumber, DataNumber, Record, RecordName, WindowBlock, WindowNumber};
use strait_core::wire::Key;
use strait_platform::Rank;

use super::ServedWindows;
use super::started::started;
use super::target::IncomingRecords;
use crate::progress::context::ProgressContext;
use crate::reserved::{INTERNAL, WINDOW_OWNER as OWNER, WINDOW_TAG as TAG};

/// Bytes of records for one member above which they are sent before the origin synchronises.
pub(crate) const ENOUGH: usize = 256 << 10;

/// Largest number of messages in progress to one member. Messages with long data and answers do not
/// count.
const UNDER_WAY: usize = 4;

/// Returns the context of a message with this name. The name gives the direction of the message.
pub(crate) const fn context_of(name: RecordName) -> u32 {
    INTERNAL | name.context()
}

/// All windows of a rank that use messages.
#[derive(Default)]
pub(crate) struct Baselines {
    /// The numbers that were assigned last.
    opened: Option<WindowNumber>,
    data: Option<DataNumber>,
    answers: Option<AnswerNumber>,
    all: Vec<Baseline>,
    outbox: SendQueue,
    /// Sends that the engine has not completed.
    leaving: Vec<Leaving>,
    /// Messages from and to users' buffers, and the scopes for which those are borrowed.
    kept: Vec<(Owner, RequestId)>,
}

/// Messages to send: the destination rank, the name, and the bytes.
#[derive(Default)]
pub(crate) struct SendQueue(VecDeque<(Rank, RecordName, Vec<u8>)>);

impl SendQueue {
    /// Adds bytes of an answer. They join the last message if that belongs to the same answer.
    pub(crate) fn answer(&mut self, to: Rank, number: AnswerNumber, bytes: &[u8]) {
        let name = RecordName::Answer(number);
        match self.0.back_mut() {
            Some((rank, last, message)) if (*rank, *last) == (to, name) => {
                message.extend_from_slice(bytes);
            }
            _ => self.0.push_back((to, name, bytes.into())),
        }
    }
}

struct Leaving {
    to: Rank,
    name: RecordName,
    send: RequestId,
    bytes: Vec<u8>,
}

/// A member's view of a window that uses messages.
pub(crate) struct Baseline {
    pub(crate) window: WindowNumber,
    /// The members, and each member's number of the window.
    pub(crate) ranks: Box<[Rank]>,
    windows: Box<[WindowNumber]>,
    /// Part and block of this member.
    pub(crate) part: Buffer,
    pub(crate) block: WindowBlock,
    /// State of the members, by place.
    pub(crate) peers: Box<[BaselinePeer]>,
    /// Places of the members to which records are to be sent now, and of those to which they are to
    /// be sent when this rank waits.
    pressing: Vec<u32>,
    wanted: Vec<u32>,
    /// Places of members from which records have arrived that are not carried out.
    pub(crate) coming: Vec<u32>,
}

/// The state of one member towards another.
#[derive(Default)]
pub(crate) struct BaselinePeer {
    /// Packed records for the peer.
    pub(crate) batch: Vec<u8>,
    /// True when the records are to be sent now.
    pressing: bool,
    /// True when an operation was packed since the last flush request.
    unflushed: bool,
    /// Number of flush requests sent, and the number of the last one that the peer has answered.
    flushes: u64,
    pub(crate) flushed: u64,
    pub(super) arriving: VecDeque<IncomingRecords>,
}

impl Baselines {
    /// Returns the number of the next window, which no open window of this rank has.
    pub(crate) fn next_window(&mut self) -> WindowNumber {
        loop {
            let next = self.opened.map_or(WindowNumber::FIRST, WindowNumber::next);
            self.opened = Some(next);
            if self.window(next).is_none() {
                return next;
            }
        }
    }

    /// Returns the number of the next message with data.
    pub(crate) fn next_data(&mut self) -> DataNumber {
        *self.data.insert(self.data.map_or(DataNumber::FIRST, DataNumber::next))
    }

    /// Returns the number of the next answer to this rank.
    pub(crate) fn next_answer(&mut self) -> AnswerNumber {
        *self.answers.insert(self.answers.map_or(AnswerNumber::FIRST, AnswerNumber::next))
    }

    /// Opens a window. Its part stays valid until the window is closed, or the process ends.
    pub(crate) fn open(
        &mut self,
        window: WindowNumber,
        (ranks, windows): (&[Rank], Box<[WindowNumber]>),
        part: Buffer,
        block: WindowBlock,
    ) {
        let peers = ranks.iter().map(|_| BaselinePeer::default()).collect();
        let (pressing, wanted, coming) = Default::default();
        let ranks = ranks.into();
        let open =
            Baseline { window, ranks, windows, part, block, peers, pressing, wanted, coming };
        self.all.push(open);
    }

    pub(crate) fn close(&mut self, window: WindowNumber) {
        self.all.retain(|open| open.window != window);
    }

    /// Returns whether there is anything to serve.
    #[inline(always)]
    pub(crate) const fn is_open(&self) -> bool {
        !self.all.is_empty() || !self.leaving.is_empty()
    }

    fn window(&mut self, window: WindowNumber) -> Option<&mut Baseline> {
        self.all.iter_mut().find(|open| open.window == window)
    }

    /// Packs a record and its data for the member in `place`. Returns false when too many bytes
    /// wait there already.
    pub(crate) fn pack(
        &mut self,
        window: WindowNumber,
        place: u32,
        record: Record,
        data: &[u8],
    ) -> bool {
        let Some(open) = self.window(window) else { return true };
        let peer = &mut open.peers[place as usize];
        if peer.batch.len() >= ENOUGH {
            open.press(place);
            return false;
        }
        peer.batch.extend_from_slice(&record.bytes());
        peer.batch.extend_from_slice(data);
        peer.unflushed = true;
        true
    }

    /// Sends data that a record describes as separate.
    pub(crate) fn send(&mut self, to: Rank, number: DataNumber, data: &[u8]) {
        self.outbox.0.push_back((to, RecordName::Data(number), data.into()));
    }

    /// Keeps a message from or to a user's buffer until it has ended.
    pub(crate) fn keep(&mut self, owner: Owner, id: RequestId) {
        self.kept.push((owner, id));
    }

    pub(crate) fn forget(&mut self, id: RequestId) {
        self.kept.retain(|(_, kept)| *kept != id);
    }

    /// Returns a kept message of this scope, if there is one.
    pub(crate) fn kept_for(&self, owner: Owner) -> Option<RequestId> {
        self.kept.iter().find(|(kept, _)| *kept == owner).map(|(_, id)| *id)
    }

    /// Marks the records for the member in `place` to be sent now.
    pub(crate) fn press(&mut self, window: WindowNumber, place: u32) {
        if let Some(open) = self.window(window) {
            open.press(place);
        }
    }

    /// Marks the records for the member in `place` to be sent as soon as this rank waits for
    /// anything, since it may wait for them.
    pub(crate) fn want(&mut self, window: WindowNumber, place: u32) {
        if let Some(open) = self.window(window)
            && !open.wanted.contains(&place)
        {
            open.wanted.push(place);
        }
    }

    /// Sends the wanted records, because this rank waits.
    #[inline(always)]
    pub(crate) fn hurry(&mut self) {
        for open in &mut self.all {
            while let Some(place) = open.wanted.pop() {
                open.press(place);
            }
        }
    }

    /// Marks all records to be sent before this rank leaves. Dropped windows have records too, and
    /// targets receive long data only for a record.
    pub(crate) fn press_all(&mut self) {
        for open in &mut self.all {
            (0..open.peers.len() as u32).for_each(|place| open.press(place));
        }
    }

    /// Returns whether the peers have everything that this rank has for them, or are gone.
    pub(crate) fn is_handed_over(&self) -> bool {
        let mut peers = self.all.iter().flat_map(|open| &open.peers);
        let is_sent = peers.all(|peer| peer.batch.is_empty()) && self.outbox.0.is_empty();
        !self.is_open() || is_sent && self.leaving.is_empty()
    }

    /// Requests a flush from the member in `place`, if needed. Returns whether all operations on it
    /// are complete.
    pub(crate) fn is_flushed(&mut self, window: WindowNumber, place: u32) -> bool {
        let Some(open) = self.window(window) else { return true };
        let peer = &mut open.peers[place as usize];
        if !core::mem::take(&mut peer.unflushed) {
            return peer.flushed == peer.flushes;
        }
        peer.flushes += 1;
        let record = Record::Flush { number: peer.flushes };
        open.say(place, record);
        false
    }

    /// Returns whether no record of a window is in progress here.
    pub(crate) fn is_idle(&self, window: WindowNumber) -> bool {
        let is_idle = |peer: &BaselinePeer| peer.batch.is_empty() && peer.arriving.is_empty();
        let open = self.all.iter().find(|open| open.window == window);
        let out = |open: &Baseline| {
            let is_of = |(to, name)| {
                open.ranks
                    .iter()
                    .zip(&open.windows)
                    .any(|(rank, window)| (*rank, RecordName::Records(*window)) == (to, name))
            };
            let waiting = self.outbox.0.iter().map(|(to, name, _)| (*to, *name));
            !waiting.chain(self.leaving.iter().map(|it| (it.to, it.name))).any(is_of)
        };
        open.is_none_or(|open| open.peers.iter().all(is_idle) && out(open))
    }

    /// Receives the records of `windows`, carries them out, and sends what is to be sent. Returns
    /// whether anything was done.
    ///
    /// An error with one member stops neither the work for other members nor the sends, since
    /// living members wait for them. A failed record stays where it is, and the next call tries it
    /// again.
    pub(crate) fn serve(
        &mut self,
        context: &mut ProgressContext<'_>,
        windows: ServedWindows,
    ) -> Result<bool, ProgressError> {
        self.leaving.retain(|it| context.engine.test(it.send).is_none());
        let mut served = Ok(false);
        for open in self.all.iter_mut().filter(|open| windows.has_baseline(open.window)) {
            served = both(served, open.hear(context));
            for place in core::mem::take(&mut open.coming) {
                served = both(served, open.carry_out(place, context, &mut self.outbox));
            }
            open.fill(&mut self.outbox.0, &self.leaving);
        }
        both(served, self.send_all(context))
    }

    /// Sends the messages of the outbox. Returns whether there were any.
    fn send_all(&mut self, context: &mut ProgressContext<'_>) -> Result<bool, ProgressError> {
        let mut moved = false;
        while let Some((to, name, bytes)) = self.outbox.0.pop_front() {
            let key = Key::new(context_of(name), TAG);
            // SAFETY: the bytes stay allocated until the send has ended, or are leaked.
            let sent = unsafe {
                let data = Cursor::contiguous(buffer(&bytes));
                context.isend(SendMode::Standard, to, key, data, OWNER)
            };
            match sent {
                Ok(Sent::Done) => {}
                Ok(Sent::Pending(send)) => {
                    self.leaving.push(Leaving { to, name, send, bytes });
                }
                Err(error) => {
                    if let Err(error) = started(error) {
                        self.outbox.0.push_front((to, name, bytes));
                        return Err(error);
                    }
                }
            }
            moved = true;
        }
        Ok(moved)
    }
}

/// Joins the results of two steps: whether either did anything, or the first error.
fn both(
    first: Result<bool, ProgressError>,
    second: Result<bool, ProgressError>,
) -> Result<bool, ProgressError> {
    Ok(first? | second?)
}

impl Drop for Baselines {
    /// Leaks the buffers of operations that the engine has not completed, because it may still
    /// access them.
    fn drop(&mut self) {
        let peers = self.all.iter_mut().flat_map(|open| &mut open.peers);
        let arriving = peers.flat_map(|peer| peer.arriving.drain(..));
        for IncomingRecords { message, receive, apart, .. } in arriving {
            receive.into_iter().zip([message]).chain(apart).for_each(|(_, bytes)| {
                Box::leak(bytes);
            });
        }
        self.leaving.drain(..).for_each(|it| {
            it.bytes.leak();
        });
    }
}

impl Baseline {
    /// Marks the records for the member in `place` to be sent now.
    fn press(&mut self, place: u32) {
        if !core::mem::replace(&mut self.peers[place as usize].pressing, true) {
            self.pressing.push(place);
        }
    }

    /// Packs a record for the member in `place`, to be sent now.
    pub(crate) fn say(&mut self, place: u32, record: Record) {
        self.peers[place as usize].batch.extend_from_slice(&record.bytes());
        self.press(place);
    }

    /// Moves the records that are to be sent now into the outbox.
    fn fill(&mut self, outbox: &mut VecDeque<(Rank, RecordName, Vec<u8>)>, leaving: &[Leaving]) {
        let Self { pressing, peers, ranks, windows, .. } = self;
        pressing.retain(|&place| {
            let (peer, to) = (&mut peers[place as usize], ranks[place as usize]);
            let name = RecordName::Records(windows[place as usize]);
            let is_of = |it: &&Leaving| (it.to, it.name) == (to, name);
            if leaving.iter().filter(is_of).count() >= UNDER_WAY {
                return true;
            }
            peer.pressing = false;
            let batch = core::mem::take(&mut peer.batch);
            if !batch.is_empty() {
                outbox.push_back((to, name, batch));
            }
            false
        });
    }
}

fn buffer(bytes: &[u8]) -> Buffer {
    Buffer { base: NonNull::from(bytes).cast(), length: bytes.len() }
}

pub(crate) fn buffer_mut(bytes: &mut [u8]) -> Buffer {
    Buffer { length: bytes.len(), base: NonNull::from(bytes).cast() }
}
