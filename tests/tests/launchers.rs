//! Strait programs under another launcher: MPICH's hydra. No process of Strait exists before the
//! first rank.
//!
//! The tests are ignored because not every machine has hydra: `cargo xtask launchers` installs and
//! runs them. A test starts hydra, which starts this program again as each rank. Each rank runs one
//! of the functions called `rank_…`.

use core::time::Duration;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;
use std::{env, fs};

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};
use strait::{Error, Fault, World};
use strait_tests::{assert_no_segment_has_a_name, die, traffic};
use tempfile::TempDir;

/// Environment variable with the directory in which ranks report that they have ended.
const DIRECTORY: &str = "STRAIT_TEST_DIRECTORY";

const LIMIT: Duration = Duration::from_secs(60);

/// A job that hydra runs.
struct Hydra {
    directory: TempDir,
    status: ExitStatus,
    text: String,
}

impl Hydra {
    /// Starts ranks that run `body`, and waits until hydra ends.
    fn run(options: &[&str], body: &str) -> Self {
        Self::run_until(options, body, |_, _| ())
    }

    /// Runs [`Hydra::run`] with `meanwhile`, which gets hydra's process and the directory.
    fn run_until(options: &[&str], body: &str, meanwhile: impl FnOnce(Pid, &Path)) -> Self {
        let directory = TempDir::new().unwrap();
        let output = directory.path().join("output");
        let file = fs::File::create(&output).unwrap();
        let mut hydra = Command::new("mpiexec.hydra")
            .args(options)
            .arg(env::current_exe().unwrap())
            .args(["--exact", body, "--ignored", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .process_group(0)
            .spawn()
            .unwrap();
        let group = Pid::from_child(&hydra);
        meanwhile(group, directory.path());
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            match hydra.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    let _ = kill_process_group(group, Signal::KILL);
                    hydra.wait().unwrap();
                    panic!("{body} hung: {}", fs::read_to_string(output).unwrap());
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let text = fs::read_to_string(output).unwrap();
        assert_no_segment_has_a_name();
        Self { directory, status, text }
    }

    /// Returns the ranks that have ended.
    fn done(&self) -> Vec<u32> {
        let is_done = |rank: &u32| self.directory.path().join(format!("done.{rank}")).exists();
        (0..64).filter(is_done).collect()
    }

    #[track_caller]
    fn assert_all_done(&self, ranks: u32) {
        assert!(self.status.success(), "{}: {}", self.status, self.text);
        assert_eq!(self.done(), (0..ranks).collect::<Vec<_>>(), "{}", self.text);
    }
}

fn directory() -> std::path::PathBuf {
    env::var_os(DIRECTORY).expect("started by a test of this file").into()
}

/// Joins the job. The process aborts when this rank panics, because unwinding would leave the job
/// in good order.
fn join() -> World {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        say(info);
        std::process::exit(101);
    }));
    let world = World::init().expect("the rank joins its job");
    fs::write(directory().join(format!("pid.{}", world.rank())), std::process::id().to_string())
        .unwrap();
    world
}

/// Leaves the job, and reports that this rank has come so far.
fn leave(world: World) {
    let done = directory().join(format!("done.{}", world.rank()));
    world.finalize().expect("the rank leaves in good order");
    fs::write(done, "").unwrap();
}

/// Asserts that every rank gets the descriptor of the first rank.
fn share(world: &World) {
    let memory = || Ok(rustix::fs::memfd_create("device", MemfdFlags::CLOEXEC)?);
    let file = world.share("device", memory).unwrap();
    rustix::io::pwrite(&file, &[1], u64::from(world.rank())).unwrap();
    world.share("written", memory).unwrap();
    let mut all = vec![0; world.size() as usize + 1];
    assert_eq!(rustix::io::pread(&file, &mut all, 0), Ok(world.size() as usize));
}

#[test]
#[ignore = "needs hydra: cargo xtask launchers"]
fn hydra_starts_ranks_that_talk() {
    Hydra::run(&["-n", "4"], "rank_that_talks").assert_all_done(4);
    Hydra::run(&["-n", "1"], "rank_that_talks").assert_all_done(1);
}

#[test]
#[ignore = "needs hydra: cargo xtask launchers"]
fn hydra_starts_many_ranks() {
    Hydra::run(&["-n", "24"], "rank_that_meets").assert_all_done(24);
}

#[test]
#[ignore = "a rank"]
fn rank_that_talks() {
    let world = join();
    assert_eq!(world.nodes().count(), 1);
    if world.size() > 1 {
        traffic::run(&world, 0, 3, 200);
    }
    share(&world);
    world.endpoint().barrier().unwrap();
    leave(world);
}

#[test]
#[ignore = "a rank"]
fn rank_that_meets() {
    let world = join();
    world.endpoint().barrier().unwrap();
    leave(world);
}

