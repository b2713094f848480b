//! The side that sends messages and hears RTRs.

use core::fmt;
use core::marker::PhantomData;

use super::adapt::Factor;
use super::recent::Recent;
use super::{All, RTRS, Rendezvous, Rules, Turn};
use crate::memory::Memory;
use crate::wire::Key;

/// How a rendezvous message begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start<T> {
    /// By an RTS: with a turn it says resume-RTR, without stop-RTR.
    Rts(Option<Turn>),
    /// Its receive has asked: write to `target`, and send the RTR-ACK of `turn`.
    Write {
        /// The turn of message and RTR.
        turn: Turn,
        /// What the RTR said.
        target: T,
    },
}

/// What becomes of an RTR.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard {
    /// It waits for the message of its turn.
    Kept,
    /// Its message has left, or nobody can tell which it is.
    Dropped,
}

/// What became of all RTRs so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// RTRs that came.
    pub heard: u64,
    /// Messages that used one.
    pub used: u64,
    /// How often stop-RTR was said for lack of use.
    pub stopped: u64,
}

/// One envelope: a peer that messages go to, a context and a tag.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Record<T> {
    /// The turn of the next rendezvous message. RTRs of earlier ones are void.
    next: Turn,
    /// Messages without a turn went after the last with one, and their turns are skipped.
    eager_flag: bool,
    factor: Factor,
    /// The last look at the marks of its eager messages.
    looked: u64,
    /// RTRs, each at the place of its turn.
    kept: [Option<(Turn, T)>; RTRS as usize],
}

/// What a rank knows of the RTRs for its messages. A `T` is what an RTR says of the receiver's memory.
///
/// Constant time for every call but [`Sender::forget`]. Lack of memory means no speculation, and is no failure.
pub struct Sender<T: Copy, M: Memory, R: Rules = All> {
    records: Recent<Record<T>, M>,
    /// Beyond every turn of a record that is no more.
    beyond: Turn,
    /// The last look at the marks of eager messages ([`Sender::catch_up`]).
    looked: u64,
    usage: Usage,
    rules: PhantomData<R>,
}

impl<T: Copy, M: Memory, R: Rules> Sender<T, M, R> {
    /// Nothing is known.
    #[must_use]
    pub const fn new(memory: M) -> Self {
        Self {
            records: Recent::new(memory, R::RECORDS),
            beyond: Turn::FIRST,
            looked: 0,
            usage: Usage { heard: 0, used: 0, stopped: 0 },
            rules: PhantomData,
        }
    }

    /// A message by rendezvous begins, which is the next to `peer` with this key. The caller is bound by the answer, but for
    /// [`Sender::refused`].
    pub fn start(&mut self, peer: u32, key: Key, choice: Rendezvous) -> Start<T> {
        if choice == Rendezvous::Plain {
            self.eager(peer, key);
            return Start::Rts(None);
        }
        self.open(peer, key);
        let Self { records, usage, .. } = self;
        let Some(record) = records.get_mut(peer, key) else { return Start::Rts(None) };
        if let Some((turn, target)) = record.take_kept::<R>() {
            usage.used += 1;
            return Start::Write { turn, target };
        }
        Start::Rts(record.announce::<R>(choice, usage))
    }

    /// The RTR that [`Sender::start`] has just handed out turned out to be retracted, or of no use. The message goes by RTS,
    /// with this turn; later RTRs that are kept are not used.
    pub fn refused(&mut self, peer: u32, key: Key, choice: Rendezvous) -> Option<Turn> {
        let record = self.records.get_mut(peer, key)?;
        self.usage.used -= 1;
        record.factor.unused();
        record.skip::<R>();
        record.announce::<R>(choice, &mut self.usage)
    }

    /// A message without a turn is the next to `peer` with this key: an eager one, or whatever else is not begun by
    /// [`Sender::start`]. Sets the Eager-flag: RTRs that are kept, and those that come until the next turn is known, may be for
    /// receives that such a message took.
    #[inline]
    pub fn eager(&mut self, peer: u32, key: Key) {
        if R::EAGER_FLAG
            && let Some(record) = self.records.get_mut(peer, key)
        {
            record.skip::<R>();
        }
    }

    /// As [`Sender::eager`], for messages that leave a mark and are not told of one by one. Said before each [`Sender::start`]
    /// to `peer`: this look at the marks has a `number`, which goes up, and `found` is that of the last look that found one of
    /// this envelope.
    pub fn catch_up(&mut self, peer: u32, key: Key, found: u64, number: u64) {
        self.looked = number;
        let Some(record) = self.records.get_mut(peer, key) else { return };
        if R::EAGER_FLAG && found > record.looked {
            record.skip::<R>();
        }
        record.looked = number;
    }

    /// An RTR has come from `peer`.
    pub fn rtr(&mut self, peer: u32, key: Key, turn: Turn, target: T) -> Heard {
        self.usage.heard += 1;
        let Some(record) = self.records.get_mut(peer, key) else { return Heard::Dropped };
        record.factor.heard();
        record.keep::<R>(turn, target)
    }

