//! A view of the segment behind a world's back.

use core::ptr::NonNull;

use strait::World;
use strait_core::layout::Segment;

/// The segment of this process's world.
///
/// # Panics
///
/// When the process has none.
#[must_use]
pub fn segment(world: &World) -> Segment {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("what this process has mapped");
    let line = maps.lines().find(|line| line.contains("/memfd:strait")).expect("a segment");
    let (from, rest) = line.split_once('-').expect("a range");
    let (to, _) = rest.split_once(' ').expect("a range");
    let [from, to] = [from, to].map(|end| usize::from_str_radix(end, 16).expect("an address"));
    let base =
        NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(from)).expect("an address");
    // SAFETY: a mapping of this length, which lasts as long as the world. The nonce, at byte 16 of the header
    // (docs/layout.md), is written once and before the segment is handed out.
    unsafe {
        let nonce = base.add(16).cast::<u64>().read();
        Segment::attach(base, to - from, nonce, world.rank()).expect("the segment of the world")
    }
}
