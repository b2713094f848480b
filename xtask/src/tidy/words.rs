//! Checks that nothing unfinished is committed.

use super::{Finding, Repository};
use crate::source::{Source, names, starts_with};

/// Marks of unfinished work in a comment.
const MARKS: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

/// Macros that stand for unfinished work or for debugging.
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

pub(super) fn findings(repository: &Repository) -> Vec<Finding> {
    repository.sources.iter().flat_map(in_file).collect()
}

fn in_file(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |line, what: String| {
        let problem = format!("{what}: do it, or describe it in an issue and remove it here");
        findings.push(Finding { file: source.path.clone(), line, problem });
    };
    for comment in source.comments() {
        for (offset, line) in comment.text.lines().enumerate() {
            for mark in MARKS.iter().filter(|mark| names(line, mark)) {
                report(comment.line + offset, format!("a comment says {mark}"));
            }
        }
    }
    let code = source.code();
    for (at, token) in code.iter().enumerate() {
        for name in MACROS.iter().filter(|name| starts_with(&code[at..], &[name, "!"])) {
            report(token.line, format!("`{name}!` is called"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::sample::{file, lines};
    use super::*;

    #[test]
    fn marks_in_comments_are_found() {
        let found = findings(&file("a.rs", "fn a() {}\n// TODO: b\n/* c\n FIXME */\n"));
        assert_eq!(lines(&found, "a comment says"), [2, 4]);
    }

    #[test]
    fn macros_in_code_are_found() {
        let found = findings(&file("a.rs", "fn a() {\n    todo!();\n    dbg!(1);\n}"));
        assert_eq!(lines(&found, "!` is called"), [2, 3]);
    }

    #[test]
    fn strings_and_longer_words_are_not() {
        assert_eq!(
            findings(&file("a.rs", "// TODOS, todo!()\nlet a = \"TODO dbg!\"; my_dbg!();")),
            []
        );
    }
}
