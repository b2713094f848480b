//! A test that runs as several processes: its program starts itself as the ranks of a job.
//!
//! The `#[test]` function runs in two places. In the test runner, [`Ranks::run`] launches the job
//! and judges its end. In every rank, it runs the body and ends the process. A job that hangs is
//! killed, and the failure shows what each rank waits for and its last output. A job that ends must
//! leave no process and nothing in `/dev/shm`.
//!
//! This works under libtest and nextest, which run one test with the same option (`--exact NAME`).

use core::fmt::Write as _;
use core::time::Duration;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process;
use std::sync::mpsc;
use std::{env, fs, io, panic, thread};

use rustix::process::{Pid, Signal};
use strait::World;
use strait::boot::{Launch, RankExit, SegmentConfig};
use strait::observe;
#[cfg(debug_assertions)]
use strait_core::sync::{Step, is_stopped, stop_at};
use tempfile::TempDir;

/// Environment variable with the test that contains the body of a rank.
const BODY: &str = "STRAIT_TEST_BODY";

/// Environment variable with the directory for the output of ranks.
const DIRECTORY: &str = "STRAIT_TEST_DIRECTORY";

/// Gives each rank output files of its own.
const SCRIPT: &str = "exec \"$0\" \"$@\" \
    >\"$STRAIT_TEST_DIRECTORY/stdout.$STRAIT_RANK\" \
    2>\"$STRAIT_TEST_DIRECTORY/stderr.$STRAIT_RANK\"";

/// Prefix of the script, which makes the launcher speak only PMI-1.
const FOREIGN: &str = "unset STRAIT_BOOT_FD; ";

/// Time limit of a job, unless the test sets another.
const LIMIT: Duration = Duration::from_secs(60);

/// Number of characters of a rank's output that a failure shows: the last ones tell what it was
/// doing.
const SHOWN: usize = 4000;

/// A job of this test program.
#[derive(Debug)]
pub struct Ranks {
    name: &'static str,
    config: SegmentConfig,
    nodes: u32,
    limit: Duration,
    foreign: bool,
    deaths: Vec<u32>,
    variables: Vec<(&'static str, String)>,
    /// Assignments of variables in single ranks, for the shell.
    assignments: String,
}

/// The results of a job's ranks.
#[derive(Debug)]
pub struct Ended {
    /// The exit of each rank.
    pub exits: Vec<RankExit>,
    /// The standard output of each rank, including the test runner's own lines.
    pub stdout: Vec<String>,
    /// The standard error of each rank.
    pub stderr: Vec<String>,
}

impl Ranks {
    /// Creates a job of `ranks` ranks for the test function called `name`, by which the ranks find
    /// it.
    #[must_use]
    pub fn new(ranks: u32, name: &'static str) -> Self {
        let config = SegmentConfig::new(ranks);
        Self {
            name,
            config,
            nodes: 1,
            limit: LIMIT,
            foreign: false,
            deaths: Vec::new(),
            variables: Vec::new(),
            assignments: String::new(),
        }
    }

    /// Sets another shape of the segment.
    #[must_use]
    pub fn shaped(self, config: SegmentConfig) -> Self {
        Self { config, ..self }
    }

    /// Places the ranks as if on `nodes` nodes.
    #[must_use]
    pub fn on_nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// Acts as if the launcher knew nothing of Strait: it makes no segments, and reports no death.
    #[must_use]
    pub fn by_pmi(self) -> Self {
        Self { foreign: true, ..self }
    }

    /// Sets an environment variable in every rank.
    #[must_use]
    pub fn with(mut self, variable: &'static str, value: impl ToString) -> Self {
        self.variables.push((variable, value.to_string()));
        self
    }

    /// Sets an environment variable in one rank, to a value without quotes.
    #[must_use]
    pub fn with_in(mut self, rank: u32, variable: &'static str, value: impl ToString) -> Self {
        let value = value.to_string();
        let assignment = format!("[ $STRAIT_RANK != {rank} ] || export {variable}='{value}'; ");
        self.assignments.push_str(&assignment);
        self
    }

