//! Programs that hang, under the front and over the provider. `strait why` must name the ranks, the
//! operation, the tag and the culprit of each.

use core::time::Duration;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use wait_timeout::ChildExt as _;

use super::Mpi;
use super::front::{self, Host};
use crate::shell::{Shell, Step};
use crate::stop::{self, Stop};

/// Number of jobs that hang at the same time. Their ranks start at the same time, too. Ranks that
/// hang poll, and take the processors from those that start: seven jobs at a time take three times
/// as long as four.
const AT_ONCE: usize = 4;

/// The longest time in which a job starts, hangs and is named, also beside a rung that compiles.
const TIME_LIMIT: Duration = Duration::from_secs(50);

/// The longest time for which a launcher may outlive its ranks. When all ranks of a job are killed,
/// that of Open MPI at times waits for ever: in `PMIx_server_deregister_client` for a thread that
/// waits for a lock. The jobs beside it must not wait along.
const LAUNCHER_LIMIT: Duration = Duration::from_secs(10);

/// Words that must be said.
type Words = &'static [&'static str];

/// A program that hangs.
struct Hang {
    /// Its name in `ffi/mpi/tests/hangs.c`.
    name: &'static str,
    ranks: &'static str,
    /// The cause in the output of `strait why --json`, with the ranks that it names; `slow` for a
    /// rank that computes.
    cause: (&'static str, &'static [u32]),
    /// Words that the output has.
    words: Words,
    /// Words that the output has under the provider, which knows the operations that the MPI has
    /// started, but no names of MPI. `None`: the MPI starts none there, and only polls.
    by_provider: Option<Words>,
}

/// What is said of a receive on `MPI_COMM_WORLD`.
const RECV_0: &str = "MPI_Recv (recv): source 0, tag 7, communicator MPI_COMM_WORLD, 8 bytes";
const RECV_1: &str = "MPI_Recv (recv): source 1, tag 7, communicator MPI_COMM_WORLD, 8 bytes";

/// What is said of a receive under the provider.
const TAG_7_FROM_1: &str = "(recv): source 1, tag 7";

