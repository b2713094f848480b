//! Checks the width of lines, and the words that comments must not have.

use super::{Finding, Repository};
use crate::source::{Source, names};

/// The largest permitted width of a line of Rust, in columns.
pub(super) const WIDTH: usize = 100;

/// Words that stand for people. Processes and ranks are things.
const OF_PEOPLE: [&str; 5] = ["who", "whom", "whose", "nobody", "somebody"];

/// A proof that names no contract.
const EMPTY_PROOF: &str = "by the contract";

pub(super) fn findings(repository: &Repository) -> Vec<Finding> {
    repository.sources.iter().flat_map(in_file).collect()
}

fn in_file(source: &Source) -> Vec<Finding> {
    let finding = |problem: String| move |line| (line, problem.clone());
    let wide = wide_lines(source).into_iter();
    let wide = wide.map(finding(format!("wider than {WIDTH} columns: wrap it")));
    let people = lines_of_people(source).into_iter();
    let people = people.map(finding("a comment speaks of people: say which rank or thread".into()));
    let proofs = empty_proofs(source).into_iter();
    let proofs =
        proofs.map(finding("a proof names no contract: say what the caller ensures".into()));
    let all = wide.chain(people).chain(proofs);
    all.map(|(line, problem)| Finding { file: source.path.clone(), line, problem }).collect()
}

/// Returns the lines that are too wide.
pub(super) fn wide_lines(source: &Source) -> Vec<usize> {
    let is_wide = |(_, line): &(usize, &str)| line.chars().count() > WIDTH;
    source.text.lines().enumerate().filter(is_wide).map(|(at, _)| at + 1).collect()
}

/// Returns the lines of comments with words for people.
pub(super) fn lines_of_people(source: &Source) -> Vec<usize> {
    comment_lines(source, |line| {
        let line = line.to_lowercase();
        OF_PEOPLE.iter().any(|word| names(&line, word))
    })
}

/// Returns the lines of comments with a proof that names no contract.
pub(super) fn empty_proofs(source: &Source) -> Vec<usize> {
    comment_lines(source, |line| line.contains(EMPTY_PROOF))
}

fn comment_lines(source: &Source, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
    let mut found = Vec::new();
    for comment in source.comments() {
        let lines = comment.text.lines().enumerate().filter(|(_, line)| wanted(line));
        found.extend(lines.map(|(offset, _)| comment.line + offset));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::sample::{file, lines};
    use super::*;

    #[test]
    fn wide_lines_are_found() {
        let text = format!("fn a() {{}}\n{}\n", "x".repeat(WIDTH + 1));
        assert_eq!(lines(&findings(&file("a.rs", &text)), "columns"), [2]);
        assert_eq!(findings(&file("a.rs", &"x".repeat(WIDTH))), []);
    }

    #[test]
    fn words_for_people_are_found_in_comments_alone() {
        let found = findings(&file("a.rs", "// Nobody waits.\n// whole\nlet who = 1;"));
        assert_eq!(lines(&found, "people"), [1]);
    }

    #[test]
    fn proofs_without_a_contract_are_found() {
        let found =
            findings(&file("a.rs", "// SAFETY: by the contract.\n// the contract of `put`"));
        assert_eq!(lines(&found, "contract"), [1]);
    }
}
