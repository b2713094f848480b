//! Memory in the segment: messages are copied from it and to it in place, without a system call.

use core::ptr::NonNull;

use strait::boot::SegmentConfig;
use strait::{Endpoint, Error, SharedMemory, World, wait_all};
use strait_core::buffer::{Cursor, Direction, Part};
use strait_core::engine::ProgressError;
use strait_core::layout::Corrupt;
use strait_core::lmt::RemoteBuffer;
use strait_tests::{Engines, Ranks, die, in_one_thread, payload, shape};

/// Lengths on both sides of each limit: eager, grain, job, huge page.
const LENGTHS: [usize; 4] = [1, 12_289, 262_145, (2 << 20) + 3];

/// A buffer in a rank's heap or in its private memory.
enum Buffer {
    Heap(SharedMemory<u8>),
    Private(Vec<u8>),
}

impl Buffer {
    fn new(world: &World, in_heap: bool, length: usize) -> Self {
        if in_heap {
            Self::Heap(world.alloc(length).unwrap())
        } else {
            Self::Private(vec![0; length])
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(memory) => memory,
            Self::Private(memory) => memory,
        }
    }
}

/// Rank 0 and rank 1 send each other a message at the same time. `places` selects heap or private
/// memory for each of the four buffers.
fn exchange(world: &World, length: usize, places: u64) {
    let (endpoint, rank) = (world.endpoint(), u64::from(world.rank()));
    let in_heap = |bit: u64| places >> bit & 1 == 1;
    let mut out = Buffer::new(world, in_heap(rank), length);
    let mut arrived = Buffer::new(world, in_heap(2 + rank), length + 5);
    let id = places << 32 | length as u64;
    out.bytes().copy_from_slice(&payload::of(id + rank, length));
    let (out, arrived) = (out.bytes(), arrived.bytes());
    arrived.fill(0xee);
    let peer = 1 - world.rank();
    endpoint.scope(|scope| {
        let mut requests =
            [scope.isend(out, peer, 1).unwrap(), scope.irecv(arrived, peer, 1).unwrap()];
        wait_all(&mut requests).unwrap();
    });
    let (message, rest) = arrived.split_at(length);
    assert_eq!(payload::first_difference(id + 1 - rank, message), None, "{length} bytes, {places}");
    assert_eq!(rest, [0xee; 5]);
}

fn exchange_all(world: &World) {
    for length in LENGTHS {
        (0..16).for_each(|places| exchange(world, length, places));
    }
}

#[test]
fn it_does_not_matter_where_a_buffer_lies() {
    for transfer in ["auto", "cma_shared", "copy_ring"] {
        let job = Ranks::new(2, "it_does_not_matter_where_a_buffer_lies");
        job.with("STRAIT_LMT", transfer).run(|world| {
            exchange_all(&world);
            world.finalize().unwrap();
        });
    }
}

#[test]
fn memory_outlives_its_world() {
    in_one_thread(SegmentConfig { heap_bytes: 1 << 20, ..SegmentConfig::new(1) }, |worlds| {
        let mut memory = worlds[0].alloc::<u64>(1000).unwrap();
        memory[999] = 7;
        let moved = std::thread::spawn(move || memory[999]);
        assert_eq!(moved.join().unwrap(), 7);
    });
    let memory = {
        let world = World::in_process(1).unwrap().remove(0);
        let mut memory = world.alloc::<f64>(3).unwrap();
        memory.copy_from_slice(&[1.0, 2.0, 3.0]);
        world.finalize().unwrap();
        memory
    };
    assert_eq!(format!("{memory:?}"), "[1.0, 2.0, 3.0]");
}

#[test]
fn an_empty_slice_takes_nothing() {
    in_one_thread(SegmentConfig { heap_bytes: 0, ..SegmentConfig::new(1) }, |worlds| {
        assert!(worlds[0].alloc::<u64>(0).unwrap().is_empty());
        let error = worlds[0].alloc::<u64>(1).unwrap_err();
        assert!(error.to_string().contains("--heap-bytes"), "{error}");
    });
}

#[test]
fn a_heap_that_is_full_says_so_and_takes_more_when_some_is_freed() {
    in_one_thread(SegmentConfig { heap_bytes: 8 << 20, ..SegmentConfig::new(1) }, |worlds| {
        let world = &worlds[0];
        let mut parts: Vec<_> = (0..4).map(|_| world.alloc::<u8>(2 << 20).unwrap()).collect();
        let error = world.alloc::<u8>(1).unwrap_err();
        assert!(matches!(error, Error::Segment(_)), "{error:?}");
        assert!(error.to_string().contains("no room for 1 MiB in this rank's heap of 8 MiB"));
        assert!(world.alloc::<u64>(usize::MAX).is_err());
        parts.remove(2).fill(9);
        let mut again = world.alloc::<u8>(2 << 20).unwrap();
        assert!(again.iter().all(|byte| *byte == 0), "memory that was used before is zeroed");
        again.fill(1);
        assert!(parts.iter().all(|part| part.iter().all(|byte| *byte == 0)));
    });
}

