//! The sending side, which receives RTRs.

use core::fmt;
use core::marker::PhantomData;

use super::adapt::UsageFactor;
use super::recent::Recent;
use super::{All, RTRS, Rendezvous, Rules, Turn};
use crate::memory::Memory;
use crate::wire::Key;

/// The first packet of a rendezvous message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RndvStart<T> {
    /// The message starts with an RTS. With a turn it says resume-RTR, without one stop-RTR.
    Rts(Option<Turn>),
    /// Its receive has asked: write to `target`, and send the RTR-ACK of `turn`.
    Write {
        /// The turn of the message and of the RTR.
        turn: Turn,
        /// The contents of the RTR.
        target: T,
    },
}

/// The result of an RTR's arrival.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RtrOutcome {
    /// The RTR waits for the message of its turn.
    Kept,
    /// The message of the RTR has left, or cannot be determined.
    Dropped,
}

/// Counts of all RTRs so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// Number of RTRs that arrived.
    pub heard: u64,
    /// Number of messages that used one.
    pub used: u64,
    /// Number of times stop-RTR was sent because too few RTRs were used.
    pub stopped: u64,
}

/// One envelope: a destination peer, a context and a tag.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct EnvelopeRecord<T> {
    /// The turn of the next rendezvous message. RTRs of earlier turns are void.
    next: Turn,
    /// Set if messages without a turn followed the last one with a turn; their turns are skipped.
    eager_flag: bool,
    factor: UsageFactor,
    /// The number of the last poll of the eager messages' marks.
    looked: u64,
    /// RTRs that wait for their messages, each at the index of its turn.
    kept: [Option<(Turn, T)>; RTRS as usize],
}

/// What a rank knows about the RTRs for its messages. `T` is what an RTR says about the receiver's
/// memory.
///
/// Every call but [`RtrSender::forget`] takes constant time. Lack of memory disables speculation
/// and is no failure.
pub struct RtrSender<T: Copy, M: Memory, R: Rules = All> {
    records: Recent<EnvelopeRecord<T>, M>,
    /// A turn after every turn of the records that were evicted or removed.
    beyond: Turn,
    /// The number of the last poll of the eager messages' marks ([`RtrSender::catch_up`]).
    looked: u64,
    usage: Usage,
    rules: PhantomData<R>,
}

impl<T: Copy, M: Memory, R: Rules> RtrSender<T, M, R> {
    /// Creates a sender without any record.
    #[must_use]
    pub const fn new(memory: M) -> Self {
        Self {
            records: Recent::new(memory, R::RECORDS),
            // A receiver that opens an envelope ahead asks for the first turns. A record that is
            // created later may have missed eager messages, so it starts beyond these turns.
            beyond: if R::COUNTS_ON { Turn::FIRST.after(R::RTRS) } else { Turn::FIRST },
            looked: 0,
            usage: Usage { heard: 0, used: 0, stopped: 0 },
            rules: PhantomData,
        }
    }

    /// Creates the record of an envelope before its first message, so that this message may use an
    /// RTR. Must precede all messages to `peer`.
    pub fn open_ahead(&mut self, peer: u32, key: Key) {
        if self.records.get(peer, key).is_some() {
            return;
        }
        let record = EnvelopeRecord::new::<R>(Turn::FIRST, 0);
        if let Ok(Some(gone)) = self.records.insert(peer, key, record) {
            gone.leave::<R>(&mut self.beyond);
        }
    }

    /// Starts a rendezvous message, the next message to `peer` with this key.
    ///
    /// The caller must follow the answer, unless it calls [`RtrSender::refused`].
    pub fn start(&mut self, peer: u32, key: Key, choice: Rendezvous) -> RndvStart<T> {
        if choice == Rendezvous::Plain {
            self.eager(peer, key);
            return RndvStart::Rts(None);
        }
        self.open(peer, key);
        let Self { records, usage, .. } = self;
        let Some(record) = records.get_mut(peer, key) else { return RndvStart::Rts(None) };
        if let Some((turn, target)) = record.take_kept::<R>() {
            usage.used += 1;
            return RndvStart::Write { turn, target };
        }
        RndvStart::Rts(record.announce::<R>(choice, usage))
    }

    /// Notes that the RTR which [`RtrSender::start`] just returned is retracted or useless. The
    /// message leaves by RTS with the returned turn. Later RTRs that are kept are not used.
    pub fn refused(&mut self, peer: u32, key: Key, choice: Rendezvous) -> Option<Turn> {
        let record = self.records.get_mut(peer, key)?;
        self.usage.used -= 1;
        record.factor.unused();
        record.skip::<R>();
        record.announce::<R>(choice, &mut self.usage)
    }

    /// Notes that the next message to `peer` with this key has no turn: an eager message, or any
    /// message that [`RtrSender::start`] did not start.
    ///
    /// Sets the Eager-flag: such a message may have taken the receive of a kept RTR, or of one that
    /// arrives before the next turn is known.
    #[inline]
    pub fn eager(&mut self, peer: u32, key: Key) {
        if R::EAGER_FLAG
            && let Some(record) = self.records.get_mut(peer, key)
        {
            record.skip::<R>();
        }
    }

