//! What no correct rank writes: whoever reads it gets an error, or waits; nothing crashes, and no byte outside of a
//! buffer is touched.

use core::mem::offset_of;
use core::ptr::NonNull;

use strait::Error;
use strait::boot::Config;
use strait_core::layout::{Corrupt, DESCRIPTORS_PER_RANK, PAGE, RankBlock};
use strait_core::matching::{ANY_SOURCE, ANY_TAG, Pattern};
use strait_core::progress::{
    Cursor, Engine, Gone, Owner, Part, ProgressError, Received, RequestId, Sent,
};
use strait_core::wire::Key;
use strait_tests::{Arena, Ledger, Ranks, shape};

/// Bytes before and behind each buffer that must stay as they are.
const GUARD: usize = 64;

/// A buffer between guards.
struct Guarded(Vec<u8>);

impl Guarded {
    fn new(length: usize) -> Self {
        Self(vec![0xa5; GUARD + length + GUARD])
    }

    fn cursor(&mut self) -> Cursor {
        let length = self.0.len() - 2 * GUARD;
        let base = NonNull::from(&mut self.0[GUARD..]).cast();
        // SAFETY: the vector is neither moved, touched nor dropped before its engine has been (see `Job`).
        unsafe { Cursor::contiguous(Part { base, length }) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let end = self.0.len() - GUARD;
        let untouched = self.0[..GUARD].iter().chain(&self.0[end..]).all(|byte| *byte == 0xa5);
        assert!(untouched || std::thread::panicking(), "written beyond a buffer");
    }
}

/// Engines on one thread over a segment that anything may be written into. Fields are dropped in their order.
struct Job {
    engines: Vec<Engine<Ledger>>,
    buffers: Vec<Guarded>,
    arena: Arena,
}

impl Job {
    fn new(config: Config) -> Self {
        let (arena, ledger) = (Arena::new(config), Ledger::default());
        let engine = |rank| {
            let mut engine = arena.engine(rank, &ledger);
            (0..config.ranks).for_each(|peer| engine.ring_backed(peer, true));
            engine
        };
        let engines = (0..config.ranks).map(engine).collect();
        Self { engines, buffers: Vec::new(), arena }
    }

    fn buffer(&mut self, length: usize) -> Cursor {
        self.buffers.push(Guarded::new(length));
        self.buffers.last_mut().expect("just pushed").cursor()
    }

    /// Begins a send. An error is as good as a success here.
    fn send(&mut self, from: usize, to: u32, tag: u32, length: usize) -> Option<RequestId> {
        let data = self.buffer(length);
        // SAFETY: the buffer outlives the engine.
        let sent = unsafe { self.engines[from].isend(to, Key::new(0, tag), data, Owner(1)) };
        while let Some(peer) = self.engines[from].poll_want() {
            self.engines[from].fastbox_backed(peer, true);
        }
        match sent {
            Ok(Sent::Pending(id)) => Some(id),
            Ok(Sent::Done) | Err(_) => None,
        }
    }

    fn receive(&mut self, at: usize, source: u32, tag: u32, length: usize) -> Option<RequestId> {
        let buffer = self.buffer(length);
        let pattern = Pattern { context: 0, source, tag };
        // SAFETY: the buffer outlives the engine.
        match unsafe { self.engines[at].irecv(pattern, buffer, Owner(1)) } {
            Ok(Received::Pending(id)) => Some(id),
            Ok(Received::Done(_)) | Err(_) => None,
        }
    }

    fn offset_of<T>(&self, place: *const T) -> usize {
        place.addr() - self.arena.base().addr().get()
    }

    fn word(&self, offset: usize) -> u32 {
        // SAFETY: callers pass offsets of words inside the segment, and no engine is inside a call.
        unsafe { self.arena.base().add(offset).cast::<u32>().read() }
    }

    /// Offset of the control block of `rank`; its receive queue's head comes first, then the tail.
    fn block(&self, rank: u32) -> usize {
        self.offset_of(self.arena.segment().rank_block(rank))
    }