/// Large messages between two engines, with one buffer or both in a heap: every job is a copy.
fn copies(sender_in_heap: bool, receiver_in_heap: bool) -> [bool; 2] {
    const LENGTH: usize = 100_000;
    let mut job = Engines::tuned(shape::tiny(2, 20), strait::Tuning::default());
    let [out, to] = [(sender_in_heap, 0), (receiver_in_heap, 1)].map(|(in_heap, rank)| {
        if in_heap { job.heap_buffer(rank, LENGTH) } else { job.buffer(LENGTH) }
    });
    // SAFETY: the buffer has that many bytes, and no operation uses it yet.
    unsafe { fill(out, &payload::of(7, LENGTH)) };
    assert!(job.send_from(0, 1, 1, out).is_some() && job.receive_to(1, 0, 1, to).is_some());
    let mut worked = [false; 2];
    for _ in 0..50 {
        for rank in [0, 1] {
            let _ = job.engines[rank].progress().unwrap();
            let Some(task) = job.engines[rank].poll_transfer().unwrap() else { continue };
            assert!(matches!(task.remote, RemoteBuffer::Mapped(_)), "{task:?}");
            assert_eq!(task.direction, [Direction::Write, Direction::Read][rank]);
            worked[rank] = true;
            // SAFETY: the engine has just returned this job.
            assert!(unsafe { task.copy() });
            job.engines[rank].transfer_done(&task, Ok(())).unwrap();
        }
    }
    let mut arrived = vec![0; LENGTH];
    // SAFETY: the vector is as long as the buffer, which no operation uses any more.
    unsafe { { to }.gather(NonNull::from(&mut arrived[..]).cast(), LENGTH) };
    assert_eq!(payload::first_difference(7, &arrived), None);
    worked
}

/// Fills the memory at `to` with `bytes`.
///
/// # Safety
///
/// `to` has room for the bytes, and nothing else uses that memory.
unsafe fn fill(to: Cursor, bytes: &[u8]) {
    // SAFETY: the caller guarantees room for the bytes, and that nothing else uses it (contract of
    // `fill`).
    to.pieces(bytes.len(), |Part { base, length }| unsafe {
        base.copy_from_nonoverlapping(NonNull::from(bytes).cast(), length);
    });
}

#[test]
fn a_rank_that_maps_both_buffers_copies() {
    assert_eq!(copies(true, false), [false, true]);
    assert_eq!(copies(false, true), [true, false]);
    assert_eq!(copies(true, true), [true, true]);
}

#[test]
fn an_announcement_from_beyond_a_heap_is_an_error() {
    let announced = |field: usize, value: &[u8]| {
        let mut job = Engines::tuned(shape::tiny(2, 20), strait::Tuning::default());
        let data = job.heap_buffer(0, 100_000);
        assert!(job.send_from(0, 1, 1, data).is_some());
        // The cookie follows the cell's header.
        job.arena.scribble(job.first_cell(1) + 64 + field, value);
        job.engines[1].progress().unwrap_err()
    };
    let heap = |error| matches!(error, ProgressError::Corrupt(Corrupt::Heap { .. }));
    assert!(heap(announced(8, &u64::MAX.to_ne_bytes())));
    assert!(heap(announced(8, &(1_u64 << 18).to_ne_bytes())));
    assert!(heap(announced(0, &(1_u64 << 40).to_ne_bytes())));
    let error = announced(28, &3_u32.to_ne_bytes());
    assert!(matches!(error, ProgressError::Corrupt(Corrupt::Place { found: 3 })), "{error:?}");
}

#[test]
fn an_answer_from_beyond_a_heap_is_an_error() {
    let mut job = Engines::tuned(shape::tiny(2, 20), strait::Tuning::default());
    let data = job.heap_buffer(0, 100_000);
    assert!(job.send_from(0, 1, 1, data).is_some());
    let room = job.heap_buffer(1, 100_000);
    job.engines[1].progress().unwrap();
    assert!(job.receive_to(1, 0, 1, room).is_some());
    let descriptor = job.arena.segment();
    let grant = job.offset_of(&raw const *descriptor.descriptor(0, 0).grant);
    job.arena.scribble(grant + 8, &(u64::MAX - 5).to_ne_bytes());
    let error = job.engines[0].progress().unwrap_err();
    assert!(matches!(error, ProgressError::Corrupt(Corrupt::Heap { .. })), "{error:?}");
}

#[test]
fn a_sender_that_dies_leaves_its_heap_readable_and_its_message_failed() {
    let job = Ranks::new(2, "a_sender_that_dies_leaves_its_heap_readable_and_its_message_failed");
    job.with_deaths(&[1]).run(|world| {
        let endpoint: Endpoint<'_> = world.endpoint();
        if world.rank() == 1 {
            let out = world.alloc::<u8>(3 << 20).unwrap();
            let _ = endpoint.scope(|scope| -> Result<(), Error> {
                let _request = scope.isend(&out, 0, 1)?;
                endpoint.send(&[1_u8], 0, 2)?;
                die()
            });
            return;
        }
        endpoint.recv(&mut [0_u8], 1, 2).unwrap();
        let mut arrived = world.alloc::<u8>(3 << 20).unwrap();
        // In either case the call returns, and the rank goes on.
        if let Err(error) = endpoint.recv(&mut arrived, 1, 1) {
            assert_eq!(error.gone_peer(), Some(1), "{error}");
        }
        drop(arrived);
        assert_eq!(world.alloc::<u8>(3 << 20).unwrap().len(), 3 << 20);
        world.finalize().unwrap();
    });
}
