//! Scenarios of large messages in several parts: they go beside the stream, by a list that the
//! receiver reads.

use core::ptr::NonNull;

use strait::{Fault, Tuning};
use strait_core::buffer::Part;
use strait_core::engine::{Channel as _, Engine, FailureCause, Gone, RemoteTransfers};
use strait_core::hca::{Access, RemoteAddress};
use strait_core::lmt::RemoteTransfer;
use strait_core::matching::Pattern;
use strait_core::ring::Design;
use strait_core::rndv::Rendezvous;
use strait_core::wire::{Key, MessageAddress, Offer, StreamHead, StridedRun};

use super::scattered::Scattered;
use super::scripted::{cursor, tuned};
use super::{Cluster, Port};
use crate::payload;

/// Length of a large message, in bytes.
const LARGE: usize = 600_000;

/// Longest message that the stream carries, in bytes. Parts are short if their average is below a
/// quarter, or below this where each needs a registration.
const STREAM_MAX: usize = 1000;

/// Creates two ranks on two nodes, of which none sends an RTR.
fn two(design: Design, remote_transfer: RemoteTransfer) -> Cluster {
    tuned(1, 2, design, || Tuning {
        remote_transfer,
        rendezvous: Rendezvous::Plain,
        stream_max: STREAM_MAX,
        ..Tuning::default()
    })
}

/// Returns the gaps and lengths of `count` parts of a buffer of `length` bytes. Gaps alternate.
fn parts(length: usize, count: usize, gaps: [usize; 2]) -> Vec<(usize, usize)> {
    let part = |number: usize| {
        let cut = |number: usize| length * number / count;
        (gaps[number % 2], cut(number + 1) - cut(number))
    };
    (0..count).map(part).collect()
}

/// Sends the message `id` in `sent` from rank 0 to rank 1, which receives it into `got` when it has
/// come. Returns the fault of the receive.
fn pass(cluster: &mut Cluster, sent: &mut Scattered, got: &mut Scattered) -> Option<Fault> {
    let send = cluster.send((0, 1), 0, sent.cursor());
    let from_0 = Pattern { context: 0, source: 0, tag: 0 };
    cluster.run_until(|cluster| cluster.engines[1].iprobe(from_0).expect("memory").is_some());
    let receive = cluster.receive((0, 1), 0, got.cursor());
    let mut outcome = None;
    cluster.run_until(|cluster| {
        outcome = outcome.or_else(|| cluster.engines[1].test(receive));
        outcome.is_some()
    });
    cluster.run_until(|cluster| cluster.is_over(0, send));
    outcome.and_then(Result::err)
}

/// Rank 0 sends large messages from several parts. Those with long parts go beside the stream,
/// whatever the receiver's buffer looks like; those with short or too many parts go through it.
///
/// # Panics
///
/// When a message is wrong or goes another way.
pub fn come_scattered(design: Design) {
    let layouts = [
        (parts(LARGE, 10, [24; 2]), true),
        (parts(LARGE, 10, [5000; 2]), true),
        (parts(LARGE, 100, [4095, 4097]), true),
        (vec![(3, 1), (3, 150_001), (3, 1), (9, LARGE - 150_003)], true),
        (vec![(0, 0), (0, 8), (0, 0), (0, LARGE - 8)], false),
        (parts(LARGE, 256, [5000; 2]), true),
        (parts(LARGE, 257, [5000; 2]), false),
        (parts(LARGE, 1200, [8; 2]), true),
        (parts(LARGE, 1201, [8; 2]), false),
    ];
    for way in RemoteTransfer::ALL {
        for (id, (layout, is_listed)) in (1..).zip(&layouts) {
            let mut cluster = two(design, way);
            let mut expected = RemoteTransfers::default();
            for (capacity, count) in [(LARGE, 1), (LARGE + 1, 7), (100_000, 3), (100_000, 1)] {
                let mut sent = Scattered::placed(&payload::of(id, LARGE), layout);
                let room = parts(capacity, count, [16; 2]);
                let mut got = Scattered::placed(&vec![0_u8; capacity], &room);
                let fault = pass(&mut cluster, &mut sent, &mut got);
                let (here, length) = (got.bytes(), capacity.min(LARGE));
                let wrong = payload::first_difference(id, &here[..length / 8 * 8]);
                assert_eq!(wrong, None, "{}: message {id}", design.name());
                assert!(here[length..].iter().all(|byte| *byte == 0));
                let is_cut = matches!(fault, Some(Fault::Truncated { message: LARGE, .. }));
                assert_eq!(is_cut, capacity < LARGE, "{}: {fault:?}", design.name());
                expected.scattered += u64::from(*is_listed);
            }
            let scattered = cluster.engines[0].remote_transfers().scattered;
            assert_eq!(scattered, expected.scattered, "{}: layout {id}", design.name());
            for engine in &mut cluster.engines {
                assert_eq!(engine.in_use().expect("a sound segment").transfers, 0);
            }
        }
    }
}

