//! One rung as a process of its own.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::descendants::{self, Mark};
use super::outcome::{self, Answer, Climbed};
use super::report;
use super::rungs::Rung;
use super::watch;
use crate::setup::Tool;
use crate::shell::{Shell, Step};
use crate::stop::{Absence, Stop};

/// The variable that names to a process the file for its answer. Names that begin with `STRAIT_`
/// are those of the library, which warns of others.
const ANSWER: &str = "XTASK_ANSWER";

/// The file with the tools that could not be installed, beside the answers.
pub(super) const ABSENT: &str = "absent.json";

/// The command that downloads what rungs need later.
const FETCH: &str = "fetch";

/// Time limit of a rung and of the downloads. The longest takes a third of it on two processors
/// that are not busy otherwise.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Runs a rung, prints its output when it has ended, and returns its result.
///
/// A rung that has not ended after [`LIMIT`] or at `deadline` is killed and counts as failed.
pub(super) fn climb(shell: &Shell, folder: &Path, rung: &Rung, deadline: Instant) -> Climbed {
    let Rung { name, proves, .. } = *rung;
    eprintln!("== {name} begins");
    let start = Instant::now();
    let (log, answer) = process(shell, folder, [name, rung.command], deadline);
    let wall = start.elapsed();
    eprintln!("\n== {name}: {proves}\n{}", log.trim_end());
    let Answer { stop, processors } =
        answer.unwrap_or_else(|why| Answer { stop: Some(Stop::Failed(why)), processors: wall });
    // The process of a rung has printed why it failed, too.
    let failed = matches!(stop, Some(Stop::Failed(_)));
    let last_words = if failed { report::last_words(&log) } else { String::new() };
    match &stop {
        None => eprintln!("== {name} passed in {:.0} s", wall.as_secs_f64()),
        Some(Stop::Failed(why)) => eprintln!("== {name} FAILED: {why}"),
        Some(Stop::NotRun(absence)) => eprintln!("== {name} NOT RUN: {absence}"),
    }
    Climbed { name, result: stop.map_or(Ok(()), Err), wall, processors, last_words }
}

/// Downloads what later rungs need. Each of them reports by itself what it does not find.
pub(super) fn fetch(shell: &Shell, folder: &Path, deadline: Instant) {
    let (log, answer) = process(shell, folder, [FETCH; 2], deadline);
    if let Err(why) = answer {
        eprintln!("\n== {FETCH}\n{}\n== {FETCH} FAILED: {why}", log.trim_end());
    }
}

/// Runs this program with the words of `command`. Returns its output, and its answer or the reason
/// why it has given none.
fn process(
    shell: &Shell,
    folder: &Path,
    [name, command]: [&str; 2],
    deadline: Instant,
) -> (String, Result<Answer, String>) {
    let limit = LIMIT.min(deadline.saturating_duration_since(Instant::now()));
    if limit.is_zero() {
        return (String::new(), Err("not begun: the time of the whole ladder is over".into()));
    }
    let (log, answer) = (folder.join(format!("{name}.log")), folder.join(format!("{name}.json")));
    let _ = fs::remove_file(&answer);
    // A build may replace the file of this program meanwhile, but not what this path names.
    let verbose = if shell.is_verbose() { "--verbose " } else { "" };
    let step = shell.step("/proc/self/exe", &format!("{verbose}{command}")).env(ANSWER, &answer);
    let mark = Mark { name: ANSWER, value: answer.as_os_str() };
    let ended = File::create(&log).and_then(|file| {
        let mut child = Step::spawn_into(step, file)?;
        watch::watch(name, &mut child, &log, &mark, limit)
    });
    let said = || String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    match ended {
        Ok(None) => {
            let answer = outcome::read(&answer);
            let left = descendants::kill_left(&mark);
            let left: String = left
                .iter()
                .map(|command| format!("\nleft behind, and killed: {command}"))
                .collect();
            (said() + &left, answer.ok_or_else(|| "its process ended without a result".into()))
        }
        Ok(Some(overrun)) => {
            (format!("{}\n{}", said().trim_end(), overrun.processes()), Err(overrun.why()))
        }
        Err(error) => (String::new(), Err(format!("{}: {error}", log.display()))),
    }
}

/// Returns the tools that the ladder which started this process could not install.
pub(crate) fn absences() -> BTreeMap<Tool, Absence> {
    let file = own_answer().map(|answer| answer.with_file_name(ABSENT));
    file.and_then(|file| outcome::read(&file)).unwrap_or_default()
}

/// Tells the result of this process to the ladder, if one started it.
pub(crate) fn answer(result: &Result<(), Stop>) {
    let Some(file) = own_answer() else { return };
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let processors = outcome::processor_time(&stat).unwrap_or_default();
    // A missing answer is a failure of the rung.
    let _ = outcome::write(&file, &Answer { stop: result.clone().err(), processors });
}

fn own_answer() -> Option<PathBuf> {
    std::env::var_os(ANSWER).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::rungs::RUNGS;

    #[test]
    fn no_rung_begins_after_the_end_of_the_ladder() {
        let shell = Shell::new(false);
        let climbed = climb(&shell, Path::new("no such folder"), &RUNGS[0], Instant::now());
        let Err(Stop::Failed(why)) = climbed.result else { panic!("it did not fail") };
        assert!(why.starts_with("not begun"), "{why}");
    }
}
