//! Short scenarios with a fixed order of events.

use core::ptr::NonNull;

use fastrand::Rng;
use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Engine, FailureCause, Gone, Owner, Received, RequestId, Sent, Tuning};
use strait_core::layout::Life;
use strait_core::matching::Pattern;
use strait_core::ring::{self, Design};
use strait_core::wire::Key;

use super::Cluster;
use super::scattered::Scattered;
use crate::payload;
use strait_sim::{Model, SimFabric};

/// Length of the large message, and of each request for a part of it, in bytes.
const LARGE: usize = 2 << 20;
const PIECE: u64 = 64 << 10;

fn two(design: Design) -> Cluster {
    on_nodes_of(1, 2, design)
}

fn on_nodes_of(per_node: u32, ranks: u32, design: Design) -> Cluster {
    tuned(per_node, ranks, design, Tuning::default)
}

/// Creates a cluster with the cards of the papers.
pub(super) fn tuned(
    per_node: u32,
    ranks: u32,
    design: Design,
    tuning: impl Fn() -> Tuning,
) -> Cluster {
    let mut model = Model::of_2004();
    model.capabilities.message = PIECE;
    let links = ring::LinkConfig { design, chunk: 16 << 10, slots: 3, large: 32 << 10 };
    let (fabric, rng) = (SimFabric::new(1, ranks, model), Rng::with_seed(1));
    Cluster::on(fabric, links, (ranks, per_node), tuning, (rng, 0))
}

/// Rank 3 of two nodes dies, and the operating system reports it to rank 2, which is on its node.
/// The ranks of the other node wait for rank 2, and learn of the death from it: rank 0 by its link
/// to rank 2, rank 1 by the segment.
///
/// # Panics
///
/// When a rank does not learn of the death, or learns of one that did not happen.
pub fn hear_of_a_death(design: Design) {
    let mut cluster = on_nodes_of(2, 4, design);
    cluster.engines.iter_mut().for_each(Engine::tell_deaths);
    let mut buffer = vec![0_u8; 8];
    let receive = cluster.receive((2, 0), 0, cursor(&mut buffer));
    cluster.kill(3);
    let how = Gone::Failed(FailureCause::Ended);
    while !cluster.engines[2].peer_gone(3, how).expect("a sound segment") {
        cluster.turn(2);
    }
    assert!(cluster.engines[2].has_deaths_to_tell());
    cluster.run_until(|cluster| cluster.engines[0].gone(3) == Some(how));
    let life = |rank: u32| cluster.engines[1].segment().rank_block(rank).liveness.state();
    assert_eq!([0, 1, 2, 3].map(life), [Life::Unborn, Life::Unborn, Life::Unborn, Life::Dead]);
    assert_eq!(cluster.engines[0].gone(2), None);
    // The link of the two living ranks still works.
    let mut sent = payload::of(1, 8);
    cluster.send((2, 0), 0, cursor(&mut sent));
    cluster.run_until(|cluster| cluster.is_over(0, receive));
    assert!(buffer == sent, "{}: something else came than was sent", design.name());
}

/// Rank 1 receives large messages and does nothing more until rank 0, which sends them afterwards,
/// is done. Then they are in the buffers.
///
/// # Panics
///
/// When a message is missing or wrong.
pub fn write(design: Design) {
    let mut cluster = two(design);
    for number in 0..8 {
        // The message is moved in one request, or in more than go at once.
        let length = if number % 2 == 0 { LARGE } else { 20_000 };
        // Some messages lie in several parts.
        let parts: &[_] = match number {
            4 => &[(5000, length / 4); 4],
            6 => &[(16, length / 8); 8],
            _ => &[(0, length)],
        };
        let mut sent = Scattered::placed(&payload::of(number, length), parts);
        let mut got = vec![0_u8; length];
        let receive = cluster.receive((0, 1), 0, cursor(&mut got));
        // The first message is announced, which tells the receiver that such messages come.
        cluster.run_until(|cluster| cluster.engines[0].rtrs().heard == number);
        let send = cluster.send((0, 1), 0, sent.cursor());
        let receiver_computes = number > 0;
        while !cluster.is_over(0, send) {
            cluster.turn(0);
            if !receiver_computes {
                cluster.turn(1);
            }
            let _ = cluster.pass();
        }
        let wrong = payload::first_difference(number, &got);
        assert_eq!(wrong, None, "{}: message {number}", design.name());
        cluster.run_until(|cluster| cluster.is_over(1, receive));
        assert_eq!(cluster.engines[0].rtrs().used, number, "{}", design.name());
    }
}

