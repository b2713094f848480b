//! Names of coming large messages, so that a receive that comes first can ask for its message
//! (`[SpecRndv09]` §3.1.2).
//!
//! The head of a large message *promises* a number to the next message of its envelope: peer, class
//! and tag. If that message is large and the next one indeed, its data have the number. If any
//! other message of the envelope comes between, no message ever has it. So a receive that can only
//! take the next message of the envelope may ask for the number. After a broken promise, its RTR is
//! never used.
//!
//! Both sides have tables of [`PLACES`] envelopes, one for each hash. An envelope that takes the
//! place of another one breaks the promise to that.

use strait_core::matching::TAG_MAX;
use strait_core::rndv::{All, UsageFactor};

use super::class::MessageClass;

/// Number of envelopes in a table, a power of two.
const PLACES: usize = 256;

/// An envelope of the provider's messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ProviderEnvelope {
    pub(super) peer: u32,
    pub(super) lane: MessageClass,
    pub(super) tag: u64,
}

impl ProviderEnvelope {
    /// Returns the place of the envelope in a table.
    #[inline(always)]
    const fn place(self) -> usize {
        let mixed = self.tag ^ (self.peer as u64) << 40 ^ (self.lane as u64) << 39;
        // The highest 8 bits of a product depend on all bits of its factor.
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
    }
}

/// The promises of a sender.
#[derive(Debug)]
pub(super) struct Promises {
    made: [Option<(ProviderEnvelope, u32)>; PLACES],
    /// Whether another message has come between.
    broken: [bool; PLACES],
    /// The last number that was promised.
    last: u32,
}

impl Promises {
    /// Returns the state without any promise.
    pub(super) const fn new() -> Self {
        Self { made: [None; PLACES], broken: [false; PLACES], last: 0 }
    }

    /// Breaks the promise to the envelope, since another message of it leaves. An endpoint that has
    /// sent no large message has promised nothing.
    #[inline(always)]
    pub(super) const fn break_for(&mut self, envelope: ProviderEnvelope) {
        if self.last != 0 {
            self.broken[envelope.place()] = true;
        }
    }

    /// Returns the number that was promised to the message of the envelope that leaves now.
    pub(super) fn take(&mut self, envelope: ProviderEnvelope) -> Option<u32> {
        let place = envelope.place();
        let (to, number) = self.made[place].take()?;
        (to == envelope && !self.broken[place]).then_some(number)
    }

    /// Promises a number to the next message of the envelope, the first one after this. Returns
    /// zero if all numbers have been promised: none is used twice, since a receive may still wait
    /// for a broken promise.
    pub(super) const fn make(&mut self, envelope: ProviderEnvelope) -> u32 {
        if self.last == TAG_MAX {
            return 0;
        }
        self.last += 1;
        let place = envelope.place();
        self.made[place] = Some((envelope, self.last));
        self.broken[place] = false;
        self.last
    }
}

/// The promises that a receiver has heard, and the use of its RTRs.
#[derive(Debug)]
pub(super) struct Expectations {
    places: [Option<Expectation>; PLACES],
    /// RTRs stop where they are not used (§3.6).
    adapts: bool,
}

#[derive(Clone, Copy, Debug)]
struct Expectation {
    envelope: ProviderEnvelope,
    /// The number of the next message; zero if it is unknown.
    next: u32,
    /// Whether an RTR for it was sent.
    asked: bool,
    factor: UsageFactor,
}

impl Expectations {
    /// Returns the state before the first message. `adapts`: envelopes that do not use their RTRs
    /// send none for a while.
    pub(super) const fn new(adapts: bool) -> Self {
        Self { places: [None; PLACES], adapts }
    }

    /// Notes the head of a large message, which promises `next`. `by_rtr`: an RTR for the message
    /// was at its sender.
    pub(super) fn heard(&mut self, envelope: ProviderEnvelope, next: u32, by_rtr: bool) {
        let place = &mut self.places[envelope.place()];
        let factor = UsageFactor::new::<All>();
        let fresh = Expectation { envelope, next, asked: false, factor };
        let known = place.filter(|known| known.envelope == envelope);
        let mut known = known.unwrap_or(fresh);
        if known.asked {
            known.factor.heard();
        }
        if known.asked && by_rtr {
            known.factor.used();
        } else if self.adapts {
            known.factor.stops::<All>(0);
        }
        *place = Some(Expectation { next, asked: false, ..known });
    }

