//! Values that no correct rank writes. A rank that reads one gets an error, or waits; it does not
//! crash, and no byte outside a buffer changes.

use core::iter::repeat_with;
use core::mem::offset_of;

use strait::Error;
use strait::boot::SegmentConfig;
use strait_core::engine::{Owner, ProgressError};
use strait_core::layout::{Corrupt, DESCRIPTORS_PER_RANK, PAGE, RankBlock};
use strait_core::lmt::{Rtr, RtrAck};
use strait_core::shm::Cell;
use strait_core::wire::{Key, PacketKind};
use strait_tests::{Arena, Engines, Ranks, fuzz, shape};

/// Rank 0 has sent one message to rank 1. `scribble` returns the place and the bytes of the damage.
/// Rank 1 must then report an error that `expected` accepts, and report it again.
fn damaged(scribble: impl Fn(&Engines) -> (usize, Vec<u8>), expected: fn(Corrupt) -> bool) {
    let mut job = Engines::new(SegmentConfig::new(2));
    job.send(0, 1, 0, 5000);
    let (offset, bytes) = scribble(&job);
    job.arena.scribble(offset, &bytes);
    for _ in 0..3 {
        match job.engines[1].progress() {
            Err(ProgressError::Corrupt(corrupt)) if expected(corrupt) => {}
            other => panic!("{bytes:?} at {offset}: {other:?}"),
        }
    }
}

#[test]
fn a_queue_that_leads_nowhere_is_an_error() {
    let is_index = |corrupt| matches!(corrupt, Corrupt::CellIndex { found: 9999, cells: 128 });
    let nowhere = 9999_u32.to_ne_bytes();
    damaged(|job| (job.block(1), nowhere.to_vec()), is_index);
    damaged(|job| (job.first_cell(1), nowhere.to_vec()), is_index);
}

#[test]
fn a_cell_that_no_rank_sent_is_an_error() {
    let is_sequence =
        |corrupt| matches!(corrupt, Corrupt::Sequence { source: 0, found: 0, expected: 1 });
    // Both head and tail: with only one of them it would look like a message with a link that is
    // about to arrive.
    damaged(|job| (job.block(1), [100_u32.to_ne_bytes(); 2].concat()), is_sequence);
}

#[test]
fn a_description_that_cannot_be_is_an_error() {
    let at = |offset: usize| move |job: &Engines| job.first_cell(1) + 8 + offset;
    let (sequence, total, source, length, kind) = (at(0), at(16), at(24), at(28), at(32));
    damaged(
        |job| (sequence(job), 6_u64.to_ne_bytes().to_vec()),
        |corrupt| matches!(corrupt, Corrupt::Sequence { source: 0, found: 6, expected: 1 }),
    );
    damaged(
        |job| (total(job), 3_u64.to_ne_bytes().to_vec()),
        |corrupt| matches!(corrupt, Corrupt::Length { found: 5000, max: 3 }),
    );
    damaged(
        |job| (source(job), 2_u32.to_ne_bytes().to_vec()),
        |corrupt| matches!(corrupt, Corrupt::Source { found: 2, ranks: 2 }),
    );
    damaged(
        |job| (length(job), 16385_u32.to_ne_bytes().to_vec()),
        |corrupt| matches!(corrupt, Corrupt::Length { found: 16385, max: 16384 }),
    );
    damaged(|job| (kind(job), vec![15]), |corrupt| matches!(corrupt, Corrupt::Kind { found: 15 }));
    // A continuation of no message.
    damaged(|job| (kind(job), vec![2]), |corrupt| matches!(corrupt, Corrupt::Length { .. }));
}

const RTR: Rtr = Rtr {
    address: 0,
    capacity: 70_000,
    place: 3,
    generation: 1,
    handle: 0,
    lies: 0,
    turn: 1,
    reads: 0,
};

const ACK: RtrAck = RtrAck { total: 70_000, address: 0, place: 3, generation: 1, lies: 0, turn: 1 };

