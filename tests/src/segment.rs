//! A view of the segment that bypasses the world.

use core::ptr::NonNull;

use strait::World;
use strait_core::layout::Segment;

/// Returns the segment of this process's world.
///
/// # Panics
///
/// When the process has none.
#[must_use]
pub fn segment(world: &World) -> Segment {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("what this process has mapped");
    // Parts of the segment may be mapped with other properties. Then it has several consecutive
    // lines.
    let range = |line: &str| {
        let range = line.split(' ').next()?.split_once('-')?;
        let [from, to] = [range.0, range.1].map(|end| usize::from_str_radix(end, 16).ok());
        Some((from?, to?))
    };
    let lines = maps.lines().filter(|line| line.contains("/memfd:strait"));
    let ranges: Vec<_> = lines.filter_map(range).collect();
    let (from, to) = (ranges.first().expect("a segment").0, ranges.last().expect("a segment").1);
    let base =
        NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(from)).expect("an address");
    // SAFETY: the range is a mapping of this length, which lives as long as the world. The nonce,
    // at byte 16 of the header (docs/layout.md), is written once, before the segment is passed to a
    // rank.
    unsafe {
        let nonce = base.add(16).cast::<u64>().read();
        Segment::attach(base, to - from, nonce, world.rank()).expect("the segment of the world")
    }
}
