//! Tests of `strait run` with real processes: shells as ranks, which do not use Strait.

use core::time::Duration;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use strait::topology::allowed_cpus;

/// Time after which a program counts as hung: it is killed, and the test fails.
const TIME_LIMIT: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// Returns a command that runs `script` in a shell as each rank.
fn ranks(options: &[&str], script: &str) -> Command {
    run(options, &["sh", "-c", script])
}

fn run(options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.arg("run").args(options).args(program);
    command
}

/// A started launcher, which is killed when the test ends.
struct Running {
    launcher: Child,
    stdout: fs::File,
    stderr: fs::File,
}

/// The exit status and output of a launcher.
struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Running {
    /// Starts a launcher. The output goes to files, so that no pipe can fill up or stay open.
    fn start(command: &mut Command) -> Self {
        let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let launcher = command
            .stdout(stdout.try_clone().unwrap())
            .stderr(stderr.try_clone().unwrap())
            .spawn()
            .unwrap();
        Self { launcher, stdout, stderr }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.launcher), signal).unwrap();
    }

    fn end(mut self) -> Ended {
        let process = pidfd_open(Pid::from_child(&self.launcher), PidfdFlags::empty()).unwrap();
        let in_time = ends(&process);
        if !in_time {
            self.launcher.kill().unwrap();
        }
        let status = self.launcher.wait().unwrap();
        let (stdout, stderr) = (contents(&mut self.stdout), contents(&mut self.stderr));
        assert!(in_time, "`strait run` hung.\nstdout: {stdout}\nstderr: {stderr}");
        Ended { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has been reaped already unless the test failed.
        let _ = self.launcher.kill().and_then(|()| self.launcher.wait());
    }
}

impl Ended {
    fn of(command: &mut Command) -> Self {
        Running::start(command.stdin(Stdio::null())).end()
    }

    fn code(&self) -> Option<i32> {
        self.status.code()
    }

    fn sorted_lines(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.stdout.lines().collect();
        lines.sort_unstable();
        lines
    }

    #[track_caller]
    fn expect_success(self) -> Self {
        assert_eq!((self.code(), self.stderr.as_str()), (Some(0), ""), "stdout: {}", self.stdout);
        self
    }
}

fn contents(file: &mut fs::File) -> String {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Returns whether the process ends within the time limit.
fn ends(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut fds, Some(&TIME_LIMIT))).unwrap() == 1
}

/// Returns the processes that wrote their numbers into the files of `folder`, once there are
/// `count`.
fn processes(folder: &Path, count: usize) -> Vec<OwnedFd> {
    for _ in 0..6000 {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let pids: Vec<i32> =
            files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).collect();
        if pids.len() == count {
            let open = |pid| pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
            return pids.into_iter().map(open).collect();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{count} processes did not report");
}

/// Returns a shell script that reports its process and a child, and never ends by itself.
fn endless(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "sleep 1000 & echo $! > {folder}/child.$STRAIT_RANK
         echo $$ > {folder}/rank.$STRAIT_RANK
         wait"
    )
}

/// Returns a shell script that reports its process, without a child, and never ends by itself.
fn endless_alone(folder: &Path) -> String {
    format!("echo $$ > {}/$STRAIT_RANK; exec sleep 1000", folder.display())
}

#[test]
fn ranks_get_their_rank_and_size() {
    let ended =
        Ended::of(&mut ranks(&["-n", "3"], "echo $STRAIT_RANK of $STRAIT_SIZE")).expect_success();
    assert_eq!(ended.sorted_lines(), ["0 of 3", "1 of 3", "2 of 3"]);
}

#[test]
fn the_code_of_the_failed_rank_is_the_job_s() {
    let ended = Ended::of(&mut ranks(&["-n", "3"], "[ $STRAIT_RANK != 1 ] || exit 7"));
    assert_eq!(ended.code(), Some(7));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.starts_with("strait: rank 1 (process "), "{}", ended.stderr);
    assert!(ended.stderr.contains("exit status: 7"), "{}", ended.stderr);
}

#[test]
fn a_signal_counts_as_128_and_its_number() {
    let ended = Ended::of(&mut ranks(&["-n", "2"], "[ $STRAIT_RANK != 0 ] || kill -9 $$"));
    assert_eq!(ended.code(), Some(137));
    assert!(
        ended.stderr.contains("rank 0 ") && ended.stderr.contains("SIGKILL"),
        "{}",
        ended.stderr
    );
}