/// Returns a cell's description from the length on, and its payload.
fn cell(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len();
    let mut bytes = [(length as u64).to_ne_bytes().as_slice(), &[0; 4]].concat();
    bytes.extend_from_slice(&(length as u32).to_ne_bytes());
    bytes.push(kind);
    bytes.resize(size_of::<Cell>() - 8 - 16, 0);
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn an_rtr_that_cannot_be_is_an_error() {
    let at = |job: &Engines| job.first_cell(1) + 8 + 16;
    let is_rtr = |corrupt| corrupt == Corrupt::Rtr;
    let rtr = |rtr: Rtr| cell(PacketKind::Rtr as u8, &rtr.pack());
    let ack = |ack: RtrAck| cell(PacketKind::RtrAck as u8, &ack.pack());
    damaged(|job| (at(job), rtr(Rtr { turn: 0, ..RTR })), is_rtr);
    damaged(
        |job| (at(job), rtr(Rtr { place: 64, ..RTR })),
        |corrupt| matches!(corrupt, Corrupt::Length { found: 64, max: 63 }),
    );
    damaged(
        |job| (at(job), rtr(Rtr { lies: 2, address: u64::MAX, ..RTR })),
        |corrupt| matches!(corrupt, Corrupt::Heap { .. }),
    );
    // No receiver has sent an RTR.
    damaged(|job| (at(job), ack(ACK)), is_rtr);
    damaged(|job| (at(job), ack(RtrAck { turn: 0, ..ACK })), is_rtr);
    damaged(
        |job| (at(job), ack(RtrAck { lies: 3, ..ACK })),
        |corrupt| matches!(corrupt, Corrupt::Place { found: 3 }),
    );
}

#[test]
fn a_tail_that_leads_nowhere_is_the_sender_s_error() {
    let mut job = Engines::new(SegmentConfig::new(2));
    job.arena.scribble(job.block(1) + 4, &9999_u32.to_ne_bytes());
    let data = job.buffer(5000);
    // SAFETY: the buffer outlives the engine.
    let sent = unsafe { job.engines[0].isend(1, Key::new(0, 0), data, Owner(1)) };
    let text = sent.unwrap_err().to_string();
    assert_eq!(text, "shared memory is damaged: cell index 9999 is beyond the segment's 128 cells");
}

#[test]
fn cells_that_come_back_from_nowhere_are_an_error() {
    for returned in [9999_u32, 5, 1] {
        let mut job = Engines::new(SegmentConfig {
            cells_per_rank: 2,
            ring_granules: 0,
            ..SegmentConfig::new(3)
        });
        // Cell 1 is in the free queue, and cell 5 belongs to another rank.
        job.arena
            .scribble(job.block(0) + offset_of!(RankBlock, free_queue), &returned.to_ne_bytes());
        let sent = (0..3).map(|_| {
            let data = job.buffer(5000);
            // SAFETY: the buffer outlives the engine.
            let sent = unsafe { job.engines[0].isend(1, Key::new(0, 0), data, Owner(1)) };
            sent.map_err(|error| error.to_string())
        });
        let errors: Vec<_> = sent.filter_map(Result::err).collect();
        let first_is_out = returned == 1;
        assert_eq!(errors.is_empty(), first_is_out, "{returned}: {errors:?}");
    }
}

#[test]
fn garbage_anywhere_crashes_no_rank() {
    let mut rng = fastrand::Rng::with_seed(0);
    for _ in 0..1000 {
        let input: Vec<u8> = repeat_with(|| rng.u8(..)).take(2000).collect();
        fuzz::engines(&input);
    }
}

#[test]
fn garbage_packets_are_parsed_or_refused() {
    let mut rng = fastrand::Rng::with_seed(0);
    for _ in 0..1000 {
        let input: Vec<u8> = repeat_with(|| rng.u8(..)).take(200).collect();
        fuzz::packets(&input);
    }
}

#[test]
fn destroyed_words_of_locks_hold_up_no_member() {
    let mut rng = fastrand::Rng::with_seed(0);
    for _ in 0..20_000 {
        let input: Vec<u8> = repeat_with(|| rng.u8(..)).take(800).collect();
        fuzz::locks(&input);
    }
}

#[test]
fn garbage_in_the_records_of_observers_is_refused() {
    let mut rng = fastrand::Rng::with_seed(0);
    for _ in 0..200 {
        let input: Vec<u8> = repeat_with(|| rng.u8(..)).take(1000).collect();
        fuzz::observers(&input);
    }
}

/// Runs the fuzzer's corpus, which includes all its past findings, without a fuzzer.
#[test]
fn the_corpus_of_the_fuzzer_passes() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");
    for (target, run) in fuzz::TARGETS {
        let inputs = std::fs::read_dir(format!("{corpus}/{target}")).expect("a corpus");
        let inputs: Vec<_> = inputs.map(|input| input.expect("an input").path()).collect();
        assert!(!inputs.is_empty(), "no corpus for {target}");
        inputs.iter().for_each(|input| run(&std::fs::read(input).expect("an input")));
    }
}

