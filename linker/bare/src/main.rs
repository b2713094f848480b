//! strait-core without an operating system. Two processors test its structures and whole engines in
//! memory of their own.
//!
//! QEMU starts the image and reads its verdict: `cargo xtask bare`. The word `broken` on its
//! command line breaks each self-test, and then each must fail.
//!
//! Absent on purpose: an allocator, interrupts, a clock.

#![no_std]
#![no_main]

mod machine;
mod place;
mod self_tests;

use core::panic::PanicInfo;

use machine::{BootVerdict, exit, say};
use place::{Flaw, Party, RANKS, attempt, clear, is_flawless, meet};
use self_tests::{SELF_TESTS, SelfTest};

/// The function that `boot.s` calls on both processors.
#[unsafe(no_mangle)]
extern "C" fn start(rank: u32, start_info: usize) -> ! {
    static BROKEN: strait_core::sync::AtomicU32 = strait_core::sync::AtomicU32::new(0);
    use strait_core::sync::Ordering::Relaxed;

    if rank == 0 {
        let broken = machine::words(start_info).split(' ').any(|word| word == "broken");
        BROKEN.store(broken.into(), Relaxed);
        machine::start_second_processor();
    }
    meet();
    let broken = BROKEN.load(Relaxed) != 0;
    let passed = SELF_TESTS.iter().filter(|test| run(test, rank, broken)).count();
    meet();
    if rank != 0 {
        loop {
            strait_core::sync::spin_hint();
        }
    }
    say(format_args!("{passed} of {} self-tests passed on {RANKS} processors", SELF_TESTS.len()));
    exit(if passed == SELF_TESTS.len() { BootVerdict::Passed } else { BootVerdict::Failed })
}

/// Runs one self-test on both processors. Returns on both whether it passed, and prints a line.
fn run((name, test): &SelfTest, rank: u32, broken: bool) -> bool {
    let cleared = if rank == 0 { clear() } else { Ok(()) };
    meet();
    let result = attempt(|| {
        cleared?;
        test(&Party::new(rank, broken)?)
    });
    meet();
    let passed = is_flawless();
    for speaker in 0..RANKS {
        match result {
            Err(Flaw::Elsewhere) => {}
            Err(flaw) if rank == speaker => {
                say(format_args!("{name}: FAILED: processor {rank}: {flaw}"));
            }
            _ => {}
        }
        meet();
    }
    if passed && rank == 0 {
        say(format_args!("{name}: passed"));
    }
    passed
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    say(format_args!("{info}"));
    exit(BootVerdict::Failed)
}
