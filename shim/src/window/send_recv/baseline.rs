//! What a rank has for its windows that go by messages: records that wait to be sent, and records that have come.
//!
//! It is part of progress: whoever makes that for this rank, a call or a thread, carries out what has come. Nothing here waits.

use core::ptr::NonNull;
use std::collections::VecDeque;

use strait_core::layout::Corrupt;
use strait_core::matching::{ANY_SOURCE, Pattern, TAG_MAX};
use strait_core::progress::{
    Cursor, Owner, Part as Buffer, ProgressError, Received, RequestId, Sent,
};
use strait_core::rma::{Block, RECORD, Record, transfer};
use strait_core::wire::Key;

use crate::Rank;
use crate::collective::INTERNAL;
use crate::window::passive::started;
use crate::world::Motor;

/// No group's messages have it.
pub(super) const TAG: u32 = TAG_MAX;

/// Nobody's operations: no scope has this number.
const OWNER: Owner = Owner(0);

/// Bytes of records for one member from which on they are sent before the origin synchronises.
const ENOUGH: usize = 256 << 10;

/// Messages on their way to one member, at most: those of longer data, and answers, not counted.
const UNDER_WAY: usize = 4;

/// What windows and messages are told apart by: half of all contexts are for either.
const NAMES: u32 = 1 << 30;

/// The context of the records for a window.
const fn records_of(window: u32) -> u32 {
    INTERNAL | (window % NAMES * 2)
}

/// The context of a message of longer data, or of an answer.
pub(super) const fn message_of(number: u32) -> u32 {
    INTERNAL | (number % NAMES * 2) | 1
}

/// All windows of a rank that go by messages.
#[derive(Default)]
pub(crate) struct Baselines {
    opened: u32,
    numbered: u32,
    all: Vec<Baseline>,
    /// To be sent: to whom, in which context, what.
    outbox: VecDeque<(Rank, u32, Box<[u8]>)>,
    /// What the engine has not done with.
    leaving: Vec<Leaving>,
    /// Messages from and to users' buffers, and the scopes that keep those borrowed.
    kept: Vec<(Owner, RequestId)>,
}

struct Leaving {
    to: Rank,
    context: u32,
    send: RequestId,
    bytes: Box<[u8]>,
}

/// A window that goes by messages, as one member has it.
pub(super) struct Baseline {
    window: u32,
    /// The members, and what each calls its window.
    ranks: Box<[Rank]>,
    windows: Box<[u32]>,
    /// This member's part and words.
    part: Buffer,
    block: Block,
    /// By place.
    peers: Box<[Peer]>,
}

/// What one member has with another.
#[derive(Default)]
struct Peer {
    /// Records for it.
    batch: Vec<u8>,
    /// They are to leave.
    pressing: bool,
    /// They are to leave when this rank waits for anything.
    wanted: bool,
    /// Something was asked of it since it was last asked whether all is done.
    unflushed: bool,
    /// How many times it was asked.
    flushes: u64,
    arriving: VecDeque<Arriving>,
}

/// A message of records.
struct Arriving {
    message: Box<[u8]>,
    receive: Option<RequestId>,
    /// How far it is carried out.
    at: usize,
    /// What is awaited for the record there.
    apart: Option<(RequestId, Box<[u8]>)>,
}

/// How far a message is carried out.
enum Stage {
    Waits,
    Over,
}

impl Baselines {
    /// The name of the next window.
    pub(super) const fn next_window(&mut self) -> u32 {
        self.opened += 1;
        self.opened
    }

    /// The name of the next message of longer data, or answer.
    pub(super) const fn next_message(&mut self) -> u32 {
        self.numbered = self.numbered % (NAMES - 1) + 1;
        self.numbered
    }

    /// Opens a window. The part stays valid until it is closed, or the process ends.
    pub(super) fn open(
        &mut self,
        window: u32,
        (ranks, windows): (&[Rank], Box<[u32]>),
        part: Buffer,
        block: Block,
    ) {
        let peers = ranks.iter().map(|_| Peer::default()).collect();
        self.all.push(Baseline { window, ranks: ranks.into(), windows, part, block, peers });
    }

    pub(super) fn close(&mut self, window: u32) {
        self.all.retain(|open| open.window != window);
    }

