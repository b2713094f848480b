//! Which transfer large messages to a peer take: the one that was fastest lately.
//!
//! What is fastest depends on where the two processors are, which changes under a hypervisor, and on what the kernel allows.
//! So each class of lengths keeps the cost of each candidate as it was measured, takes the cheapest, and tries the others
//! again now and then: the dearer one was, the more seldom.
//!
//! Time is an argument, and decides nothing but speed: every transfer delivers every message.

use super::Transfer;

/// What [`Transfer::Auto`] chooses from.
pub const CANDIDATES: [Transfer; 3] =
    [Transfer::CopyRing, Transfer::CopyRingStreamed, Transfer::CmaShared];

/// Longest message of each class but the last, bytes: messages of one class are alike in what is fastest for them.
pub const CLASSES: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Measurements of a candidate that count, the newest: the second lowest is its cost. A rank that loses its processor for a
/// while makes a message dear, and on a busy machine many of them; seldom does it make one look cheap.
const COUNTED: usize = 5;

/// Measurements before a candidate is compared with the others.
const ENOUGH: u8 = 3;

/// Runs between two trials of a candidate that was as good as the best: few at first and when costs have changed, then twice
/// as many each time.
const SPACING_LEAST: u32 = 4;
const SPACING_MOST: u32 = 32;

/// Bytes after which a run is measured although further messages are under way.
const RUN_BYTES: u64 = 4 << 20;

/// What one sender knows of the transfers to one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice {
    classes: [Class; CLASSES.len() + 1],
    /// Runs so far: gives each its number.
    runs: u32,
    /// When the last message to the peer was complete.
    last_end: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    rates: [Rate; CANDIDATES.len()],
    run: Run,
    /// Cost of the best since which the others were tried more and more seldom.
    settled: u32,
}

/// What a candidate costs.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    /// Nanoseconds of a mebibyte, as measured in the last runs.
    measured: [u32; COUNTED],
    /// How many of these there are.
    known: u8,
    /// Number of the oldest.
    oldest: u8,
    /// Runs until the next trial.
    wait: u32,
    /// Runs between two trials, were it as good as the best.
    spacing: u32,
}

/// Messages that are under way together take the same transfer and are measured together.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Zero: none.
    number: u32,
    candidate: usize,
    /// Messages that are under way.
    open: u32,
    /// Bytes of those that are complete.
    bytes: u64,
    began: u64,
}

/// What was chosen for a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chosen {
    class: usize,
    run: u32,
}

impl Choice {
    /// Chooses for a message of `length` bytes that is about to be announced. It must come to [`Choice::ended`].
    pub(crate) fn choose(&mut self, length: usize) -> (Transfer, Chosen) {
        let number = CLASSES.iter().take_while(|longest| length > **longest).count();
        let class = &mut self.classes[number];
        if class.run.number == 0 {
            // Zero is no run's number.
            self.runs = self.runs.wrapping_add(1).max(1);
            class.run = Run { number: self.runs, candidate: class.next(), ..Run::default() };
        }
        class.run.open += 1;
        (CANDIDATES[class.run.candidate], Chosen { class: number, run: class.run.number })
    }

    /// The copy ring's transfer that is faster for messages of `length` bytes: for what cannot go another way.
    pub(crate) fn ring(&self, length: usize) -> Transfer {
        let number = CLASSES.iter().take_while(|longest| length > **longest).count();
        let [cached, streamed, ..] = &self.classes[number].rates;
        if streamed.is_known() && streamed.cost() < cached.cost() {
            Transfer::CopyRingStreamed
        } else {
            Transfer::CopyRing
        }
    }

    /// A message is over, all `bytes` of it arrived, or none when it failed; its receive had been there since `met`. Times
    /// are in nanoseconds, from any one moment.
    pub(crate) fn ended(&mut self, chosen: Chosen, bytes: usize, met: u64, now: u64) {
        // Messages to one peer arrive one after the other.
        let began = met.max(self.last_end);
        self.last_end = now;
        let class = &mut self.classes[chosen.class];
        let run = &mut class.run;
        if run.number != chosen.run {
            return;
        }
        run.open = run.open.saturating_sub(1);
        if bytes > 0 {
            run.began = if run.bytes == 0 { began } else { run.began };
            run.bytes += bytes as u64;
        }
        if run.open == 0 || run.bytes >= RUN_BYTES {
            let Run { candidate, bytes, began, .. } = core::mem::take(run);
            let elapsed = now.saturating_sub(began);
            if bytes > 0 && elapsed > 0 {
                let cost = elapsed.saturating_mul(1 << 20) / bytes;
                class.learn(candidate, u32::try_from(cost).unwrap_or(u32::MAX).max(1));
            }
        }
    }
}

impl Class {
    /// The candidate of the next run.
    fn next(&mut self) -> usize {
        if let Some(unknown) = self.rates.iter().position(|rate| !rate.is_known()) {
            return unknown;
        }
        let best = self.best();
        let mut next = best;
        for (number, rate) in self.rates.iter_mut().enumerate() {
            if number == best {
                continue;
            }
            match rate.wait.checked_sub(1) {
                Some(wait) => rate.wait = wait,
                None => next = number,
            }
        }
        next
    }

    /// The cheapest of those that were measured.
    fn best(&self) -> usize {
        let known = self.rates.iter().enumerate().filter(|(_, rate)| rate.known > 0);
        known.min_by_key(|(_, rate)| rate.cost()).map_or(0, |(number, _)| number)
    }