/// A description of a message in several parts that its sender has not got.
struct Lie {
    total: u64,
    runs: Vec<StridedRun>,
    /// The number of runs that the head names.
    told: u32,
    /// Whether the head names a key of another region.
    wrong_key: bool,
}

/// Rank 0 announces messages by lists that make no sense. Rank 1 takes it for broken, and has
/// nothing in its buffer.
///
/// # Panics
///
/// When the stream goes on, or the buffer is written.
pub fn refuse_lies(design: Design) {
    let first = RemoteAddress { address: 8, key: 0 };
    let run = StridedRun { first, length: 5000, stride: 6000, count: 2 };
    let lie = |total, runs: &[StridedRun]| Lie {
        total,
        runs: runs.to_vec(),
        told: runs.len() as u32,
        wrong_key: false,
    };
    let far = RemoteAddress { address: u64::MAX - 100, key: 0 };
    let lies = [
        lie(9_999, &[run]),
        lie(10_001, &[run]),
        lie(10_000, &[run, run]),
        lie(10_000, &[run, StridedRun { length: 0, ..run }]),
        lie(10_000, &[run, StridedRun { count: 0, ..run }]),
        lie(10_000, &[StridedRun { stride: u64::MAX, ..run }]),
        lie(10_000, &[StridedRun { first: far, ..run }]),
        lie(1 << 62, &[StridedRun { length: 1 << 62, ..run }]),
        // The sum wraps.
        lie(0x4000, &[StridedRun { length: 1 << 62, count: 1, ..run }; 5]),
        // The device refuses these.
        lie(10_000, &[run]),
        Lie { wrong_key: true, ..lie(10_000, &[run]) },
        Lie { told: 256, ..lie(10_000, &[run]) },
    ];
    for (number, lie) in lies.iter().enumerate() {
        let mut cluster = two(design, RemoteTransfer::Auto);
        let mut got = vec![0_u8; LARGE];
        let receive = cluster.receive((0, 1), 0, cursor(&mut got));
        announce(&mut cluster, lie);
        cluster.run_until(|cluster| cluster.engines[1].gone(0).is_some());
        let nonsense = Some(Gone::Failed(FailureCause::Nonsense));
        let by_device = number >= 9;
        assert!(by_device || cluster.engines[1].gone(0) == nonsense, "lie {number}");
        let outcome = cluster.engines[1].test(receive);
        let failed = matches!(outcome, Some(Err(Fault::PeerFailed { rank: 0, .. })));
        assert!(failed, "{}: lie {number}: {outcome:?}", design.name());
        assert!(got.iter().all(|byte| *byte == 0), "{}: lie {number}", design.name());
        let engine: &mut Engine<_> = &mut cluster.engines[1];
        assert_eq!(engine.in_use().expect("a sound segment").transfers, 0);
    }
}

/// Makes rank 0 announce a message as `lie` says.
fn announce(cluster: &mut Cluster, lie: &Lie) {
    let mut list: Vec<u8> = lie.runs.iter().flat_map(|run| run.pack()).collect();
    let base = NonNull::from(list.as_mut_slice()).cast::<u8>();
    let access = Access { remote_read: true, ..Access::LOCAL_READ };
    let device = &mut cluster.mesh.nodes[0].device;
    // SAFETY: the list stays allocated for ever.
    let region = unsafe { strait_core::hca::Hca::register(device, base, list.len(), access) };
    let region = region.expect("room");
    core::mem::forget(list);
    let offer = Offer { total: lie.total, place: 0, number: 1 };
    let key = if lie.wrong_key { region.remote_key ^ 2 } else { region.remote_key };
    let at = RemoteAddress { address: region.base, key };
    let from = MessageAddress::Listed(at, lie.told);
    let head = StreamHead::Rts { key: Key::new(0, 0), offer, from, turn: None };
    let mut bytes = head.pack();
    let mut rest = Part { base: NonNull::from(&mut bytes).cast(), length: bytes.len() };
    cluster.run_until(|cluster| {
        let Cluster { mesh, rng, called, .. } = cluster;
        let (node, called) = (&mut mesh.nodes[0], &mut called[0]);
        let mut port = Port { node, rng, refuse: 0, clock: 0, called };
        // SAFETY: the bytes live until all of them are put.
        let put = unsafe { port.put(1, &[rest]) }.expect("a sound link").bytes;
        // SAFETY: the link takes no more bytes than there are.
        rest = Part { base: unsafe { rest.base.add(put) }, length: rest.length - put };
        rest.length == 0
    });
}
