//! Embeds the core without `std`: two ranks exchange a message in memory of the program's own.
//!
//! The core makes no system call and allocates nothing. A kernel, an enclave or a bare machine can
//! do the same as this program, which uses `std` only to print. In production each rank is a
//! process or a processor of its own, and maps the memory of the segment.

#![no_std]

extern crate std;

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Engine, Fault, Owner, ProgressError, Received, StartError, Tuning};
use strait_core::layout::{PAGE, PlanError, Segment, SegmentConfig, SegmentPlan};
use strait_core::matching::Pattern;
use strait_core::memory::{BumpMemory, OutOfMemory};
use strait_core::wire::Key;

/// A small segment: two ranks, with 8 cells of 1 KiB each and no heaps.
const CONFIG: SegmentConfig = SegmentConfig {
    cells_per_rank: 8,
    cell_payload: 1024,
    fastbox_lines: 8,
    baton_lines: 4,
    ring_granules: 0,
    parcels: 0,
    heap_bytes: 0,
    ..SegmentConfig::new(2)
};

/// The memory that both ranks reach.
#[repr(C, align(4096))]
struct SharedPages([u8; 64 * PAGE]);

#[derive(Debug)]
#[expect(dead_code, reason = "shown by `Debug`")]
enum Failure {
    Plan(PlanError),
    TooLong { bytes: usize },
    Memory(OutOfMemory),
    Start(StartError),
    Progress(ProgressError),
    Operation(Fault),
}

/// Sends `message` from rank 0 to rank 1, which receives it into `buffer`. Returns its length.
fn exchange(message: &mut [u8], buffer: &mut [u8]) -> Result<usize, Failure> {
    // The segment: zeroed pages, formatted once.
    let mut pages = SharedPages([0; 64 * PAGE]);
    let plan = SegmentPlan::new(CONFIG).map_err(Failure::Plan)?;
    if plan.total_bytes() > size_of_val(&pages) {
        return Err(Failure::TooLong { bytes: plan.total_bytes() });
    }
    // SAFETY: the pages are aligned, zero and long enough, and outlive both engines.
    let segment = unsafe { Segment::format(NonNull::from(&mut pages).cast(), plan, 1) };

    // The private memory of each rank.
    let mut private = [[MaybeUninit::uninit(); 16 * PAGE]; 2];
    let [first, second] = private.each_mut().map(|bytes| BumpMemory::new(bytes));
    let engine = |memory, rank| Engine::new(memory, segment, rank, Tuning::default());
    let mut sender = engine(&first, 0).map_err(Failure::Memory)?;
    let mut receiver = engine(&second, 1).map_err(Failure::Memory)?;

    let pattern = Pattern { context: 0, source: 0, tag: 7 };
    // SAFETY: both buffers are borrowed for longer than the engines exist.
    let (outgoing, incoming) = unsafe { (cursor(message), cursor(buffer)) };
    // SAFETY: nothing else uses the buffer until the engines are gone.
    let received = unsafe { receiver.irecv(pattern, incoming, Owner::BLOCKING) };
    // SAFETY: nothing changes the message until the engines are gone.
    unsafe { sender.isend(1, Key::new(0, 7), outgoing, Owner::BLOCKING) }
        .map_err(Failure::Start)?;
    let request = match received.map_err(Failure::Start)? {
        Received::Done(outcome) => return Ok(outcome.map_err(Failure::Operation)?.bytes),
        Received::Pending(request) => request,
    };
    loop {
        // Each rank does this in a loop of its own.
        sender.progress().map_err(Failure::Progress)?;
        receiver.progress().map_err(Failure::Progress)?;
        if let Some(outcome) = receiver.test(request) {
            return Ok(outcome.map_err(Failure::Operation)?.bytes);
        }
    }
}

/// Returns a cursor over `bytes`.
///
/// # Safety
///
/// The bytes outlive the cursor.
unsafe fn cursor(bytes: &mut [u8]) -> Cursor {
    let part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
    // SAFETY: the caller guarantees that the bytes outlive the cursor (contract of `cursor`).
    unsafe { Cursor::contiguous(part) }
}

fn main() -> Result<(), Failure> {
    let (mut message, mut buffer) = (*b"no allocator, no system call", [0; 64]);
    let bytes = exchange(&mut message, &mut buffer)?;
    std::println!("rank 1 received: {}", core::str::from_utf8(&buffer[..bytes]).unwrap_or("?"));
    Ok(())
}
