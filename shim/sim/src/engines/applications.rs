//! The communication of CG, BT, LU and RADIX on four nodes (`[SpecRndv09]` §4.3, figures 17 and
//! 18).
//!
//! The programs have the calls of figure 18, between the neighbours that the applications have on 2
//! by 2 processes, with their messages in the paper's classes. The paper gives no times of the
//! computation between the calls. They are NPB's operations of the class at an assumed speed, and
//! differ between ranks and iterations by an assumed part.

use core::fmt;

use fastrand::Rng;
use strait::raw::ANY_SOURCE;
use strait_core::engine::{Rtrs, Tuning};
use strait_core::lmt::RemoteTransfer;
use strait_core::ring::{Design, LinkConfig};
use strait_core::rndv::Rendezvous;

use super::node::{Call, CallTimes, EngineNode, Message};
use crate::driver::Driver;
use crate::{Model, SimFabric};

/// Number of nodes of the paper.
const NODES: u32 = 4;

/// Number of runs, as in the paper.
const RUNS: u64 = 5;

/// Bytes of a number.
const NUMBER: usize = 8;

/// Bytes of a message of RADIX. The paper states only that they are in the range of its rendezvous.
const KEYS: usize = 256 << 10;

/// An application of the paper's figure 17.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Application {
    /// CG, class B.
    Cg,
    /// BT, class A.
    Bt,
    /// LU, class A.
    Lu,
    /// RADIX of SPLASH-2.
    Radix,
}

impl Application {
    /// All applications, in the order of the figure.
    pub const ALL: [Self; 4] = [Self::Cg, Self::Bt, Self::Lu, Self::Radix];
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cg => "CG",
            Self::Bt => "BT",
            Self::Lu => "LU",
            Self::Radix => "RADIX",
        })
    }
}

/// What the paper does not state of its machines.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Millions of NPB's operations per second of a processor.
    pub speed: f64,
    /// The most by which a computation is shorter or longer than its mean, as a part of it.
    pub skew: f64,
    /// Number of reads that a connection of a card has under way.
    pub reads: u32,
}

impl Machine {
    /// Machines of the paper's time: all values are assumed. With so many reads no transfer of the
    /// library waits until a read has ended.
    pub const OF_2005: Self = Self { speed: 500.0, skew: 0.003, reads: 4 };
}

/// The costs of a run, of all ranks together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ApplicationCosts {
    /// Milliseconds until the last rank is done.
    pub time_ms: f64,
    /// Milliseconds in waits for nonblocking operations: the paper's wait time.
    pub waits_ms: f64,
    /// Milliseconds in blocking sends and receives.
    pub blocking_ms: f64,
    /// RTRs sent, and messages that used one.
    pub rtrs: [u64; 2],
}

impl ApplicationCosts {
    fn and(self, other: Self) -> Self {
        let [[sent, used], [others_sent, others_used]] = [self.rtrs, other.rtrs];
        Self {
            time_ms: self.time_ms + other.time_ms,
            waits_ms: self.waits_ms + other.waits_ms,
            blocking_ms: self.blocking_ms + other.blocking_ms,
            rtrs: [sent + others_sent, used + others_used],
        }
    }
}

/// Returns the costs of five runs together. Their computations differ, and are the same for each
/// setting of the rendezvous.
///
/// # Panics
///
/// When a message arrives damaged, or ranks wait for ever.
#[must_use]
pub fn run(application: Application, rendezvous: Rendezvous, machine: Machine) -> ApplicationCosts {
    let runs = (0..RUNS).map(|seed| run_once(application, rendezvous, machine, seed));
    runs.fold(ApplicationCosts::default(), ApplicationCosts::and)
}

fn run_once(
    application: Application,
    rendezvous: Rendezvous,
    machine: Machine,
    seed: u64,
) -> ApplicationCosts {
    let fabric = SimFabric::new(1, NODES, Model::of_2009(machine.reads));
    let links = LinkConfig::new(Design::ZeroCopy);
    // A late receiver of the paper reads.
    let remote_transfer = RemoteTransfer::Read;
    let tuning = Tuning { rendezvous, remote_transfer, ..Tuning::default() };
    let nodes = (0..NODES).map(|rank| {
        let program = Program::new(rank, machine, seed).of(application);
        EngineNode::new(&fabric, (rank, NODES), links, tuning, program)
    });
    let nodes = nodes.collect();
    let mut driver = Driver::new(fabric, nodes);
    let time = driver.run();
    let costs = ApplicationCosts { time_ms: time as f64 / 1e6, ..ApplicationCosts::default() };
    driver.nodes().fold(costs, |sum, node| {
        let (CallTimes { waits, blocking }, Rtrs { sent, used, .. }) = (node.times(), node.rtrs());
        sum.and(ApplicationCosts {
            time_ms: 0.0,
            waits_ms: waits as f64 / 1e6,
            blocking_ms: blocking as f64 / 1e6,
            rtrs: [sent, used],
        })
    })
}

