//! One job after the other, until the time is up or something is wrong.

use core::fmt::Write as _;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs, io, thread};

use rustix::process::{Pid, Signal, test_kill_process_group};
use strait::boot::{Launch, Outcome};

use super::board::{Board, Fate, Phase};
use super::job::Job;
use super::options::Options;
use super::plan::Plan;
use super::rank::{descriptors, new_descriptors};
use super::settings::Settings;
use super::warden::{Seen, Warden, standing};
use super::{BOARD, JOB};

/// Memory that the driver itself may take more from the twentieth job on, KiB.
const GROWTH: u64 = 16 << 10;
/// Jobs after which the driver's memory is looked at.
const SETTLED: u64 = 20;

/// What was done so far.
#[derive(Debug, Default)]
struct Sums {
    jobs: u64,
    deaths: u64,
    stops: u64,
    ranks: u64,
    slowest: Duration,
}

/// Runs jobs. Success is that nothing was wrong with any.
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
            wrong = Err(format!("the launcher keeps descriptors: {left:?}"));
        }
        if sums.jobs >= SETTLED && wrong.is_ok() {
            let (now, before) = (memory_kib(), *memory.get_or_insert_with(memory_kib));
            if now > before + GROWTH {
                wrong = Err(format!("the launcher grows: from {before} to {now} KiB"));
            }
        }
        if let Err(why) = wrong {
            eprintln!("{}", explain(&job, &settings, &why));
            return ExitCode::FAILURE;
        }
    }
    let Sums { jobs, deaths, stops, ranks, slowest } = sums;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "chaos: {jobs} jobs with {ranks} ranks, {deaths} deaths, {stops} stops in {seconds:.0} s, the longest job {} ms; \
         nothing was wrong",
        slowest.as_millis()
    );
    ExitCode::SUCCESS
}

/// A failure with all that it takes to try again.
fn explain(job: &Job, settings: &Settings, why: &str) -> String {
    let events = Plan::draw(settings).events;
    let mut text = format!("\nchaos: {why}\n{settings}\nevents: {events:?}\n");
    let ranks = job.ranks.map_or(String::new(), |ranks| format!(" --ranks {ranks}"));
    let without: String = job.excluded.iter().map(|name| format!(" --without {name}")).collect();
    let _ = writeln!(
        text,
        "again: cargo xtask chaos --job {}{ranks}{without} --seconds 60\n(the same programs and settings; not the same timing)",
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

/// Judges how a job ended, and what it left.
fn judge(settings: &Settings, board: &Board, outcome: &Outcome, seen: &Seen) -> Result<(), String> {
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
            for process in processes_of_group(exit.pid) {
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

/// Processes of a group, without those that have ended and wait to be reaped.
fn processes_of_group(group: u32) -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = all.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let lives = |stat: &String| {
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        fields.len() > 2 && !["Z", "X"].contains(&fields[0]) && fields[2] == group.to_string()
    };
    stats.filter(lives).map(|stat| stat.chars().take(60).collect()).collect()
}

/// Files of segments; there are never any.
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

/// Memory of this process, KiB.
fn memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
