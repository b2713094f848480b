//! Wake-ups: a rank writes and then polls for a request, while the sleeper requests and then reads
//! what was written. A thread plays the sleeper's device, which writes and then reads the peer's
//! memory.
//!
//! It runs only under loom: natively, a device orders its own write and read.
#![cfg(strait_loom)]

use strait_core::ring::WakeupWords;
use strait_core::sync::Ordering::{Relaxed, SeqCst};
use strait_core::sync::fence;
use strait_loom_tests::{Arc, model_in_full, thread};

/// Lets a peer write `writes` times while a rank requests a wake-up. The rank sleeps once the
/// writes made before its request have arrived, so the remaining writes must cause a wake-up.
fn write_to_a_sleeper(writes: u64) {
    let wakeup_words = Arc::new(WakeupWords::empty());
    let writing = thread::spawn({
        let wakeup_words = Arc::clone(&wakeup_words);
        move || (1..=writes).fold(false, |_, written| wakeup_words.look(&[written, 0, 0, 0]) == 1)
    });
    wakeup_words.asked().store(1, Relaxed);
    // The effect of a read behind a write on one connection.
    fence(SeqCst);
    let landed = wakeup_words.told()[0].load(Relaxed);
    let wakeups = writing.join().unwrap();
    assert!(wakeups || landed == writes, "asleep while a write is in flight");
}

#[test]
fn no_rank_sleeps_beside_a_write() {
    model_in_full(|| write_to_a_sleeper(1));
}

#[test]
fn who_writes_on_wakeups_in_the_end() {
    model_in_full(|| write_to_a_sleeper(2));
}
