//! The closing table.

use core::fmt::Write as _;
use core::time::Duration;

use super::outcome::Climbed;
use crate::stop::Stop;

/// Formats the table, with the time and the processor time of each rung, and lines of totals.
pub(super) fn table(climbed: &[Climbed], wall: Duration) -> String {
    let mut text = format!("\n{:<10} {:<8} {:>8} {:>8}\n", "rung", "result", "wall", "user+sys");
    for rung in climbed {
        let (result, why) = match &rung.result {
            Ok(()) => ("passed", String::new()),
            // The full message was printed where the failure occurred.
            Err(Stop::Failed(why)) => ("FAILED", format!("  {}", why.lines().next().unwrap_or(""))),
            Err(Stop::NotRun(absence)) => ("NOT RUN", format!("  {absence}")),
        };
        line(&mut text, rung.name, result, [rung.wall, rung.processors], &why);
    }
    let processors = climbed.iter().map(|rung| rung.processors).sum();
    line(&mut text, "all", "", [wall, processors], "");
    let count = |wanted: fn(&Result<(), Stop>) -> bool| {
        climbed.iter().filter(|rung| wanted(&rung.result)).count()
    };
    let passed = count(Result::is_ok);
    let failed = count(|result| matches!(result, Err(Stop::Failed(_))));
    let not_run = count(|result| matches!(result, Err(Stop::NotRun(_))));
    let _ = writeln!(text, "\nrungs: {passed} passed, {failed} failed, {not_run} not run");
    text
}

/// Number of lines of a failed rung that are printed again before the table.
const LAST_LINES: usize = 40;

/// Characters of each of them.
const LINE_CHARS: usize = 240;

/// Returns the end of an output.
pub(super) fn last_words(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(LAST_LINES));
    last.map(|line| line.chars().take(LINE_CHARS).chain(['\n']).collect::<String>()).collect()
}

/// Formats the ends of the outputs of all failed rungs, for a reader of only the end of the
/// ladder's output.
pub(super) fn failures(climbed: &[Climbed]) -> String {
    let failed = climbed.iter().filter(|rung| !rung.last_words.is_empty());
    failed
        .map(|rung| format!("\n== {} failed; its last words:\n{}", rung.name, rung.last_words))
        .collect()
}

/// Characters of the beginning, and of the end, of a reason in the last line of all.
const REASON_CHARS: usize = 300;

/// Names the failed rungs with the beginnings and the ends of their reasons, for the last line of
/// all: some readers see no more. A reason begins with the command that failed, and ends with what
/// it said.
pub(super) fn reasons(climbed: &[Climbed]) -> String {
    let reason = |rung: &Climbed| match &rung.result {
        Err(Stop::Failed(why)) => {
            let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(format!("{} ({})", rung.name, both_ends(&why)))
        }
        _ => None,
    };
    climbed.iter().filter_map(reason).collect::<Vec<_>>().join(", ")
}

fn both_ends(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= 2 * REASON_CHARS {
        return text.to_owned();
    }
    let end = characters.len() - REASON_CHARS;
    let halves = [&characters[..REASON_CHARS], &characters[end..]];
    halves.map(|half| half.iter().collect::<String>()).join(" … ")
}

fn line(text: &mut String, name: &str, result: &str, times: [Duration; 2], why: &str) {
    let [wall, processors] = times.map(minutes);
    let _ = writeln!(text, "{name:<10} {result:<8} {wall:>8} {processors:>8}{why}");
}

/// Formats minutes and seconds.
fn minutes(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Absence;

    #[test]
    fn a_failed_rung_has_last_words() {
        let output: String = (0..100).map(|line| format!("line {line}\n\n")).collect();
        let last_words = last_words(&output);
        assert!(last_words.starts_with("line 60\nline 61\n"), "{last_words}");
        let rungs = [Climbed::new("loom"), Climbed { last_words, ..Climbed::new("chaos") }];
        let failures = failures(&rungs);
        assert!(failures.starts_with("\n== chaos failed; its last words:\nline 60"), "{failures}");
        assert!(failures.ends_with("line 99\n"), "{failures}");
    }

    #[test]
    fn the_last_line_has_both_ends_of_a_long_reason() {
        let why = format!("begin {} end", "x".repeat(1000));
        let rung = Climbed { result: Err(Stop::Failed(why)), ..Climbed::new("mpi") };
        let reasons = reasons(&[rung]);
        assert!(reasons.starts_with("mpi (begin xx") && reasons.ends_with("xx end)"), "{reasons}");
        assert_eq!(reasons.matches('x').count(), 2 * REASON_CHARS - 10, "{reasons}");
    }

    #[test]
    fn the_table_has_both_times_and_the_reasons() {
        let absence = Absence { what: "miri is missing".into(), remedy: Some("get it".into()) };
        let climbed = [
            Climbed { wall: Duration::from_millis(61_400), ..Climbed::new("check") },
            Climbed {
                result: Err(Stop::Failed("one\ntwo".into())),
                processors: Duration::from_secs(600),
                ..Climbed::new("loom")
            },
            Climbed { result: Err(Stop::NotRun(absence)), ..Climbed::new("miri") },
        ];
        let table = table(&climbed, Duration::from_secs(90));
        assert!(table.contains("check      passed       1:01     0:00\n"), "{table}");
        assert!(table.contains("loom       FAILED       0:00    10:00  one\n"), "{table}");
        assert!(table.contains("NOT RUN      0:00     0:00  miri is missing; get it"), "{table}");
        assert!(table.contains("all                     1:30    10:00\n"), "{table}");
        assert!(table.ends_with("rungs: 1 passed, 1 failed, 1 not run\n"), "{table}");
    }
}