/// Returns the addresses at which this process has mapped the segment of its job.
fn mapping() -> core::ops::Range<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains("/memfd:strait")).expect("a segment");
    let (from, rest) = line.split_once('-').unwrap();
    let to = rest.split(' ').next().unwrap();
    let parse = |text| usize::from_str_radix(text, 16).unwrap();
    parse(from)..parse(to)
}

/// Returns the offsets of the descriptors of large messages in a segment of this shape, in bytes.
fn descriptors(config: SegmentConfig) -> core::ops::Range<usize> {
    let arena = Arena::new(config);
    let segment = arena.segment();
    let base = arena.base().addr().get();
    let place = |rank, number| core::ptr::from_ref(segment.descriptor(rank, number)).addr() - base;
    let last = place(config.ranks - 1, DESCRIPTORS_PER_RANK - 1);
    place(0, 0)..last + size_of::<strait_core::shm::Descriptor>()
}

/// Writes a word into the mapped segment, without regard to concurrent accesses.
fn poke(offset: usize, value: u32) {
    let address = mapping().start + offset;
    // SAFETY: the callers pass an aligned offset inside a shared mapping of this process. The write
    // breaks the rules of the library on purpose.
    unsafe {
        core::sync::atomic::AtomicU32::from_ptr(core::ptr::with_exposed_provenance_mut(address))
    }
    .store(value, core::sync::atomic::Ordering::Relaxed);
}

#[test]
fn a_rank_learns_that_its_memory_is_damaged() {
    Ranks::new(2, "a_rank_learns_that_its_memory_is_damaged").run(|world| {
        let endpoint = world.endpoint();
        if world.rank() == 1 {
            endpoint.recv(&mut [0_u8], 0, 0).unwrap();
            // The head of the queue of rank 0. Its block follows the header's page.
            poke(PAGE, 9999);
            core::mem::forget(world);
            return;
        }
        endpoint.send(&[1_u8], 1, 0).unwrap();
        let error = endpoint.recv(&mut [0_u8], 1, 0).unwrap_err();
        let corrupt = Corrupt::CellIndex { found: 9999, cells: 128 };
        assert!(matches!(error, Error::Corrupt(found) if found == corrupt), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("damaged") && text.contains("end the job"), "{text}");
        // The error persists, and the rank can still leave.
        assert!(endpoint.recv(&mut [0_u8], 1, 0).is_err());
        drop(world);
    });
}

#[test]
fn ranks_under_fire_live_on() {
    for seed in 0..4_u64 {
        let job = Ranks::new(3, "ranks_under_fire_live_on").with("STRAIT_TEST_SEED", seed);
        job.shaped(shape::tiny(3, 2)).run(|world| {
            let seed: u64 = std::env::var("STRAIT_TEST_SEED").unwrap().parse().unwrap();
            let mut rng = fastrand::Rng::with_seed(seed);
            let endpoint = world.endpoint();
            let peers: Vec<u32> = (0..3).filter(|rank| *rank != world.rank()).collect();
            let fires = world.rank() == 2;
            // The damage spares the liveness words: the launcher must defend what they say of
            // processes. It spares the descriptors, too: a rank must believe a descriptor that says
            // that a living peer writes into its buffer.
            let spared = descriptors(shape::tiny(3, 2));
            let words = PAGE / 4..mapping().len() / 4;
            let mut room = [0_u8; 6000];
            for _ in 0..5000 {
                if fires {
                    let word = rng.usize(words.clone());
                    let in_blocks = word * 4 - PAGE < 3 * size_of::<RankBlock>();
                    let place = (word * 4 - PAGE) % size_of::<RankBlock>();
                    let hits_block = !in_blocks || place < offset_of!(RankBlock, liveness);
                    if hits_block && !spared.contains(&(word * 4)) {
                        poke(word * 4, [rng.u32(..), rng.u32(0..8)][rng.usize(0..2)]);
                    }
                }
                let peer = peers[rng.usize(0..2)];
                let length = [8, 500, 6000][rng.usize(0..3)];
                // Any outcome except a crash is right.
                let _ =
                    endpoint.scope(|scope| scope.isend(&[7; 6000][..length], peer, 0).map(drop));
                if let Ok(Some(status)) = endpoint.iprobe(peer, 0) {
                    let room = &mut room[..status.bytes.min(6000)];
                    let _ = endpoint.scope(|scope| scope.irecv(room, peer, 0).map(drop));
                }
            }
            // A damaged segment can make waits endless, so the world is not dropped.
            core::mem::forget(world);
        });
    }
}
