//! Scenarios of announced messages: their receivers read them, or have their senders write them.

use strait::{Fault, Tuning};
use strait_core::buffer::Part;
use strait_core::engine::{Channel as _, Engine, FailureCause, Gone, RemoteTransfers};
use strait_core::hca::RemoteAddress;
use strait_core::lmt::RemoteTransfer;
use strait_core::matching::Pattern;
use strait_core::ring::Design;
use strait_core::rndv::Rendezvous;
use strait_core::wire::{DeferredMessageId, StreamHead};

use super::scripted::{cursor, tuned};
use super::{Cluster, Port};
use crate::payload;
use strait_sim::Step;

/// Matches the messages of rank 0.
const FROM_0: Pattern = Pattern { context: 0, source: 0, tag: 0 };

/// Length of a large message, in bytes.
const LARGE: usize = 600_000;

/// Creates two ranks on two nodes, of which none sends an RTR.
fn two(design: Design, remote_transfer: RemoteTransfer) -> Cluster {
    let tuning = || Tuning { remote_transfer, rendezvous: Rendezvous::Plain, ..Tuning::default() };
    tuned(1, 2, design, tuning)
}

/// Sends a large message from rank 0 to rank 1, which receives it when it has come. Returns the
/// fault of the receive, if there is one, and the buffer.
fn pass(cluster: &mut Cluster, id: u64, capacity: usize) -> (Option<Fault>, Vec<u8>) {
    let (mut sent, mut got) = (payload::of(id, LARGE), vec![0_u8; capacity]);
    let send = cluster.send((0, 1), 0, cursor(&mut sent));
    cluster.run_until(|cluster| cluster.engines[1].iprobe(FROM_0).expect("memory").is_some());
    let receive = cluster.receive((0, 1), 0, cursor(&mut got));
    let mut outcome = None;
    cluster.run_until(|cluster| {
        outcome = outcome.or_else(|| cluster.engines[1].test(receive));
        outcome.is_some()
    });
    cluster.run_until(|cluster| cluster.is_over(0, send));
    (outcome.and_then(Result::err), got)
}

/// Rank 1 receives announced messages into buffers that are long enough, too short and empty. They
/// go the way that the setting names.
///
/// # Panics
///
/// When a message is wrong or goes another way.
pub fn come_late(design: Design) {
    for way in [RemoteTransfer::Read, RemoteTransfer::Write] {
        let mut cluster = two(design, way);
        for (id, capacity) in [(1, LARGE), (2, LARGE + 1), (3, 100_000), (4, 0)] {
            let (fault, got) = pass(&mut cluster, id, capacity);
            let wrong = payload::first_difference(id, &got[..capacity.min(LARGE) / 8 * 8]);
            assert_eq!(wrong, None, "{}: message {id}", design.name());
            assert!(got[capacity.min(LARGE)..].iter().all(|byte| *byte == 0));
            let is_cut = matches!(fault, Some(Fault::Truncated { message: LARGE, .. }));
            assert_eq!(is_cut, capacity < LARGE, "{}: {fault:?}", design.name());
        }
        // Nothing is to be written into the empty buffer.
        let writes = way == RemoteTransfer::Write;
        let [read, written] = if writes { [1, 3] } else { [4, 0] };
        let counts = RemoteTransfers { read, written, scattered: 0 };
        assert_eq!(cluster.engines[1].remote_transfers(), counts, "{}", design.name());
        assert_eq!(cluster.engines[1].in_use().expect("a sound segment").transfers, 0);
    }
}

/// Rank 1 drops receives of announced messages: at once, and when their senders have been asked to
/// write. A dropped receive keeps its buffer until nothing is written there any more, and the send
/// ends.
///
/// # Panics
///
/// When a buffer is written after its receive is gone, or something stays under way.
pub fn drop_receives(design: Design) {
    for way in [RemoteTransfer::Read, RemoteTransfer::Write] {
        for turns in 0..4 {
            let mut cluster = two(design, way);
            let (mut sent, mut got) = (payload::of(1, LARGE), vec![0_u8; LARGE]);
            let send = cluster.send((0, 1), 0, cursor(&mut sent));
            cluster
                .run_until(|cluster| cluster.engines[1].iprobe(FROM_0).expect("memory").is_some());
            let receive = cluster.receive((0, 1), 0, cursor(&mut got));
            for _ in 0..turns {
                cluster.turn(1);
            }
            let at_once = cluster.engines[1].detach(receive).is_ok();
            assert!(turns > 0 || at_once, "nothing had left yet");
            let writes = way == RemoteTransfer::Write;
            assert!(turns == 0 || !writes || !at_once, "the sender may write");
            if !at_once {
                cluster.run_until(|cluster| match cluster.engines[1].test(receive) {
                    Some(outcome) => outcome.is_ok(),
                    None => cluster.engines[1].detach(receive).is_ok(),
                });
            }
            let before = got.clone();
            cluster.run_until(|cluster| cluster.is_over(0, send));
            cluster.run_until(|cluster| cluster.engines.iter().all(Engine::is_flushed));
            assert_eq!(got, before, "{}: written after the receive", design.name());
            for engine in &mut cluster.engines {
                assert_eq!(engine.in_use().expect("a sound segment").transfers, 0);
            }
        }
    }
}