    /// Whether there is anything to serve.
    #[inline(always)]
    pub(crate) const fn is_open(&self) -> bool {
        !self.all.is_empty() || !self.leaving.is_empty()
    }

    fn peer(&mut self, window: u32, place: u32) -> Option<&mut Peer> {
        let open = self.all.iter_mut().find(|open| open.window == window);
        open.map(|open| &mut open.peers[place as usize])
    }

    /// Packs a record and what is behind it for the member in `place`. False: not now, since there is enough for it.
    pub(super) fn pack(&mut self, window: u32, place: u32, record: Record, data: &[u8]) -> bool {
        let Some(peer) = self.peer(window, place) else { return true };
        if peer.batch.len() >= ENOUGH {
            peer.pressing = true;
            return false;
        }
        peer.batch.extend_from_slice(&record.bytes());
        peer.batch.extend_from_slice(data);
        peer.unflushed = true;
        true
    }

    /// Sends data that a record says are apart.
    pub(super) fn send(&mut self, to: Rank, message: u32, data: &[u8]) {
        self.outbox.push_back((to, message_of(message), data.into()));
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
    pub(super) fn press(&mut self, window: u32, place: u32) {
        if let Some(peer) = self.peer(window, place) {
            peer.pressing = true;
        }
    }

    /// Has them leave as soon as this rank waits for anything: for what they ask for, maybe.
    pub(super) fn want(&mut self, window: u32, place: u32) {
        if let Some(peer) = self.peer(window, place) {
            peer.wanted = true;
        }
    }

    /// This rank waits.
    #[inline(always)]
    pub(crate) fn hurry(&mut self) {
        for peer in self.all.iter_mut().flat_map(|open| &mut open.peers) {
            peer.pressing |= peer.wanted;
        }
    }

    /// Asks the member in `place` to say when all is done; the number of the answer. `None`: nothing was asked of it.
    pub(super) fn flush(&mut self, window: u32, place: u32) -> Option<u64> {
        let peer = self.peer(window, place)?;
        if core::mem::take(&mut peer.unflushed) {
            peer.flushes += 1;
            let record = Record::Flush { number: peer.flushes };
            peer.batch.extend_from_slice(&record.bytes());
        }
        peer.pressing = true;
        Some(peer.flushes).filter(|number| *number > 0)
    }

    /// Whether nothing of a window is under way here.
    pub(super) fn is_idle(&self, window: u32) -> bool {
        let is_idle = |peer: &Peer| peer.batch.is_empty() && peer.arriving.is_empty();
        let open = self.all.iter().find(|open| open.window == window);
        let out = |open: &Baseline| {
            let is_of = |(to, context)| {
                open.ranks
                    .iter()
                    .zip(&open.windows)
                    .any(|(rank, window)| (*rank, records_of(*window)) == (to, context))
            };
            let waiting = self.outbox.iter().map(|(to, context, _)| (*to, *context));
            !waiting.chain(self.leaving.iter().map(|it| (it.to, it.context))).any(is_of)
        };
        open.is_none_or(|open| open.peers.iter().all(is_idle) && out(open))
    }

    /// Takes in what has come, carries it out, and sends what is to leave. Whether anything was done.
    pub(crate) fn serve(&mut self, motor: &mut Motor<'_>) -> Result<bool, ProgressError> {
        let mut moved = false;
        self.leaving.retain(|it| motor.engine.test(it.send).is_none());
        for open in &mut self.all {
            moved |= open.hear(motor)?;
            for place in 0..open.peers.len() {
                moved |= open.carry_out(place, motor, &mut self.outbox)?;
            }
            open.fill(&mut self.outbox, &self.leaving);
        }
        while let Some((to, context, bytes)) = self.outbox.pop_front() {
            moved = true;
            // SAFETY: the bytes are kept until the send is over, or leaked.
            let sent = unsafe {
                let data = Cursor::contiguous(buffer(&bytes));
                motor.isend(to, Key::new(context, TAG), data, OWNER)
            };
            match sent {
                Ok(Sent::Done) => {}
                Ok(Sent::Pending(send)) => {
                    self.leaving.push(Leaving { to, context, send, bytes });
                }
                Err(error) => started(error)?,
            }
        }
        Ok(moved)
    }
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
            Box::leak(it.bytes);
        });
    }
}