/// Rank 0 sends rank 1 a large message, and each sends the other a short message when a part of it
/// has arrived.
///
/// # Panics
///
/// When a short message arrives after the large one, or a message is wrong.
pub fn overtake(design: Design) {
    let mut cluster = two(design);
    let mut sent = [payload::of(1, LARGE), payload::of(2, 64), payload::of(3, 64)];
    let mut got = [vec![0_u8; LARGE], vec![0; 64], vec![0; 64]];
    let ways = [(0, 1), (0, 1), (1, 0)];
    let receives: Vec<_> =
        (0..3).map(|at| cluster.receive(ways[at], at as u32, cursor(&mut got[at]))).collect();
    cluster.send(ways[0], 0, cursor(&mut sent[0]));
    cluster.run_until(|cluster| cluster.mesh.end(1, 0).0.operations().total() > 4);
    for at in 1..3 {
        cluster.send(ways[at], at as u32, cursor(&mut sent[at]));
    }
    for at in [1, 2] {
        cluster.run_until(|cluster| cluster.is_over(ways[at].1, receives[at]));
    }
    assert!(!cluster.is_over(1, receives[0]), "{}: the large message came first", design.name());
    cluster.run_until(|cluster| cluster.is_over(1, receives[0]));
    assert!(got == sent, "{}: something else came than was sent", design.name());
}

impl Cluster {
    pub(super) fn receive(
        &mut self,
        (source, at): (u32, u32),
        tag: u32,
        buffer: Cursor,
    ) -> RequestId {
        let (pattern, engine) =
            (Pattern { context: 0, source, tag }, &mut self.engines[at as usize]);
        // In the library, a receive that names its source calls it.
        self.called[at as usize].insert(source);
        // SAFETY: the buffers live as long as the cluster, and are not accessed before the end.
        match unsafe { engine.irecv(pattern, buffer, Owner(1)) } {
            Ok(Received::Pending(id)) => id,
            received => panic!("{received:?}"),
        }
    }

    pub(super) fn send(&mut self, (from, to): (u32, u32), tag: u32, data: Cursor) -> RequestId {
        // SAFETY: the buffers live as long as the cluster, and are not accessed before the end.
        let sent =
            unsafe { self.engines[from as usize].isend(to, Key::new(0, tag), data, Owner(1)) };
        match sent {
            Ok(Sent::Pending(id)) => id,
            sent => panic!("{sent:?}"),
        }
    }

    pub(super) fn is_over(&mut self, rank: u32, id: RequestId) -> bool {
        self.engines[rank as usize].test(id).is_some_and(|outcome| outcome.is_ok())
    }

    pub(super) fn run_until(&mut self, mut is_there: impl FnMut(&mut Self) -> bool) {
        for _ in 0..100_000 {
            if is_there(self) {
                return;
            }
            for rank in self.living().collect::<Vec<_>>() {
                self.turn(rank);
            }
            let _ = self.pass();
        }
        panic!("the event does not occur");
    }
}

pub(super) fn cursor(buffer: &mut [u8]) -> Cursor {
    let part = Part { base: NonNull::from(&mut *buffer).cast(), length: buffer.len() };
    // SAFETY: the buffers live as long as the cluster, and are not accessed before the end.
    unsafe { Cursor::contiguous(part) }
}