#[test]
fn lines_are_labelled_and_the_streams_kept_apart() {
    let script = "printf 'one\\ntwo'; echo trouble >&2";
    let ended = Ended::of(&mut ranks(&["-n", "2", "--label"], script));
    assert_eq!(ended.code(), Some(0));
    assert_eq!(ended.sorted_lines(), ["[0] one", "[0] two", "[1] one", "[1] two"]);
    let mut errors: Vec<_> = ended.stderr.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["[0] trouble", "[1] trouble"]);
}

#[test]
fn much_output_arrives_complete() {
    let ended =
        Ended::of(&mut ranks(&["-n", "4", "--label"], "seq -f %08g 1 20000")).expect_success();
    let lines = ended.sorted_lines();
    assert_eq!(lines.len(), 80_000);
    assert_eq!((lines[0], lines[79_999]), ("[0] 00000001", "[3] 00020000"));
    assert!(lines.iter().all(|line| line.len() == 12));
}

#[test]
fn rank_0_reads_the_standard_input() {
    let mut running = Running::start(run(&["-n", "3", "--label"], &["cat"]).stdin(Stdio::piped()));
    running.launcher.stdin.take().unwrap().write_all(b"for rank 0\n").unwrap();
    assert_eq!(running.end().expect_success().stdout, "[0] for rank 0\n");
}

#[test]
fn a_failed_rank_ends_the_job_with_all_its_processes() {
    let folder = tempfile::tempdir().unwrap();
    let endless = endless(folder.path());
    let trigger = folder.path().join("go");
    let go = trigger.display();
    let script = format!(
        "if [ $STRAIT_RANK = 2 ]; then until [ -e {go} ]; do sleep 0.01; done; exit 3; fi
         {endless}"
    );
    let running = Running::start(&mut ranks(&["-n", "3"], &script));
    let processes = processes(folder.path(), 4);
    fs::write(trigger, "").unwrap();
    let ended = running.end();
    assert_eq!(ended.code(), Some(3), "the first to fail, not those ended because of it");
    assert!(ended.stderr.contains("rank 2 ") && ended.stderr.contains("the job was ended"));
    assert!(processes.iter().all(ends));
}

#[test]
fn a_killed_rank_ends_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(&mut ranks(&["-n", "2"], &endless(folder.path())));
    let processes = processes(folder.path(), 4);
    let pid = fs::read_to_string(folder.path().join("rank.1")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let ended = running.end();
    assert_eq!(ended.code(), Some(137));
    assert!(ended.stderr.contains(&format!("rank 1 (process {pid})")), "{}", ended.stderr);
    assert!(processes.iter().all(ends));
}

#[test]
fn a_rank_that_ignores_the_request_to_end_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let endless = endless(folder.path());
    let script = format!("[ $STRAIT_RANK != 1 ] || exit 4; trap '' TERM; {endless}");
    let ended = Ended::of(&mut ranks(&["-n", "2"], &script));
    assert_eq!(ended.code(), Some(4));
}

#[test]
fn a_job_that_keeps_going_outlives_a_failed_rank() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("failed");
    let failed = file.display();
    let script = format!(
        "if [ $STRAIT_RANK = 0 ]; then echo $$ > {failed}.new; mv {failed}.new {failed}; exit 5; fi
         until [ -e {failed} ]; do sleep 0.01; done
         while kill -0 $(cat {failed}) 2>/dev/null; do sleep 0.01; done
         echo still here"
    );
    let ended = Ended::of(&mut ranks(&["-n", "2", "--keep-going"], &script));
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(5), "still here\n"));
    assert!(!ended.stderr.contains("the job was ended"), "{}", ended.stderr);
}

#[test]
fn a_killed_launcher_leaves_no_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(&mut ranks(&["-n", "4"], &endless_alone(folder.path())));
    let processes = processes(folder.path(), 4);
    running.signal(Signal::KILL);
    assert!(processes.iter().all(ends));
}

#[test]
fn signals_are_forwarded() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("trap 'exit 9' TERM; {}", endless(folder.path()));
    let running = Running::start(&mut ranks(&["-n", "2"], &script));
    let processes = processes(folder.path(), 4);
    running.signal(Signal::TERM);
    assert_eq!(running.end().code(), Some(9));
    assert!(processes.iter().all(ends));
}

#[test]
fn the_second_interrupt_kills() {
    let folder = tempfile::tempdir().unwrap();
    let caught = folder.path().join("caught");
    let report = folder.path().join("pids");
    fs::create_dir(&report).unwrap();
    // The shell runs the trap only after its current child has ended, so it must wait in pieces.
    let script = format!(
        "trap 'echo > {}' INT; echo $$ > {}/$STRAIT_RANK; while :; do sleep 0.02; done",
        caught.display(),
        report.display()
    );
    // A test runner in the background ignores the signal, and so would the launcher.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_strait"), "run", "-n", "1"]);
    let running = Running::start(command.args(["sh", "-c", &script]).stdin(Stdio::null()));
    let processes = processes(&report, 1);
    running.signal(Signal::INT);
    while !caught.exists() && running_still(&processes[0]) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(caught.exists(), "the first interrupt is the rank's to handle");
    running.signal(Signal::INT);
    assert_eq!(running.end().code(), Some(137));
}

