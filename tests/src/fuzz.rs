//! Targets of a fuzzer: functions of arbitrary bytes that must not panic, hang, or access foreign
//! memory.
//!
//! The folder `fuzz/` makes programs of them for libFuzzer. The tests run them on a fixed corpus
//! and on random bytes.

mod locks;
mod observers;
mod records;

use arbitrary::{Result, Unstructured};
use strait_core::buffer::Cursor;
use strait_core::engine::{FailureCause, Gone, MessageId, RequestId, Tuning};
use strait_core::layout::{
    CellIndex, DESCRIPTORS_PER_RANK, Segment, SegmentConfig, SegmentHeader, SegmentPlan,
};
use strait_core::lmt::{Refused, Rtr, RtrAck, SendCookie, Transfer};
use strait_core::matching::{ANY_SOURCE, ANY_TAG, Pattern};
use strait_core::rndv::Rendezvous;
use strait_core::shm::{CellArena as _, ParcelSet, RUN_MAX};
use strait_core::wire::{HeaderWord, Key, ParcelHead, Sequence, StreamHead, StridedRun};

pub use locks::locks;
pub use strait::parsers::{greeting, join, pmi};

use crate::arena::NONCE;
use crate::{Arena, Engines, shape};

pub use observers::observers;
pub use records::records;

/// A fuzzing target, which takes arbitrary bytes.
pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: [(&str, Target); 8] = [
    ("packets", packets),
    ("engines", engines),
    ("pmi", pmi),
    ("greeting", greeting),
    ("join", join),
    ("locks", locks),
    ("records", records),
    ("observers", observers),
];

/// Parses all values that are parsed in one piece. An accepted value must encode to the bytes that
/// were read.
pub fn packets(input: &[u8]) {
    let mut input = Unstructured::new(input);
    words(&mut input).expect("there are bytes without end");
    header(&mut input).expect("there are bytes without end");
}

fn words(input: &mut Unstructured<'_>) -> Result<()> {
    let (word, number): (u64, u64) = input.arbitrary()?;
    let mut sequence = Sequence::first(0, 1);
    sequence += number.wrapping_sub(1);
    // The word of some message, or a similar one.
    let word = if input.arbitrary()? { word } else { number << 16 | word & 0xffff };
    if let Some(found) = HeaderWord(word).of_message(sequence)
        && let Ok(kind) = found.kind()
    {
        assert_eq!(HeaderWord::new(sequence, kind, found.length()), HeaderWord(word));
    }

    let key = Key(word);
    assert_eq!(Key::new(key.context(), key.tag()), key);

    let (raw, cells) = input.arbitrary()?;
    if let Ok(index) = CellIndex::parse(raw, cells) {
        assert_eq!(index.map_or(0, CellIndex::raw), raw);
        assert!(raw <= cells);
    }

    let head: [u8; StreamHead::LENGTH] = input.arbitrary()?;
    if let Ok(parsed) = StreamHead::parse(&head) {
        assert_eq!(StreamHead::parse(&parsed.pack()), Ok(parsed));
    }

    let head: [u8; ParcelHead::LENGTH] = input.arbitrary()?;
    if let Ok(parsed) = ParcelHead::parse(head) {
        assert_eq!(parsed.pack(), head);
        assert!(parsed.length as usize <= RUN_MAX);
        assert!(parsed.offset + u64::from(parsed.length) <= parsed.total);
    }

    let packet: [u8; SendCookie::LENGTH] = input.arbitrary()?;
    if let Ok(cookie) = SendCookie::parse(&packet) {
        let SendCookie { total, address, place, generation, writes, lies, turn, reserved } = cookie;
        let fields = [&total.to_ne_bytes()[..], &address.to_ne_bytes(), &place.to_ne_bytes()];
        assert_eq!(fields.concat(), packet[..20]);
        let rest = [generation, writes, lies, turn, reserved];
        assert_eq!(rest.map(u32::to_ne_bytes).concat(), packet[20..]);
        assert!(total <= isize::MAX as u64);
        assert!(place < DESCRIPTORS_PER_RANK);
    }

    let packet: [u8; Rtr::LENGTH] = input.arbitrary()?;
    if let Ok(rtr) = Rtr::parse(packet) {
        assert_eq!(rtr.pack(), packet);
        assert!(rtr.place < DESCRIPTORS_PER_RANK);
    }
    let packet: [u8; RtrAck::LENGTH] = input.arbitrary()?;
    if let Ok(ack) = RtrAck::parse(packet) {
        assert_eq!(ack.pack(), packet);
        assert!(ack.place < DESCRIPTORS_PER_RANK);
    }

    let bytes: [u8; StridedRun::LENGTH] = input.arbitrary()?;
    if let Ok(run) = StridedRun::parse(&bytes) {
        assert_eq!(run.pack(), bytes);
        let (last, left) = run.at(run.count - 1, run.length - 1).expect("the last byte");
        assert!(left == 1 && last.address >= run.first.address && run.bytes().is_some());
    }
    Ok(())
}

