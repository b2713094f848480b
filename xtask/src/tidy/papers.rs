//! Checks that `docs/papers.md` describes every paper that the code cites.

use super::{Finding, Repository};
use crate::source::names;

pub(super) fn findings(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &repository.sources {
        for comment in source.comments() {
            for (offset, line) in comment.text.lines().enumerate() {
                for key in keys(line).filter(|key| !names(&repository.papers, key)) {
                    findings.push(Finding {
                        file: source.path.clone(),
                        line: comment.line + offset,
                        problem: format!(
                            "[{key}] is cited and not in docs/papers.md: add it there"
                        ),
                    });
                }
            }
        }
    }
    findings
}

/// Returns the citation keys of a line: `[`, a capital, letters and the two digits of a year, and
/// nothing else up to `]` or a blank.
fn keys(line: &str) -> impl Iterator<Item = &str> {
    line.split('[').skip(1).filter_map(|rest| {
        let key = rest.split([']', ' ', ',']).next()?;
        let name = key.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_key = key.len() == name.len() + 2
            && name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_alphabetic());
        is_key.then_some(key)
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{file, lines};
    use super::*;

    #[test]
    fn an_unknown_paper_is_found() {
        let mut repository =
            file("a.rs", "//! a ([Nemesis07 §2])\n//!\n//! b [Unheard99]\nfn a() {}");
        repository.papers = "| Nemesis07 | Buntinas |".into();
        assert_eq!(lines(&findings(&repository), "[Unheard99] is cited"), [3]);
    }

    #[test]
    fn links_and_indices_are_no_papers() {
        let text = "// [`Config`] [MAGIC] [u64] [Config](x) a[U64] [Nemesis2007]";
        assert_eq!(keys(text).collect::<Vec<_>>(), ["U64"]);
        assert_eq!(
            keys("[RdmaChannel04, §4] [OneSided04]").collect::<Vec<_>>(),
            ["RdmaChannel04", "OneSided04"]
        );
    }
}
