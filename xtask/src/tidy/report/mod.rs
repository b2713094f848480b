//! `cargo xtask tidy --report`: prints figures of structure and wording, to compare over time.
//!
//! The figures come from tokens alone; nothing is compiled. Tests are left out, except where a row
//! counts them.

mod circles;
mod counts;
mod imports;
mod modules;

use std::collections::BTreeMap;

use super::{Finding, Repository};
use crate::source::Source;

/// One row: the name of the figure, and the places that it counts.
struct Row {
    what: &'static str,
    count: usize,
    places: Vec<String>,
}

/// The rule on circles of imports.
pub(super) fn circles(repository: &Repository) -> Vec<Finding> {
    circles::findings(repository)
}

/// Prints every row; with `places` also each place.
pub(super) fn print(repository: &Repository, places: bool) {
    for row in circles::rows(repository).into_iter().chain(counts::rows(repository)) {
        println!("{:<58} {:>6}", row.what, row.count);
        for place in row.places.iter().filter(|_| places) {
            println!("    {place}");
        }
    }
}

/// Returns the Rust files that ship: below a `src` folder, without tests.
fn shipped(repository: &Repository) -> impl Iterator<Item = &Source> {
    let is_shipped = |source: &&Source| {
        let path = &source.path;
        (path.starts_with("src/") || path.contains("/src/"))
            && !["xtask/", "tests/", "loom-tests/", "fuzz/"].iter().any(|top| path.starts_with(top))
            && !path.contains("/tests/")
            && !path.ends_with("/tests.rs")
    };
    repository.sources.iter().filter(is_shipped)
}

/// Groups places by name, in the order of names.
fn by_name(found: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, place) in found {
        groups.entry(name).or_default().push(place);
    }
    groups
}