impl Baseline {
    /// Begins to receive the records that have come.
    fn hear(&mut self, motor: &mut Motor<'_>) -> Result<bool, ProgressError> {
        let context = records_of(self.window);
        let mut moved = false;
        while let Ok(Some(status)) =
            motor.engine.iprobe(Pattern { context, source: ANY_SOURCE, tag: TAG })
        {
            moved = true;
            let (found, ranks) = (status.source, self.ranks.len() as u32);
            let place = self.ranks.iter().position(|rank| *rank == found);
            let place = place.ok_or(Corrupt::Source { found, ranks })?;
            let max = (2 * ENOUGH) as u64;
            if status.bytes as u64 > max {
                return Err(Corrupt::Length { found: status.bytes as u64, max }.into());
            }
            let mut message = vec![0_u8; status.bytes].into_boxed_slice();
            let receive = match receive(motor, context, found, buffer_mut(&mut message))? {
                Receive::Done => None,
                Receive::Under(id) => Some(id),
                Receive::Lost => continue,
            };
            let arriving = Arriving { message, receive, at: 0, apart: None };
            self.peers[place].arriving.push_back(arriving);
        }
        Ok(moved)
    }

    /// Carries out what has come from the member in `place`.
    fn carry_out(
        &mut self,
        place: usize,
        motor: &mut Motor<'_>,
        outbox: &mut VecDeque<(Rank, u32, Box<[u8]>)>,
    ) -> Result<bool, ProgressError> {
        let mut moved = false;
        while let Some(mut arriving) = self.peers[place].arriving.pop_front() {
            let before = arriving.at;
            let stage = self.go_on(place, &mut arriving, motor, outbox);
            moved |= arriving.at > before;
            if let Stage::Waits = stage? {
                self.peers[place].arriving.push_front(arriving);
                break;
            }
        }
        Ok(moved)
    }

    /// Goes on with a message, as far as it goes.
    fn go_on(
        &mut self,
        place: usize,
        arriving: &mut Arriving,
        motor: &mut Motor<'_>,
        outbox: &mut VecDeque<(Rank, u32, Box<[u8]>)>,
    ) -> Result<Stage, ProgressError> {
        if let Some(id) = arriving.receive {
            match motor.engine.test(id) {
                None => return Ok(Stage::Waits),
                Some(Err(_)) => return Ok(Stage::Over),
                Some(Ok(_)) => arriving.receive = None,
            }
        }
        while arriving.at < arriving.message.len() {
            let record = Record::read(&arriving.message[arriving.at..], self.part)?;
            let behind = arriving.at + RECORD;
            let end = behind + if record.apart().is_none() { record.data() } else { 0 };
            if let Some(message) = record.apart() {
                match self.take_apart(place, record, message, arriving, motor)? {
                    Taken::No => return Ok(Stage::Waits),
                    Taken::Lost => return Ok(Stage::Over),
                    Taken::Yes(mut operands) => self.act(place, record, &mut operands, outbox),
                }
            } else {
                self.act(place, record, &mut arriving.message[behind..end], outbox);
            }
            arriving.at = end;
        }
        Ok(Stage::Over)
    }

    /// Receives what is apart: a put's data straight into the part, operands in memory of their own.
    fn take_apart(
        &self,
        place: usize,
        record: Record,
        message: u32,
        arriving: &mut Arriving,
        motor: &mut Motor<'_>,
    ) -> Result<Taken, ProgressError> {
        let Some((id, operands)) = arriving.apart.take() else {
            let (mut operands, into) = match record {
                Record::Put { offset, length, .. } => {
                    // SAFETY: in the part, by the check of `read`.
                    (Box::default(), Buffer { base: unsafe { self.part.base.add(offset) }, length })
                }
                _ => (vec![0_u8; record.data()].into_boxed_slice(), self.part),
            };
            let into = if operands.is_empty() { into } else { buffer_mut(&mut operands) };
            return Ok(match receive(motor, message_of(message), self.ranks[place], into)? {
                Receive::Done => Taken::Yes(operands),
                Receive::Lost => Taken::Lost,
                Receive::Under(id) => {
                    arriving.apart = Some((id, operands));
                    Taken::No
                }
            });
        };
        Ok(match motor.engine.test(id) {
            Some(Ok(_)) => Taken::Yes(operands),
            Some(Err(_)) => Taken::Lost,
            None => {
                arriving.apart = Some((id, operands));
                Taken::No
            }
        })
    }

