//! RADIX: SPLASH-2's radix sort, by messages ([SpecRndv09] §4.3).
//!
//! For each digit all ranks exchange their counts, so each knows the place of every key. Then each
//! pair of ranks exchanges the keys that move between them, in four messages: four receives that
//! are waited for together ([SpecRndv09] figure 18).
//!
//! SPLASH-2 publishes no values. The order of the keys is checked, and sums over them. Class S has
//! SPLASH-2's default problem; class W is our own, of larger messages.

use core::ops::Range;

use strait::{Error, Source};

use super::kernel::{KernelOutcome, NpbClass};
use super::peers::Peers;
use super::random::{NpbRandom, SEED};

/// Bits of a digit.
const DIGIT: u32 = 10;

/// Values of a digit.
const VALUES: usize = 1 << DIGIT;

/// Messages from a rank to another for each digit.
const MESSAGES: usize = 4;

/// The tag of messages with keys.
const TAG: u32 = 7;

/// A problem: powers of two.
struct RadixProblem {
    log_keys: u32,
    log_max: u32,
}

const S: RadixProblem = RadixProblem { log_keys: 18, log_max: 19 };

const W: RadixProblem = RadixProblem { log_keys: 22, log_max: 30 };

/// Runs the kernel. The result is the number of checks that pass: the order of the keys, and two
/// sums.
pub(super) fn run(peers: &Peers<'_>, class: NpbClass) -> Result<KernelOutcome, Error> {
    let problem = if class == NpbClass::S { &S } else { &W };
    let total = 1_usize << problem.log_keys;
    let mut keys = problem.keys(peers.part(total, peers.rank()));
    let before = sums(peers, &keys)?;
    let mut shift = 0;
    while shift < problem.log_max {
        keys = sort_by_digit(peers, &keys, total, shift)?;
        shift += DIGIT;
    }
    let after = sums(peers, &keys)?;
    let passed = usize::from(peers.are_sorted(&keys, total)?)
        + before.iter().zip(after).filter(|(before, after)| **before == *after).count();
    Ok(KernelOutcome { found: passed as f64, expected: 3.0, tolerance: 0.0 })
}

impl RadixProblem {
    /// Returns the keys at these places.
    fn keys(&self, places: Range<usize>) -> Vec<u32> {
        let mut random = NpbRandom::new(SEED).skip(places.start as u64);
        let max = f64::from(1_u32 << self.log_max);
        places.map(|_| (max * random.next()) as u32).collect()
    }
}

/// Returns sums over the keys of all ranks that do not depend on their order. They are exact.
fn sums(peers: &Peers<'_>, keys: &[u32]) -> Result<[f64; 2], Error> {
    // The bits of a product mix those of the key. Without it one key could make up for another.
    let mixed = |key: &u32| key.wrapping_mul(0x9e37_79b1).rotate_left(13) >> 4;
    let sum = |value: &dyn Fn(&u32) -> u32| keys.iter().map(|key| f64::from(value(key))).sum();
    let mut sums = [sum(&|key| *key), sum(&mixed)];
    peers.sum(&mut sums)?;
    Ok(sums)
}

fn digit(key: u32, shift: u32) -> usize {
    (key >> shift) as usize % VALUES
}

/// Sorts the keys of all ranks by one digit, and keeps the order of those with the same digit.
fn sort_by_digit(
    peers: &Peers<'_>,
    keys: &[u32],
    total: usize,
    shift: u32,
) -> Result<Vec<u32>, Error> {
    let mut counts = vec![0_u32; VALUES];
    keys.iter().for_each(|key| counts[digit(*key, shift)] += 1);
    let moves = Moves { peers, total, runs: runs(&peers.all_counts(&counts)?, peers.count()) };
    let ordered = ordered(keys, &counts, shift);
    let own = peers.part(total, peers.rank());
    let mut sorted = vec![0; own.len()];
    moves.place(&ordered[moves.sent(peers.rank(), peers.rank())], peers.rank(), &mut sorted);
    for distance in 1..peers.count() {
        let to = (peers.rank() + distance) % peers.count();
        let from = (peers.rank() + peers.count() - distance) % peers.count();
        let arrived = moves.exchange(&ordered[moves.sent(peers.rank(), to)], to, from)?;
        moves.place(&arrived, from, &mut sorted);
    }
    Ok(sorted)
}

