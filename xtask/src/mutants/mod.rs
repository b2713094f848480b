//! Weakens every memory ordering of the core in turn: the loom test that `loom-tests/mutants.toml`
//! names must fail.
//!
//! One build serves all mutants. Under loom the variable `STRAIT_WEAKEN=site=Ordering` replaces one
//! ordering, so a mutant is a process. A test that passes unmutated and fails mutated shows that
//! the ordering is needed.

mod list;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::loom;
use crate::parallel;
use crate::shell::{self, Shell};
use crate::source::{Site, sites};
use crate::stop::Stop;
use crate::tidy::Repository;
use list::Mutant;
use trial::{Trial, Verdict};

/// Runs `cargo xtask mutants`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    let list = list::parse(&shell.read(list::FILE)?)?;
    let memory_model = shell.read("docs/memory-model.md")?;
    let problems = list::problems(&list, &core_sites(shell)?, &memory_model);
    for problem in &problems {
        eprintln!("{}: {problem}", list::FILE);
    }
    let programs = build(shell)?;
    let judged = judge(shell, &programs, &list.mutants)?;
    print!("{}", table(&list.mutants, &judged));
    conclude(problems.len(), &list.mutants, &judged)
}

fn core_sites(shell: &Shell) -> Result<Vec<Site>, Stop> {
    let repository = Repository::read(shell)?;
    Ok(repository.core().flat_map(|source| sites(&source.shipped_code())).collect())
}

/// Builds the test programs and returns them by name.
fn build(shell: &Shell) -> Result<BTreeMap<String, PathBuf>, Stop> {
    let arguments = "test --quiet --release -p strait-loom-tests --no-run --message-format json";
    let messages = loom::cargo(shell, arguments).stdout()?;
    Ok(shell::artifacts(&messages).into_iter().collect())
}

/// Returns a verdict for each mutant that has a test. Every test must first pass without a
/// mutation.
fn judge(
    shell: &Shell,
    programs: &BTreeMap<String, PathBuf>,
    mutants: &[Mutant],
) -> Result<Vec<Option<Verdict>>, Stop> {
    let logs = shell.target().join("mutants");
    std::fs::create_dir_all(&logs).map_err(|error| Stop::io(&logs, &error))?;
    let tests = mutants.iter().filter_map(|mutant| mutant.test.as_deref());
    let tests = Vec::from_iter(BTreeSet::from_iter(tests));
    let healthy =
        parallel::each(&tests, |test| (*test, Trial::new(programs, &logs, test, None).run(shell)));
    let sick = healthy.iter().filter(|(_, verdict)| *verdict != Verdict::Survived);
    let sick: Vec<String> =
        sick.map(|(test, verdict)| format!("{test} ({})", verdict.unmutated())).collect();
    if !sick.is_empty() {
        return Err(Stop::Failed(format!("without any mutation: {}", sick.join(", "))));
    }
    Ok(parallel::each(mutants, |mutant| {
        let mutation = format!("{}={}", mutant.site, mutant.weaken);
        let test = mutant.test.as_deref()?;
        Some(Trial::new(programs, &logs, test, Some(mutation)).run(shell))
    }))
}

fn table(mutants: &[Mutant], judged: &[Option<Verdict>]) -> String {
    let mut text = format!("{:<16} {:<10} {:<10} by\n", "ordering", "weakened", "result");
    for (mutant, verdict) in mutants.iter().zip(judged) {
        let by = mutant.test.as_ref().or(mutant.equivalent.as_ref()).map_or("", String::as_str);
        let result = match verdict {
            Some(Verdict::Killed) => "killed",
            Some(Verdict::Survived) => "SURVIVED",
            Some(Verdict::Undecided(_)) => "UNDECIDED",
            None => "equivalent",
        };
        text += &format!("{:<16} {:<10} {result:<10} {by}\n", mutant.site, mutant.weaken);
        if let Some(Verdict::Undecided(why)) = verdict {
            text += &format!("    {why}\n");
        }
    }
    text
}

fn conclude(problems: usize, mutants: &[Mutant], judged: &[Option<Verdict>]) -> Result<(), Stop> {
    let count =
        |wanted: fn(&Verdict) -> bool| judged.iter().flatten().filter(|v| wanted(v)).count();
    let survived = count(|verdict| *verdict == Verdict::Survived);
    let undecided = count(|verdict| matches!(verdict, Verdict::Undecided(_)));
    if mutants.is_empty() {
        return Err(Stop::Failed(format!("{} lists no mutant", list::FILE)));
    }
    if survived + undecided + problems == 0 {
        return Ok(());
    }
    Err(Stop::Failed(format!(
        "of {} mutants {survived} survived and {undecided} could not be decided; the list has \
         {problems} problems",
        mutants.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant() -> Mutant {
        Mutant {
            site: "q/1".into(),
            weaken: "Relaxed".into(),
            test: Some("queue::nothing_is_lost".into()),
            equivalent: None,
        }
    }

    #[test]
    fn one_survivor_is_a_failure() {
        let mutants = [mutant()];
        let concluded = |problems, verdict| conclude(problems, &mutants, &[verdict]);
        assert_eq!(concluded(0, Some(Verdict::Killed)), Ok(()));
        assert_eq!(concluded(0, None), Ok(()));
        assert!(concluded(0, Some(Verdict::Survived)).is_err());
        assert!(concluded(0, Some(Verdict::Undecided("time".into()))).is_err());
        assert!(concluded(1, Some(Verdict::Killed)).is_err());
        assert!(conclude(0, &[], &[]).is_err(), "an empty list proves nothing");
    }

    #[test]
    fn the_table_says_what_became_of_each() {
        let text = table(&[mutant()], &[Some(Verdict::Undecided("no such test".into()))]);
        assert!(text.contains("UNDECIDED  queue::nothing_is_lost\n    no such test\n"), "{text}");
    }
}
