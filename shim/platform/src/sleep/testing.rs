//! Two ranks that sleep and wake each other, for the tests of this crate and of crates with devices
//! that wake ranks.

use core::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use strait_core::layout::Segment;

use super::{Sleep, wake};

/// Runs two threads that wake each other in turn, each a thousand times. A thread that is not woken
/// sleeps for an hour.
pub fn take_turns(mut sleeps: [Sleep; 2], segment: Segment) {
    sleeps.iter_mut().for_each(Sleep::for_ever);
    let turn = AtomicU32::new(0);
    let play = |me: u32, sleep: Sleep, segment: Segment| {
        for _ in 0..1000 {
            let is_mine = || turn.load(Ordering::Acquire) % 2 == me;
            while !is_mine() {
                let bell = &segment.rank_block(me).doorbell;
                let longest = sleep.prepare(bell);
                if !is_mine() {
                    sleep.wait(bell, longest);
                }
                bell.rise();
            }
            turn.fetch_add(1, Ordering::Release);
            if segment.rank_block(1 - me).doorbell.is_wanted() {
                wake(&segment, 1 - me);
            }
        }
    };
    thread::scope(|scope| {
        for (me, sleep) in (0..2).zip(sleeps) {
            let play = &play;
            scope.spawn(move || play(me, sleep, segment));
        }
    });
    assert_eq!(turn.into_inner(), 2000);
    let up = (0..2).all(|rank| !segment.rank_block(rank).doorbell.is_wanted());
    assert!(up, "both are up");
}
