//! Waits for the process of a rung, shows meanwhile that it runs, and ends it at its limit.

use core::time::Duration;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::Child;
use std::time::Instant;

use wait_timeout::ChildExt as _;

use super::descendants::{self, Mark};

/// Time between two lines that tell that a rung still runs.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// Bytes at the end of an output in which the last line is looked for.
const TAIL_BYTES: u64 = 4096;

/// Characters of the last line that are shown.
const SHOWN_CHARS: usize = 160;

/// The end of a process by its time limit.
#[derive(Debug)]
pub(super) struct Overrun {
    /// The limit that was reached.
    limit: Duration,
    /// The commands of the processes that were killed.
    killed: Vec<String>,
}

impl Overrun {
    /// Returns why the rung failed, in one line.
    pub(super) fn why(&self) -> String {
        let Self { limit, killed } = self;
        format!("no end after {}; killed with its {} processes", minutes(*limit), killed.len())
    }

    /// Returns the commands of the killed processes, one a line. They show what hung.
    pub(super) fn processes(&self) -> String {
        self.killed.iter().map(|command| format!("killed: {command}\n")).collect()
    }
}

/// Waits until `child` ends. `log` is its output, of which each heartbeat shows the last line.
///
/// After `limit` the child is killed together with all processes that it or its descendants
/// started, which `mark` makes known. Then the result says so.
pub(super) fn watch(
    name: &str,
    child: &mut Child,
    log: &Path,
    mark: &Mark<'_>,
    limit: Duration,
) -> io::Result<Option<Overrun>> {
    let start = Instant::now();
    loop {
        let left = limit.saturating_sub(start.elapsed());
        if child.wait_timeout(left.min(HEARTBEAT))?.is_some() {
            return Ok(None);
        }
        if start.elapsed() >= limit {
            let killed = descendants::kill(child.id(), mark);
            child.wait()?;
            return Ok(Some(Overrun { limit, killed }));
        }
        let last = last_line(log).unwrap_or_default();
        eprintln!("== {name} runs since {}; last: {last}", minutes(start.elapsed()));
    }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

/// Returns the last line of `log` that is not blank, cut to [`SHOWN_CHARS`].
fn last_line(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let tail = String::from_utf8_lossy(&tail);
    let line = tail.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no output yet");
    Ok(line.trim().chars().take(SHOWN_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Command, Stdio};

    use super::*;

    /// The commands of all processes that are alive and have `word` as an argument.
    fn alive_with(word: &str) -> usize {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let commands = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        commands.filter(|line| line.split(|byte| *byte == 0).any(|a| a == word.as_bytes())).count()
    }

    #[test]
    fn a_rung_that_hangs_ends_with_all_its_processes() {
        let log = std::env::temp_dir().join(format!("strait-watch-{}", std::process::id()));
        let word = format!("9{:09}", std::process::id());
        // One child is in a session of its own, and the parent of another has ended.
        let script = format!("echo begun; setsid sleep {word} & (sleep {word} &); sleep {word}");
        let mark = Mark { name: "XTASK_TEST_MARK", value: log.as_os_str() };
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .env(mark.name, mark.value)
            .stdout(File::create(&log).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while alive_with(&word) < 3 {
            std::thread::yield_now();
        }
        let end = watch("rung", &mut child, &log, &mark, Duration::from_millis(1)).unwrap();
        let overrun = end.expect("an end by the limit");
        assert!(overrun.why().contains("no end after 0 s"), "{}", overrun.why());
        assert_eq!(overrun.processes().matches(&format!("sleep {word}\n")).count(), 3);
        assert_eq!(alive_with(&word), 0);
        assert_eq!(last_line(&log).unwrap(), "begun");
        fs::remove_file(&log).unwrap();
    }

    #[test]
    fn what_a_rung_has_left_is_killed_after_a_while() {
        let word = format!("8{:09}", std::process::id());
        let mark = Mark { name: "XTASK_TEST_LEFT", value: word.as_ref() };
        let script = format!("(setsid sleep {word} &); (sleep 0.1 &)");
        let mut child =
            Command::new("sh").args(["-c", &script]).env(mark.name, mark.value).spawn().unwrap();
        child.wait().unwrap();
        let killed = descendants::kill_left(&mark);
        assert!(killed.len() == 1 && killed[0].ends_with(&format!("sleep {word}")), "{killed:?}");
        assert_eq!(alive_with(&word), 0);
        assert!(descendants::kill_left(&mark).is_empty());
    }

    #[test]
    fn a_rung_that_ends_in_time_is_left_alone() {
        let mark = Mark { name: "XTASK_TEST_MARK", value: "".as_ref() };
        let mut child = Command::new("true").spawn().unwrap();
        let limit = Duration::from_secs(600);
        assert!(watch("rung", &mut child, Path::new("none"), &mark, limit).unwrap().is_none());
    }
}
