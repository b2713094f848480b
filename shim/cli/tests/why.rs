//! Jobs that hang on purpose, each in another way. `strait why` names the ranks and the reason.

use core::time::Duration;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};
use strait::{Assert, LockType, Window, World};

/// Time after which a job must have been judged. A wait is recorded when it has lasted for some
/// milliseconds, and on a busy machine later.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The variable that names a hang to the ranks of a job.
const HANG: &str = "WHY_HANG";

/// A job that hangs, and the judgement about it.
struct Hang {
    name: &'static str,
    ranks: u32,
    act: fn(World),
    /// Options of `strait run`.
    options: &'static [&'static str],
    /// The cause in the JSON output, with the ranks that it names; `slow` for a rank that computes.
    cause: (&'static str, &'static [u32]),
    /// Words of the sentences about the ranks.
    words: &'static [&'static str],
}

const HANGS: [Hang; 19] = [
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

/// A launcher, which is killed with its ranks when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Returns what `strait why` prints about the job of a launcher, or null before there is one.
fn why(launcher: &Running) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["why", "--json", "--interval", "300", "--pid", &launcher.0.id().to_string()])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// Returns whether `why` has found the cause of a hang.
fn names(hang: &Hang, why: &Value) -> bool {
    let (cause, ranks) = hang.cause;
    let is_named = match cause {
        "slow" => {
            why["stuck"] == json!([])
                && why["slow"]
                    .as_array()
                    .is_some_and(|slow| slow.iter().any(|it| it["rank"] == ranks[0]))
        }
        _ => {
            let stuck = why["stuck"].as_array().map_or(&[][..], Vec::as_slice);
            stuck.len() == 1 && stuck[0]["cause"] == cause && stuck[0]["ranks"] == json!(ranks)
        }
    };
    let text = why.to_string();
    is_named && hang.words.iter().all(|word| text.contains(word))
}

/// A job that goes on for ever: each rank computes for a while, and waits for its neighbour.
const HEALTHY: &str = "healthy";

fn go_on(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    let (endpoint, mut seed) = (world.endpoint(), u64::from(rank) + 1);
    for turn in 0_u64.. {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        std::thread::sleep(Duration::from_millis(seed >> 56));
        let mut found = [0_u8; 64 << 10];
        let length = if turn % 3 == 0 { found.len() } else { 8 };
        if (turn + u64::from(rank)) % 2 == 0 {
            endpoint.send(&vec![1_u8; length], (rank + 1) % size, 7).unwrap();
            endpoint.recv(&mut found, (rank + size - 1) % size, 7).unwrap();
        } else {
            endpoint.recv(&mut found, (rank + size - 1) % size, 7).unwrap();
            endpoint.send(&vec![1_u8; length], (rank + 1) % size, 7).unwrap();
        }
    }
}

/// Starts a job of ranks that do what this name says.
fn start(name: &str, ranks: u32, options: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.args(["run", "-n", &ranks.to_string()]).args(options);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "a_rank_of_a_job_that_hangs"]).env(HANG, name);
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn no_rank_of_a_healthy_job_is_accused() {
    let job = start(HEALTHY, 4, &[]);
    let begin = Instant::now();
    let mut looks = 0;
    while looks < 20 {
        assert!(begin.elapsed() < TIME_LIMIT, "{looks} looks at a job that goes on");
        let seen = why(&job);
        assert!(seen.is_null() || seen["stuck"] == json!([]), "{seen:#}");
        looks += u32::from(!seen.is_null());
    }
}

#[test]
fn each_hang_is_named_with_its_ranks_and_its_cause() {
    let mut open: Vec<_> =
        HANGS.iter().map(|hang| (hang, start(hang.name, hang.ranks, hang.options))).collect();
    let begin = Instant::now();
    while !open.is_empty() {
        let mut late = Vec::new();
        open.retain(|(hang, launcher)| {
            let seen = why(launcher);
            let is_named = names(hang, &seen);
            if !is_named && begin.elapsed() > TIME_LIMIT {
                late.push(format!("{}: {seen:#}", hang.name));
            }
            !is_named
        });
        assert!(late.is_empty(), "{}", late.join("\n"));
    }
}

#[test]
#[ignore = "the other test starts it, as the ranks of jobs"]
fn a_rank_of_a_job_that_hangs() {
    let Ok(name) = std::env::var(HANG) else { return };
    let world = World::init().unwrap();
    match HANGS.iter().find(|hang| hang.name == name) {
        Some(hang) => (hang.act)(world),
        None => go_on(&world),
    }
    // Whichever call comes back stays in the job until the job is killed.
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_process_without_a_job_is_told_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["why", "--pid", &std::process::id().to_string()])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("belongs to no job of Strait"), "{told}");
}