    /// Does what a record says, with the data that belong to it. A put's that were apart are in the part already.
    fn act(
        &mut self,
        place: usize,
        record: Record,
        data: &mut [u8],
        outbox: &mut VecDeque<(Rank, u32, Box<[u8]>)>,
    ) {
        let (to, from) = (self.ranks[place], place as u32);
        let mut answer = |message: u32, bytes: Box<[u8]>| {
            outbox.push_back((to, message_of(message), bytes));
        };
        // SAFETY: in the part, by the check of `read`; whoever reaches it meanwhile does so as the contract of `transfer` says.
        let at = |offset: usize| unsafe { self.part.base.add(offset) };
        match record {
            Record::Put { apart: Some(_), .. } => {}
            Record::Put { offset, length, .. } => {
                // SAFETY: as above; the data are as long, by the check of `read`.
                unsafe { transfer(buffer_mut(data).base, at(offset), length) };
            }
            Record::Get { offset, length, answer: message } => {
                let mut bytes = vec![0_u8; length].into_boxed_slice();
                // SAFETY: as above.
                unsafe { transfer(at(offset), buffer_mut(&mut bytes).base, length) };
                answer(message, bytes);
            }
            Record::Combine { answer: message, .. } => {
                // SAFETY: read for this part.
                unsafe { record.carry_out(self.part, data) };
                message.into_iter().for_each(|message| answer(message, (&*data).into()));
            }
            Record::Swap { answer: message, .. } => {
                // SAFETY: read for this part.
                let found = unsafe { record.swap(self.part) };
                answer(message, Box::new(found.to_le_bytes()));
            }
            Record::Flush { number } => {
                let peer = &mut self.peers[place];
                peer.batch.extend_from_slice(&Record::Flushed { number }.bytes());
                peer.pressing = true;
            }
            Record::Flushed { number } => self.block.acknowledgements(from).raise(number),
            Record::Posted { number } => self.block.posts(from).raise(number),
            Record::Completed { number } => self.block.completions(from).raise(number),
        }
    }

    /// Puts the records that are to leave into the outbox.
    fn fill(&mut self, outbox: &mut VecDeque<(Rank, u32, Box<[u8]>)>, leaving: &[Leaving]) {
        for ((peer, &to), &window) in self.peers.iter_mut().zip(&self.ranks).zip(&self.windows) {
            let context = records_of(window);
            let is_of = |it: &&Leaving| (it.to, it.context) == (to, context);
            if !peer.pressing || leaving.iter().filter(is_of).count() >= UNDER_WAY {
                continue;
            }
            (peer.pressing, peer.wanted) = (false, false);
            let batch = core::mem::take(&mut peer.batch);
            if !batch.is_empty() {
                outbox.push_back((to, context, batch.into_boxed_slice()));
            }
        }
    }
}

/// What came of what is apart.
enum Taken {
    Yes(Box<[u8]>),
    No,
    /// Whoever was to send it is gone.
    Lost,
}

/// What came of a receive.
enum Receive {
    Done,
    Under(RequestId),
    /// Whoever was to send it is gone.
    Lost,
}

fn receive(
    motor: &mut Motor<'_>,
    context: u32,
    source: Rank,
    into: Buffer,
) -> Result<Receive, ProgressError> {
    let pattern = Pattern { context, source, tag: TAG };
    // SAFETY: callers keep the memory until the receive is over, or leak it; a part is kept longer.
    let received = unsafe { motor.irecv(pattern, Cursor::contiguous(into), OWNER) };
    match received {
        Ok(Received::Done(Ok(_))) => Ok(Receive::Done),
        Ok(Received::Pending(id)) => Ok(Receive::Under(id)),
        Ok(Received::Done(Err(_))) => Ok(Receive::Lost),
        Err(error) => started(error).map(|()| Receive::Lost),
    }
}

fn buffer(bytes: &[u8]) -> Buffer {
    Buffer { base: NonNull::from(bytes).cast(), length: bytes.len() }
}

fn buffer_mut(bytes: &mut [u8]) -> Buffer {
    Buffer { length: bytes.len(), base: NonNull::from(bytes).cast() }
}
