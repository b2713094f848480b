//! Checks that every memory ordering of the core has a name, a comment that explains it, and a
//! place in the memory model.
//!
//! `// ORDER queue/2: AcqRel. …` explains the site `order("queue/2", AcqRel)`. A second site of the
//! same edge says `// ORDER queue/2 again: …`. Other edges that a comment names must exist.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Repository};
use crate::source::{Kind, Source, Token, names, sites};

pub(super) fn findings(repository: &Repository) -> Vec<Finding> {
    let mut rule = Rule::default();
    for source in repository.core() {
        rule.read_comments(source);
        rule.read_code(source);
    }
    rule.compare(&repository.memory_model);
    rule.findings
}

/// A place in a file.
type Place<'a> = (&'a Source, usize);

#[derive(Default)]
struct Rule<'a> {
    /// `ORDER id:`
    defined: BTreeMap<&'a str, Place<'a>>,
    /// `ORDER id again:`
    repeated: BTreeMap<&'a str, Vec<Place<'a>>>,
    /// `order("id", …)`
    used: BTreeMap<String, Vec<Place<'a>>>,
    /// Other ids in the comment of an ordering.
    mentioned: Vec<(&'a str, Place<'a>)>,
    findings: Vec<Finding>,
}

impl<'a> Rule<'a> {
    fn report(&mut self, (source, line): Place<'a>, problem: String) {
        self.findings.push(Finding { file: source.path.clone(), line, problem });
    }

    fn read_comments(&mut self, source: &'a Source) {
        // A comment continues on adjacent lines.
        let mut explains_until = 0;
        for comment in source.comments() {
            let place = (source, comment.line);
            let order = comment.text.split_once("ORDER ").map(|(_, rest)| rest);
            let mut rest = comment.text;
            if let Some(order) = order {
                explains_until = comment.line;
                rest = self.read_order(order, place);
            } else if explains_until + 1 == comment.line {
                explains_until = comment.line;
            } else {
                continue;
            }
            self.mentioned.extend(ids(rest).map(|id| (id, place)));
        }
    }

    /// Records the id that follows `ORDER ` and returns the rest of the line.
    fn read_order(&mut self, order: &'a str, place: Place<'a>) -> &'a str {
        let Some((head, rest)) = order.split_once(':') else {
            self.report(place, "write `ORDER id: ordering. Why.`".into());
            return "";
        };
        if let Some(id) = head.strip_suffix(" again") {
            self.repeated.entry(id).or_default().push(place);
        } else if let Some((first, line)) = self.defined.insert(head, place) {
            let first = format!("{}:{line}", first.path);
            let problem = format!(
                "ORDER {head} is explained at {first} already: take a new number, or say \
                 `ORDER {head} again:` if it is the same edge"
            );
            self.report(place, problem);
        }
        rest
    }

    fn read_code(&mut self, source: &'a Source) {
        let code = source.shipped_code();
        for site in sites(&code) {
            if site.ordering.is_none() {
                let problem = format!(
                    "the ordering of {} is computed: write it out, so that it can be weakened",
                    site.id
                );
                self.report((source, site.line), problem);
            }
            self.used.entry(site.id).or_default().push((source, site.line));
        }
        if source.path.starts_with("core/src/sync/") {
            return;
        }
        for (at, token) in code.iter().enumerate() {
            if is_nameless(&code, at) {
                let problem = format!(
                    "{} without a name: write `order(\"algorithm/number\", {0})`, so that a mutant \
                     can weaken it",
                    token.text
                );
                self.report((source, token.line), problem);
            }
        }
    }

    fn compare(&mut self, memory_model: &str) {
        let defined = self.defined.clone();
        let used = self.used.clone();
        for (id, place) in &defined {
            if !used.contains_key(*id) {
                let problem = format!("no `order(\"{id}\", …)` in the code: remove the comment");
                self.report(*place, problem);
            }
            if !names(memory_model, id) {
                let problem = format!("docs/memory-model.md does not name {id}: describe it there");
                self.report(*place, problem);
            }
        }
        for (id, places) in &used {
            let repeated = self.repeated.get(id.as_str()).map_or(0, Vec::len);
            let explained = usize::from(defined.contains_key(id.as_str())) + repeated;
            if explained < places.len() {
                let missing = if explained == 0 { "" } else { " again" };
                let problem =
                    format!("no comment explains this one: write `// ORDER {id}{missing}: …`");
                self.report(places[explained], problem);
            }
        }
        let strays =
            self.repeated.iter().flat_map(|(id, places)| places.iter().map(|at| (*id, *at)));
        let named: BTreeSet<(&str, &str, usize)> = strays
            .chain(self.mentioned.iter().copied())
            .filter(|(id, _)| !defined.contains_key(id))
            .map(|(id, (source, line))| (id, source.path.as_str(), line))
            .collect();
        for (id, file, line) in named {
            let problem = format!("{id} is named and no ORDER comment explains it: is it another?");
            self.findings.push(Finding { file: file.to_owned(), line, problem });
        }
    }
}

