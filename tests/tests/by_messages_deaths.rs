//! A rank dies while all ranks reach into each other's parts by messages. The survivors get the
//! data that they requested from living ranks.

use fastrand::Rng;
use strait::{Error, Op, Window, World};
use strait_tests::{Ranks, die, payload, traffic};

const RANKS: u32 = 4;
const VICTIM: u32 = 3;

/// Bytes of a part that belong to one origin, and of all numbers before them.
const ROOM: usize = 120_000;
const NUMBERS: usize = 64;

/// Operations of each rank.
const COUNT: u32 = 250;

/// The bytes that a rank expects in its area of each part.
struct Origin<'a> {
    window: &'a Window<'a>,
    place: usize,
    known: Vec<Vec<u8>>,
    rng: Rng,
}

impl Origin<'_> {
    fn operate(&mut self, target: u32) -> Result<(), Error> {
        let scale = self.rng.u32(..10);
        let length = self.rng.usize(..=ROOM >> scale);
        let at = self.rng.usize(..=ROOM - length);
        let known = &mut self.known[target as usize][at..at + length];
        match self.rng.u32(..8) {
            0..3 => {
                let data = payload::of(self.rng.u64(..), length);
                self.window.put(&data, target, self.place + at)?;
                known.copy_from_slice(&data);
            }
            3..6 => {
                let mut found = vec![0; length];
                self.window.get(&mut found, target, self.place + at)?;
                assert!(found == *known, "{length} bytes of {target} are others than were put");
            }
            6 => drop(self.window.fetch_and_op(1_u64, target, 0, Op::Sum)?),
            _ => self.window.flush(target)?,
        }
        Ok(())
    }
}

/// Runs operations until the end, without dead targets. The victim dies after a number of
/// operations drawn from the seed.
fn play(world: &World, seed: u64) {
    let (me, mut rng) = (world.rank(), Rng::with_seed(seed));
    let dies_after = rng.u32(..COUNT);
    let bytes = NUMBERS + RANKS as usize * ROOM;
    let window = Window::builder(world.endpoint()).allocate(bytes).expect("all live");
    let known = vec![vec![0; ROOM]; RANKS as usize];
    let place = NUMBERS + me as usize * ROOM;
    let rng = Rng::with_seed(seed << 8 | u64::from(me));
    let mut origin = Origin { window: &window, place, known, rng };
    let mut living: Vec<_> = (0..RANKS).filter(|rank| *rank != me).collect();
    for number in 0..COUNT {
        if me == VICTIM && number == dies_after {
            die();
        }
        let target = living[origin.rng.usize(..living.len())];
        if let Err(error) = origin.operate(target) {
            if me == VICTIM {
                // The others do not wait for the victim: they have left before its end.
                die();
            }
            assert_eq!((error.gone_peer(), target), (Some(VICTIM), VICTIM), "{error}");
            living.retain(|rank| *rank != VICTIM);
        }
    }
    // In every other round the survivors leave with operations that they have not flushed.
    for target in living.into_iter().filter(|_| seed.is_multiple_of(2)) {
        if let Err(error) = window.flush(target) {
            assert_eq!(error.gone_peer(), Some(VICTIM), "{error}");
        }
    }
    // The others still send requests: this rank serves them until they are done.
    let endpoint = world.endpoint().with_context(77);
    let others = || (0..RANKS).filter(|rank| *rank != me && *rank != VICTIM);
    others().for_each(|rank| endpoint.send(&[1_u8], rank, 0).expect("it lives"));
    others().for_each(|rank| {
        endpoint.recv(&mut [0_u8], rank, 0).expect("it lives");
    });
}

fn rounds(name: &'static str, nodes: u32, first: u64) {
    // The runner and its ranks count the same rounds: a rank plays the round that its runner has
    // set.
    const ROUND: &str = "STRAIT_TEST_ROUND";
    for seed in traffic::seeds(first, 6) {
        let seed = std::env::var(ROUND).map_or(seed, |seed| seed.parse().expect("a number"));
        let job = Ranks::new(RANKS, name).on_nodes(nodes).with_deaths(&[VICTIM]).with(ROUND, seed);
        let job = job.with("STRAIT_WINDOW", "send_recv").with("STRAIT_RENDEZVOUS", "adaptive");
        let job = job.with("STRAIT_UNEXPECTED_MAX", 4096).with("STRAIT_FASTBOX_MAX", 0);
        job.run(|world| play(&world, seed));
    }
}

#[test]
fn survivors_on_a_node_are_answered() {
    rounds("survivors_on_a_node_are_answered", 1, 1000);
}

#[test]
fn survivors_between_nodes_are_answered() {
    rounds("survivors_between_nodes_are_answered", 2, 2000);
}