/// The calls of one rank.
struct Program {
    rank: u32,
    machine: Machine,
    rng: Rng,
    calls: Vec<Call>,
}

impl Program {
    fn new(rank: u32, machine: Machine, seed: u64) -> Self {
        let rng = Rng::with_seed(seed << 8 | u64::from(rank));
        Self { rank, machine, rng, calls: Vec::new() }
    }

    fn of(mut self, application: Application) -> Vec<Call> {
        match application {
            Application::Cg => (0..100).for_each(|_| self.cg()),
            Application::Bt => (0..10).for_each(|_| self.bt()),
            Application::Lu => (0..5).for_each(|_| self.lu()),
            Application::Radix => self.radix(),
        }
        self.calls
    }

    /// Computes millions of operations.
    fn compute(&mut self, operations: f64) {
        let Machine { speed, skew, .. } = self.machine;
        let factor = skew.mul_add(self.rng.f64().mul_add(2.0, -1.0), 1.0);
        self.calls.push(Call::Compute((operations / speed * 1e9 * factor) as u64));
    }

    fn irecv(&mut self, peer: u32, tag: u32, bytes: usize) {
        self.calls.push(Call::Irecv(Message { peer, tag, bytes }));
    }

    fn isend(&mut self, peer: u32, tag: u32, bytes: usize) {
        self.calls.push(Call::Isend(Message { peer, tag, bytes }));
    }

    fn send(&mut self, peer: u32, tag: u32, bytes: usize) {
        self.calls.push(Call::Send(Message { peer, tag, bytes }));
    }

    fn recv(&mut self, peer: u32, tag: u32, bytes: usize) {
        self.calls.push(Call::Recv(Message { peer, tag, bytes }));
    }

    fn wait(&mut self) {
        self.calls.push(Call::Wait);
    }

    /// Receives from a neighbour while it receives from this rank: posted, blocking send, wait.
    fn swap(&mut self, peer: u32, tag: u32, bytes: usize) {
        self.irecv(peer, tag, bytes);
        self.send(peer, tag, bytes);
        self.wait();
    }

    /// An iteration of CG's inner loop: a product of the matrix and a vector, of which the rank's
    /// row adds up its parts, the exchange with the transposed rank, and two sums of a number.
    fn cg(&mut self) {
        /// NPB's operations of class B in an inner iteration of one rank, in millions.
        const OPERATIONS: f64 = 54_700.0 / (75.0 * 26.0) / NODES as f64;
        /// Half a vector of class B.
        const VECTOR: usize = 75_000 / 2 * NUMBER;
        let (row, column) = (self.rank / 2, self.rank % 2);
        let beside = self.rank ^ 1;
        self.compute(0.95 * OPERATIONS);
        self.swap(beside, 1, VECTOR);
        // A rank of the diagonal exchanges with itself, which is a copy.
        if row != column {
            self.swap(self.rank ^ 3, 2, VECTOR);
        }
        for tag in [3, 4] {
            self.compute(0.025 * OPERATIONS);
            self.swap(beside, tag, NUMBER);
        }
    }

    /// A step of BT: the faces of the cells, and a solution along each axis.
    fn bt(&mut self) {
        /// NPB's operations of class A in a step of one rank, in millions.
        const OPERATIONS: f64 = 168_300.0 / 200.0 / NODES as f64;
        /// The face of a cell.
        const FACE: usize = 32 * 32 * NUMBER;
        let axes = [1, 2, 3].map(|axis| self.rank ^ axis);
        // Two layers of five numbers for each of two cells, on both sides of an axis.
        for (axis, peer) in (0..).zip(axes) {
            (0..2).for_each(|side| self.irecv(peer, 10 + 2 * axis + side, 2 * 5 * 2 * FACE));
        }
        self.compute(0.01 * OPERATIONS);
        for (axis, peer) in (0..).zip(axes) {
            (0..2).for_each(|side| self.isend(peer, 10 + 2 * axis + side, 2 * 5 * 2 * FACE));
        }
        self.wait();
        self.compute(0.19 * OPERATIONS);
        for (axis, peer) in (0..).zip(axes) {
            self.solve(peer, axis, (0.25 * OPERATIONS, FACE));
        }
        self.compute(0.05 * OPERATIONS);
    }

    /// The first cell is eliminated, and the second produced while its message is under way; back
    /// substitution goes the other way.
    fn solve(&mut self, peer: u32, axis: u32, (operations, face): (f64, usize)) {
        let [forth, back] = [20, 30].map(|tag| tag + axis);
        self.compute(0.45 * operations);
        self.isend(peer, forth, (25 + 5) * face);
        self.irecv(peer, forth, (25 + 5) * face);
        self.compute(0.25 * operations);
        self.wait();
        self.compute(0.2 * operations);
        self.compute(0.05 * operations);
        self.isend(peer, back, 5 * face);
        self.irecv(peer, back, 5 * face);
        self.wait();
        self.compute(0.05 * operations);
    }

