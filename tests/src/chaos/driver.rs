//! Runs one job after the other, until the time is up or a fault is found.

use core::fmt::Write as _;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs, io, thread};

use rustix::process::{Pid, Signal, test_kill_process_group};
use strait::boot::{JobOutcome, Launch};

use super::board::{Board, Fate, Phase};
use super::job::Job;
use super::options::Options;
use super::plan::Plan;
use super::rank::{descriptors, new_descriptors};
use super::settings::Settings;
use super::warden::{Seen, Warden, standing};
use super::{BOARD, JOB};

/// Time in which the killed processes of a group end.
const GROUP_END_LIMIT: Duration = Duration::from_secs(10);

/// Limit on the growth of the driver's own memory from the twentieth job on, in KiB.
const GROWTH: u64 = 16 << 10;
/// Number of jobs after which the driver's memory is measured.
const SETTLED: u64 = 20;

/// Totals of the jobs so far.
#[derive(Debug, Default)]
struct Sums {
    jobs: u64,
    deaths: u64,
    stops: u64,
    ranks: u64,
    slowest: Duration,
}

impl Sums {
    /// Returns the sums in words, for a run that started at `begin`.
    fn tell(&self, begin: Instant) -> String {
        let Self { jobs, deaths, stops, ranks, slowest } = self;
        let seconds = begin.elapsed().as_secs_f64();
        let longest = slowest.as_millis();
        format!(
            "{jobs} jobs with {ranks} ranks, {deaths} deaths, {stops} stops in {seconds:.0} s, the \
             longest job {longest} ms"
        )
    }
}

/// Runs jobs. Succeeds if no job shows a fault.
pub(super) fn run(options: &Options) -> ExitCode {
    eprintln!("chaos: --seed {}, without {:?}", options.seed, options.excluded);
    let (begin, mut sums, mut memory) = (Instant::now(), Sums::default(), None);
    let before = descriptors();
    let is_over = |sums: &Sums| {
        options.time.is_some_and(|time| begin.elapsed() >= time)
            || options.deaths.is_some_and(|deaths| sums.deaths >= deaths)
            || options.jobs.is_some_and(|jobs| sums.jobs >= jobs)
    };
    let mut seeds = fastrand::Rng::with_seed(options.seed);
    while !is_over(&sums) {
        let drawn = seeds.u64(..);
        let job = Job {
            seed: options.job.unwrap_or(drawn),
            ranks: options.ranks,
            excluded: options.excluded.clone(),
            plant: options.plant,
        };
        let settings = Settings::draw(&job);
        let mut wrong = play(&job, &settings, options.limit, &mut sums);
        let left = new_descriptors(&before, &descriptors(), false);
        if wrong.is_ok() && !left.is_empty() {
            wrong = Err(format!("the launcher left descriptors open: {left:?}"));
        }
        // A sanitizer keeps freed memory for a while, to find uses of it.
        if !cfg!(strait_sanitized) && sums.jobs >= SETTLED && wrong.is_ok() {
            let (now, before) = (memory_kib(), *memory.get_or_insert_with(memory_kib));
            if now > before + GROWTH {
                wrong = Err(format!("the memory of the launcher grew from {before} to {now} KiB"));
            }
        }
        if let Err(why) = wrong {
            eprintln!("{}", explain(&job, &settings, &why));
            eprintln!("chaos: before that {}", sums.tell(begin));
            return ExitCode::FAILURE;
        }
    }
    println!("chaos: {}; no fault", sums.tell(begin));
    ExitCode::SUCCESS
}

/// Formats a failure with everything needed to reproduce it.
fn explain(job: &Job, settings: &Settings, why: &str) -> String {
    let events = Plan::draw(settings).events;
    let mut text = format!("\nchaos: {why}\n{settings}\nevents: {events:?}\n");
    let ranks = job.ranks.map_or(String::new(), |ranks| format!(" --ranks {ranks}"));
    let without: String = job.excluded.iter().map(|name| format!(" --without {name}")).collect();
    let _ = writeln!(
        text,
        "to repeat: cargo xtask chaos --job {}{ranks}{without} --seconds 60\n\
         (the same programs and settings; not the same timing)",
        job.seed
    );
    text
}

