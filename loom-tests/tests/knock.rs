//! Knocking: writing and then looking who asks for a knock, against asking and then reading what was written. A thread plays the
//! sleeper's device, which writes and then reads the peer's memory.
//!
//! Under loom alone: natively the order of a device's write and read is the device's.
#![cfg(strait_loom)]

use strait_core::ring::Porch;
use strait_core::sync::Ordering::{Relaxed, SeqCst};
use strait_core::sync::fence;
use strait_loom_tests::{Arc, model_in_full, thread};

/// A peer writes `writes` times; a rank asks meanwhile. It sleeps when what was written before it asked has landed, so the rest
/// has to come with a knock.
fn write_to_a_sleeper(writes: u64) {
    let porch = Arc::new(Porch::empty());
    let writing = thread::spawn({
        let porch = Arc::clone(&porch);
        move || (1..=writes).fold(false, |_, written| porch.look(&[written, 0, 0, 0]) == 1)
    });
    porch.asked().store(1, Relaxed);
    // What a read does on a connection behind a write.
    fence(SeqCst);
    let landed = porch.told()[0].load(Relaxed);
    let knocks = writing.join().unwrap();
    assert!(knocks || landed == writes, "asleep while a write is under way");
}

#[test]
fn nobody_sleeps_beside_a_write() {
    model_in_full(|| write_to_a_sleeper(1));
}

#[test]
fn who_writes_on_knocks_in_the_end() {
    model_in_full(|| write_to_a_sleeper(2));
}