fn running_still(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() == 0
}

#[test]
fn many_ranks_start_under_a_low_limit_of_descriptors_and_keep_it() {
    let strait = env!("CARGO_BIN_EXE_strait");
    let inner = "run -n 64 --label --cells 2 --cell-bytes 1024 sh -c 'ulimit -Sn'";
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -Sn 100; exec {strait} {inner}")]);
    let ended = Ended::of(&mut shell).expect_success();
    let mut expected: Vec<_> = (0..64).map(|rank| format!("[{rank}] 100")).collect();
    expected.sort_unstable();
    assert_eq!(ended.sorted_lines(), expected);
}

#[test]
fn too_few_descriptors_are_an_error_with_the_numbers() {
    let strait = env!("CARGO_BIN_EXE_strait");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n 100; exec {strait} run -n 64 true")]);
    let ended = Ended::of(&mut shell);
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("257 open descriptors"), "{}", ended.stderr);
    assert!(ended.stderr.contains("limit is 100"), "{}", ended.stderr);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let ended = Ended::of(&mut run(&["-n", "2"], &["no-such-program"]));
    assert_eq!(ended.code(), Some(1));
    assert!(
        ended
            .stderr
            .starts_with("strait: cannot start \"no-such-program\" as rank 0: No such file")
    );
    assert!(ended.stderr.contains("PATH"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

#[test]
fn a_segment_that_cannot_be_is_refused() {
    let mut huge = run(&["-n", "256", "--cells", "1048576", "--cell-bytes", "16777216"], &["true"]);
    let ended = Ended::of(&mut huge);
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("shared memory is short"), "{}", ended.stderr);
    assert!(ended.stderr.contains("MiB needed"), "{}", ended.stderr);

    let ended = Ended::of(&mut run(&["-n", "2", "--cell-bytes", "1000"], &["true"]));
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("1000 bytes is not a multiple of 64"), "{}", ended.stderr);
}

#[test]
fn usage_errors_have_their_own_code() {
    assert_eq!(Ended::of(&mut run(&["-n", "0"], &["true"])).code(), Some(2));
    assert_eq!(Ended::of(&mut run(&["-n", "2"], &[])).code(), Some(2));
    assert_eq!(Ended::of(&mut run(&[], &["true"])).code(), Some(2));
}

#[test]
fn arguments_of_the_program_are_the_program_s() {
    let ended = Ended::of(&mut run(&["-n", "1"], &["echo", "--label", "-n", "5", "--"]));
    assert_eq!(ended.expect_success().stdout, "--label -n 5 --\n");
}

#[test]
fn ranks_are_bound_to_the_processors_allowed() {
    let cpus = allowed_cpus().unwrap();
    let program = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    let ended = Ended::of(&mut run(&["-n", "3", "--bind", "--label"], &program)).expect_success();
    let expected: Vec<_> = (0..3)
        .map(|rank| format!("[{rank}] Cpus_allowed_list:\t{}", cpus[rank % cpus.len()]))
        .collect();
    assert_eq!(ended.sorted_lines(), expected);
}

#[test]
fn a_rank_inherits_its_socket_and_nothing_else_of_the_launcher() {
    let script =
        "readlink /proc/$$/fd/$STRAIT_BOOT_FD; ls -l /proc/$$/fd | grep -c -e memfd: -e pidfd";
    let ended = Ended::of(&mut ranks(&["-n", "3"], &format!("{script} || true"))).expect_success();
    let lines = ended.sorted_lines();
    assert_eq!(lines[..3], ["0", "0", "0"]);
    assert!(lines[3..].iter().all(|line| line.starts_with("socket:")), "{lines:?}");
}

#[test]
fn nothing_has_a_name_in_the_file_system() {
    let ours = || {
        let entries = fs::read_dir("/dev/shm").into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("strait")).collect::<Vec<_>>()
    };
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(&mut ranks(&["-n", "2"], &endless_alone(folder.path())));
    let processes = processes(folder.path(), 2);
    assert_eq!(ours(), [""; 0], "while the job runs");
    running.signal(Signal::KILL);
    assert!(processes.iter().all(ends));
    assert_eq!(ours(), [""; 0], "after it was killed");
}
