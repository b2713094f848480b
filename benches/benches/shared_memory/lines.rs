//! Rings of lines, of granules and of landings, which one rank writes and another polls.

use core::hint::black_box;
use core::ptr::NonNull;

use criterion::{BenchmarkId, Criterion, Throughput};
use strait_core::ring::{Counter, Landing, LandingHead};
use strait_core::shm::{
    Baton, CopyRingPtr, CopyRingReceiver, CopyRingSender, FastboxPtr, FastboxReceiver,
    FastboxSender, GranuleHead, Line, RingChunk, SHORT_MAX,
};
use strait_core::sync::Ordering::Release;
use strait_core::sync::{AtomicU64, CacheLine};
use strait_core::wire::{Key, PacketKind, Sequence};

/// Number of lines of a fastbox or baton.
const LINES: usize = 32;

/// Payload lengths in bytes, for one line and for several.
const LENGTHS: [usize; 4] = [8, 48, 160, 1024];

fn lines() -> Vec<Line> {
    (0..LINES).map(|_| Line::empty()).collect()
}

/// Returns a function that fills lines with pieces of `payload`.
fn writer(payload: &[u8]) -> impl Fn(NonNull<u8>, usize, usize) {
    move |to, offset, length| {
        let piece = &payload[offset..offset + length];
        // SAFETY: the caller of this closure passes `length` bytes of a line, and no payload is in
        // a line.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(piece).cast(), length) };
    }
}

/// Measures one message through the fastbox ([Nemesis07] §2).
pub(super) fn fastbox(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fastbox: send, peek, release");
    for length in LENGTHS {
        let (credit, lines) = (CacheLine(AtomicU64::new(0)), lines());
        let payload = vec![1_u8; length];
        let ring = || {
            let first = NonNull::from(lines.as_slice()).cast();
            // SAFETY: credit and lines outlive both ends, and there is one of each.
            unsafe { FastboxPtr::new((&credit).into(), first, LINES as u32) }
        };
        let (mut sender, mut receiver) = (FastboxSender::new(ring()), FastboxReceiver::new(ring()));
        sender.open();
        let mut sequence = Sequence::first(0, 1);
        group.throughput(Throughput::Bytes(length as u64));
        group.bench_function(BenchmarkId::from_parameter(length), |bencher| {
            bencher.iter(|| {
                let key = Key(7);
                let is_short = length <= SHORT_MAX;
                let sent = is_short && sender.send_short(sequence, key, &payload)
                    || sender
                        .send(sequence, PacketKind::Eager, key, length, writer(&payload))
                        .is_ok();
                black_box((sent, receiver.peek(sequence)));
                if is_short {
                    receiver.release_short();
                } else {
                    receiver.release(length);
                }
                sequence += 1;
            });
        });
    }
    group.finish();
}

/// Measures one message in each direction in the lines of a baton.
pub(super) fn baton(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("baton: send, peek, release, and the answer");
    for length in [8, 48] {
        let lines = lines();
        let payload = vec![1_u8; length];
        let mut ends = [false, true].map(|higher| {
            let first = NonNull::from(lines.as_slice()).cast();
            // SAFETY: the lines outlive both ends, and there is one of each.
            let mut end = unsafe { Baton::new(first, LINES as u32, higher) };
            end.open();
            end
        });
        let mut next = [Sequence::first(0, 1), Sequence::first(1, 0)];
        group.bench_function(BenchmarkId::from_parameter(length), |bencher| {
            bencher.iter(|| {
                for from in [0, 1] {
                    let sent = ends[from].send_short(next[from], Key(7), &payload);
                    black_box((sent, ends[1 - from].peek(next[from])));
                    ends[1 - from].release();
                    next[from] += 1;
                }
            });
        });
    }
    group.finish();
}

/// Measures one chunk through the copy ring ([Nemesis07] §3.2), without the copy.
pub(super) fn copy_ring(criterion: &mut Criterion) {
    const GRANULES: usize = 64;
    let emptied = CacheLine(AtomicU64::new(0));
    let heads: Vec<_> = (0..GRANULES).map(|_| GranuleHead::empty()).collect();
    let ring = || {
        let first = NonNull::from(heads.as_slice()).cast();
        // SAFETY: the ring's words outlive both ends, and there is one of each.
        unsafe { CopyRingPtr::new((&emptied).into(), first, GRANULES as u32) }
    };
    let (mut sender, mut receiver) = (CopyRingSender::new(ring()), CopyRingReceiver::new(ring()));
    let chunk = RingChunk { handle: 1, generation: 2, offset: 0, length: 8192, streamed: false, more: false };
    criterion.bench_function("copy ring: room, publish, peek, release", |bencher| {
        bencher.iter(|| {
            let room = sender.room(0, 2).expect("the ring is intact").expect("an empty ring");
            sender.publish(room.count, chunk);
            let (granules, _) = receiver.peek().expect("the ring is intact").expect("one chunk");
            receiver.release(granules);
        });
    });
}

/// Measures one slot of the RDMA channel ([RdmaChannel04] §4.3): its flag, its head and the credit.
pub(super) fn ring_with_flags(criterion: &mut Criterion) {
    const SLOTS: usize = 16;
    let landings: Vec<_> = (0..SLOTS).map(|_| Landing::empty()).collect();
    let credit = Counter::zero();
    let mut number = 0_u64;
    criterion.bench_function("ring with flags: land, look, read the head, credit", |bencher| {
        bencher.iter(|| {
            number += 1;
            let landing = &landings[number as usize % SLOTS];
            let head = LandingHead { length: 8, ..LandingHead::default() };
            // SAFETY: both ends are this thread, which reads no head meanwhile.
            landing.cell().with_mut(|place| unsafe { place.write(head) });
            landing.flag().store(number, Release);
            if landing.holds(number) {
                // SAFETY: the flag says that the message has arrived.
                black_box(unsafe { landing.head() });
            }
            credit.word().store(number, Release);
            credit.read()
        });
    });
}