const HANGS: [Hang; 19] = [
    Hang {
        name: "large_sends",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &[
            "MPI_Send (send): destination 1, tag 7, communicator MPI_COMM_WORLD, 8388608 bytes",
            "no rank receives these messages",
        ],
        by_provider: Some(&["(send): destination 1, tag 7", "no rank receives these messages"]),
    },
    Hang {
        name: "wrong_tag",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &[RECV_0, RECV_1, "rank 1 waits for tag 7 from rank 0; rank 0 has sent tag 8, once"],
        by_provider: Some(&[TAG_7_FROM_1, "tag 7 from rank 0; rank 0 has sent tag 8, once"]),
    },
    Hang {
        name: "wrong_source",
        ranks: "3",
        cause: ("knot", &[1, 2]),
        words: &[RECV_1, "tag 7 from rank 2; rank 0 has sent that tag, once: is the source right?"],
        by_provider: Some(&[
            "tag 7 from rank 2; rank 0 has sent that tag, once: is the source right?",
        ]),
    },
    Hang {
        name: "wrong_communicator",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &[RECV_0, "rank 0 has sent that in communicator halo, once"],
        by_provider: Some(&[TAG_7_FROM_1, "is the communicator right?"]),
    },
    Hang {
        name: "ranks_of_a_communicator",
        ranks: "3",
        cause: ("knot", &[1, 2]),
        words: &["communicator halo, 8 bytes; there it is rank 1 of 2, and rank 2 is rank 0"],
        by_provider: Some(&["(recv): source 2, tag 7", TAG_7_FROM_1]),
    },
    Hang {
        name: "stolen_message",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &[RECV_0, RECV_1, "rank 0 has taken all that rank 1 has sent"],
        by_provider: Some(&[TAG_7_FROM_1, "rank 0 has taken all that rank 1 has sent"]),
    },
    Hang {
        name: "missing_member",
        ranks: "3",
        cause: ("knot", &[0, 2]),
        words: &[
            "MPI_Barrier (barrier): communicator MPI_COMM_WORLD",
            "rank 2 is not in the barrier",
        ],
        by_provider: Some(&["(recv): source 0, tag 7"]),
    },
    Hang {
        name: "missing_in_allreduce",
        ranks: "3",
        cause: ("knot", &[0, 2]),
        words: &["MPI_Allreduce (a collective operation)", "rank 2 is not in the collective"],
        by_provider: Some(&["(recv): source 0, tag 7"]),
    },
    Hang {
        name: "lock_order",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &["target 0, held by rank 0", "target 1, held by rank 1", "MPI_Put"],
        by_provider: None,
    },
    Hang {
        name: "skipped_fence",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &[
            "MPI_Win_fence (barrier): window",
            RECV_0,
            "rank 1 is not in the barrier of window",
        ],
        by_provider: None,
    },
    Hang {
        name: "start_without_post",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &["the post of a window's target"],
        by_provider: None,
    },
    Hang {
        name: "computing",
        ranks: "2",
        cause: ("slow", &[1]),
        words: &[RECV_1, "rank 1 (process", "computes", "clock_nanosleep"],
        by_provider: Some(&["rank 1 (process", "computes", "clock_nanosleep"]),
    },
    Hang {
        name: "stopped",
        ranks: "2",
        cause: ("rank", &[1]),
        words: &[RECV_1, "is stopped"],
        by_provider: Some(&[TAG_7_FROM_1, "is stopped"]),
    },
    Hang {
        name: "killed",
        ranks: "3",
        cause: ("knot", &[0, 2]),
        words: &["MPI_Recv (recv): source any, tag 7", "was killed or has crashed"],
        by_provider: None,
    },
    Hang {
        name: "early_finalize",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &[RECV_1, "MPI_Finalize (finalize", "destination 0, tag 8", "rank 1 has sent tag 8"],
        by_provider: Some(&[TAG_7_FROM_1, "rank 1 has sent tag 8, once"]),
    },
    Hang {
        name: "wait_any",
        ranks: "3",
        cause: ("knot", &[0, 1, 2]),
        words: &["MPI_Waitany (wait_any): 0 of 2 are complete", "source 2, tag 8", RECV_0],
        by_provider: Some(&["incomplete: recv: source 1, tag 7", "recv: source 2, tag 8"]),
    },
    Hang {
        name: "wait_all",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &[
            "MPI_Waitall (recv): 0 of 2 are complete, source 1, tag 1",
            "has sent tag 3, once",
        ],
        by_provider: Some(&["incomplete: recv: source 1, tag 1", "has sent tag 3, once"]),
    },
    Hang {
        name: "long_message",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &["a receive of rank 1 has failed: the message (source 0, tag 7) has 64 bytes"],
        by_provider: None,
    },
    Hang {
        name: "probe",
        ranks: "2",
        cause: ("knot", &[0, 1]),
        words: &["MPI_Probe (probe): source 1, tag 7, communicator MPI_COMM_WORLD"],
        by_provider: None,
    },
];

/// A program that does not hang.
const HEALTHY: Hang =
    Hang { name: "healthy", ranks: "2", cause: ("none", &[]), words: &[], by_provider: None };

/// A job that hangs. The drop kills its ranks, and so ends it.
struct Job<'a> {
    shell: &'a Shell,
    hang: &'static Hang,
    words: Words,
    launcher: Child,
    pids: PathBuf,
    log: PathBuf,
    begin: Instant,
}

/// Runs `cargo xtask hangs`: the programs with each host of the front, and with each MPI over the
/// provider. One host of the front runs them with all threads.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    front::build(shell)?;
    let before = super::shared_memory()?;
    let mut parts = vec![
        ("MPICH", under_front(shell, front::mpich(shell), "mpich")),
        ("MPI-5 ABI", under_front(shell, front::standard(shell), "standard")),
        ("Open MPI", under_front(shell, front::open_mpi(shell), "openmpi")),
        ("Intel MPI", under_front(shell, front::intel(shell), "intel")),
    ];
    // Both packages each time, as for `mpi`.
    shell.cargo("build --quiet -p strait-ofi -p strait-cli").run()?;
    let provider = super::named(shell, "debug")?;
    for mpi in &super::MPIS {
        parts.push((mpi.name, over_provider(shell, mpi, &provider)));
    }
    parts.push(("/dev/shm", super::remove_mpichs(&before)));
    stop::all(parts)
}