    fn learn(&mut self, candidate: usize, cost: u32) {
        self.rates[candidate].learn(cost);
        let best = self.best();
        let least = self.rates[best].cost().max(1);
        if candidate == best && least.abs_diff(self.settled) > self.settled / 2 {
            // Where the processors are has changed: what was dear may be cheap now.
            self.settled = least;
            self.rates.iter_mut().for_each(Rate::hasten);
        }
        let rate = &mut self.rates[candidate];
        // What might be the best is tried again at once; otherwise the dearer, the later.
        rate.wait = if cost < least { 0 } else { rate.pause(least) };
    }
}

impl Rate {
    const fn is_known(&self) -> bool {
        self.known >= ENOUGH
    }

    fn cost(&self) -> u32 {
        let mut measured = self.measured;
        let known = &mut measured[..usize::from(self.known)];
        known.sort_unstable();
        let second = 1.min(known.len().saturating_sub(1));
        known.get(second).copied().unwrap_or(0)
    }

    /// Runs until the next trial, where the best costs `least`.
    fn pause(&mut self, least: u32) -> u32 {
        let spacing = self.spacing.max(SPACING_LEAST);
        self.spacing = (2 * spacing).min(SPACING_MOST);
        let wait = u64::from(spacing) * u64::from(self.cost()) / u64::from(least);
        u32::try_from(wait).unwrap_or(u32::MAX)
    }

    /// Has trials come soon.
    fn hasten(&mut self) {
        self.spacing = SPACING_LEAST;
        self.wait = self.wait.min(SPACING_LEAST);
    }

    fn learn(&mut self, cost: u32) {
        self.measured[usize::from(self.oldest)] = cost;
        self.oldest = (self.oldest + 1) % COUNTED as u8;
        self.known = (self.known + 1).min(COUNTED as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 1 << 20;

    /// Sends messages one at a time where the candidates cost so many nanoseconds; counts how often each was chosen.
    fn send(choice: &mut Choice, now: &mut u64, messages: u32, costs: [u64; 3]) -> [u32; 3] {
        let mut counts = [0; 3];
        for _ in 0..messages {
            let (transfer, chosen) = choice.choose(LENGTH);
            let number = CANDIDATES.iter().position(|other| *other == transfer).unwrap();
            counts[number] += 1;
            let met = *now + 10;
            *now = met + costs[number];
            choice.ended(chosen, LENGTH, met, *now);
        }
        counts
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
    fn the_cheapest_is_taken_and_the_others_are_tried_seldom() {
        let (mut choice, mut now) = (Choice::default(), 0);
        let counts = send(&mut choice, &mut now, 1000, [30_000, 50_000, 80_000]);
        assert!(counts[0] > 940 && counts[1] >= 5 && counts[2] >= 5, "{counts:?}");
        assert_eq!(choice.ring(LENGTH), Transfer::CopyRing);
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
    fn what_gets_dear_is_left_soon_and_found_again() {
        let (mut choice, mut now) = (Choice::default(), 0);
        send(&mut choice, &mut now, 100, [30_000, 50_000, 80_000]);
        let far = send(&mut choice, &mut now, 1000, [400_000, 45_000, 80_000]);
        assert!(far[0] < 20 && far[1] > 900, "{far:?}");
        assert_eq!(choice.ring(LENGTH), Transfer::CopyRingStreamed);
        let near = send(&mut choice, &mut now, 2000, [30_000, 50_000, 80_000]);
        assert!(near[0] > 1000, "{near:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
    fn a_change_of_what_is_best_is_followed_within_some_tens_of_messages() {
        let (mut choice, mut now) = (Choice::default(), 0);
        let (near, far) = ([30_000, 50_000, 80_000], [150_000, 65_000, 120_000]);
        for _ in 0..3 {
            send(&mut choice, &mut now, 1000, near);
            send(&mut choice, &mut now, 30, far);
            let counts = send(&mut choice, &mut now, 970, far);
            assert!(counts[1] > 880, "{counts:?}");
            send(&mut choice, &mut now, 30, near);
            let counts = send(&mut choice, &mut now, 970, near);
            assert!(counts[0] > 880, "{counts:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
    fn a_sender_that_often_loses_its_processor_still_finds_the_cheapest() {
        let (mut choice, mut now) = (Choice::default(), 0);
        let mut counts = [0; 3];
        for number in 0..1000 {
            // Two messages in five are spoilt.
            let lost = if number % 5 < 2 { 400_000 } else { 0 };
            let costs = [30_000, 50_000, 80_000].map(|cost| cost + lost);
            let sent = send(&mut choice, &mut now, 1, costs);
            counts = core::array::from_fn(|candidate| counts[candidate] + sent[candidate]);
        }
        assert!(counts[0] > 900, "{counts:?}");
    }

    #[test]
    fn messages_that_are_under_way_together_are_measured_as_one() {
        let mut choice = Choice::default();
        let chosen: [_; 4] = core::array::from_fn(|_| choice.choose(LENGTH));
        assert!(chosen.iter().all(|(transfer, _)| *transfer == chosen[0].0));
        // Each takes 100 ns, one after the other; all receives were there at once.
        for (number, (_, chosen)) in (1..).zip(chosen) {
            choice.ended(chosen, LENGTH, 1000, 1000 + 100 * number);
        }
        assert_eq!(choice.classes[3].rates[0].cost(), 100);
    }

    #[test]
    fn a_message_that_failed_is_not_measured() {
        let mut choice = Choice::default();
        let (_, chosen) = choice.choose(LENGTH);
        choice.ended(chosen, 0, 0, 1000);
        assert_eq!(choice.classes[3].rates[0].known, 0);
    }
}
