//! The records that observers read, filled with garbage.

use arbitrary::{Result, Unstructured};
use strait_core::layout::{
    Call, Count, EVENTS, RankRecord, RankSet, SegmentConfig, UnexpectedHead, Wait, Waited,
};

use crate::Arena;

/// Number of ranks in the segment.
const RANKS: u32 = 2;

/// Fills what a rank leaves for observers with arbitrary words, and reads all of it.
pub fn observers(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let config =
        SegmentConfig { cells_per_rank: 2, cell_payload: 1024, ..SegmentConfig::new(RANKS) };
    let arena = Arena::new(config);
    read_garbage(&mut input, &arena).expect("there are bytes without end");
}

fn read_garbage(input: &mut Unstructured<'_>, arena: &Arena) -> Result<()> {
    let segment = arena.segment();
    let base = arena.base().addr().get();
    let (block, record) = (segment.rank_block(0), segment.rank_record(0));
    let waiting = core::ptr::from_ref(&block.waiting).addr() - base;
    let details = core::ptr::from_ref(record).addr() - base;
    // A write that has ended leaves an even number in front of the words.
    for (from, length) in [(waiting, 64), (details, size_of::<RankRecord>() + 128)] {
        for _ in 0..input.int_in_range(0..=64)? {
            let at = input.int_in_range(0..=length / 8 - 1)?;
            let word: u64 = if input.arbitrary()? { input.arbitrary()? } else { small(input)? };
            arena.scribble(from + at * 8, &word.to_ne_bytes());
        }
    }
    if let Ok(Some(Waited { wait: Some(mut wait), since_ns, .. })) = block.waiting.read() {
        let unexpected = record.details.read_into(since_ns, &mut wait);
        check(&wait);
        if let Ok(unexpected) = unexpected {
            let heads = unexpected.heads.iter().flatten();
            heads.for_each(|head: &UnexpectedHead| assert!(head.count > 0, "{head}"));
        }
    }
    assert!(record.events.iter().count() < EVENTS);
    for communicator in record.communicators.iter() {
        assert!(communicator.size > 0);
        let name = communicator.name.map_or_else(String::new, |name| name.to_string());
        assert!(!name.contains(char::is_control), "{name:?}");
    }
    if let Some(found) = record.faults.read() {
        assert!(found.message > found.buffer);
    }
    let _ = segment.counters(0, RANKS - 1).get(Count::Blocked);
    Ok(())
}

/// Returns a number that a rank may write.
fn small(input: &mut Unstructured<'_>) -> Result<u64> {
    let half = |input: &mut Unstructured<'_>| input.int_in_range(0..=20_u64);
    Ok(half(input)? | half(input)? << 32)
}

/// Uses all parts of a wait.
fn check(wait: &Wait) {
    assert!(!wait.to_string().is_empty() && Call::parse(wait.call as u32) == Some(wait.call));
    let others = wait.others.iter().flat_map(RankSet::iter);
    assert!(others.into_iter().all(|rank| rank < RankSet::RANKS));
}
