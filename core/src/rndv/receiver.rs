//! The receiving side, which sends RTRs.

use core::fmt;
use core::marker::PhantomData;

use super::recent::Recent;
use super::{All, Rules, Turn};
use crate::matching::{ANY_SOURCE, ANY_TAG, Ahead, Pattern};
use crate::memory::Memory;
use crate::wire::Key;

/// What a rank knows about coming messages, so that it can ask for them.
///
/// Every call but [`RtrReceiver::forget`] takes constant time. Lack of memory disables speculation
/// and is no failure.
pub struct RtrReceiver<M: Memory, R: Rules = All> {
    /// The envelopes that may send RTRs, each with the turn of its first message that has not
    /// arrived.
    next: Recent<Turn, M>,
    /// True once an RTS has arrived: peers send large messages to this rank.
    announced: bool,
    rules: PhantomData<R>,
}

impl<M: Memory, R: Rules> RtrReceiver<M, R> {
    /// Creates a receiver without any record.
    #[must_use]
    pub const fn new(memory: M) -> Self {
        Self { next: Recent::new(memory, R::RECORDS), announced: false, rules: PhantomData }
    }

    /// Creates the record of an envelope before its first message, so that its first receive may
    /// ask. The sender need not do the same: without [`RtrSender::open_ahead`] it drops the RTRs.
    ///
    /// [`RtrSender::open_ahead`]: super::RtrSender::open_ahead
    pub fn open_ahead(&mut self, peer: u32, key: Key) {
        self.announced = true;
        if self.next.get(peer, key).is_none() {
            // Without memory for the record, the receiver sends no RTR.
            let _ = self.next.insert(peer, key, Turn::FIRST);
        }
    }

    /// Returns the turn that a receive asks for; `None` means that it sends no RTR.
    ///
    /// The receive is about to be posted behind the receives that `ahead` describes
    /// ([`crate::matching::PostedQueue::ahead_of`], with the turn that the youngest receive asked
    /// for). No message that has arrived matches it.
    #[must_use]
    pub fn may_request(&self, pattern: &Pattern, ahead: Ahead<Option<Turn>>) -> Option<Turn> {
        if pattern.source == ANY_SOURCE || pattern.tag == ANY_TAG {
            return None;
        }
        let key = Key::new(pattern.context, pattern.tag);
        let next = *self.next.get(pattern.source, key)?;
        let turn = match ahead {
            Ahead::Nothing => next,
            // An earlier receive with a turn that has passed will not take the message of that
            // turn.
            Ahead::Same(Some(before)) if before.since(next).is_some() => before.after(1),
            Ahead::Same(_) if R::NO_RTR_PAST_NONE => return None,
            Ahead::Wildcard if R::NO_RTR_PAST_WILDCARD => return None,
            Ahead::Same(_) | Ahead::Wildcard => next,
        };
        let bounded = turn.since(next).is_some_and(|messages| messages < R::RTRS);
        (bounded || !R::BOUNDED).then_some(turn)
    }

    /// Handles an RTS of `peer`. With a turn it says resume-RTR, without one stop-RTR.
    pub fn rts(&mut self, peer: u32, key: Key, turn: Option<Turn>) {
        self.announced = true;
        match turn {
            Some(turn) => self.count(peer, key, turn),
            None if R::STOP_RTR => drop(self.next.remove(peer, key)),
            None => {}
        }
    }

    /// Handles an RTR-ACK of `peer`. Later RTRs do not ask for its message.
    pub fn rtr_ack(&mut self, peer: u32, key: Key, turn: Turn) {
        if R::ACKNOWLEDGED {
            self.count(peer, key, turn);
        }
    }

    /// Notes that a receive with an RTR met a message without a turn, or was cancelled. No RTR is
    /// sent until the next turn is known, because the sender would not use it.
    pub fn mispredicted(&mut self, peer: u32, key: Key) {
        if R::MISPREDICTION {
            self.next.remove(peer, key);
        }
    }

    /// Returns true if an RTS may have arrived for the next receive, so that an initial progress
    /// call is worthwhile. It applies to every receive, including those that never send an RTR.
    #[must_use]
    pub const fn is_announced_to(&self) -> bool {
        self.announced
    }

    /// Forgets everything about `peer`, which has failed or finished.
    pub fn forget(&mut self, peer: u32) {
        self.next.forget(peer, drop);
    }

    /// Notes that the messages up to `turn` have arrived.
    fn count(&mut self, peer: u32, key: Key, turn: Turn) {
        let after = turn.after(1);
        if let Some(next) = self.next.get_mut(peer, key) {
            *next = after;
            self.next.touch(peer, key);
        } else {
            // Without memory for the record, the receiver sends no RTR.
            let _ = self.next.insert(peer, key, after);
        }
    }
}

impl<M: Memory, R: Rules> fmt::Debug for RtrReceiver<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("next", &self.next).finish_non_exhaustive()
    }
}
