//! What a rank has for its windows that go by messages: records that wait to be sent, and what has come.
//!
//! It is part of progress: whoever makes that for this rank, a call or a thread, carries out what has come. Nothing here waits.

use core::ptr::NonNull;
use std::collections::VecDeque;

use strait_core::matching::TAG_MAX;
use strait_core::progress::{
    Cursor, Owner, Part as Buffer, ProgressError, RequestId, SendMode, Sent,
};
use strait_core::rma::{AnswerNumber, Block, DataNumber, Name, Record, WindowNumber};
use strait_core::wire::Key;

use super::target::Arriving;
use crate::Rank;
use crate::collective::INTERNAL;
use crate::window::passive::started;
use crate::world::Motor;

/// No group's messages have it.
pub(super) const TAG: u32 = TAG_MAX;

/// Nobody's operations: no scope has this number.
pub(super) const OWNER: Owner = Owner(0);

/// Bytes of records for one member from which on they are sent before the origin synchronises.
pub(super) const ENOUGH: usize = 256 << 10;

/// Messages on their way to one member, at most: those of longer data, and answers, not counted.
const UNDER_WAY: usize = 4;

/// The context of a message with this name. The name says which way the message goes.
pub(super) const fn context_of(name: Name) -> u32 {
    INTERNAL | name.context()
}

/// All windows of a rank that go by messages.
#[derive(Default)]
pub(crate) struct Baselines {
    /// The last numbers that were given out.
    opened: Option<WindowNumber>,
    data: Option<DataNumber>,
    answers: Option<AnswerNumber>,
    all: Vec<Baseline>,
    outbox: Outbox,
    /// What the engine has not done with.
    leaving: Vec<Leaving>,
    /// Messages from and to users' buffers, and the scopes that keep those borrowed.
    kept: Vec<(Owner, RequestId)>,
}

/// What is to be sent: to which rank, under which name, and the bytes.
#[derive(Default)]
pub(super) struct Outbox(VecDeque<(Rank, Name, Vec<u8>)>);

impl Outbox {
    /// Adds bytes of an answer. They join the message before if that is a part of the same answer.
    pub(super) fn answer(&mut self, to: Rank, number: AnswerNumber, bytes: &[u8]) {
        let name = Name::Answer(number);
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
    name: Name,
    send: RequestId,
    bytes: Vec<u8>,
}

/// A window that goes by messages, as one member has it.
pub(super) struct Baseline {
    pub(super) window: WindowNumber,
    /// The members, and what each calls its window.
    pub(super) ranks: Box<[Rank]>,
    windows: Box<[WindowNumber]>,
    /// This member's part and words.
    pub(super) part: Buffer,
    pub(super) block: Block,
    /// By place.
    pub(super) peers: Box<[Peer]>,
    /// The places of those for whom records are to leave now; or once this rank waits for anything.
    pressing: Vec<u32>,
    wanted: Vec<u32>,
    /// The places of those from whom something has come that is not carried out.
    pub(super) coming: Vec<u32>,
}

/// What one member has with another.
#[derive(Default)]
pub(super) struct Peer {
    /// Records for it.
    pub(super) batch: Vec<u8>,
    /// They are to leave.
    pressing: bool,
    /// Something was asked of it since it was last asked whether all is done.
    unflushed: bool,
    /// How many times it was asked, and has answered.
    flushes: u64,
    pub(super) flushed: u64,
    pub(super) arriving: VecDeque<Arriving>,
}

impl Baselines {
    /// The number of the next window. No open window of this rank has it.
    pub(super) fn next_window(&mut self) -> WindowNumber {
        loop {
            let next = self.opened.map_or(WindowNumber::FIRST, WindowNumber::next);
            self.opened = Some(next);
            if self.window(next).is_none() {
                return next;
            }
        }
    }

    /// The number of the next message with data.
    pub(super) fn next_data(&mut self) -> DataNumber {
        *self.data.insert(self.data.map_or(DataNumber::FIRST, DataNumber::next))
    }

    /// The number of the next answer to this rank.
    pub(super) fn next_answer(&mut self) -> AnswerNumber {
        *self.answers.insert(self.answers.map_or(AnswerNumber::FIRST, AnswerNumber::next))
    }

    /// Opens a window. The part stays valid until it is closed, or the process ends.
    pub(super) fn open(
        &mut self,
        window: WindowNumber,
        (ranks, windows): (&[Rank], Box<[WindowNumber]>),
        part: Buffer,
        block: Block,
    ) {
        let peers = ranks.iter().map(|_| Peer::default()).collect();
        let (pressing, wanted, coming) = Default::default();
        let ranks = ranks.into();
        let open =
            Baseline { window, ranks, windows, part, block, peers, pressing, wanted, coming };
        self.all.push(open);
    }

    pub(super) fn close(&mut self, window: WindowNumber) {
        self.all.retain(|open| open.window != window);
    }

    /// Whether there is anything to serve.
    #[inline(always)]
    pub(crate) const fn is_open(&self) -> bool {
        !self.all.is_empty() || !self.leaving.is_empty()
    }

    fn window(&mut self, window: WindowNumber) -> Option<&mut Baseline> {
        self.all.iter_mut().find(|open| open.window == window)
    }

