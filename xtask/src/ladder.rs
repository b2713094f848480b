//! `cargo xtask test`: runs every rung in order, from the quickest to the slowest.

use core::time::Duration;
use std::time::Instant;

use crate::shell::Shell;
use crate::stop::{Absence, Stop};
use crate::{
    bare, chaos, check, ffi, fuzz, icount, launchers, library, loom, miri, mpi, mutants, no_std,
    sanitize, setup, unit, vm,
};

/// A command that proves something.
struct Rung {
    name: &'static str,
    proves: &'static str,
    run: fn(&Shell) -> Result<(), Stop>,
}

const RUNGS: [Rung; 16] = [
    Rung { name: "check", proves: "formatting, lints, documentation, tidy", run: check::run },
    Rung { name: "unit", proves: "every native test", run: unit::run },
    Rung {
        name: "launchers",
        proves: "programs start under launchers that know nothing of Strait",
        run: launchers::run,
    },
    Rung { name: "mpi", proves: "other MPIs run on Strait, unmodified", run: mpi::run },
    Rung { name: "ffi", proves: "the C interface, from C and C++", run: ffi::run },
    Rung { name: "no-std", proves: "the core needs no system and no allocator", run: no_std::run },
    Rung { name: "bare", proves: "the core works without a system", run: bare::run },
    Rung {
        name: "loom",
        proves: "the atomic algorithms, interleaving by interleaving",
        run: loom::run,
    },
    Rung { name: "mutants", proves: "every memory ordering is needed", run: mutants::run },
    Rung { name: "miri", proves: "the core has no undefined behaviour", run: miri::run },
    Rung { name: "sanitize", proves: "no memory errors, no races", run: sanitize::run },
    Rung {
        name: "fuzz",
        proves: "no bytes of another process do harm",
        run: |shell| fuzz::run(shell, fuzz::SECONDS),
    },
    Rung {
        name: "chaos",
        proves: "survivors of any death go on, with all their data",
        run: |shell| chaos::run(shell, &chaos::LADDER),
    },
    Rung {
        name: "icount",
        proves: "instructions per operation",
        run: |shell| icount::run(shell, false),
    },
    Rung { name: "library", proves: "the C library is linked as promised", run: library::run },
    Rung { name: "vm", proves: "real libibverbs, in a virtual machine", run: vm::run },
];

/// The result of one rung.
struct Climbed {
    name: &'static str,
    result: Result<(), Stop>,
    took: Duration,
}

/// Runs `cargo xtask test`. Goes on after a failed rung, so that one run shows everything.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    // `setup` has already reported tools that cannot be installed. Each rung that needs one reports
    // it again by name.
    let _ = setup::run(shell);
    let climbed: Vec<Climbed> = RUNGS.iter().map(|rung| climb(shell, rung)).collect();
    let strict = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    print!("{}", report(&climbed));
    verdict(&climbed, strict)
}

fn climb(shell: &Shell, rung: &Rung) -> Climbed {
    eprintln!("\n== {}: {}", rung.name, rung.proves);
    let start = Instant::now();
    let result = (rung.run)(shell);
    match &result {
        Ok(()) => {}
        Err(Stop::Failed(why)) => eprintln!("{} FAILED: {why}", rung.name),
        Err(Stop::NotRun(absence)) => eprintln!("{} NOT RUN: {absence}", rung.name),
    }
    Climbed { name: rung.name, result, took: start.elapsed() }
}

/// Formats the closing table, then one line of totals.
fn report(climbed: &[Climbed]) -> String {
    let mut text = format!("\n{:<10} {:<8} {:>8}\n", "rung", "result", "seconds");
    for rung in climbed {
        let (result, why) = match &rung.result {
            Ok(()) => ("passed", String::new()),
            // The full message was printed where the failure occurred.
            Err(Stop::Failed(why)) => ("FAILED", format!("  {}", why.lines().next().unwrap_or(""))),
            Err(Stop::NotRun(absence)) => ("NOT RUN", format!("  {absence}")),
        };
        let seconds = rung.took.as_secs_f64();
        text += &format!("{:<10} {result:<8} {seconds:>8.1}{why}\n", rung.name);
    }
    let count = |wanted: fn(&Result<(), Stop>) -> bool| {
        climbed.iter().filter(|rung| wanted(&rung.result)).count()
    };
    let passed = count(Result::is_ok);
    let failed = count(|result| matches!(result, Err(Stop::Failed(_))));
    let not_run = count(|result| matches!(result, Err(Stop::NotRun(_))));
    text += &format!("\nrungs: {passed} passed, {failed} failed, {not_run} not run\n");
    text
}

/// Fails if a rung failed. In continuous integration (`strict`) it also fails if a rung was not run
/// for want of a tool that can be installed: an unattended run must not pass because a tool is
/// missing.
fn verdict(climbed: &[Climbed], strict: bool) -> Result<(), Stop> {
    let named = |wanted: &dyn Fn(&Stop) -> bool| {
        let is_wanted = |rung: &&Climbed| rung.result.as_ref().is_err_and(wanted);
        climbed.iter().filter(is_wanted).map(|rung| rung.name).collect::<Vec<_>>().join(", ")
    };
    let failed = named(&|stop| matches!(stop, Stop::Failed(_)));
    if !failed.is_empty() {
        return Err(Stop::Failed(format!("failed: {failed}")));
    }
    let remediable = |stop: &Stop| matches!(stop, Stop::NotRun(Absence { remedy: Some(_), .. }));
    let owed = named(&remediable);
    if strict && !owed.is_empty() {
        return Err(Stop::Failed(format!("not run, which CI counts as a failure: {owed}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn climbed(result: Result<(), Stop>) -> Climbed {
        Climbed { name: "loom", result, took: Duration::from_millis(1500) }
    }

    fn not_run(remedy: Option<&str>) -> Result<(), Stop> {
        let remedy = remedy.map(str::to_owned);
        Err(Stop::NotRun(Absence { what: "miri is missing".into(), remedy }))
    }

    #[test]
    fn a_failed_rung_fails_the_ladder() {
        let rungs = [climbed(Ok(())), climbed(Err(Stop::Failed("one\ntwo".into())))];
        assert_eq!(verdict(&rungs, false), Err(Stop::Failed("failed: loom".into())));
        let report = report(&rungs);
        assert!(report.ends_with("rungs: 1 passed, 1 failed, 0 not run\n"), "{report}");
        assert!(report.contains("FAILED        1.5  one\n"), "{report}");
        assert_eq!(verdict(&rungs[..1], true), Ok(()));
    }

    #[test]
    fn a_missing_tool_fails_only_in_ci_and_if_it_can_be_installed() {
        let owed = [climbed(not_run(Some("install it")))];
        assert_eq!(verdict(&owed, false), Ok(()));
        assert!(verdict(&owed, true).is_err());
        assert_eq!(verdict(&[climbed(not_run(None))], true), Ok(()));
        let report = report(&owed);
        assert!(report.contains("NOT RUN") && report.contains("install it"), "{report}");
    }
}
