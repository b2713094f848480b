//! The side that receives messages and asks for them.

use core::fmt;
use core::marker::PhantomData;

use super::recent::Recent;
use super::{All, Rules, Turn};
use crate::matching::{ANY_SOURCE, ANY_TAG, Ahead, Pattern};
use crate::memory::Memory;
use crate::wire::Key;

/// What a rank knows of the messages to come, so that it can ask for them.
///
/// Constant time for every call but [`Receiver::forget`]. Lack of memory means no speculation, and is no failure.
pub struct Receiver<M: Memory, R: Rules = All> {
    /// The envelopes for which RTRs may be sent, and the turn of the first message of each that has not arrived.
    next: Recent<Turn, M>,
    /// An RTS has come: large messages are sent to this rank.
    announced: bool,
    rules: PhantomData<R>,
}

impl<M: Memory, R: Rules> Receiver<M, R> {
    /// Nothing is known.
    #[must_use]
    pub const fn new(memory: M) -> Self {
        Self { next: Recent::new(memory, R::RECORDS), announced: false, rules: PhantomData }
    }

    /// The turn that a receive asks for, which is about to be posted behind what is `ahead` of it
    /// ([`crate::matching::Posted::ahead_of`], with the turn that the youngest receive has asked for); `None`: it sends no
    /// RTR. No message that has arrived matches it.
    #[must_use]
    pub fn may_request(&self, pattern: &Pattern, ahead: Ahead<Option<Turn>>) -> Option<Turn> {
        if pattern.source == ANY_SOURCE || pattern.tag == ANY_TAG {
            return None;
        }
        let key = Key::new(pattern.context, pattern.tag);
        let next = *self.next.get(pattern.source, key)?;
        let turn = match ahead {
            Ahead::Nothing => next,
            // Of a turn that has passed: it is not the turn of the message that the receive will take.
            Ahead::Same(Some(before)) if before.since(next).is_some() => before.after(1),
            Ahead::Same(_) if R::NO_RTR_PAST_NONE => return None,
            Ahead::Wildcard if R::NO_RTR_PAST_WILDCARD => return None,
            Ahead::Same(_) | Ahead::Wildcard => next,
        };
        let bounded = turn.since(next).is_some_and(|messages| messages < R::RTRS);
        (bounded || !R::BOUNDED).then_some(turn)
    }

    /// An RTS of `peer` has arrived: with a turn it says resume-RTR, without stop-RTR.
    pub fn rts(&mut self, peer: u32, key: Key, turn: Option<Turn>) {
        self.announced = true;
        match turn {
            Some(turn) => self.count(peer, key, turn),
            None if R::STOP_RTR => drop(self.next.remove(peer, key)),
            None => {}
        }
    }

    /// An RTR-ACK of `peer` has arrived: its message is one of those that the next RTRs do not ask for.
    pub fn rtr_ack(&mut self, peer: u32, key: Key, turn: Turn) {
        if R::ACKNOWLEDGED {
            self.count(peer, key, turn);
        }
    }

    /// A receive that sent an RTR has met a message without a turn, or is cancelled: no RTR is sent until the next turn is known.
    /// What it could ask for before nobody would use.
    pub fn mispredicted(&mut self, peer: u32, key: Key) {
        if R::MISPREDICTION {
            self.next.remove(peer, key);
        }
    }

    /// Whether an RTS may have come for the next receive, so that an initial progress call is worth its time: whether or not it
    /// may ask, and for those that never may.
    #[must_use]
    pub const fn is_announced_to(&self) -> bool {
        self.announced
    }

    /// Forgets everything about `peer`, which is gone.
    pub fn forget(&mut self, peer: u32) {
        self.next.forget(peer, drop);
    }

    /// The messages up to `turn` have arrived.
    fn count(&mut self, peer: u32, key: Key, turn: Turn) {
        let after = turn.after(1);
        if let Some(next) = self.next.get_mut(peer, key) {
            *next = after;
            self.next.touch(peer, key);
        } else {
            // Without memory for it, no RTR is sent.
            let _ = self.next.insert(peer, key, after);
        }
    }
}

impl<M: Memory, R: Rules> fmt::Debug for Receiver<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("next", &self.next).finish_non_exhaustive()
    }
}