/// Plays one job.
fn play(job: &Job, settings: &Settings, limit: Duration, sums: &mut Sums) -> Result<(), String> {
    let plan = Plan::draw(settings);
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = directory.path().join("board");
    let board = Board::create(&path).map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let mut running = launch(job, settings, &path).spawn().map_err(|error| error.to_string())?;
    let (followed, seen) = thread::scope(|scope| {
        let warden = Warden::new(&running, &board, settings, &plan);
        let warden = scope.spawn(|| warden.watch(limit));
        let followed = running.wait();
        (followed, warden.join().expect("the warden does not panic"))
    });
    drop(running);
    let outcome = followed.map_err(|error| error.to_string())?;
    sums.jobs += 1;
    sums.ranks += u64::from(settings.ranks);
    sums.stops += seen.stops;
    sums.slowest = sums.slowest.max(begin.elapsed());
    let dead = |exit: &&strait::boot::RankExit| exit.status.signal() == Some(Signal::KILL.as_raw());
    sums.deaths += outcome.exits().iter().filter(dead).count() as u64;
    judge(settings, &board, &outcome, &seen)
}

fn launch(job: &Job, settings: &Settings, board: &std::path::Path) -> Launch {
    let program = env::current_exe().expect("the path of this program");
    let mut launch = if settings.foreign {
        let mut launch = Launch::new(settings.ranks, "env");
        launch.args = vec!["-u".into(), "STRAIT_BOOT_FD".into(), program.into()];
        launch
    } else {
        Launch::new(settings.ranks, program)
    };
    launch.config = settings.config;
    launch.nodes = settings.nodes;
    launch.keep_going = true;
    launch.env = vec![(JOB.into(), job.to_string().into()), (BOARD.into(), board.into())];
    let variables = settings.variables.iter().map(|(name, value)| (name.into(), value.into()));
    launch.env.extend(variables);
    launch
}

/// Judges how a job ended, and what it left behind.
fn judge(
    settings: &Settings,
    board: &Board,
    outcome: &JobOutcome,
    seen: &Seen,
) -> Result<(), String> {
    let mut wrong = seen.failure.clone().unwrap_or_default();
    for exit in outcome.exits() {
        let (fate, phase) = (board.fate(exit.rank), board.phase(exit.rank));
        let well = match exit.status.signal() {
            Some(signal) => signal == Signal::KILL.as_raw() && fate != Fate::Alive,
            None => exit.status.success() && matches!(phase, Phase::Done | Phase::GaveUp),
        };
        if !well && seen.failure.is_none() {
            let _ = writeln!(wrong, "{exit}, although its fate was {fate:?}");
        }
        let pid = Pid::from_raw(exit.pid.cast_signed()).expect("a process number");
        if test_kill_process_group(pid).is_ok() {
            for process in remaining_processes(exit.pid) {
                let _ =
                    writeln!(wrong, "rank {} left a process of its group: {process}", exit.rank);
            }
        }
    }
    let left = board.left_behind().load(SeqCst);
    if let Some(pid) = Pid::from_raw(left as i32)
        && rustix::process::kill_process(pid, Signal::KILL).is_ok()
    {
        let _ = writeln!(wrong, "process {left} was left behind");
    }
    for path in segments_with_names() {
        let _ = writeln!(wrong, "a segment is left: {path}");
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{wrong}\n{}", standing(board, settings.ranks)))
}

/// Returns the processes of a group that remain. A process that was killed may take a moment to end
/// where all processors are busy.
fn remaining_processes(group: u32) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let all = processes_of_group(group);
        if all.is_empty() || begin.elapsed() > GROUP_END_LIMIT {
            return all;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the processes of a group, except those that have ended and wait to be reaped.
fn processes_of_group(group: u32) -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = all.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let lives = |stat: &String| {
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        fields.len() > 2 && !["Z", "X"].contains(&fields[0]) && fields[2] == group.to_string()
    };
    stats.filter(lives).map(|stat| stat.chars().take(60).collect()).collect()
}

/// Returns the named files of segments. None may exist.
fn segments_with_names() -> Vec<String> {
    let magic = strait_core::layout::MAGIC.to_le_bytes();
    let entries =
        fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_segment = |path: &std::path::PathBuf| {
        let mut first = [0; 8];
        let file = fs::File::open(path);
        file.and_then(|mut file| io::Read::read_exact(&mut file, &mut first)).is_ok()
            && first == magic
    };
    entries.filter(is_segment).map(|path| path.display().to_string()).collect()
}

/// Returns the memory of this process, in KiB.
fn memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