/// Returns whether the token is an ordering stronger than Relaxed that is given to an operation
/// directly, not through `order`.
fn is_nameless(code: &[Token<'_>], at: usize) -> bool {
    let strong = ["Acquire", "Release", "AcqRel"].iter().any(|name| code[at].is(name));
    let ends = code.get(at + 1).is_some_and(|next| next.is(")") || next.is(","));
    if !strong || !ends {
        return false;
    }
    let before = match &code[..at] {
        [rest @ .., ordering, a, b] if ordering.is("Ordering") && a.is(":") && b.is(":") => rest,
        before => before,
    };
    let is_named = matches!(before, [.., order, open, id, comma]
        if order.is("order") && open.is("(") && id.kind == Kind::Text && comma.is(","));
    is_argument(before) && !is_named
}

/// Returns whether an argument of a call follows this code, rather than a variant of an enum or a
/// name in a `use`.
fn is_argument(before: &[Token<'_>]) -> bool {
    if !before.last().is_some_and(|last| last.is("(") || last.is(",")) {
        return false;
    }
    let mut closed = 0_usize;
    for token in before.iter().rev() {
        if token.is(")") || token.is("}") {
            closed += 1;
        } else if token.is("(") || token.is("{") {
            if closed == 0 {
                return token.is("(");
            }
            closed -= 1;
        }
    }
    false
}

/// Returns everything of the form `algorithm/number` in a comment.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/';
    text.split(move |c| !part(c)).filter(|word| {
        word.split_once('/').is_some_and(|(algorithm, number)| {
            algorithm.starts_with(|c: char| c.is_ascii_lowercase())
                && number.starts_with(|c: char| c.is_ascii_digit())
                && !number.contains('/')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{file, lines};
    use super::*;

    const GOOD: &str = r#"// ORDER q/1: Release, pairs with q/2.
a.store(1, order("q/1", Release));
// ORDER q/2: Acquire.
// It pairs with q/1.
a.load(order("q/2", Acquire));
// ORDER q/1 again: Release.
a.store(2, order("q/1", Release));
"#;

    fn found(text: &str) -> Vec<Finding> {
        let mut repository = file("core/src/a.rs", text);
        repository.memory_model = "`q/1` and `q/2` and `q/30`".into();
        let mut findings = findings(&repository);
        findings.sort();
        findings
    }

    #[test]
    fn explained_orderings_pass() {
        assert_eq!(found(GOOD), []);
    }

    #[test]
    fn an_id_is_explained_once() {
        let twice = GOOD.replace("ORDER q/1 again", "ORDER q/1");
        assert_eq!(lines(&found(&twice)[..1], "explained at core/src/a.rs:1 already"), [6]);
    }

    #[test]
    fn every_site_has_its_comment() {
        let bare = GOOD.replace("// ORDER q/1 again: Release.", "").replace("q/2: ", "q/20: ");
        let mut found = found(&bare);
        found.retain(|finding| finding.line > 4);
        assert_eq!(lines(&found, "no comment explains this one"), [5, 7]);
    }

    #[test]
    fn a_comment_has_its_site() {
        let stale = GOOD.replace("a.load(order(\"q/2\", Acquire));", "");
        assert_eq!(lines(&found(&stale), "remove the comment"), [3]);
        assert_eq!(lines(&found("// ORDER q/1\n"), "write `ORDER id: ordering"), [1]);
    }

    #[test]
    fn the_memory_model_names_every_id() {
        let unknown = GOOD.replace("q/2", "q/3");
        assert_eq!(lines(&found(&unknown), "docs/memory-model.md does not name q/3"), [3]);
    }

    #[test]
    fn a_partner_exists() {
        let stray =
            GOOD.replace("pairs with q/1", "pairs with q/9").replace("q/1 again", "p/1 again");
        let found = found(&stray);
        let named: Vec<_> = found.iter().filter(|f| f.problem.contains("is named")).collect();
        assert_eq!(named.iter().map(|f| f.line).collect::<Vec<_>>(), [4, 6]);
    }

    #[test]
    fn a_strong_ordering_has_a_name_written_out() {
        let nameless = "a.store(1, Release);\na.load(Ordering::Acquire);";
        assert_eq!(lines(&found(nameless), "without a name"), [1, 2]);
        let computed = GOOD.replace("Acquire));", "strength()));");
        assert_eq!(lines(&found(&computed), "is computed"), [5]);
        let free = "f(Event::Acquire); a.load(Relaxed); enum E { Acquire, Release, }";
        assert_eq!(found(free), []);
    }
}
