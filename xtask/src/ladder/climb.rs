//! One rung as a process of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::outcome::{self, Answer, Climbed};
use super::rungs::Rung;
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

/// Runs a rung, prints its output when it has ended, and returns its result.
pub(super) fn climb(shell: &Shell, folder: &Path, rung: &Rung) -> Climbed {
    let Rung { name, proves, .. } = *rung;
    eprintln!("== {name} begins");
    let start = Instant::now();
    let (log, answer) = process(shell, folder, name, rung.command);
    let wall = start.elapsed();
    eprintln!("\n== {name}: {proves}\n{}", log.trim_end());
    let missing = || Answer {
        stop: Some(Stop::Failed("its process ended without a result".into())),
        processors: wall,
    };
    let Answer { stop, processors } = answer.unwrap_or_else(missing);
    match &stop {
        None => eprintln!("== {name} passed in {:.0} s", wall.as_secs_f64()),
        Some(Stop::Failed(why)) => eprintln!("== {name} FAILED: {why}"),
        Some(Stop::NotRun(absence)) => eprintln!("== {name} NOT RUN: {absence}"),
    }
    Climbed { name, result: stop.map_or(Ok(()), Err), wall, processors }
}

/// Downloads what later rungs need. Each of them reports by itself what it does not find.
pub(super) fn fetch(shell: &Shell, folder: &Path) {
    process(shell, folder, FETCH, FETCH);
}

/// Runs this program with the words of `command`. Returns its output, and its answer if it has
/// given one.
fn process(shell: &Shell, folder: &Path, name: &str, command: &str) -> (String, Option<Answer>) {
    let (log, answer) = (folder.join(format!("{name}.log")), folder.join(format!("{name}.json")));
    let _ = fs::remove_file(&answer);
    // A build may replace the file of this program meanwhile, but not what this path names.
    let verbose = if shell.is_verbose() { "--verbose " } else { "" };
    let step = shell.step("/proc/self/exe", &format!("{verbose}{command}")).env(ANSWER, &answer);
    let ended = File::create(&log).and_then(|log| Step::spawn_into(step, log)?.wait());
    match ended {
        Ok(_) => (fs::read_to_string(&log).unwrap_or_default(), outcome::read(&answer)),
        Err(error) => (format!("{}: {error}", log.display()), None),
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