/// Returns the keys in the order of a digit.
fn ordered(keys: &[u32], counts: &[u32], shift: u32) -> Vec<u32> {
    let mut next = 0;
    let mut places: Vec<usize> = Vec::with_capacity(VALUES);
    for count in counts {
        places.push(next);
        next += *count as usize;
    }
    let mut ordered = vec![0; keys.len()];
    for key in keys {
        let place = &mut places[digit(*key, shift)];
        ordered[*place] = *key;
        *place += 1;
    }
    ordered
}

/// Returns the places that the keys of each rank get, by rank and then by digit: all keys with a
/// smaller digit come first, then those of lower ranks.
fn runs(counts: &[u32], ranks: usize) -> Vec<Vec<Range<usize>>> {
    let mut runs = vec![Vec::with_capacity(VALUES); ranks];
    let mut next = 0;
    for value in 0..VALUES {
        for (rank, runs) in runs.iter_mut().enumerate() {
            let end = next + counts[rank * VALUES + value] as usize;
            runs.push(next..end);
            next = end;
        }
    }
    runs
}

/// Where the keys of all ranks go.
struct Moves<'a> {
    peers: &'a Peers<'a>,
    total: usize,
    /// By rank and by digit: the places of its keys among all.
    runs: Vec<Vec<Range<usize>>>,
}

impl Moves<'_> {
    /// Returns which of a rank's keys, in the order of the digit, go to another rank.
    fn sent(&self, rank: usize, to: usize) -> Range<usize> {
        let part = self.peers.part(self.total, to);
        let before = |bound: usize| {
            let runs = self.runs[rank].iter();
            runs.map(|run| run.end.min(bound) - run.start.min(bound)).sum()
        };
        before(part.start)..before(part.end)
    }

    /// Sends keys to a rank, and returns those that another sends.
    fn exchange(&self, out: &[u32], to: usize, from: usize) -> Result<Vec<u32>, Error> {
        let expected = self.sent(from, self.peers.rank()).len();
        let receives: Vec<_> = lengths(expected)
            .map(|length| self.peers.start_recv(length, Source::Rank(from as u32), TAG))
            .collect::<Result<_, _>>()?;
        let mut rest = out;
        let mut sends = Vec::with_capacity(MESSAGES);
        for length in lengths(out.len()) {
            let (message, others) = rest.split_at(length);
            rest = others;
            sends.push(self.peers.start_send(message.to_vec(), to, TAG)?);
        }
        let mut arrived = Vec::with_capacity(expected);
        for receive in receives {
            arrived.append(&mut self.peers.finish(receive)?);
        }
        for send in sends {
            self.peers.finish(send)?;
        }
        Ok(arrived)
    }

    /// Puts keys from a rank at their places in this rank's part.
    fn place(&self, arrived: &[u32], from: usize, sorted: &mut [u32]) {
        let part = self.peers.part(self.total, self.peers.rank());
        let clamp = |place: usize| place.clamp(part.start, part.end) - part.start;
        let mut rest = arrived;
        for run in &self.runs[from] {
            let places = clamp(run.start)..clamp(run.end);
            let (keys, others) = rest.split_at(places.len());
            sorted[places].copy_from_slice(keys);
            rest = others;
        }
    }
}

/// Returns the lengths of the messages with this many keys. Messages without keys are not sent.
fn lengths(keys: usize) -> impl Iterator<Item = usize> {
    let bound = move |number: usize| keys * number / MESSAGES;
    (0..MESSAGES).map(move |number| bound(number + 1) - bound(number)).filter(|length| *length > 0)
}