    /// Offset of the cell that is first in the queue of `rank`; the link comes first, then the description.
    fn first_cell(&self, rank: u32) -> usize {
        use strait_core::shm::CellArena;
        let segment = self.arena.segment();
        let index = segment.parse(self.word(self.block(rank))).expect("a cell").expect("a message");
        self.offset_of(segment.cell(index).as_ptr())
    }
}

/// Rank 0 has sent one message to rank 1. `scribble` says where to write what; rank 1 must then find what `expected`
/// accepts, and find it again.
fn damaged(scribble: impl Fn(&Job) -> (usize, Vec<u8>), expected: fn(Corrupt) -> bool) {
    let mut job = Job::new(Config::new(2));
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
fn a_cell_that_nobody_sent_is_an_error() {
    let is_sequence =
        |corrupt| matches!(corrupt, Corrupt::Sequence { source: 0, found: 0, expected: 1 });
    // Head and tail: with one of them alone it would look like a message whose link is about to come.
    damaged(|job| (job.block(1), [100_u32.to_ne_bytes(); 2].concat()), is_sequence);
}

#[test]
fn a_description_that_cannot_be_is_an_error() {
    let at = |offset: usize| move |job: &Job| job.first_cell(1) + 8 + offset;
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
    damaged(|job| (kind(job), vec![9]), |corrupt| matches!(corrupt, Corrupt::Kind { found: 9 }));
    // A continuation of nothing.
    damaged(|job| (kind(job), vec![2]), |corrupt| matches!(corrupt, Corrupt::Length { .. }));
}

#[test]
fn a_tail_that_leads_nowhere_is_the_sender_s_error() {
    let mut job = Job::new(Config::new(2));
    job.arena.scribble(job.block(1) + 4, &9999_u32.to_ne_bytes());
    let data = job.buffer(5000);
    // SAFETY: the buffer outlives the engine.
    let sent = unsafe { job.engines[0].isend(1, Key::new(0, 0), data, Owner(1)) };
    let text = sent.unwrap_err().to_string();
    assert_eq!(text, "shared memory is damaged: cell index 9999 is beyond the segment's 128 cells");
}

#[test]
fn cells_that_come_back_from_nowhere_are_an_error() {
    for returned in [9999_u32, 200, 1] {
        let mut job = Job::new(Config { cells_per_rank: 2, ring_granules: 0, ..Config::new(200) });
        // Cell 1 is home, cell 200 another rank's.
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

/// Random traffic, and now and then a random word somewhere.
fn scribbled_over(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let config = if rng.bool() {
        shape::tiny(3, 2)
    } else {
        Config { cells_per_rank: 4, ring_granules: 9, ..Config::new(3) }
    };
    let mut job = Job::new(config);
    let mut pending: Vec<(usize, RequestId)> = Vec::new();
    let quiet = rng.usize(0..60);
    for step in 0..150 {
        let (one, other) = (rng.usize(0..3), rng.u32(0..3));
        let length = [0, 8, 48, 600, 1024, 9000, 20_000, 70_000][rng.usize(0..8)];
        match rng.u8(0..8) {
            0..=2 => {
                pending.extend(job.send(one, other, rng.u32(0..3), length).map(|id| (one, id)));
            }
            3..=4 => {
                let source = if rng.bool() { other } else { ANY_SOURCE };
                let tag = if rng.bool() { ANY_TAG } else { rng.u32(0..3) };
                pending.extend(job.receive(one, source, tag, length).map(|id| (one, id)));
            }
            5 if !pending.is_empty() => {
                let (rank, id) = pending.swap_remove(rng.usize(0..pending.len()));
                if job.engines[rank].test(id).is_none() {
                    let _ = job.engines[rank].detach(id);
                }
            }
            _ => drop(job.engines[one].progress()),
        }
        if step >= quiet {
            scribble_somewhere(&job, &mut rng);
        }
        if step == 140 {
            let _ = job.engines[0].peer_gone(1, Gone::Failed);
        }
    }
}

/// Writes a word where it hurts: control blocks, descriptions of cells, lines of fastboxes and batons, heads of granules.
fn scribble_somewhere(job: &Job, rng: &mut fastrand::Rng) {
    let segment = job.arena.segment();
    let plan = *segment.plan();
    let offset = match rng.u8(0..5) {
        0 => job.block(rng.u32(0..3)) + rng.usize(0..48) * 4,
        1 => {
            use strait_core::shm::CellArena;
            let index = segment.parse(rng.u32(1..=plan.cells())).expect("a cell").expect("not nil");
            job.offset_of(segment.cell(index).as_ptr()) + rng.usize(0..12) * 4
        }
        2 => {
            let (start, _) = plan.pair_range(rng.u32(0..3), rng.u32(0..3));
            start + rng.usize(0..64) * 4
        }
        3 => {
            let (start, _) = plan.ring_range(rng.u32(0..3), rng.u32(0..3));
            start + rng.usize(0..16 * 10) * 4
        }
        _ => {
            let first = job.block(0);
            first + rng.usize(0..(job.arena.length() - first) / 4) * 4
        }
    };
    let old = job.word(offset);
    let value = match rng.u8(0..6) {
        0 => rng.u32(..),
        1 => rng.u32(0..16),
        2 => u32::MAX,
        3 => old.wrapping_add(1),
        4 => old ^ 1 << rng.u32(0..32),
        _ => old.swap_bytes(),
    };
    job.arena.scribble(offset, &value.to_ne_bytes());
}

#[test]
fn garbage_anywhere_crashes_nobody() {
    (0..1000).for_each(scribbled_over);
}

/// Where this process has the segment of its job mapped.
fn mapping() -> core::ops::Range<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains("/memfd:strait")).expect("a segment");
    let (from, rest) = line.split_once('-').unwrap();
    let to = rest.split(' ').next().unwrap();
    let parse = |text| usize::from_str_radix(text, 16).unwrap();
    parse(from)..parse(to)
}

/// Where the descriptors of large messages lie in a segment of this shape, bytes from its start.
fn descriptors(config: Config) -> core::ops::Range<usize> {
    let arena = Arena::new(config);
    let segment = arena.segment();
    let base = arena.base().addr().get();
    let place = |rank, number| core::ptr::from_ref(segment.descriptor(rank, number)).addr() - base;
    let last = place(config.ranks - 1, DESCRIPTORS_PER_RANK - 1);
    place(0, 0)..last + size_of::<strait_core::shm::Descriptor>()
}

/// Writes a word into the mapped segment, whoever else is at it.
fn poke(offset: usize, value: u32) {
    let address = mapping().start + offset;
    // SAFETY: inside a shared mapping of this process, as the callers see to; aligned. That it breaks every rule of the
    // library is the test.
    unsafe {
        core::sync::atomic::AtomicU32::from_ptr(core::ptr::with_exposed_provenance_mut(address))
    }
    .store(value, core::sync::atomic::Ordering::Relaxed);
}

#[test]
fn a_rank_is_told_that_its_memory_is_damaged() {
    Ranks::new(2, "a_rank_is_told_that_its_memory_is_damaged").run(|world| {
        let endpoint = world.endpoint();
        if world.rank() == 1 {
            endpoint.recv(&mut [0_u8], 0, 0).unwrap();
            // The head of the queue of rank 0, whose block follows the header's page.
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
        // It stays so, and the rank can still leave.
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
            // The fire spares the liveness words: what they say of processes is the launcher's to defend. It spares the
            // descriptors, too: who reads there that a living peer is writing into its buffer has to believe it.
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
                // No outcome is wrong but a crash.
                let _ =
                    endpoint.scope(|scope| scope.isend(&[7; 6000][..length], peer, 0).map(drop));
                if let Ok(Some(status)) = endpoint.iprobe(peer, 0) {
                    let room = &mut room[..status.bytes.min(6000)];
                    let _ = endpoint.scope(|scope| scope.irecv(room, peer, 0).map(drop));
                }
            }
            // Nothing that a damaged segment says can be waited for.
            core::mem::forget(world);
        });
    }
}
