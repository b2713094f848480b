//! One rank of a bench: its processor, its partner, and the control messages between measurements.

use core::error::Error;

use strait::{Endpoint, World, topology};

use super::lane::{self, PairMemory};

/// The tag of measured messages; control messages have a context of their own.
pub(crate) const TAG: u32 = 1;

const CONTROL: u32 = 1;
const ORDER: u32 = 0;
const READY: u32 = 1;
const ARRIVE: u32 = 2;
const LEAVE: u32 = 3;
const GATHER: u32 = 4;

/// The half of a pair that a rank is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StageSide {
    /// Reads the clock, and sends in one-way traffic.
    Leader,
    Follower,
    /// Has no partner, and takes no part in measurements.
    Idle,
}

/// A rank on its processor, with its partner.
#[derive(Debug)]
pub(crate) struct BenchStage<'world> {
    pub(crate) endpoint: Endpoint<'world>,
    pub(crate) side: StageSide,
    pub(crate) partner: u32,
    /// `None` if the partners share a processor, since a line cannot move then, or if there is no
    /// memory besides the job's.
    pub(crate) lane: Option<&'static PairMemory>,
    /// Processors in use, in ascending order.
    pub(crate) cpus: Vec<usize>,
    /// The processor of the follower of this rank's pair, if no processor is left for other
    /// threads.
    pub(crate) followers: Option<usize>,
}

impl<'world> BenchStage<'world> {
    /// Binds this rank to its processor: the ranks of a pair to neighbours, as far as there are
    /// enough.
    ///
    /// The rank does this itself, not the launcher. A world counts its allowed processors when it
    /// starts, and chooses to spin or to yield by their number.
    pub(crate) fn new(world: &'world World, scratch: Option<u32>) -> Result<Self, Box<dyn Error>> {
        let half = world.size() / 2;
        let (side, pair) = match world.rank() {
            rank if rank < half => (StageSide::Leader, rank),
            rank if rank < 2 * half => (StageSide::Follower, rank - half),
            rank => (StageSide::Idle, rank / 2),
        };
        let partner = if side == StageSide::Leader { pair + half } else { pair };
        let mut cpus = topology::allowed_cpus()?;
        let cpu = |side| {
            cpus[(2 * pair as usize + usize::from(side == StageSide::Follower)) % cpus.len()]
        };
        let own = cpu(side);
        let crowded = cpus.len() < 2 * world.size() as usize;
        let followers = crowded.then(|| cpu(StageSide::Follower));
        topology::pin_to(own).map_err(|error| {
            format!("rank {} cannot be bound to processor {own}: {error}", world.rank())
        })?;
        let lane = match scratch.filter(|_| cpus.len() > 1 && side != StageSide::Idle) {
            Some(scratch) => {
                let mapped = lane::map(scratch, pair);
                Some(
                    mapped
                        .map_err(|error| format!("descriptor {scratch} has no lanes: {error}"))?,
                )
            }
            None => None,
        };
        cpus.truncate(world.size() as usize);
        Ok(Self { endpoint: world.endpoint(), side, partner, lane, cpus, followers })
    }

    pub(crate) fn rank(&self) -> u32 {
        self.endpoint.world().rank()
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.endpoint.world().size()
    }

    /// Returns the number of pairs that measure.
    pub(crate) fn pairs(&self) -> u32 {
        self.ranks() / 2
    }

    /// Returns whether this rank leads its pair.
    pub(crate) fn leads(&self) -> bool {
        self.side == StageSide::Leader
    }

    /// Returns whether the partners are on different nodes.
    pub(crate) fn crosses(&self) -> bool {
        let world = self.endpoint.world();
        world.node_of(self.partner) != Some(world.node())
    }

    /// Returns whether this rank prints.
    pub(crate) fn reports(&self) -> bool {
        self.rank() == 0
    }

    /// Waits for all ranks.
    pub(crate) fn barrier(&self) -> Result<(), strait::Error> {
        let control = self.control();
        if self.rank() != 0 {
            control.send::<[u8]>(&[], 0, ARRIVE)?;
            control.recv::<[u8]>(&mut [], 0, LEAVE)?;
            return Ok(());
        }
        (1..self.ranks())
            .try_for_each(|rank| control.recv::<[u8]>(&mut [], rank, ARRIVE).map(drop))?;
        (1..self.ranks()).try_for_each(|rank| control.send::<[u8]>(&[], rank, LEAVE))
    }

    /// Returns the numbers of each rank below `ranks`, on rank 0. Other ranks get nothing.
    pub(crate) fn gather(
        &self,
        numbers: &[f64],
        ranks: u32,
    ) -> Result<Vec<Vec<f64>>, strait::Error> {
        let control = self.control();
        if self.rank() != 0 {
            if self.rank() < ranks {
                control.send(numbers, 0, GATHER)?;
            }
            return Ok(Vec::new());
        }
        let mut all = vec![numbers.to_vec()];
        for rank in 1..ranks {
            let length = control.probe(rank, GATHER)?.bytes / size_of::<f64>();
            let mut theirs = vec![0.0; length];
            control.recv(&mut theirs, rank, GATHER)?;
            all.push(theirs);
        }
        Ok(all)
    }

    /// Sends the next order to the follower, and waits until it is ready.
    pub(crate) fn give_order(&self, order: RoundOrder) -> Result<(), strait::Error> {
        self.control().send(&order.0, self.partner, ORDER)?;
        self.control().recv::<[u8]>(&mut [], self.partner, READY).map(drop)
    }

    pub(crate) fn take_order(&self) -> Result<RoundOrder, strait::Error> {
        let mut order = RoundOrder([0; 3]);
        self.control().recv(&mut order.0, self.partner, ORDER)?;
        Ok(order)
    }

    pub(crate) fn be_ready(&self) -> Result<(), strait::Error> {
        self.control().send::<[u8]>(&[], self.partner, READY)
    }

    const fn control(&self) -> Endpoint<'world> {
        self.endpoint.with_context(CONTROL)
    }
}

/// The next task of the follower: the seed of the payloads, the batch, and its number of rounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RoundOrder([u64; 3]);

impl RoundOrder {
    /// The order that ends the measurement.
    pub(crate) const STOP: Self = Self([0; 3]);

    pub(crate) const fn new(seed: u64, bare_rounds: u64, rounds: u64) -> Self {
        Self([seed, bare_rounds, rounds])
    }

    pub(crate) const fn seed(self) -> u64 {
        self.0[0]
    }

    pub(crate) const fn bare_rounds(self) -> u64 {
        self.0[1]
    }

    pub(crate) const fn rounds(self) -> u64 {
        self.0[2]
    }

    pub(crate) const fn is_stop(self) -> bool {
        self.bare_rounds() == 0 && self.rounds() == 0
    }
}