    /// The receive that asked for `turn` is to be cancelled, says `peer`. If no message has that turn yet, none will: neither
    /// its RTR nor those of later turns are used. Otherwise the message is on its way, and the receive takes it. The peer can
    /// tell by what has come when the answer does, if the answer keeps the order of the messages.
    pub fn retract(&mut self, peer: u32, key: Key, turn: Turn) {
        if let Some(record) = self.records.get_mut(peer, key)
            && R::RETRACTION
            && turn.since(record.next).is_some()
        {
            record.skip::<R>();
        }
    }

    /// Whether an RTR may have come for the next message, so that an initial progress call is worth its time.
    #[must_use]
    pub fn speculates(&self, peer: u32, key: Key) -> bool {
        let record = self.records.get(peer, key);
        record.is_some_and(|record| !record.eager_flag && !record.factor.is_paused())
    }

    /// Whether an RTR is here for the next message.
    #[must_use]
    pub fn is_asked(&self, peer: u32, key: Key) -> bool {
        self.records.get(peer, key).is_some_and(|record| record.kept() > 0)
    }

    /// Forgets everything about `peer`, which is gone.
    pub fn forget(&mut self, peer: u32) {
        let Self { records, beyond, .. } = self;
        records.forget(peer, |record| record.leave::<R>(beyond));
    }

    /// Counts of all RTRs.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Makes the record of an envelope, if there is none, and memory for one.
    fn open(&mut self, peer: u32, key: Key) {
        if self.records.get(peer, key).is_some() {
            return self.records.touch(peer, key);
        }
        let record = Record::new::<R>(self.beyond, self.looked);
        if let Ok(Some(gone)) = self.records.insert(peer, key, record) {
            gone.leave::<R>(&mut self.beyond);
        }
    }
}

impl<T: Copy> Record<T> {
    const fn new<R: Rules>(next: Turn, looked: u64) -> Self {
        let kept = [None; RTRS as usize];
        Self { next, eager_flag: false, factor: Factor::new::<R>(), looked, kept }
    }

    /// The next message goes by RTS: its turn, or stop-RTR.
    fn announce<R: Rules>(&mut self, choice: Rendezvous, usage: &mut Usage) -> Option<Turn> {
        let (kept, paused) = (self.kept(), self.factor.is_paused());
        let adapts = R::ADAPTATION && choice == Rendezvous::Adaptive;
        if adapts && self.factor.stops::<R>(kept) {
            usage.stopped += u64::from(!paused);
            self.skip::<R>();
            return None;
        }
        let resumes = R::RESUME_RTR || !self.eager_flag;
        resumes.then(|| self.advance())
    }

    /// Gives the next message its turn.
    const fn advance(&mut self) -> Turn {
        let turn = self.next;
        self.next = turn.after(1);
        self.eager_flag = false;
        turn
    }

    /// Voids all RTRs that the receiver has sent so far: none asks for a turn as late as the next.
    fn skip<R: Rules>(&mut self) {
        if !self.eager_flag {
            self.next = self.next.after(R::SKIPPED);
            self.eager_flag = true;
        }
    }

    fn keep<R: Rules>(&mut self, turn: Turn, target: T) -> Heard {
        let of_use = turn.since(self.next).is_some_and(|messages| messages < R::RTRS);
        if !of_use && R::IN_ORDER {
            return Heard::Dropped;
        }
        // One of the same turn was retracted.
        self.kept[turn.place(R::RTRS)] = Some((turn, target));
        Heard::Kept
    }

    /// The RTR for the next message, which then has its turn.
    fn take_kept<R: Rules>(&mut self) -> Option<(Turn, T)> {
        let next = self.next;
        let mine = |kept: &&mut Option<(Turn, T)>| {
            kept.is_some_and(|(turn, _)| turn == next || !R::IN_ORDER)
        };
        let from = next.place(R::RTRS);
        let (before, after) = self.kept.split_at_mut(from);
        let found = after.iter_mut().chain(before).find(mine)?.take()?;
        self.factor.used();
        self.advance();
        Some(found)
    }

    /// RTRs that may still be used.
    fn kept(&self) -> u32 {
        let of_use = self.kept.iter().flatten().filter(|(turn, _)| turn.since(self.next).is_some());
        of_use.count() as u32
    }

    /// The record goes. One that is made later begins beyond the turns that RTRs on their way may ask for.
    fn leave<R: Rules>(self, beyond: &mut Turn) {
        let end = self.next.after(R::RTRS);
        if R::COUNTS_ON && end.since(*beyond).is_some() {
            *beyond = end;
        }
    }
}

impl<T: Copy + fmt::Debug, M: Memory, R: Rules> fmt::Debug for Sender<T, M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Sender");
        shown.field("records", &self.records).field("beyond", &self.beyond).finish_non_exhaustive()
    }
}