/// Attaches to a header with some bytes exchanged. An accepted header must place everything inside
/// the segment.
fn header(input: &mut Unstructured<'_>) -> Result<()> {
    let arena =
        Arena::new(SegmentConfig { ring_granules: 0, heap_bytes: 8192, ..shape::tiny(2, 2) });
    for _ in 0..input.int_in_range(0..=8)? {
        let offset = input.int_in_range(0..=size_of::<SegmentHeader>() - 1)?;
        arena.scribble(offset, &[input.arbitrary()?]);
    }
    let mapped = input.int_in_range(0..=arena.length())?;
    let (nonce, rank) = (NONCE, input.int_in_range(0..=3)?);
    // SAFETY: the arena is page-aligned, and longer than the length given as mapped. Nothing else
    // uses it.
    if let Ok(segment) = unsafe { Segment::attach(arena.base(), mapped, nonce, rank) } {
        let plan = *segment.plan();
        let last = segment.ranks() - 1;
        assert!(rank <= last);
        let parts = [
            plan.pair_range(last, last),
            plan.parcel_range(last, last, ParcelSet::First),
            plan.parcel_range(last, last, ParcelSet::Further),
            plan.parcel_range(last, last, ParcelSet::Last),
            plan.ring_range(last, last),
            plan.heap_range(last),
        ];
        assert!(parts.iter().all(|(start, length)| start + length <= mapped));
        assert_eq!(SegmentPlan::new(*plan.config()), Ok(plan));
    }
    Ok(())
}

/// Number of ranks of [`engines`].
const RANKS: u32 = 3;

/// Number of steps of the engines: enough for every kind of damage to meet every kind of operation.
const STEPS: usize = 400;

/// Runs traffic between engines in a segment that holds garbage, and damages it between two steps.
pub fn engines(input: &[u8]) {
    let mut input = Unstructured::new(input);
    under_fire(&mut input).expect("there are bytes without end");
}

fn under_fire(input: &mut Unstructured<'_>) -> Result<()> {
    let mut job = job(input)?;
    let mut pending: Vec<(usize, RequestId)> = Vec::new();
    let mut matched: Vec<(usize, MessageId)> = Vec::new();
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        let (one, other) = (input.choose_index(RANKS as usize)?, rank(input)?);
        let length = *input.choose(&[0, 8, 48, 600, 1024, 9000, 40_000])?;
        match input.int_in_range(0..=11)? {
            0..=2 => {
                let data = buffer(&mut job, input, one, length)?;
                let id = job.send_from(one, other, input.int_in_range(0..=2)?, data);
                pending.extend(id.map(|id| (one, id)));
            }
            3..=4 => {
                let source = if input.arbitrary()? { other } else { ANY_SOURCE };
                let tag = if input.arbitrary()? { ANY_TAG } else { input.int_in_range(0..=2)? };
                let room = buffer(&mut job, input, one, length)?;
                pending.extend(job.receive_to(one, source, tag, room).map(|id| (one, id)));
            }
            5 if !pending.is_empty() => {
                let (rank, id) = pending.swap_remove(input.choose_index(pending.len())?);
                if job.engines[rank].test(id).is_none() {
                    let _ = job.engines[rank].detach(id);
                }
            }
            6 => {
                job.transfer(one, if input.ratio(7, 8)? { Ok(()) } else { Err(Refused) });
            }
            7 if input.ratio(1, 16)? => {
                let how = if input.arbitrary()? {
                    Gone::Failed(FailureCause::Ended)
                } else {
                    Gone::Finished
                };
                let _ = job.engines[one].peer_gone(other, how);
            }
            8..=9 => scribble(&job, input)?,
            11 => match matched.pop() {
                Some((rank, message)) if input.arbitrary()? => {
                    let _ = job.engines[rank].put_back(message);
                }
                Some((rank, message)) => {
                    let room = buffer(&mut job, input, rank, length)?;
                    pending.extend(job.receive_matched(rank, message, room).map(|id| (rank, id)));
                }
                None => {
                    let pattern = Pattern { context: 0, source: ANY_SOURCE, tag: ANY_TAG };
                    let found = job.engines[one].improbe(pattern);
                    matched.extend(found.ok().flatten().map(|(message, _)| (one, message)));
                }
            },
            _ => drop(job.engines[one].progress()),
        }
    }
    Ok(())
}

