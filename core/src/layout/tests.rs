//! The table of the layout, and the words that are packed by hand.

use core::fmt::Write as _;
use std::string::String;
use std::{format, fs};

use crate::golden::Structure;
use crate::layout::{
    BARRIER_SLOTS, CommunicatorRecord, DESCRIPTORS_PER_RANK, DetailRecord, EventRing, FaultRecord,
    LAYOUT_VERSION, Liveness, PairCounters, RankBlock, RankRecord, SegmentConfig, SegmentHeader,
    SegmentPlan, WaitRecord,
};
use crate::lmt::{Rtr, RtrAck, SendCookie};
use crate::rma::WindowBlock;
use crate::shm::{
    BarrierSlot, Cell, CellHead, Chunks, Descriptor, ExchangeLine, FlowWords, FreeQueue, Grant,
    GranuleHead, Line, ParcelSet, RecvQueue,
};
use crate::sync::CacheLine;
use crate::wire::{
    HeaderWord, Key, MethodHead, MethodRts, Offer, PacketKind, ParcelHead, Sequence,
};

const COMMAND: &str = "STRAIT_GOLDEN=write cargo test -p strait-core layout::tests";

#[test]
fn the_layout_is_the_one_that_was_agreed_on() {
    let found = table();
    if std::env::var_os("STRAIT_GOLDEN").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/layout/layout.golden");
        fs::write(path, found).expect("the golden table can be written");
        return;
    }
    let agreed = include_str!("layout.golden");
    let only_in = |one: &str, other: &str, sign| {
        let missing = one.lines().filter(|line| !other.lines().any(|known| known == *line));
        missing.map(|line| format!("{sign} {line}\n")).collect::<String>()
    };
    assert!(
        found == agreed,
        "the contents of a segment have changed:\n{}{}\
         If this is intended, increase LAYOUT_VERSION (core/src/layout/header.rs), change \
         docs/layout.md, and write the table again by `{COMMAND}`.",
        only_in(agreed, &found, '-'),
        only_in(&found, agreed, '+'),
    );
}

fn table() -> String {
    let mut text = format!("layout version {LAYOUT_VERSION}\n");
    structure::<SegmentHeader>(&mut text);
    structure::<RankBlock>(&mut text);
    structure::<RecvQueue>(&mut text);
    structure::<FreeQueue>(&mut text);
    structure::<Liveness>(&mut text);
    structure::<WaitRecord>(&mut text);
    structure::<RankRecord>(&mut text);
    structure::<DetailRecord>(&mut text);
    structure::<FaultRecord>(&mut text);
    structure::<EventRing>(&mut text);
    structure::<CommunicatorRecord>(&mut text);
    structure::<PairCounters>(&mut text);
    structure::<BarrierSlot>(&mut text);
    structure::<ExchangeLine>(&mut text);
    structure::<FlowWords>(&mut text);
    structure::<Descriptor>(&mut text);
    structure::<Chunks>(&mut text);
    structure::<Grant>(&mut text);
    structure::<Cell>(&mut text);
    structure::<CellHead>(&mut text);
    structure::<Line>(&mut text);
    structure::<GranuleHead>(&mut text);
    structure::<SendCookie>(&mut text);
    structure::<Rtr>(&mut text);
    structure::<RtrAck>(&mut text);
    structure::<Offer>(&mut text);
    structure::<ParcelHead>(&mut text);
    structure::<MethodRts>(&mut text);
    structure::<MethodHead>(&mut text);
    words(&mut text);
    map(&mut text, SegmentConfig::new(2));
    let least = SegmentConfig {
        fastbox_lines: 1,
        baton_lines: 0,
        ring_granules: 0,
        parcels: 0,
        ..SegmentConfig::new(3)
    };
    map(&mut text, least);
    text
}

fn structure<T: Structure>(text: &mut String) {
    let (name, size, align) = (T::NAME, size_of::<T>(), align_of::<T>());
    let _ = writeln!(text, "\n{name}: {size} bytes, aligned to {align}");
    for (field, bytes) in T::fields() {
        let _ = writeln!(text, "{name}.{field}: {}, {} bytes", bytes.start, bytes.len());
    }
}

/// Writes the bits of the words that are packed by hand.
fn words(text: &mut String) {
    let _ = writeln!(text);
    for kind in 0..16 {
        let Ok(kind) = PacketKind::parse(kind) else { continue };
        let mut sequence = Sequence::first(0, 1);
        sequence += 0x1234_5678_9abb;
        let header = HeaderWord::new(sequence, kind, 0xdef).0;
        let _ = writeln!(text, "header word, {kind:?}: {header:#018x}");
    }
    let key = Key::new(0x1234_5678, 0x9abc_def0).0;
    let _ = writeln!(text, "key: {key:#018x}");
    let _ = writeln!(text, "fastbox credit: {} bytes", size_of::<CacheLine<u64>>());
}

/// Writes the offsets of the parts of a segment.
fn map(text: &mut String, config: SegmentConfig) {
    let plan = SegmentPlan::new(config).expect("a possible shape");
    let last = config.ranks - 1;
    let (ranks, total, resident) = (config.ranks, plan.total_bytes(), plan.resident_bytes());
    let _ = writeln!(text, "\n{config:?}\n{total} bytes, {resident} of them resident");
    let (slot, number) = (BARRIER_SLOTS - 1, DESCRIPTORS_PER_RANK - 1);
    let parts = [
        ("first rank block", plan.rank_block(0)),
        ("last rank block", plan.rank_block(last)),
        ("first barrier slot", plan.barrier_slot(0)),
        ("last barrier slot", plan.barrier_slot(slot)),
        ("first flow", plan.flow(0, 0)),
        ("last flow", plan.flow(last, last)),
        ("first descriptor", plan.descriptor(0, 0)),
        ("last descriptor", plan.descriptor(last, number)),
        ("first record", plan.record(0)),
        ("last record", plan.record(last)),
        ("last counters", plan.counters(last, last)),
        ("first cell", plan.cell(0)),
        ("last cell", plan.cell(plan.cells() - 1)),
        ("first pair block", plan.pair_range(0, 0).0),
        ("last pair block", plan.pair_range(last, last).0),
        ("first parcels", plan.parcel_range(0, 0, ParcelSet::First).0),
        ("last parcels", plan.parcel_range(last, last, ParcelSet::First).0),
        ("first copy ring", plan.ring_range(0, 0).0),
        ("last copy ring", plan.ring_range(last, last).0),
        ("granules in a copy ring", plan.ring_bytes_offset()),
        ("first heap", plan.heap_range(0).0),
        ("last heap", plan.heap_range(last).0),
    ];
    for (part, offset) in parts {
        let _ = writeln!(text, "{part} of {ranks} ranks: {offset}");
    }
    let (posts, completions) =
        (WindowBlock::post_offset(0), WindowBlock::completion_offset(ranks, 0));
    let _ = writeln!(
        text,
        "window block of {ranks} members: posts at {posts}, completions at {completions}, {} bytes",
        WindowBlock::bytes(ranks)
    );
}