    /// Sets another time limit, for a job that has more to do, or that is known to hang when it
    /// fails.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Lets the job continue when a rank dies. Exactly `ranks` must end by SIGKILL.
    #[must_use]
    pub fn with_deaths(self, ranks: &[u32]) -> Self {
        Self { deaths: ranks.to_vec(), ..self }
    }

    /// Runs `body` in every rank and returns their results, once all have ended as expected. In a
    /// rank it does not return.
    ///
    /// # Panics
    ///
    /// In the test runner: when the job hangs, a rank ends in another way, or something is left
    /// behind.
    pub fn run(self, body: impl FnOnce(World)) -> Ended {
        if env::var(BODY).is_ok_and(|name| name == self.name) {
            be_a_rank(body);
        }
        assert!(env::var(BODY).is_err(), "{} runs the body of another test", self.name);
        let directory = TempDir::new().expect("a temporary directory");
        let launch = self.launch(directory.path());
        let mut job = launch.spawn().expect("the job starts");
        let (numbers, mut writer) = io::pipe().expect("a pipe");
        job.forward_signals(numbers.into());
        let (done, watch) = mpsc::channel::<()>();
        let limit = self.limit;
        let pids: Vec<_> =
            (0..self.config.ranks).filter_map(|rank| Some((rank, job.pid(rank)?))).collect();
        // Records what the ranks waited for, if the job took too long.
        let watchdog = thread::spawn(move || {
            if watch.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Timeout) {
                return None;
            }
            let seen = observe::ranks(&pids);
            let kill = [Signal::KILL.as_raw() as u8];
            io::Write::write_all(&mut writer, &kill).expect("the job takes signals");
            Some(seen.iter().map(|rank| format!("{rank}\n")).collect::<String>())
        });
        let outcome = job.wait().expect("the job was waited for");
        drop((job, done));
        let hung = watchdog.join().expect("the watchdog does not panic");
        let ended = Ended::read(directory.path(), outcome.exits());
        let finished = |rank: u32| directory.path().join(format!("done.{rank}")).exists();
        let as_expected = ended.exits.iter().all(|exit| match self.deaths.contains(&exit.rank) {
            true => exit.status.signal() == Some(Signal::KILL.as_raw()),
            false => exit.status.success() && finished(exit.rank),
        });
        assert!(
            as_expected && hung.is_none(),
            "{}{ended}",
            self.verdict(hung, outcome.to_string())
        );
        ended.assert_nothing_is_left();
        ended
    }

    fn launch(&self, directory: &Path) -> Launch {
        let program = env::current_exe().expect("the path of this program");
        let foreign = if self.foreign { FOREIGN } else { "" };
        let script = format!("{}{foreign}{SCRIPT}", self.assignments);
        let words = ["-c".as_ref(), script.as_ref(), program.as_os_str()];
        let select = ["--exact", self.name, "--nocapture", "--include-ignored"];
        let mut launch = Launch::new(self.config.ranks, "sh");
        launch.config = self.config;
        launch.nodes = self.nodes;
        launch.args = words.into_iter().chain(select.map(AsRef::as_ref)).map(Into::into).collect();
        launch.keep_going = !self.deaths.is_empty();
        launch.env = vec![(BODY.into(), self.name.into()), (DIRECTORY.into(), directory.into())];
        launch.env.extend(self.variables.iter().map(|(name, value)| (name.into(), value.into())));
        launch
    }

    fn verdict(&self, hung: Option<String>, outcome: String) -> String {
        let (limit, deaths) = (self.limit.as_secs(), &self.deaths);
        let late =
            hung.as_ref().map(|_| format!("; the job took more than {limit} s and was killed"));
        let (late, seen) = (late.unwrap_or_default(), hung.unwrap_or_default());
        format!("{}: {outcome}{late}; expected to be killed: {deaths:?}\n{seen}", self.name)
    }
}

