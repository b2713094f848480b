//! Ranks that wait: for a processor, for a message, for room, and many ranks at once.
//!
//! A sleeper that is not woken sleeps for 50 ms and then polls by itself. So a missed doorbell
//! loses nothing. But each scenario has so many turns that it takes many times its limit when a
//! kind of doorbell is missing.

use core::time::Duration;
use std::os::linux::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, thread};

use strait::boot::SegmentConfig;
use strait::{World, topology};
use strait_core::layout::SegmentPlan;
use strait_tests::{Ranks, die, payload, shape, traffic};

const TAG: u32 = 3;

/// Turns of a ring in which all ranks sleep before their turn: 100 s if they were not woken.
const TURNS: u64 = 2000;

/// Time in which the others surely fall asleep.
const NAP: Duration = Duration::from_micros(200);

/// Runs `job` in a thread on one processor. The ranks that it starts inherit the processor.
fn on_one_processor(job: impl FnOnce() + Send) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let first = topology::allowed_cpus().expect("the processors")[0];
            topology::pin_to(first).expect("one of them");
            job();
        });
    });
}

/// Passes a token of `length` bytes round. The rank that has it sleeps and passes it on.
fn pass_round(world: &World, turns: u64, length: usize, nap: Duration) {
    let (me, ranks) = (world.rank(), world.size());
    let endpoint = world.endpoint();
    let (left, right) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
    let mut token = vec![0; length];
    for turn in (0..turns).filter(|turn| turn % u64::from(ranks) == u64::from(me)) {
        if turn > 0 {
            endpoint.recv(&mut token, left, TAG).unwrap();
            assert_eq!(payload::first_difference(turn - 1, &token), None, "turn {turn}");
        }
        if !nap.is_zero() {
            thread::sleep(nap);
        }
        if turn + 1 < turns {
            endpoint.send(&payload::of(turn, length), right, TAG).unwrap();
        }
    }
}

/// Ranks sleep until their turn, and tokens of this length wake them.
fn sleepers(name: &'static str, config: SegmentConfig, fastbox_max: usize, length: usize) {
    on_one_processor(|| {
        let job = Ranks::new(config.ranks, name).shaped(config).within(Duration::from_secs(40));
        job.with("STRAIT_FASTBOX_MAX", fastbox_max).run(|world| {
            pass_round(&world, TURNS, length, NAP);
            world.finalize().unwrap();
        });
    });
}

#[test]
fn a_short_message_wakes() {
    sleepers("a_short_message_wakes", SegmentConfig::new(4), 1024, 8);
}

#[test]
fn a_message_of_some_lines_wakes() {
    sleepers("a_message_of_some_lines_wakes", SegmentConfig::new(4), 1024, 1000);
}

#[test]
fn a_message_through_the_queue_wakes() {
    sleepers("a_message_through_the_queue_wakes", SegmentConfig::new(4), 0, 8);
}

/// The message takes more cells than there are, so its sender sleeps until cells return, and the
/// return wakes it.
#[test]
fn a_cell_that_comes_back_wakes() {
    on_one_processor(|| {
        let name = "a_cell_that_comes_back_wakes";
        let job = Ranks::new(2, name).shaped(shape::tiny(2, 1)).within(Duration::from_secs(40));
        job.run(|world| {
            let endpoint = world.endpoint();
            for turn in 0..TURNS {
                let mut data = payload::of(turn, 4000);
                if world.rank() == 0 {
                    endpoint.send(&data, 1, TAG).unwrap();
                } else {
                    // Meanwhile the sender has run out of cells and fallen asleep.
                    thread::sleep(NAP);
                    endpoint.recv(&mut data, 0, TAG).unwrap();
                    assert_eq!(payload::first_difference(turn, &data), None);
                }
            }
            world.finalize().unwrap();
        });
    });
}

/// The first rank dies, and then one rank after the other leaves. Each sleeps until the one before
/// it is gone.
#[test]
fn sleepers_notice_that_a_rank_is_gone() {
    on_one_processor(|| {
        let name = "sleepers_notice_that_a_rank_is_gone";
        let job = Ranks::new(8, name).with_deaths(&[0]).within(Duration::from_secs(40));
        job.run(|world| {
            let (endpoint, me) = (world.endpoint(), world.rank());
            if me == 0 {
                thread::sleep(NAP);
                die();
            }
            let ended = endpoint.recv(&mut [0_u8], me - 1, TAG).unwrap_err();
            assert_eq!(ended.gone_peer(), Some(me - 1));
            world.finalize().unwrap();
        });
    });
}

#[test]
fn four_ranks_on_one_processor() {
    on_one_processor(|| {
        let job = Ranks::new(4, "four_ranks_on_one_processor").within(Duration::from_secs(40));
        job.run(|world| {
            pass_round(&world, 20_000, 8, Duration::ZERO);
            traffic::run(&world, 1, 4, 100_000);
            world.finalize().unwrap();
        });
    });
}

#[test]
fn sixteen_ranks_on_few_processors() {
    let job = Ranks::new(16, "sixteen_ranks_on_few_processors").within(Duration::from_secs(60));
    job.run(|world| {
        pass_round(&world, 10_000, 8, Duration::ZERO);
        traffic::run(&world, 2, 2, 20_000);
        world.finalize().unwrap();
    });
}

/// Returns the bytes of memory behind the segment that this process has open.
fn segment_bytes() -> u64 {
    let files = fs::read_dir("/proc/self/fd").expect("the open files").flatten();
    let is_segment = |path: &Path| {
        fs::read_link(path).is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:strait"))
    };
    let mut segments = files.map(|file| file.path()).filter(|path| is_segment(path));
    let file = segments.next().expect("the segment is open");
    fs::metadata(file).expect("its length").st_blocks() * 512
}

/// All ranks start, pass a message round, and end. The segment then occupies the memory that
/// `docs/layout.md` states.
#[test]
fn two_hundred_and_fifty_six_ranks() {
    const RANKS: u32 = 256;
    let job = Ranks::new(RANKS, "two_hundred_and_fifty_six_ranks").within(Duration::from_secs(90));
    job.run(|world| {
        pass_round(&world, 4 * u64::from(RANKS), 8, Duration::ZERO);
        if world.rank() == RANKS - 1 {
            let plan = SegmentPlan::new(SegmentConfig::new(RANKS)).unwrap();
            assert_eq!(segment_bytes(), plan.bytes_with_active_pairs(RANKS as usize) as u64);
        }
        world.finalize().unwrap();
    });
}