/// Runs the programs under the front.
fn under_front(shell: &Shell, host: Result<Host, Stop>, with: &str) -> Result<(), Stop> {
    let host = host?;
    let program = front::compile(shell, &host, "hangs", with)?;
    let hangs = HANGS.iter().map(|hang| (hang, hang.words));
    named(shell, hangs, &|hang, pids, log| {
        let step = front::launch(shell, &host, &options(hang, with));
        start(step, hang, with, (&program, pids, log))
    })
}

/// Runs the programs over the provider.
fn over_provider(shell: &Shell, mpi: &Mpi, provider: &Path) -> Result<(), Stop> {
    let home = super::home(shell, mpi.name, mpi.packages)?;
    let program = super::compile_from(shell, mpi, &home, "ffi/mpi/tests/hangs.c")?;
    // Intel MPI's barrier has memory of its own.
    let is_elsewhere = |hang: &Hang| hang.name == "missing_member" && mpi.name == "intel";
    let hangs = HANGS.iter().filter(|hang| !is_elsewhere(hang));
    let hangs = hangs.filter_map(|hang| Some((hang, hang.by_provider?)));
    let begin = |hang: &Hang, pids: &Path, log: &Path| {
        let step = super::launch(shell, mpi, (&home, provider), &options(hang, mpi.name))?;
        start(step, hang, mpi.name, (&program, pids, log))
    };
    named(shell, hangs, &begin)?;
    accuses_no_rank(shell, &begin)
}

/// Looks often at a job that goes on. No rank may be called stuck.
fn accuses_no_rank(
    shell: &Shell,
    start: &dyn Fn(&Hang, &Path, &Path) -> Result<Child, Stop>,
) -> Result<(), Stop> {
    let job = Job::start(shell, (&HEALTHY, &[]), start)?;
    let mut seen = Value::Null;
    while seen.is_null() && job.begin.elapsed() < TIME_LIMIT {
        seen = job.look("--interval 60 --looks 200");
    }
    if seen["ranks"].as_array().is_some_and(|ranks| ranks.len() > 1) && seen["stuck"] == json!([]) {
        return Ok(());
    }
    Err(Stop::Failed(format!("a job that goes on: {seen}")))
}

/// Returns the options of a launcher. If a rank is killed, the launcher must let the others be.
fn options(hang: &Hang, with: &str) -> String {
    let ranks = hang.ranks;
    match (hang.name, with) {
        ("killed", "openmpi") => format!("--enable-recovery -n {ranks}"),
        ("killed", _) => format!("-disable-auto-cleanup -n {ranks} setsid -w"),
        _ => format!("-n {ranks}"),
    }
}

/// Starts the program.
fn start(
    step: Step<'_>,
    hang: &Hang,
    with: &str,
    (program, pids, log): (&Path, &Path, &Path),
) -> Result<Child, Stop> {
    let failed = |error| Stop::io(log, &error);
    let step = step.arg(program).arg(hang.name).arg(pids);
    // One host runs with all threads.
    let step = if with == "standard" { step.arg("threads") } else { step };
    File::create(log).and_then(|file| step.spawn_into(file)).map_err(failed)
}