impl Ended {
    fn read(directory: &Path, exits: &[RankExit]) -> Self {
        let outputs = |stream: &str| {
            let read = |exit: &RankExit| {
                let bytes = fs::read(directory.join(format!("{stream}.{}", exit.rank)));
                String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
            };
            exits.iter().map(read).collect()
        };
        Self { exits: exits.to_vec(), stdout: outputs("stdout"), stderr: outputs("stderr") }
    }

    fn assert_nothing_is_left(&self) {
        for exit in &self.exits {
            let pid = Pid::from_raw(exit.pid.cast_signed()).expect("a process number");
            let group = rustix::process::test_kill_process_group(pid);
            assert!(group.is_err(), "rank {}: its process group {pid:?} still exists", exit.rank);
        }
        assert_no_segment_has_a_name();
    }
}

impl core::fmt::Display for Ended {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for ((exit, stdout), stderr) in self.exits.iter().zip(&self.stdout).zip(&self.stderr) {
            writeln!(f, "--- {exit}")?;
            for text in [stdout, stderr] {
                let from = text.len().saturating_sub(SHOWN);
                let from = (from..).find(|&at| text.is_char_boundary(at)).unwrap_or(0);
                writeln!(f, "{}", &text[from..])?;
            }
        }
        f.write_char('\n')
    }
}

/// Asserts that no file in `/dev/shm` is a segment of Strait, from any job: there must never be
/// one.
///
/// # Panics
///
/// When there is one.
pub fn assert_no_segment_has_a_name() {
    let magic = strait_core::layout::MAGIC.to_le_bytes();
    let is_segment = |path: &Path| {
        let mut first = [0; 8];
        let file = fs::File::open(path);
        file.and_then(|mut file| io::Read::read_exact(&mut file, &mut first)).is_ok()
            && first == magic
    };
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let left: Vec<_> = entries.map(|entry| entry.path()).filter(|path| is_segment(path)).collect();
    assert!(left.is_empty(), "segments are left: {left:?}");
}

/// Runs a rank. A panic ends the process at once: unwinding would leave the job in good order.
fn be_a_rank(body: impl FnOnce(World)) -> ! {
    let say = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        say(info);
        process::exit(101);
    }));
    let world = World::init().expect("the rank joins its job");
    let done = Path::new(&env::var_os(DIRECTORY).expect("the job's directory"))
        .join(format!("done.{}", world.rank()));
    body(world);
    fs::write(done, "").expect("the rank says that it is done");
    process::exit(0);
}

/// Records the state of this rank, which is shown when the job fails.
pub fn report(line: impl core::fmt::Display) {
    eprintln!("{line}");
}

/// Ends this process as `kill -9` does.
pub fn die() -> ! {
    rustix::process::kill_process(rustix::process::getpid(), Signal::KILL)
        .expect("SIGKILL to this process");
    unreachable!("SIGKILL cannot be survived");
}

/// Ends rank `victim` as `kill -9` does, when all others have arrived here too. Their earlier
/// operations together are then complete.
///
/// # Panics
///
/// When the ranks cannot exchange messages.
pub fn one_dies(world: &World, victim: u32) {
    const CONTEXT: u32 = 901;
    let endpoint = world.endpoint().with_context(CONTEXT);
    if world.rank() != victim {
        endpoint.send(&[1_u8], victim, 0).expect("the victim lives until all have arrived");
        return;
    }
    for rank in (0..world.size()).filter(|rank| *rank != victim) {
        endpoint.recv(&mut [0_u8], rank, 0).expect("no other rank dies");
    }
    die();
}

/// Ends this process as `kill -9` does when it next reaches `step`, before any later store.
#[cfg(debug_assertions)]
pub fn die_at(step: Step) {
    thread::spawn(|| {
        while !is_stopped() {
            thread::yield_now();
        }
        die();
    });
    stop_at(step);
}
