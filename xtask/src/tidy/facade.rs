//! Checks that only `core/src/sync` names the processor's atomics and loom's. All other code runs
//! under loom as it ships.

use super::{Finding, Repository};
use crate::source::{Kind, Source, Token, starts_with};

/// Items that only the facade may name. The rule treats `std` like `core`.
const BEHIND: [&[&str]; 3] =
    [&["core", "sync", "atomic"], &["core", "cell", "UnsafeCell"], &["loom"]];

pub(super) fn findings(repository: &Repository) -> Vec<Finding> {
    let outside = |source: &&Source| !source.path.starts_with("core/src/sync/");
    repository.core().filter(outside).flat_map(in_file).collect()
}

fn in_file(source: &Source) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for (line, path) in paths(&source.code()) {
        let standard = path[0] == "std";
        let is_behind = |behind: &&&[&str]| {
            path.len() >= behind.len()
                && path.iter().zip(**behind).enumerate().all(|(at, (word, expected))| {
                    word == expected || (at == 0 && standard && *expected == "core")
                })
        };
        if BEHIND.iter().any(|behind| is_behind(&behind)) {
            findings.push(Finding {
                file: source.path.clone(),
                line,
                problem: format!(
                    "`{}` outside the facade: use `crate::sync`, so that loom sees the access",
                    path.join("::")
                ),
            });
        }
    }
    findings
}

/// Returns every path of two words or more, with the line of its last word. Groups of `use` are
/// expanded.
fn paths<'a>(code: &[Token<'a>]) -> Vec<(usize, Vec<&'a str>)> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let starts = code[at].kind == Kind::Word && starts_with(&code[at + 1..], &[":", ":"]);
        at += if starts { path(&code[at..], &[], &mut paths) } else { 1 };
    }
    paths
}

/// Reads one path, or one tree of a `use`, below `prefix`. Returns the number of tokens it took.
fn path<'a>(
    code: &[Token<'a>],
    prefix: &[&'a str],
    paths: &mut Vec<(usize, Vec<&'a str>)>,
) -> usize {
    let mut words = prefix.to_vec();
    let mut at = 0;
    while let Some(word) = code.get(at).filter(|token| token.kind == Kind::Word) {
        words.push(word.text);
        at += 1;
        if !starts_with(&code[at..], &[":", ":"]) {
            paths.push((word.line, words));
            return at;
        }
        at += 2;
    }
    if code.get(at).is_some_and(|token| token.is("{")) {
        at += 1;
        while let Some(token) = code.get(at).filter(|token| !token.is("}")) {
            at += if token.kind == Kind::Word { path(&code[at..], &words, paths) } else { 1 };
        }
        return at + 1;
    }
    // A glob, or the `<` of a generic, ends the path.
    if let Some(token) = code.get(at) {
        paths.push((token.line, words));
    }
    at.max(1)
}

#[cfg(test)]
mod tests {
    use super::super::sample::{file, lines};
    use super::*;

    #[test]
    fn the_atomics_are_named_by_the_facade_alone() {
        let text = r"use core::sync::atomic::AtomicU32;
use core::{
    cell::{Cell, UnsafeCell},
    sync::atomic,
};
fn a() { std::sync::atomic::fence(x); }
fn b() { loom::skip_branch(); }
use core::sync::atomic::*;";
        let found = findings(&file("core/src/a.rs", text));
        assert_eq!(lines(&found, "outside the facade"), [1, 3, 4, 6, 7, 8]);
        assert_eq!(findings(&file("core/src/sync/mod.rs", text)), []);
    }

    #[test]
    fn other_paths_are_free() {
        let text = r"use core::cell::Cell;
use crate::sync::{UnsafeCell, fence};
use super::sync::order;
fn a() -> core::fmt::Result { Vec::<u8>::new(); cfg!(strait_loom) } // core::sync::atomic";
        assert_eq!(findings(&file("core/src/a.rs", text)), []);
    }
}
