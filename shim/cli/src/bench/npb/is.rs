//! IS: integers are sorted by buckets. Each rank gets the buckets of a range of keys.

use strait::Error;

use super::kernel::{KernelOutcome, NpbClass};
use super::peers::Peers;
use super::random::{NpbRandom, SEED};

/// Number of times that the keys are ranked.
const ITERATIONS: usize = 10;

/// A problem: powers of two, and the keys that are checked in each iteration.
struct IsProblem {
    log_keys: u32,
    log_max: u32,
    log_buckets: u32,
    /// Places of the checked keys, and their ranks.
    checked: [usize; 5],
    ranks: [i64; 5],
}

const S: IsProblem = IsProblem {
    log_keys: 16,
    log_max: 11,
    log_buckets: 9,
    checked: [48427, 17148, 23627, 62548, 4431],
    ranks: [0, 18, 346, 64917, 65463],
};

const W: IsProblem = IsProblem {
    log_keys: 20,
    log_max: 16,
    log_buckets: 10,
    checked: [357_773, 934_767, 875_723, 898_999, 404_505],
    ranks: [1249, 11698, 1_039_987, 1_043_896, 1_048_018],
};

/// Runs the kernel. The result is the number of checks that pass: of five keys in each iteration,
/// and of the order of all keys at the end.
pub(super) fn run(peers: &Peers<'_>, class: NpbClass) -> Result<KernelOutcome, Error> {
    let problem = if class == NpbClass::S { &S } else { &W };
    let total = 1_usize << problem.log_keys;
    let own = peers.part(total, peers.rank());
    let mut keys = problem.keys(own.clone());
    let mut passed = 0;
    let mut sorted = Vec::new();
    for iteration in 1..=ITERATIONS {
        if peers.rank() == 0 {
            keys[iteration] = iteration as u32;
            keys[iteration + ITERATIONS] = (1 << problem.log_max) - iteration as u32;
        }
        let wanted = problem.wanted(peers, &keys, own.clone())?;
        sorted = problem.distribute(peers, &keys)?;
        // The rank of a key is the number of smaller keys on all ranks.
        let smaller = |key: f64| sorted.iter().filter(|one| f64::from(**one) < key).count() as f64;
        let mut places = wanted.map(smaller);
        peers.sum(&mut places)?;
        let expected = (0..).zip(problem.ranks);
        let matches = |((at, rank), place): ((usize, i64), f64)| {
            place as i64 == rank + shift(class, at, iteration as i64)
        };
        passed += expected.zip(places).filter(|pair| matches(*pair)).count();
    }
    sorted.sort_unstable();
    passed += usize::from(peers.are_sorted(&sorted, total)?);
    let expected = (5 * ITERATIONS + 1) as f64;
    Ok(KernelOutcome { found: passed as f64, expected, tolerance: 0.0 })
}

/// Returns the change of the rank of a checked key by the two keys that iteration 1, 2, … replaces.
fn shift(class: NpbClass, at: usize, iteration: i64) -> i64 {
    match class {
        NpbClass::S if at <= 2 => iteration,
        NpbClass::W if at < 2 => iteration - 2,
        _ => -iteration,
    }
}

impl IsProblem {
    /// Returns the keys at these places: each from four random numbers.
    fn keys(&self, places: core::ops::Range<usize>) -> Vec<u32> {
        let mut random = NpbRandom::new(SEED).skip(4 * places.start as u64);
        let quarter = f64::from(1_u32 << (self.log_max - 2));
        let key = |_| {
            let four = random.next() + random.next() + random.next() + random.next();
            (quarter * four) as u32
        };
        places.map(key).collect()
    }

    /// Returns the checked keys, which every rank gets.
    fn wanted(
        &self,
        peers: &Peers<'_>,
        keys: &[u32],
        own: core::ops::Range<usize>,
    ) -> Result<[f64; 5], Error> {
        let key = |place: usize| {
            if own.contains(&place) { f64::from(keys[place - own.start]) } else { 0.0 }
        };
        let mut wanted = self.checked.map(key);
        peers.sum(&mut wanted)?;
        Ok(wanted)
    }

    /// Exchanges keys so that each rank has all keys of its buckets.
    fn distribute(&self, peers: &Peers<'_>, keys: &[u32]) -> Result<Vec<u32>, Error> {
        let bucket = |key: u32| (key >> (self.log_max - self.log_buckets)) as usize;
        let mut counts = vec![0.0; 1 << self.log_buckets];
        keys.iter().for_each(|key| counts[bucket(*key)] += 1.0);
        peers.sum(&mut counts)?;
        // A rank takes buckets until all ranks so far have their share.
        let share = counts.iter().sum::<f64>() / peers.count() as f64;
        let (mut owner, mut taken) = (0, 0.0);
        let owners: Vec<usize> = counts
            .iter()
            .map(|count| {
                let own = owner;
                taken += count;
                if taken >= share * (owner + 1) as f64 && owner + 1 < peers.count() {
                    owner += 1;
                }
                own
            })
            .collect();
        let mut out = vec![Vec::new(); peers.count()];
        keys.iter().for_each(|key| out[owners[bucket(*key)]].push(*key));
        let mut all = core::mem::take(&mut out[peers.rank()]);
        for distance in 1..peers.count() {
            let peer = peers.rank() ^ distance;
            let mut count = [0_u64];
            peers.exchange(peer, &[out[peer].len() as u64], &mut count)?;
            let mut arrived = vec![0_u32; count[0] as usize];
            peers.exchange(peer, &out[peer], &mut arrived)?;
            all.append(&mut arrived);
        }
        Ok(all)
    }
}
