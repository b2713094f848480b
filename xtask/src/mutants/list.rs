//! `loom-tests/mutants.toml`: the list of weakened orderings, and the test that fails for each.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::source::Site;
use crate::stop::Stop;

/// Path of the list.
pub(super) const FILE: &str = "loom-tests/mutants.toml";

/// The contents of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// The mutants, in the order of the printed table.
    #[serde(default, rename = "mutant")]
    pub(super) mutants: Vec<Mutant>,
}

/// One ordering, weakened.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    /// Name of the ordering in the code.
    pub(super) site: String,
    /// The ordering that replaces it.
    pub(super) weaken: String,
    /// `file::function` of the loom test that fails on this mutant.
    pub(super) test: Option<String>,
    /// The reason why no test can fail, with a link to the argument in `docs/memory-model.md`.
    pub(super) equivalent: Option<String>,
}

/// Parses the file.
pub(super) fn parse(text: &str) -> Result<List, Stop> {
    toml::from_str(text).map_err(|error| Stop::Failed(format!("{FILE}: {error}")))
}

/// Returns the weakenings of `ordering` that a list must have, and those that it may have besides.
///
/// Each is legal wherever the ordering itself is: a store is never weakened to Acquire, nor a load
/// to Release.
fn weakenings(ordering: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match ordering {
        "SeqCst" => (&["AcqRel"], &[]),
        "AcqRel" => (&["Acquire", "Release"], &["Relaxed"]),
        "Acquire" | "Release" => (&["Relaxed"], &[]),
        _ => (&[], &[]),
    }
}

/// Lists the problems of the list: a missing or duplicate weakening, one that weakens nothing, a
/// mutant without a verdict, and a link to an argument that does not exist.
pub(super) fn problems(list: &List, sites: &[Site], memory_model: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for mutant in &list.mutants {
        let Mutant { site, weaken, test, equivalent } = mutant;
        if !seen.insert((site.as_str(), weaken.as_str())) {
            problems.push(format!("{site} = {weaken} is listed twice"));
        }
        let mut orderings = sites.iter().filter(|known| known.id == *site).peekable();
        if orderings.peek().is_none() {
            problems.push(format!("{site}: no `order(\"{site}\", …)` in core/src: remove it"));
        }
        for ordering in orderings.filter_map(|site| site.ordering.as_deref()) {
            let (required, optional) = weakenings(ordering);
            if !required.iter().chain(optional).any(|weaker| weaker == weaken) {
                problems.push(format!("{site}: {weaken} is no weakening of {ordering}"));
            }
        }
        match (test, equivalent) {
            (Some(test), None) if test.contains("::") => {}
            (Some(test), None) => {
                problems.push(format!("{site} = {weaken}: write `{test}` as file::function"));
            }
            (None, Some(argument)) => {
                if let Err(problem) = resolve(argument, memory_model) {
                    problems.push(format!("{site} = {weaken}: {problem}"));
                }
            }
            _ => problems.push(format!("{site} = {weaken}: give a `test`, or say `equivalent`")),
        }
    }
    for site in sites {
        let (required, _) = weakenings(site.ordering.as_deref().unwrap_or(""));
        for weaken in required {
            if seen.insert((&site.id, weaken)) {
                problems.push(format!(
                    "{} = {weaken} is not listed: name the test that kills it",
                    site.id
                ));
            }
        }
    }
    problems
}

/// Checks that the memory model has the heading that `argument` refers to.
fn resolve(argument: &str, memory_model: &str) -> Result<(), String> {
    let Some((_, link)) = argument.split_once("docs/memory-model.md#") else {
        return Err("`equivalent` names no heading: write docs/memory-model.md#heading".into());
    };
    let anchor = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let link = &link[..link.find(|c| !anchor(c)).unwrap_or(link.len())];
    let headings = memory_model.lines().filter(|line| line.starts_with('#'));
    if headings.map(slug).any(|slug| slug == link) {
        return Ok(());
    }
    Err(format!("docs/memory-model.md has no heading #{link}"))
}

/// Returns the anchor that Markdown renderers give to a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(id: &str, ordering: &str) -> Site {
        Site { id: id.into(), ordering: Some(ordering.into()), line: 1 }
    }

    fn check(list: &str, sites: &[Site]) -> Vec<String> {
        problems(&parse(list).unwrap(), sites, "# The model\n\n## Why `q/2` is safe\n")
    }

    fn entry(site: &str, weaken: &str, verdict: &str) -> String {
        format!("[[mutant]]\nsite = \"{site}\"\nweaken = \"{weaken}\"\n{verdict}\n")
    }

    const KILLED: &str = "test = \"queue::nothing_is_lost\"";

    #[test]
    fn every_weakening_is_demanded() {
        let sites = [site("q/1", "AcqRel"), site("q/2", "Acquire"), site("q/3", "Relaxed")];
        let none = check("", &sites);
        let missing = ["q/1 = Acquire", "q/1 = Release", "q/2 = Relaxed"];
        assert_eq!(none.len(), missing.len(), "{none:?}");
        for (problem, expected) in none.iter().zip(missing) {
            assert!(problem.starts_with(&format!("{expected} is not listed")), "{problem}");
        }
        let full = entry("q/1", "Acquire", KILLED)
            + &entry("q/1", "Release", KILLED)
            + &entry("q/1", "Relaxed", KILLED)
            + &entry("q/2", "Relaxed", "equivalent = 'see docs/memory-model.md#why-q2-is-safe.'");
        assert_eq!(check(&full, &sites), [""; 0]);
        assert_eq!(check("", &[site("q/2", "Acquire"), site("q/2", "Acquire")]).len(), 1);
    }

    #[test]
    fn what_is_no_mutant_is_refused() {
        let sites = [site("q/2", "Acquire")];
        let good = entry("q/2", "Relaxed", KILLED);
        assert_eq!(check(&good, &sites), [""; 0]);
        let refused = [
            (entry("q/2", "Release", KILLED), "q/2: Release is no weakening of Acquire"),
            (entry("q/9", "Relaxed", KILLED), "q/9: no `order(\"q/9\", …)` in core/src: remove it"),
            (good.clone(), "q/2 = Relaxed is listed twice"),
        ];
        for (more, expected) in refused {
            assert_eq!(check(&(good.clone() + &more), &sites), [expected]);
        }
    }

    #[test]
    fn a_mutant_has_one_verdict() {
        let sites = [site("q/2", "Acquire")];
        let verdicts = [
            ("", "give a `test`"),
            ("test = 'a::b'\nequivalent = 'x'", "give a `test`"),
            ("test = 'nothing_is_lost'", "file::function"),
            ("equivalent = 'it is obvious'", "names no heading"),
            ("equivalent = 'docs/memory-model.md#nowhere'", "no heading #nowhere"),
        ];
        for (verdict, expected) in verdicts {
            let found = check(&entry("q/2", "Relaxed", verdict), &sites);
            assert!(matches!(&found[..], [one] if one.contains(expected)), "{verdict}: {found:?}");
        }
    }
}