/// Returns a job of some shape, with garbage in some part of its segment or with none.
fn job(input: &mut Unstructured<'_>) -> Result<Engines> {
    let shapes = [
        shape::tiny(RANKS, 2),
        shape::tiny(RANKS, 20),
        SegmentConfig { cells_per_rank: 4, ring_granules: 9, ..SegmentConfig::new(RANKS) },
    ];
    let tuning = Tuning {
        transfer: *input.choose(&Transfer::ALL)?,
        rendezvous: *input.choose(&Rendezvous::ALL)?,
        unexpected_max: *input.choose(&[0, 2000, Tuning::default().unexpected_max])?,
        ..Tuning::default()
    };
    let job = Engines::tuned(*input.choose(&shapes)?, tuning);
    if input.ratio(1, 4)? {
        let mut garbage = fastrand::Rng::with_seed(input.arbitrary()?);
        let first = job.block(0);
        let words = (job.arena.length() - first) / 4;
        let from = input.choose_index(words)?;
        for word in from..words.min(from + input.int_in_range(1..=4096)?) {
            let value = [garbage.u32(..), garbage.u32(0..16), 0][garbage.usize(0..3)];
            job.arena.scribble(first + word * 4, &value.to_ne_bytes());
        }
    }
    Ok(job)
}

/// Returns a buffer of `rank`, in its heap or elsewhere.
fn buffer(
    job: &mut Engines,
    input: &mut Unstructured<'_>,
    rank: usize,
    length: usize,
) -> Result<Cursor> {
    let in_heap = input.ratio(1, 4)?;
    Ok(if in_heap { job.heap_buffer(rank as u32, length) } else { job.buffer(length) })
}

fn rank(input: &mut Unstructured<'_>) -> Result<u32> {
    input.int_in_range(0..=RANKS - 1)
}

/// Writes a word into a critical structure: control blocks, descriptions of cells, descriptors,
/// lines of fastboxes and batons, heads of granules.
fn scribble(job: &Engines, input: &mut Unstructured<'_>) -> Result<()> {
    let segment = job.arena.segment();
    let plan = *segment.plan();
    let offset = match input.int_in_range(0..=5)? {
        0 => job.block(rank(input)?) + input.choose_index(48)? * 4,
        1 => {
            let index = segment.parse(input.int_in_range(1..=plan.cells())?);
            let index = index.expect("a cell").expect("not nil");
            job.offset_of(segment.cell(index).as_ptr()) + input.choose_index(12)? * 4
        }
        2 => {
            let (start, _) = plan.pair_range(rank(input)?, rank(input)?);
            start + input.choose_index(64)? * 4
        }
        3 => {
            let descriptor = segment.descriptor(rank(input)?, input.int_in_range(0..=3)?);
            job.offset_of::<strait_core::shm::Descriptor>(descriptor) + input.choose_index(32)? * 4
        }
        4 => {
            let (start, _) = plan.ring_range(rank(input)?, rank(input)?);
            start + input.choose_index(16 * 10)? * 4
        }
        _ => {
            let first = job.block(0);
            first + input.choose_index((job.arena.length() - first) / 4)? * 4
        }
    };
    let old = job.word(offset);
    let value = match input.int_in_range(0..=5)? {
        0 => input.arbitrary()?,
        1 => input.int_in_range(0..=15)?,
        2 => u32::MAX,
        3 => old.wrapping_add(1),
        4 => old ^ 1 << input.int_in_range(0..=31_u32)?,
        _ => old.swap_bytes(),
    };
    job.arena.scribble(offset, &value.to_ne_bytes());
    Ok(())
}
