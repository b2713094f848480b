//! The outcome of one rung, which its process writes to a file for the ladder.

use core::time::Duration;
use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::stop::Stop;

/// The result of one rung.
#[derive(Debug)]
pub(super) struct Climbed {
    pub(super) name: &'static str,
    pub(super) result: Result<(), Stop>,
    /// Time from its start to its end.
    pub(super) wall: Duration,
    /// Processor time of all its processes, in user mode and in the kernel.
    pub(super) processors: Duration,
    /// The end of the output of a rung that failed.
    pub(super) last_words: String,
}

#[cfg(test)]
impl Climbed {
    /// Makes the result of a rung that passed in no time.
    pub(super) const fn new(name: &'static str) -> Self {
        let (wall, processors) = (Duration::ZERO, Duration::ZERO);
        Self { name, result: Ok(()), wall, processors, last_words: String::new() }
    }
}

/// What the process of a rung writes when it ends.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Answer {
    /// Why it did not pass.
    pub(super) stop: Option<Stop>,
    pub(super) processors: Duration,
}

/// Writes `value` to `file`.
pub(super) fn write(file: &Path, value: &impl Serialize) -> Result<(), Stop> {
    let text = serde_json::to_string(value).map_err(|error| Stop::Failed(error.to_string()))?;
    fs::write(file, text).map_err(|error| Stop::io(file, &error))
}

/// Reads the value in `file`. `None` if there is none that can be read.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
}

/// Returns the processor time of this process and of its descendants that have ended, in the
/// format of `/proc/self/stat`. The name of the program, in parentheses, may contain blanks.
pub(super) fn processor_time(stat: &str) -> Option<Duration> {
    /// Ticks in a second: a constant of the interface, whatever the kernel counts in.
    const TICKS: u64 = 100;
    let (_, fields) = stat.rsplit_once(") ")?;
    // utime, stime, cutime and cstime are the fields 14 to 17. The first here is the third.
    let ticks = fields.split(' ').skip(11).take(4).map(str::parse::<u64>);
    let ticks = ticks.sum::<Result<u64, _>>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Absence;

    #[test]
    fn an_answer_survives_its_file() {
        let file = std::env::temp_dir().join(format!("strait-answer-{}", std::process::id()));
        let absence = Absence { what: "no lathe".into(), remedy: Some("buy one".into()) };
        for stop in [None, Some(Stop::Failed("why".into())), Some(Stop::NotRun(absence))] {
            let answer = Answer { stop, processors: Duration::from_millis(1230) };
            write(&file, &answer).unwrap();
            assert_eq!(read::<Answer>(&file), Some(answer));
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(read::<Answer>(&file), None);
    }

    #[test]
    fn processor_time_includes_the_descendants() {
        let stat = "7 (a b) c) R 1 7 7 0 -1 4194304 1 2 3 4 100 20 3000 400 20 0 1 0 5 6";
        assert_eq!(processor_time(stat), Some(Duration::from_millis(35_200)));
        assert_eq!(processor_time("7 (x"), None);
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(processor_time(&own).is_some(), "{own}");
    }
}