    /// An iteration of LU: faces from any source, and two sweeps through planes by short messages.
    fn lu(&mut self) {
        /// NPB's operations of class A in an iteration of one rank, in millions.
        const OPERATIONS: f64 = 119_280.0 / 250.0 / NODES as f64;
        /// Two layers of five numbers of a face.
        const FACE: usize = 2 * 5 * 32 * 64 * NUMBER;
        const PLANES: u32 = 62;
        let (row, column) = (self.rank / 2, self.rank % 2);
        for (tag, peer) in [(40, self.rank ^ 2), (41, self.rank ^ 1)] {
            self.irecv(ANY_SOURCE, tag, FACE);
            self.compute(0.1 * OPERATIONS);
            self.send(peer, tag, FACE);
            self.wait();
        }
        for (tag, first) in [(50, 0), (51, 1)] {
            let neighbours = [(self.rank ^ 2, row == first), (self.rank ^ 1, column == first)];
            for _ in 0..PLANES {
                self.plane(tag, neighbours, 0.4 * OPERATIONS / f64::from(PLANES));
            }
        }
    }

    /// A plane of a sweep: lines come from the neighbours before this rank, and go to those behind
    /// it.
    fn plane(&mut self, tag: u32, neighbours: [(u32, bool); 2], operations: f64) {
        /// Five numbers for each point of a line.
        const LINE: usize = 5 * 32 * NUMBER;
        for (peer, _) in neighbours.into_iter().filter(|(_, is_behind)| !is_behind) {
            self.recv(peer, tag, LINE);
        }
        self.compute(operations);
        for (peer, _) in neighbours.into_iter().filter(|(_, is_behind)| *is_behind) {
            self.send(peer, tag, LINE);
        }
    }

    /// RADIX: each four receives are waited for together, and as many messages are sent in a row.
    /// One half of the ranks sends first.
    fn radix(&mut self) {
        const ROUNDS: u32 = 10;
        for _ in 0..2 {
            match self.rank < NODES / 2 {
                true => {
                    self.radix_receives(ROUNDS);
                    self.radix_sends(ROUNDS);
                }
                false => {
                    self.radix_sends(ROUNDS);
                    self.radix_receives(ROUNDS);
                }
            }
        }
    }

    fn radix_peers(&self) -> [u32; 4] {
        let peers = [2, 3].map(|distance| self.rank ^ distance);
        [peers[0], peers[0], peers[1], peers[1]]
    }

    fn radix_receives(&mut self, rounds: u32) {
        for _ in 0..rounds {
            self.radix_peers().into_iter().for_each(|peer| self.irecv(peer, 60, KEYS));
            self.wait();
        }
    }

    fn radix_sends(&mut self, rounds: u32) {
        for _ in 0..rounds {
            for peer in self.radix_peers() {
                self.compute(KEYS as f64 / 4.0 / 1e6);
                self.send(peer, 60, KEYS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the change of the waits by speculation, in percent, and the part of RTRs used.
    fn change(application: Application) -> [f64; 2] {
        let [plain, speculative] = [Rendezvous::Plain, Rendezvous::Speculative]
            .map(|rendezvous| run_once(application, rendezvous, Machine::OF_2005, 1));
        let [sent, used] = speculative.rtrs.map(|count| count as f64);
        assert_eq!(plain.rtrs, [0, 0]);
        [100.0 * (speculative.waits_ms / plain.waits_ms - 1.0), used / sent]
    }

    #[test]
    fn speculation_pays_where_computation_follows_the_receive() {
        let [bt, used] = change(Application::Bt);
        assert!((-35.0..-10.0).contains(&bt) && used > 0.8, "{bt} {used}");
        let [cg, _] = change(Application::Cg);
        assert!((0.0..10.0).contains(&cg), "{cg}");
    }

    #[test]
    fn a_message_is_written_while_the_only_read_of_a_card_goes_on() {
        let [one, four] = [1, 4].map(|reads| {
            let machine = Machine { reads, ..Machine::OF_2005 };
            run_once(Application::Cg, Rendezvous::Speculative, machine, 1).waits_ms
        });
        assert!(one < 1.05 * four, "{one} {four}");
    }

    #[test]
    fn receives_from_any_source_send_no_rtr() {
        let lu = run_once(Application::Lu, Rendezvous::Speculative, Machine::OF_2005, 1);
        assert_eq!(lu.rtrs, [0, 0]);
        let again = run_once(Application::Lu, Rendezvous::Speculative, Machine::OF_2005, 1);
        assert_eq!(lu, again, "a run is repeatable");
    }
}