#[test]
#[ignore = "needs hydra: cargo xtask launchers"]
fn hydra_deals_ranks_out_to_nodes() {
    for (ranks_on_each, expected) in
        [("2", "5 ranks on 2 nodes: 0-1+4, 2-3"), ("1", "5 ranks on 2 nodes: 0+2+4, 1+3")]
    {
        let hosts = ["-launcher", "fork", "-hosts", "one,two", "-ppn", ranks_on_each, "-n", "5"];
        let job = Hydra::run(&hosts, "rank_on_one_of_two_nodes");
        job.assert_all_done(5);
        assert_eq!(job.text.matches(expected).count(), 5, "{}", job.text);
    }
}

#[test]
#[ignore = "a rank"]
fn rank_on_one_of_two_nodes() {
    let world = join();
    println!("\n{}", world.nodes());
    assert_eq!(world.node_of(world.rank()), Some(world.node()));
    let here: Vec<_> = world.nodes().ranks_on(world.node()).collect();
    world.endpoint().group(&here).unwrap().barrier().unwrap();
    // The descriptor also works across ranks, by any path.
    let mut ranks = [1_u32];
    world.endpoint().allreduce(&mut ranks, strait::Op::Sum).unwrap();
    assert_eq!(ranks, [5]);
    share(&world);
    leave(world);
}

#[test]
#[ignore = "needs hydra: cargo xtask launchers"]
fn hydra_hears_of_an_abort() {
    let job = Hydra::run(&["-n", "3"], "rank_that_aborts");
    assert!(
        job.status.code() == Some(7) || job.status.signal().is_some(),
        "{}: {}",
        job.status,
        job.text
    );
    assert!(job.done().is_empty(), "{}", job.text);
}

#[test]
#[ignore = "a rank"]
fn rank_that_aborts() {
    let world = join();
    if world.rank() == 1 {
        world.abort(7);
    }
    // Receives until hydra ends this rank, or the error arrives.
    while world.endpoint().recv(&mut [0_u8], 1, 0).is_ok() {}
    std::thread::sleep(LIMIT);
    leave(world);
}

/// A shell stands between hydra and each rank, and hides the death until the others have ended.
/// They learn of it without a launcher's help.
#[test]
#[ignore = "needs hydra: cargo xtask launchers"]
fn hydra_need_not_report_a_death() {
    let script = "\"$@\" || until test -e $STRAIT_TEST_DIRECTORY/done.0 \
        && test -e $STRAIT_TEST_DIRECTORY/done.1 && test -e $STRAIT_TEST_DIRECTORY/done.2; \
        do sleep 0.01; done";
    let job = Hydra::run(&["-n", "4", "sh", "-c", script, "sh"], "rank_that_learns_of_a_death");
    assert_eq!(job.done(), [0, 1, 2], "{}", job.text);
}

#[test]
#[ignore = "a rank"]
fn rank_that_learns_of_a_death() {
    let world = join();
    if world.rank() == 3 {
        die();
    }
    let error = world.endpoint().recv(&mut [0_u8], 3, 0).unwrap_err();
    assert!(matches!(error, Error::Fault(Fault::PeerFailed { rank: 3, .. })), "{error}");
    let others = world.endpoint().group(&[0, 1, 2]).unwrap();
    others.barrier().unwrap();
    drop(others);
    leave(world);
}

/// Kills hydra and its proxy with the ranks in the middle of their traffic: no process and no file
/// remains.
#[test]
#[ignore = "needs hydra: cargo xtask launchers"]
fn hydra_killed_leaves_nothing() {
    let (mut ranks, mut held) = (Vec::new(), Vec::new());
    Hydra::run_until(&["-n", "3"], "rank_that_never_ends", |hydra, directory| {
        let deadline = Instant::now() + LIMIT;
        while ranks.len() < 3 {
            assert!(Instant::now() < deadline, "the ranks join");
            std::thread::sleep(Duration::from_millis(5));
            let pid =
                |rank| fs::read_to_string(directory.join(format!("pid.{rank}"))).ok()?.parse().ok();
            ranks = (0..3).filter_map(pid).filter_map(Pid::from_raw).collect();
        }
        held = ranks.iter().flat_map(|rank| sockets_of(*rank)).collect();
        kill_process_group(hydra, Signal::KILL).unwrap();
    });
    assert!(!held.is_empty(), "each has its launcher's");
    let deadline = Instant::now() + LIMIT;
    while ranks.iter().any(|rank| test_kill_process(*rank).is_ok()) {
        assert!(Instant::now() < deadline, "ranks outlive their launcher");
        std::thread::sleep(Duration::from_millis(5));
    }
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    let numbers = sockets.lines().filter_map(|line| line.split_whitespace().nth(6));
    let left: Vec<_> = numbers.filter(|number| held.iter().any(|it| it == number)).collect();
    assert!(left.is_empty(), "sockets {left:?} outlive their ranks");
}

/// Returns the numbers of a process's sockets. Those of other jobs on this machine may come and go.
fn sockets_of(process: Pid) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).unwrap();
    let names = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    let number = |name: std::path::PathBuf| {
        Some(name.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    names.filter_map(number).collect()
}

#[test]
#[ignore = "a rank"]
fn rank_that_never_ends() {
    let world = join();
    loop {
        traffic::run(&world, 0, 5, 1000);
    }
}
