//! Two groups of the same members, which must get the same results in different ways.

use core::time::Duration;

use fastrand::Rng;
use strait::{Group, Op, World};

use super::compose;

/// Number of operations that [`Twins::compare`] performs itself.
pub const VECTOR_OPERATIONS: usize = 5;

/// A group with the way that a test is about, and one that performs everything by messages.
#[derive(Debug)]
pub struct Twins<'world> {
    /// The group that the test is about.
    pub tested: Group<'world>,
    by_messages: Group<'world>,
    /// What all members draw alike.
    random: Rng,
    /// What this member draws alone.
    own: Rng,
    seed: u64,
}

impl<'world> Twins<'world> {
    /// Makes the groups, of all ranks in an order that `seed` gives.
    ///
    /// # Panics
    ///
    /// When a rank is missing.
    #[must_use]
    pub fn new(world: &'world World, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let own = Rng::with_seed(seed ^ u64::from(world.rank() + 1));
        let mut members: Vec<_> = (0..world.size()).collect();
        random.shuffle(&mut members);
        let make = |context: u32| world.endpoint().with_context(context).group(&members).unwrap();
        let (tested, by_messages) = (make(1), make(2));
        by_messages.meet_by_messages();
        Self { tested, by_messages, random, own, seed }
    }

    /// Performs an operation on vectors of one of these lengths in both groups, and compares.
    /// `choose` draws its number. From [`VECTOR_OPERATIONS`] on, `act` performs it: with the group,
    /// the number, the vector and the root.
    ///
    /// # Panics
    ///
    /// When the results differ, or an operation fails.
    pub fn compare(
        &mut self,
        lengths: &[usize],
        choose: impl FnOnce(&mut Rng) -> usize,
        act: impl Fn(&Group<'_>, usize, &mut Vec<u64>, u32),
    ) {
        let length = *self.random.choice(lengths).unwrap();
        let root = self.random.u32(..self.tested.ranks().len() as u32);
        let data: Vec<u64> = (0..length).map(|_| self.own.u64(..)).collect();
        let mut both = [data.clone(), data];
        let operation = choose(&mut self.random);
        for (group, data) in [&self.tested, &self.by_messages].into_iter().zip(&mut both) {
            match operation {
                0 => group.broadcast(data, root).unwrap(),
                1 => group.reduce(data, compose, root).unwrap(),
                2 => group.reduce(data, Op::Max, root).unwrap(),
                3 => group.allreduce(data, compose).unwrap(),
                4 => group.allreduce(data, Op::Sum).unwrap(),
                _ => act(group, operation, data, root),
            }
            // The vectors of the other members of a reduce are undefined.
            if [1, 2].contains(&operation) && group.place() != root {
                data.clear();
            }
        }
        let seed = self.seed;
        assert!(both[0] == both[1], "seed {seed}, operation {operation}, length {length}");
        if self.own.u32(..20) == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}