    /// Applies [`RtrSender::eager`] for messages that leave a mark instead of being reported one by
    /// one.
    ///
    /// The caller calls it before each [`RtrSender::start`] to `peer`, after it has polled the
    /// marks. `number` is the number of this poll; numbers increase. `found` is the number of the
    /// last poll that found a mark of this envelope.
    pub fn catch_up(&mut self, peer: u32, key: Key, found: u64, number: u64) {
        self.looked = number;
        let Some(record) = self.records.get_mut(peer, key) else { return };
        if R::EAGER_FLAG && found > record.looked {
            record.skip::<R>();
        }
        record.looked = number;
    }

    /// Handles an RTR from `peer`.
    pub fn rtr(&mut self, peer: u32, key: Key, turn: Turn, target: T) -> RtrOutcome {
        self.usage.heard += 1;
        let Some(record) = self.records.get_mut(peer, key) else { return RtrOutcome::Dropped };
        record.factor.heard();
        record.keep::<R>(turn, target)
    }

    /// Handles the request of `peer` to cancel the receive that asked for `turn`.
    ///
    /// If no message has that turn yet, none gets it: its RTR and those of later turns are not
    /// used. Otherwise the message is in flight, and the receive takes it. If the answer keeps the
    /// order of the messages, the peer can tell the two cases apart by what has arrived before the
    /// answer.
    pub fn retract(&mut self, peer: u32, key: Key, turn: Turn) {
        if let Some(record) = self.records.get_mut(peer, key)
            && R::RETRACTION
            && turn.since(record.next).is_some()
        {
            record.skip::<R>();
        }
    }

    /// Returns true if an RTR may have arrived for the next message, so that an initial progress
    /// call is worthwhile.
    #[must_use]
    pub fn speculates(&self, peer: u32, key: Key) -> bool {
        let record = self.records.get(peer, key);
        record.is_some_and(|record| !record.eager_flag && !record.factor.is_paused())
    }

    /// Returns true if an RTR for the next message or a later one is kept.
    #[must_use]
    pub fn is_asked(&self, peer: u32, key: Key) -> bool {
        self.records.get(peer, key).is_some_and(|record| record.kept() > 0)
    }

    /// Forgets everything about `peer`, which has failed or finished.
    pub fn forget(&mut self, peer: u32) {
        let Self { records, beyond, .. } = self;
        records.forget(peer, |record| record.leave::<R>(beyond));
    }

    /// Returns the counts of all RTRs.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Creates the record of an envelope if there is none and memory suffices.
    fn open(&mut self, peer: u32, key: Key) {
        if self.records.get(peer, key).is_some() {
            return self.records.touch(peer, key);
        }
        let record = EnvelopeRecord::new::<R>(self.beyond, self.looked);
        if let Ok(Some(gone)) = self.records.insert(peer, key, record) {
            gone.leave::<R>(&mut self.beyond);
        }
    }
}

impl<T: Copy> EnvelopeRecord<T> {
    const fn new<R: Rules>(next: Turn, looked: u64) -> Self {
        let kept = [None; RTRS as usize];
        Self { next, eager_flag: false, factor: UsageFactor::new::<R>(), looked, kept }
    }

    /// Returns the turn of the next message, which leaves by RTS, or `None` for stop-RTR.
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

    /// Voids all RTRs that the receiver has sent so far: none asks for the next turn or a later
    /// one.
    fn skip<R: Rules>(&mut self) {
        if !self.eager_flag {
            self.next = self.next.after(R::SKIPPED);
            self.eager_flag = true;
        }
    }

    fn keep<R: Rules>(&mut self, turn: Turn, target: T) -> RtrOutcome {
        let of_use = turn.since(self.next).is_some_and(|messages| messages < R::RTRS);
        if !of_use && R::IN_ORDER {
            return RtrOutcome::Dropped;
        }
        // An older RTR at this index with the same turn was retracted.
        self.kept[turn.place(R::RTRS)] = Some((turn, target));
        RtrOutcome::Kept
    }

    /// Takes the RTR for the next message, which then has the RTR's turn.
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

    /// Returns the number of RTRs that are still usable.
    fn kept(&self) -> u32 {
        let of_use = self.kept.iter().flatten().filter(|(turn, _)| turn.since(self.next).is_some());
        of_use.count() as u32
    }

    /// Accounts for the removal of the record. A record created later starts beyond the turns that
    /// RTRs in flight may ask for.
    fn leave<R: Rules>(self, beyond: &mut Turn) {
        let end = self.next.after(R::RTRS);
        if R::COUNTS_ON && end.since(*beyond).is_some() {
            *beyond = end;
        }
    }
}

impl<T: Copy + fmt::Debug, M: Memory, R: Rules> fmt::Debug for RtrSender<T, M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Sender");
        shown.field("records", &self.records).field("beyond", &self.beyond).finish_non_exhaustive()
    }
}
