//! The programs of jobs that hang, and what must be said about each.

use core::time::Duration;

use rustix::process::Signal;
use strait::{Assert, LockType, Window, World};

/// A job that hangs, and the judgement about it.
pub(crate) struct Hang {
    pub(crate) name: &'static str,
    pub(crate) ranks: u32,
    pub(crate) act: fn(World),
    /// Options of `strait run`.
    pub(crate) options: &'static [&'static str],
    /// The cause in the JSON output, with the ranks that it names; `slow` for a rank that computes.
    pub(crate) cause: (&'static str, &'static [u32]),
    /// Words of the sentences about the ranks.
    pub(crate) words: &'static [&'static str],
}

/// The hangs, each in another way.
pub(crate) const HANGS: [Hang; 19] = [
    Hang {
        name: "sends_of_large_messages",
        ranks: 2,
        act: |world| {
            let (to, large) = (1 - world.rank(), vec![0_u8; 8 << 20]);
            let _ = world.endpoint().send(&large, to, 7);
        },
        options: &[],
        cause: ("knot", &[0, 1]),
        words: &["send: destination 1, tag 7", "no rank receives these messages"],
    },
    Hang {
        name: "a_message_with_another_tag",
        ranks: 2,
        act: |world| {
            if world.rank() == 0 {
                world.endpoint().send(&[0_u8; 8], 1, 8).unwrap();
            }
            let _ = world.endpoint().recv(&mut [0_u8; 8], 1 - world.rank(), 7);
        },
        options: &[],
        cause: ("knot", &[0, 1]),
        words: &[
            "recv: source 0, tag 7",
            "rank 1 waits for tag 7 from rank 0; rank 0 has sent tag 8, once",
        ],
    },
    Hang {
        name: "a_ring_of_receives",
        ranks: 3,
        act: |world| {
            let from = (world.rank() + 1) % world.size();
            let _ = world.endpoint().recv(&mut [0_u8; 8], from, 7);
        },
        options: &[],
        cause: ("knot", &[0, 1, 2]),
        words: &["recv: source 1", "recv: source 2", "recv: source 0"],
    },
    Hang {
        name: "a_wildcard_took_the_message",
        ranks: 2,
        act: |world| {
            if world.rank() == 1 {
                world.endpoint().send(&[0_u8; 8], 0, 7).unwrap();
            } else {
                world
                    .endpoint()
                    .recv(&mut [0_u8; 8], strait::Source::Any, strait::ANY_TAG)
                    .unwrap();
            }
            let _ = world.endpoint().recv(&mut [0_u8; 8], 1 - world.rank(), 7);
        },
        options: &[],
        cause: ("knot", &[0, 1]),
        words: &["recv: source 1, tag 7", "rank 0 has taken all that rank 1 has sent"],
    },
    Hang {
        name: "a_member_that_misses_in_a_barrier",
        ranks: 3,
        act: |world| {
            if world.rank() < 2 {
                let _ = world.endpoint().barrier();
            } else {
                let _ = world.endpoint().recv(&mut [0_u8; 8], 0, 7);
            }
        },
        options: &[],
        cause: ("knot", &[0, 2]),
        words: &["recv: source 0, tag 7", "rank 2 is not in the collective operation"],
    },
    Hang {
        name: "locks_in_another_order",
        ranks: 2,
        act: |world| {
            let window = Window::builder(world.endpoint()).allocate(64).unwrap();
            let first = world.rank();
            window.lock(LockType::Exclusive, first, Assert::NONE).unwrap();
            world.endpoint().barrier().unwrap();
            window.lock(LockType::Exclusive, 1 - first, Assert::NONE).unwrap();
            let _ = window.put(&[1_u8], 1 - first, 0);
        },
        options: &[],
        cause: ("knot", &[0, 1]),
        words: &["target 0, held by rank 0", "target 1, held by rank 1", "holds a lock"],
    },
    Hang {
        name: "starts_without_posts",
        ranks: 2,
        act: |world| {
            let window = Window::builder(world.endpoint()).allocate(64).unwrap();
            window.start(&[1 - world.rank()], Assert::NONE).unwrap();
            let _ = window.put(&[1_u8], 1 - world.rank(), 0);
            let _ = window.complete();
        },
        options: &[],
        cause: ("knot", &[0, 1]),
        words: &["the post of a window's target"],
    },
    Hang {
        name: "a_rank_that_computes",
        ranks: 2,
        act: |world| {
            if world.rank() == 0 {
                let _ = world.endpoint().recv(&mut [0_u8; 8], 1, 7);
            } else {
                std::thread::sleep(Duration::from_secs(600));
            }
        },
        options: &[],
        cause: ("slow", &[1]),
        words: &["computes", "thread "],
    },
    Hang {
        name: "a_stopped_rank",
        ranks: 2,
        act: |world| {
            if world.rank() == 0 {
                let _ = world.endpoint().recv(&mut [0_u8; 8], 1, 7);
            } else {
                kill(Signal::STOP);
            }
        },
        options: &[],
        cause: ("rank", &[1]),
        words: &["is stopped"],
    },
    Hang {
        name: "a_message_from_another_source",
        ranks: 3,
        act: |world| {
            if world.rank() == 0 {
                world.endpoint().send(&[0_u8; 8], 1, 7).unwrap();
            }
            let from = [1, 2, 1][world.rank() as usize];
            let _ = world.endpoint().recv(&mut [0_u8; 8], from, 7);
        },
        options: &[],
        cause: ("knot", &[1, 2]),
        words: &["rank 1 waits for tag 7 from rank 2; rank 0 has sent that tag, once"],
    },
    Hang {
        name: "exposures_that_wait_for_each_other",
        ranks: 2,
        act: |world| {
            let window = Window::builder(world.endpoint()).allocate(64).unwrap();
            window.post(&[1 - world.rank()], Assert::NONE).unwrap();
            let _ = window.wait();
            let _ = window.start(&[1 - world.rank()], Assert::NONE);
        },
        options: &[],
        cause: ("knot", &[0, 1]),
        words: &["the end of an exposure epoch", "window "],
    },
    Hang {
        name: "a_fence_that_a_rank_leaves_out",
        ranks: 2,
        act: |world| {
            let window = Window::builder(world.endpoint()).allocate(64).unwrap();
            window.fence(Assert::NONE).unwrap();
            if world.rank() == 0 {
                let _ = window.fence(Assert::NONE);
            } else {
                let _ = world.endpoint().recv(&mut [0_u8; 8], 0, 7);
            }
        },
        options: &[],
        cause: ("knot", &[0, 1]),
        words: &["rank 1 is not in the barrier of window", "recv: source 0, tag 7", "fence"],
    },
    Hang {
        name: "a_killed_rank",
        ranks: 3,
        act: |world| {
            if world.rank() == 1 {
                kill(Signal::KILL);
            }
            let any = strait::Source::Any;
            let _ = world.endpoint().recv(&mut [0_u8; 8], any, 7);
        },
        options: &["--keep-going"],
        cause: ("knot", &[0, 2]),
        words: &["recv: source any, tag 7", "was killed or has crashed"],
    },
    Hang {
        name: "no_room_for_unexpected_messages",
        ranks: 2,
        act: |world| {
            let _ = match world.rank() {
                0 => (0..1000).try_for_each(|_| world.endpoint().send(&[0_u8; 4096], 1, 7)),
                _ => world.endpoint().recv(&mut [0_u8; 8], 0, 8).map(drop),
            };
        },
        options: &["-x", "STRAIT_UNEXPECTED_MAX=65536"],
        cause: ("knot", &[0, 1]),
        words: &[
            "send: destination 1, tag 7",
            "rank 1 waits for tag 8 from rank 0; rank 0 has sent tag 7",
            "STRAIT_UNEXPECTED_MAX",
        ],
    },
    Hang {
        name: "a_rank_that_leaves_too_early",
        ranks: 2,
        act: |world| {
            if world.rank() == 1 {
                let large = vec![0_u8; 8 << 20];
                let _ = world.endpoint().scope(|scope| scope.isend(&large, 0, 8).map(drop));
                let _ = world.finalize();
            } else {
                let _ = world.endpoint().recv(&mut [0_u8; 8], 1, 7);
            }
        },
        options: &[],
        cause: ("knot", &[0, 1]),
        words: &["finalize", "rank 0 waits for tag 7 from rank 1; rank 1 has sent tag 8, once"],
    },
    Hang {
        name: "a_message_longer_than_its_receive",
        ranks: 2,
        act: |world| {
            let endpoint = world.endpoint();
            if world.rank() == 0 {
                endpoint.send(&[0_u8; 64], 1, 7).unwrap();
            } else {
                endpoint.recv(&mut [0_u8; 8], 0, 7).unwrap_err();
            }
            let _ = endpoint.recv(&mut [0_u8; 8], 1 - world.rank(), 7);
        },
        options: &[],
        cause: ("knot", &[0, 1]),
        words: &["a receive of rank 1 has failed", "tag 7) has 64 bytes, its buffer 8"],
    },
    Hang {
        name: "a_wait_for_one_of_several",
        ranks: 3,
        act: |world| {
            let endpoint = world.endpoint();
            if world.rank() == 0 {
                let (mut one, mut two) = ([0_u8; 8], [0_u8; 8]);
                let _ = endpoint.scope(|scope| {
                    let mut all = [scope.irecv(&mut one, 1, 7)?, scope.irecv(&mut two, 2, 8)?];
                    strait::wait_any(&mut all)
                });
            } else {
                let _ = endpoint.recv(&mut [0_u8; 8], 0, 7);
            }
        },
        options: &[],
        cause: ("knot", &[0, 1, 2]),
        words: &["0 of 2 are complete", "recv: source 1, tag 7", "recv: source 2, tag 8"],
    },
    Hang {
        name: "a_lock_whose_holder_waits",
        ranks: 2,
        act: |world| {
            let window = Window::builder(world.endpoint()).allocate(64).unwrap();
            if world.rank() == 0 {
                window.lock(LockType::Shared, 0, Assert::NONE).unwrap();
                window.flush(0).unwrap();
                world.endpoint().send(&[0_u8; 8], 1, 1).unwrap();
                let _ = world.endpoint().recv(&mut [0_u8; 8], 1, 7);
            } else {
                world.endpoint().recv(&mut [0_u8; 8], 0, 1).unwrap();
                window.lock(LockType::Exclusive, 0, Assert::NONE).unwrap();
                let _ = window.put(&[1_u8], 0, 0);
            }
        },
        options: &[],
        cause: ("knot", &[0, 1]),
        words: &["lock of a window's target", "recv: source 1, tag 7"],
    },
    Hang {
        name: "receives_between_nodes",
        ranks: 2,
        act: |world| {
            let _ = world.endpoint().recv(&mut [0_u8; 8], 1 - world.rank(), 7);
        },
        options: &["--nodes", "2"],
        cause: ("knot", &[0, 1]),
        words: &["recv: source 0, tag 7", "recv: source 1, tag 7"],
    },
];

/// Sends a signal to this process, and does nothing more.
fn kill(signal: Signal) {
    rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
    std::thread::sleep(Duration::from_secs(600));
}
