//! The golden table of all that lies in a segment: whatever moves, a test says so.
//!
//! The asserts beside a structure say why a field lies where it does; the table says where every field lies, so that none
//! moves unnoticed between two versions that think they fit each other.

/// Enters a structure of the segment, or a packet's, in the golden table: where each of its fields lies.
macro_rules! structure {
    ($name:ident { $($field:ident),+ $(,)? }) => {
        #[cfg(all(test, not(strait_loom)))]
        impl crate::layout::golden::Structure for $name {
            // A pattern names every field, so the table does, too.
            const NAME: &'static str = {
                let _every_field = |$name { $($field: _),+ }: &$name| ();
                stringify!($name)
            };


            fn fields() -> impl IntoIterator<Item = crate::layout::golden::Field> {
                [$((stringify!($field), memoffset::span_of!($name, $field))),+]
            }
        }
    };
}
pub(crate) use structure;

/// A field's name, and the bytes that it takes.
#[cfg(all(test, not(strait_loom)))]
pub(crate) type Field = (&'static str, core::ops::Range<usize>);

/// What [`structure!`] enters.
#[cfg(all(test, not(strait_loom)))]
pub(crate) trait Structure: Sized {
    const NAME: &'static str;

    fn fields() -> impl IntoIterator<Item = Field>;
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use core::fmt::Write as _;
    use std::string::String;
    use std::{format, fs};

    use super::*;
    use crate::layout::{
        BARRIER_SLOTS, Config, DESCRIPTORS_PER_RANK, Header, LAYOUT_VERSION, Liveness, Plan,
        RankBlock, WaitRecord,
    };
    use crate::lmt::{Rtr, RtrAck, SendCookie};
    use crate::rma::Block;
    use crate::shm::{
        BarrierSlot, Cell, CellHead, Chunks, Descriptor, Flow, FreeQueue, Grant, GranuleHead, Line,
        RecvQueue,
    };
    use crate::sync::CacheLine;
    use crate::wire::{HeaderWord, Key, Kind, Offer, ParcelHead, Sequence};

    const COMMAND: &str = "STRAIT_GOLDEN=write cargo test -p strait-core golden";

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
            "what lies in a segment has changed:\n{}{}\
             If that is meant, count LAYOUT_VERSION up (core/src/layout/header.rs), change docs/layout.md, and write \
             the table anew by `{COMMAND}`.",
            only_in(agreed, &found, '-'),
            only_in(&found, agreed, '+'),
        );
    }

    fn table() -> String {
        let mut text = format!("layout version {LAYOUT_VERSION}\n");
        structure::<Header>(&mut text);
        structure::<RankBlock>(&mut text);
        structure::<RecvQueue>(&mut text);
        structure::<FreeQueue>(&mut text);
        structure::<Liveness>(&mut text);
        structure::<WaitRecord>(&mut text);
        structure::<BarrierSlot>(&mut text);
        structure::<Flow>(&mut text);
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
        words(&mut text);
        map(&mut text, Config::new(2));
        let least = Config {
            fastbox_lines: 1,
            baton_lines: 0,
            ring_granules: 0,
            parcels: 0,
            ..Config::new(3)
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

    /// The bits of the words that are packed by hand.
    fn words(text: &mut String) {
        let _ = writeln!(text);
        for kind in 0..16 {
            let Ok(kind) = Kind::parse(kind) else { continue };
            let mut sequence = Sequence::first(0, 1);
            sequence += 0x1234_5678_9abb;
            let header = HeaderWord::new(sequence, kind, 0xdef).0;
            let _ = writeln!(text, "header word, {kind:?}: {header:#018x}");
        }
        let key = Key::new(0x1234_5678, 0x9abc_def0).0;
        let _ = writeln!(text, "key: {key:#018x}");
        let _ = writeln!(text, "fastbox credit: {} bytes", size_of::<CacheLine<u64>>());
    }

    /// Where the parts of a segment begin.
    fn map(text: &mut String, config: Config) {
        let plan = Plan::new(config).expect("a possible shape");
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
            ("first cell", plan.cell(0)),
            ("last cell", plan.cell(plan.cells() - 1)),
            ("first pair block", plan.pair_range(0, 0).0),
            ("last pair block", plan.pair_range(last, last).0),
            ("first parcels", plan.parcel_range(0, 0).0),
            ("last parcels", plan.parcel_range(last, last).0),
            ("first copy ring", plan.ring_range(0, 0).0),
            ("last copy ring", plan.ring_range(last, last).0),
            ("granules in a copy ring", plan.ring_bytes_offset()),
            ("first heap", plan.heap_range(0).0),
            ("last heap", plan.heap_range(last).0),
        ];
        for (part, offset) in parts {
            let _ = writeln!(text, "{part} of {ranks} ranks: {offset}");
        }
        let (posts, completions) = (Block::post_offset(0), Block::completion_offset(ranks, 0));
        let _ = writeln!(
            text,
            "window block of {ranks} members: posts at {posts}, completions at {completions}, {} bytes",
            Block::bytes(ranks)
        );
    }
}