    /// Packs a record and what is behind it for the member in `place`. False: not now, since there is enough for it.
    pub(super) fn pack(
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

    /// Sends data that a record says are apart.
    pub(super) fn send(&mut self, to: Rank, number: DataNumber, data: &[u8]) {
        self.outbox.0.push_back((to, Name::Data(number), data.into()));
    }

    /// Remembers a message from or to a user's buffer until it has ended.
    pub(crate) fn keep(&mut self, owner: Owner, id: RequestId) {
        self.kept.push((owner, id));
    }

    pub(crate) fn forget(&mut self, id: RequestId) {
        self.kept.retain(|(_, kept)| *kept != id);
    }

    /// Such a message of this scope, if there is one.
    pub(crate) fn kept_for(&self, owner: Owner) -> Option<RequestId> {
        self.kept.iter().find(|(kept, _)| *kept == owner).map(|(_, id)| *id)
    }

    /// Has the records for the member in `place` leave.
    pub(super) fn press(&mut self, window: WindowNumber, place: u32) {
        if let Some(open) = self.window(window) {
            open.press(place);
        }
    }

    /// Has them leave as soon as this rank waits for anything: for what they ask for, maybe.
    pub(super) fn want(&mut self, window: WindowNumber, place: u32) {
        if let Some(open) = self.window(window)
            && !open.wanted.contains(&place)
        {
            open.wanted.push(place);
        }
    }

    /// This rank waits.
    #[inline(always)]
    pub(crate) fn hurry(&mut self) {
        for open in &mut self.all {
            while let Some(place) = open.wanted.pop() {
                open.press(place);
            }
        }
    }

    /// Sends all records before this rank leaves. Dropped windows have records too, and targets take long data only for a record.
    pub(crate) fn press_all(&mut self) {
        for open in &mut self.all {
            (0..open.peers.len() as u32).for_each(|place| open.press(place));
        }
    }

    /// Whether the peers have everything that this rank has for them, or are gone.
    pub(crate) fn is_handed_over(&self) -> bool {
        let mut peers = self.all.iter().flat_map(|open| &open.peers);
        let is_sent = peers.all(|peer| peer.batch.is_empty()) && self.outbox.0.is_empty();
        !self.is_open() || is_sent && self.leaving.is_empty()
    }

    /// Asks the member in `place` to say when all is done that was asked of it, and says whether it has said so.
    pub(super) fn is_flushed(&mut self, window: WindowNumber, place: u32) -> bool {
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

    /// Whether nothing of a window is under way here.
    pub(super) fn is_idle(&self, window: WindowNumber) -> bool {
        let is_idle = |peer: &Peer| peer.batch.is_empty() && peer.arriving.is_empty();
        let open = self.all.iter().find(|open| open.window == window);
        let out = |open: &Baseline| {
            let is_of = |(to, name)| {
                open.ranks
                    .iter()
                    .zip(&open.windows)
                    .any(|(rank, window)| (*rank, Name::Records(*window)) == (to, name))
            };
            let waiting = self.outbox.0.iter().map(|(to, name, _)| (*to, *name));
            !waiting.chain(self.leaving.iter().map(|it| (it.to, it.name))).any(is_of)
        };
        open.is_none_or(|open| open.peers.iter().all(is_idle) && out(open))
    }

    /// Takes in what has come, carries it out, and sends what is to leave. Whether anything was done.
    ///
    /// An error ends neither what the other members asked for nor what is to leave: the living wait for it. What failed stays where
    /// it is, and the next call tries it again.
    pub(crate) fn serve(&mut self, motor: &mut Motor<'_>) -> Result<bool, ProgressError> {
        self.leaving.retain(|it| motor.engine.test(it.send).is_none());
        let mut served = Ok(false);
        for open in &mut self.all {
            served = both(served, open.hear(motor));
            for place in core::mem::take(&mut open.coming) {
                served = both(served, open.carry_out(place, motor, &mut self.outbox));
            }
            open.fill(&mut self.outbox.0, &self.leaving);
        }
        both(served, self.send_all(motor))
    }

    /// Sends what the outbox has. Whether that was anything.
    fn send_all(&mut self, motor: &mut Motor<'_>) -> Result<bool, ProgressError> {
        let mut moved = false;
        while let Some((to, name, bytes)) = self.outbox.0.pop_front() {
            let key = Key::new(context_of(name), TAG);
            // SAFETY: the bytes are kept until the send is over, or leaked.
            let sent = unsafe {
                let data = Cursor::contiguous(buffer(&bytes));
                motor.isend(SendMode::Standard, to, key, data, OWNER)
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

/// What two steps did, or the error of the first that failed.
fn both(
    first: Result<bool, ProgressError>,
    second: Result<bool, ProgressError>,
) -> Result<bool, ProgressError> {
    Ok(first? | second?)
}

impl Drop for Baselines {
    /// The engine may still name what it has not done with.
    fn drop(&mut self) {
        let peers = self.all.iter_mut().flat_map(|open| &mut open.peers);
        let arriving = peers.flat_map(|peer| peer.arriving.drain(..));
        for Arriving { message, receive, apart, .. } in arriving {
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
    /// Has the records for the member in `place` leave.
    fn press(&mut self, place: u32) {
        if !core::mem::replace(&mut self.peers[place as usize].pressing, true) {
            self.pressing.push(place);
        }
    }

    /// Says something to the member in `place` that is to leave now.
    pub(super) fn say(&mut self, place: u32, record: Record) {
        self.peers[place as usize].batch.extend_from_slice(&record.bytes());
        self.press(place);
    }

    /// Puts the records that are to leave into the outbox.
    fn fill(&mut self, outbox: &mut VecDeque<(Rank, Name, Vec<u8>)>, leaving: &[Leaving]) {
        let Self { pressing, peers, ranks, windows, .. } = self;
        pressing.retain(|&place| {
            let (peer, to) = (&mut peers[place as usize], ranks[place as usize]);
            let name = Name::Records(windows[place as usize]);
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

pub(super) fn buffer_mut(bytes: &mut [u8]) -> Buffer {
    Buffer { length: bytes.len(), base: NonNull::from(bytes).cast() }
}