/// Starts the programs, a few at a time, and checks what is said about each.
fn named(
    shell: &Shell,
    hangs: impl Iterator<Item = (&'static Hang, Words)>,
    start: &dyn Fn(&Hang, &Path, &Path) -> Result<Child, Stop>,
) -> Result<(), Stop> {
    let mut late = Vec::new();
    let (mut left, mut open) = (hangs, Vec::new());
    loop {
        while open.len() < AT_ONCE
            && let Some(hang) = left.next()
        {
            open.push(Job::start(shell, hang, start)?);
        }
        if open.is_empty() {
            break;
        }
        open.retain(|job| {
            let seen = job.look(&format!("--interval {}", job.interval()));
            let is_named = job.hang.is_named(job.words, &seen);
            if !is_named && job.begin.elapsed() > TIME_LIMIT {
                let said = fs::read_to_string(&job.log).unwrap_or_default();
                late.push(format!("{}: {seen}\n{said}", job.hang.name));
                return false;
            }
            !is_named
        });
    }
    if late.is_empty() { Ok(()) } else { Err(Stop::Failed(late.join("\n"))) }
}

/// Returns whether a cause names these ranks, and no others unless there `may_be_more`.
fn has_ranks(cause: &Value, ranks: &[u32], may_be_more: bool) -> bool {
    let named = cause["ranks"].as_array().map_or(&[][..], Vec::as_slice);
    let is_named = |rank: &u32| named.contains(&json!(rank));
    ranks.iter().all(is_named) && (named.len() == ranks.len() || may_be_more)
}

impl Hang {
    /// Returns whether `why` has found the cause and has the words.
    fn is_named(&self, words: Words, why: &Value) -> bool {
        let (cause, ranks) = self.cause;
        let text = why.to_string();
        let stuck = why["stuck"].as_array().map_or(&[][..], Vec::as_slice);
        let is_named = match cause {
            "slow" => {
                let slow = why["slow"].as_array().map_or(&[][..], Vec::as_slice);
                stuck.is_empty() && slow.iter().any(|one| one["rank"] == ranks[0])
            }
            _ => {
                // Which members of an MPI's own collective operation wait for which is up to its
                // algorithm.
                let may_be_more = words != self.words && self.name.starts_with("missing");
                stuck.len() == 1
                    && stuck[0]["cause"] == cause
                    && has_ranks(&stuck[0], ranks, may_be_more)
            }
        };
        is_named && words.iter().all(|word| text.contains(word))
    }
}

impl<'a> Job<'a> {
    fn start(
        shell: &'a Shell,
        (hang, words): (&'static Hang, Words),
        start: &dyn Fn(&Hang, &Path, &Path) -> Result<Child, Stop>,
    ) -> Result<Self, Stop> {
        let folder = shell.target().join("mpi/hangs");
        fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
        let (pids, log) = (folder.join(hang.name), folder.join(hang.name).with_extension("log"));
        let _ = fs::remove_file(&pids);
        let launcher = start(hang, &pids, &log)?;
        Ok(Self { shell, hang, words, launcher, pids, log, begin: Instant::now() })
    }

    /// Returns the processes of the ranks that have started.
    fn processes(&self) -> Vec<String> {
        let pids = fs::read_to_string(&self.pids).unwrap_or_default();
        pids.lines().map(str::to_owned).collect()
    }

    /// Returns the milliseconds between two looks. They grow with the age of the job: a rank that
    /// got no processor between the looks is not judged.
    fn interval(&self) -> u128 {
        (self.begin.elapsed().as_millis() / 10).clamp(200, 2000)
    }

    /// Returns what `strait why` says about the job: nothing before its ranks have started.
    fn look(&self, how: &str) -> Value {
        let processes = self.processes();
        if processes.len().to_string() != self.hang.ranks {
            thread::sleep(Duration::from_millis(50));
            return Value::Null;
        }
        let strait = self.shell.target().join("debug/strait");
        let looks = processes.iter().map(|process| {
            let step = self.shell.step(&strait, &format!("why --json {how} --pid")).arg(process);
            let said = step.output().ok()?;
            serde_json::from_slice(&said.stdout).ok()
        });
        // A rank that was killed has no segment any more.
        looks.flatten().next().unwrap_or(Value::Null)
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let processes = self.processes();
        let kill = self.shell.step("kill", "-KILL");
        // Some of them may have ended.
        let _ = processes.iter().fold(kill, Step::arg).output();
        let limit = if processes.is_empty() { Duration::ZERO } else { LAUNCHER_LIMIT };
        if !matches!(self.launcher.wait_timeout(limit), Ok(Some(_))) {
            // `timeout` has made a process group of itself and the launcher.
            let group = format!("-{}", self.launcher.id());
            let _ = self.shell.step("kill", "-KILL --").arg(group).output();
            // If it has just begun, it has no group yet.
            let _ = self.launcher.kill();
            let _ = self.launcher.wait();
        }
    }
}