/// A stream of windows of announced messages, for the cards of `[RdmaChannel04]`.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Number of windows.
    pub count: usize,
    /// Number of messages in each window.
    pub messages: usize,
    /// Length of each message, in bytes.
    pub length: usize,
    /// Nanoseconds for which the sender computes between two progress calls.
    pub compute_ns: u64,
}

/// Sends windows of messages from rank 0 to rank 1, which receives each message when it has come.
/// The next window begins when the last one is over. Returns the nanoseconds of virtual time, and
/// how the messages came.
///
/// # Panics
///
/// When a message fails.
#[must_use]
pub fn time(design: Design, way: RemoteTransfer, windows: Windows) -> (u64, RemoteTransfers) {
    let Windows { count, messages, length, compute_ns } = windows;
    let mut cluster = two(design, way);
    let fabric = cluster.mesh.rig.0.clone();
    let mut sent = payload::of(1, length);
    let mut rooms = vec![vec![0_u8; length]; messages];
    let (mut left, mut sends) = (count, Vec::new());
    let (mut due, mut receives) = (count * messages, Vec::new());
    let mut computes_until = 0;
    let time = fabric.play(|rank| {
        let clock = cluster.mesh.nodes[rank as usize].device.clock();
        if rank == 0 && clock < computes_until {
            // To poll the device takes time of the processor.
            cluster.mesh.poll(rank);
            return Step::Moved;
        }
        let mut moved = cluster.turn(rank);
        if rank == 0 && left > 0 {
            computes_until = clock + compute_ns;
        }
        if rank == 0 {
            sends.retain(|send| !cluster.is_over(0, *send));
            if sends.is_empty() && left > 0 {
                left -= 1;
                sends.extend((0..messages).map(|_| cluster.send((0, 1), 0, cursor(&mut sent))));
                moved = true;
            }
        } else {
            receives.retain(|receive| !cluster.is_over(1, *receive));
            while due > 0 && cluster.engines[1].iprobe(FROM_0).expect("memory").is_some() {
                due -= 1;
                let room = cursor(&mut rooms[due % messages]);
                receives.push(cluster.receive((0, 1), 0, room));
                moved = true;
            }
        }
        let is_over = if rank == 0 { left == 0 } else { due == 0 };
        let is_quiet = sends.is_empty() && cluster.engines[rank as usize].is_flushed();
        match moved {
            false if is_over && is_quiet && receives.is_empty() => Step::Finished,
            false => Step::Waits,
            true => Step::Moved,
        }
    });
    assert!(rooms.iter().all(|room| payload::first_difference(1, room).is_none()));
    (time, cluster.engines[1].remote_transfers())
}

/// Rank 0 sends heads about messages that do not exist. Rank 1 takes it for broken.
///
/// # Panics
///
/// When the stream goes on.
pub fn refuse_nonsense(design: Design) {
    let name = DeferredMessageId { place: 0, number: 1 };
    let to = RemoteAddress { address: 8, key: 0 };
    for head in
        [StreamHead::Cts { name, capacity: usize::MAX >> 1, to }, StreamHead::CtsWritten(name)]
    {
        let mut cluster = two(design, RemoteTransfer::Auto);
        let mut bytes = head.pack();
        let base = core::ptr::NonNull::from(&mut bytes).cast();
        let mut rest = Part { base, length: bytes.len() };
        cluster.run_until(|cluster| {
            let Cluster { mesh, rng, called, .. } = cluster;
            let (node, called) = (&mut mesh.nodes[0], &mut called[0]);
            let mut port = Port { node, rng, refuse: 0, clock: 0, called };
            if rest.length > 0 {
                // SAFETY: the bytes live as long as the cluster uses them.
                let put = unsafe { port.put(1, &[rest]) }.expect("a sound link").bytes;
                // SAFETY: the link takes no more bytes than there are.
                let base = unsafe { rest.base.add(put) };
                rest = Part { base, length: rest.length - put };
            }
            cluster.engines[1].gone(0) == Some(Gone::Failed(FailureCause::Nonsense))
        });
    }
}
