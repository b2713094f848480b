//! Counts names, words, lines, `unsafe` and examples.

use super::super::prose;
use super::{Repository, Row, by_name, shipped};
use crate::source::{Kind, Source, Token};

pub(super) fn rows(repository: &Repository) -> Vec<Row> {
    let ships: Vec<&Source> = shipped(repository).collect();
    let all: Vec<&Source> = repository.sources.iter().collect();
    vec![
        type_names(&ships),
        row("blocks of `unsafe`", ships.iter().flat_map(|source| unsafe_blocks(source))),
        row("SAFETY comments that say `by the contract`", places(&ships, prose::empty_proofs)),
        row("environment variables (`STRAIT_*`)", variables(&ships)),
        row("examples in documentation that run", ships.iter().flat_map(|it| examples(it))),
        row("lines wider than 100 columns", places(&all, prose::wide_lines)),
        row("lines of comments with words for people", places(&all, prose::lines_of_people)),
    ]
}

fn row(what: &'static str, found: impl IntoIterator<Item = String>) -> Row {
    let places = Vec::from_iter(found);
    Row { what, count: places.len(), places }
}

/// Counts the names of types that more than one file defines.
fn type_names(ships: &[&Source]) -> Row {
    let defined = |source: &&Source| {
        let code = source.shipped_code();
        let at_module_level = declared(&code);
        at_module_level.into_iter().map(|name| (name, source.path.clone())).collect::<Vec<_>>()
    };
    let groups = by_name(ships.iter().flat_map(defined));
    let twice = groups.into_iter().filter_map(|(name, mut files)| {
        files.dedup();
        (files.len() > 1).then(|| format!("{name}: {}", files.join(", ")))
    });
    row("names of types that more than one file defines", twice)
}

/// Returns the types that are declared at the level of the module. Associated types do not count.
fn declared(code: &[Token<'_>]) -> Vec<String> {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for pair in code.windows(2) {
        if pair[0].is("{") {
            depth += 1;
        } else if pair[0].is("}") {
            depth = depth.saturating_sub(1);
        }
        let is_type = ["struct", "enum", "union", "trait", "type"].iter().any(|it| pair[0].is(it));
        if depth == 0 && is_type && pair[1].kind == Kind::Word {
            found.push(pair[1].text.to_owned());
        }
    }
    found
}

fn unsafe_blocks(source: &Source) -> Vec<String> {
    let code = source.shipped_code();
    let blocks = code.windows(2).filter(|pair| pair[0].is("unsafe") && pair[1].is("{"));
    blocks.map(|pair| format!("{}:{}", source.path, pair[0].line)).collect()
}

fn variables(ships: &[&Source]) -> Vec<String> {
    let is_name = |text: &str| {
        text.starts_with("STRAIT_")
            && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let in_file = |source: &&Source| {
        let code = source.shipped_code();
        let texts = code.iter().filter(|token| token.kind == Kind::Text && is_name(token.text));
        texts.map(|token| (token.text.to_owned(), source.path.clone())).collect::<Vec<_>>()
    };
    by_name(ships.iter().flat_map(in_file)).into_keys().collect()
}

/// Returns the opening fences of examples that `cargo test --doc` runs.
fn examples(source: &Source) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for comment in source.comments() {
        let text = comment.text;
        let Some(doc) = text.strip_prefix("///").or_else(|| text.strip_prefix("//!")) else {
            continue;
        };
        let Some(kind) = doc.trim_start().strip_prefix("```") else { continue };
        if !inside && ["", "rust", "no_run", "should_panic"].contains(&kind.trim()) {
            found.push(format!("{}:{}", source.path, comment.line));
        }
        inside = !inside;
    }
    found
}

/// Returns the places of the lines that `find` returns for each file.
fn places(sources: &[&Source], find: impl Fn(&Source) -> Vec<usize>) -> Vec<String> {
    let in_file = |source: &&Source| {
        let lines = find(source).into_iter();
        lines.map(|line| format!("{}:{line}", source.path)).collect::<Vec<_>>()
    };
    sources.iter().flat_map(in_file).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::file;
    use super::*;

    fn count(text: &str, what: &str) -> usize {
        let repository = file("core/src/a.rs", text);
        let rows = rows(&repository);
        rows.iter().find(|row| row.what.contains(what)).expect("a row").count
    }

    #[test]
    fn what_a_file_has_is_counted() {
        assert_eq!(count("fn a() { unsafe { b() } } unsafe fn b() {}", "unsafe"), 1);
        assert_eq!(count("const A: &str = \"STRAIT_A\"; // STRAIT_B", "variables"), 1);
        assert_eq!(
            count("/// ```\n/// a\n/// ```\n/// ```text\n/// ```\nfn a() {}", "examples"),
            1
        );
        assert_eq!(count(&"x".repeat(101), "columns"), 1);
        assert_eq!(count("// Nobody waits.\n// whole\nlet who = 1;", "people"), 1);
    }

    #[test]
    fn a_type_name_counts_once_for_all_its_files() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = vec![
            source("core/src/a.rs", "pub struct Place; impl X for Y { type Out = u8; }"),
            source("core/src/b.rs", "enum Place {} impl X for Z { type Out = u8; }"),
        ];
        let repository = Repository { sources, ..Repository::default() };
        assert_eq!(rows(&repository)[0].places, ["Place: core/src/a.rs, core/src/b.rs"]);
    }
}