    /// Returns the number of the next message of the envelope, if a receive may ask for it.
    pub(super) fn next(&self, envelope: ProviderEnvelope) -> Option<u32> {
        let known = self.places[envelope.place()].as_ref();
        let known = known.filter(|known| known.envelope == envelope && known.next > 0)?;
        let stops = self.adapts && known.factor.is_paused();
        let may_ask = !known.asked && !stops;
        may_ask.then_some(known.next)
    }

    /// Notes that a receive has asked for the next message of the envelope.
    pub(super) fn asked(&mut self, envelope: ProviderEnvelope) {
        let known = self.places[envelope.place()].as_mut();
        if let Some(known) = known.filter(|known| known.envelope == envelope) {
            known.asked = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(tag: u64) -> ProviderEnvelope {
        ProviderEnvelope { peer: 3, lane: MessageClass::Tagged, tag }
    }

    /// Draws a number below `limit` from a small generator.
    fn draw(state: &mut u64, limit: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 33) % limit
    }

    /// Plays random messages of more envelopes than there are places. A number is taken by the
    /// message that follows its promise in the same envelope, and by no other.
    #[test]
    fn a_promise_is_kept_to_the_next_message_or_to_none() {
        let (mut promises, mut state) = (Promises::new(), 7);
        let mut promised = std::collections::BTreeMap::new();
        let (mut kept, mut seen) = (0, std::collections::BTreeSet::new());
        for _ in 0..100_000 {
            // A few envelopes are frequent.
            let tag =
                if draw(&mut state, 2) == 0 { draw(&mut state, 8) } else { draw(&mut state, 600) };
            let envelope = of(tag);
            let last = promised.remove(&tag);
            if draw(&mut state, 4) == 0 {
                promises.break_for(envelope);
                continue;
            }
            if let Some(number) = promises.take(envelope) {
                assert_eq!(Some(number), last, "tag {tag}");
                kept += 1;
            }
            let next = promises.make(envelope);
            assert!(next > 0 && seen.insert(next), "{next} is promised twice");
            promised.insert(tag, next);
        }
        assert!(kept > 10_000, "{kept} promises kept");
    }

    #[test]
    fn numbers_end_before_they_repeat() {
        let mut promises = Promises::new();
        promises.last = TAG_MAX - 1;
        assert_eq!(promises.make(of(1)), TAG_MAX);
        assert_eq!(promises.take(of(1)), Some(TAG_MAX));
        assert_eq!(promises.make(of(1)), 0);
        assert_eq!(promises.take(of(1)), None);
    }

    #[test]
    fn a_receive_asks_once_for_each_promise() {
        let mut expected = Expectations::new(true);
        assert_eq!(expected.next(of(1)), None);
        expected.heard(of(1), 5, false);
        assert_eq!((expected.next(of(1)), expected.next(of(2))), (Some(5), None));
        expected.asked(of(1));
        assert_eq!(expected.next(of(1)), None);
        expected.heard(of(1), 6, true);
        assert_eq!(expected.next(of(1)), Some(6));
        expected.heard(of(1), 0, true);
        assert_eq!(expected.next(of(1)), None, "no promise");
    }

    #[test]
    fn an_envelope_that_wastes_its_rtrs_stops_for_a_while() {
        for adapts in [true, false] {
            let mut expected = Expectations::new(adapts);
            let mut asked = 0;
            for number in 1..=20 {
                expected.heard(of(1), number, false);
                if expected.next(of(1)).is_some() {
                    expected.asked(of(1));
                    asked += 1;
                }
            }
            // The fourth wasted RTR stops it. The next trial comes after 16 messages.
            assert_eq!(asked, if adapts { 4 } else { 20 });
        }
    }
}
