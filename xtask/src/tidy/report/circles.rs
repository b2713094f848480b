//! Finds circles of imports, between files and between folders.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use toml::{Table, Value};

use super::modules::Modules;
use super::{Finding, Repository, Row, shipped};

/// The largest permitted number of files in a circle.
const FILES: usize = 4;

/// Returns a finding for each kind of circle that there is, with all its places.
pub(super) fn findings(repository: &Repository) -> Vec<Finding> {
    let of_row = |row: Row| {
        let Row { what, count, places } = row;
        (count > 0).then(|| Finding {
            file: "Cargo.toml".into(),
            line: 1,
            problem: format!(
                "{what}: {count}. Move what both need to a place of its own.\n{}",
                places.join("\n")
            ),
        })
    };
    rows(repository).into_iter().filter_map(of_row).collect()
}

pub(super) fn rows(repository: &Repository) -> Vec<Row> {
    let modules = Modules::new(shipped(repository).collect(), &crates(repository));
    let path = |at: usize| modules.files[at].path.clone();
    let edges: Vec<(String, String)> = (0..modules.files.len())
        .flat_map(|from| modules.taken_from(from).into_iter().map(move |to| (from, to)))
        .map(|(from, to)| (path(from), path(to)))
        .collect();
    let large = circles(&edges).into_iter().filter(|circle| circle.len() > FILES);
    let of_folders = edges.iter().map(|(from, to)| (folder(from), folder(to)));
    let of_folders: Vec<_> = of_folders.filter(|(from, to)| from != to).collect();
    vec![
        row("circles of more than four files", large.collect(), &edges),
        row("circles between folders", circles(&of_folders), &of_folders),
    ]
}

/// Counts circles. The places are the members of each, with their imports inside it.
fn row(what: &'static str, circles: Vec<Vec<String>>, edges: &[(String, String)]) -> Row {
    let mut places = Vec::new();
    for circle in &circles {
        places.push(format!("{} members:", circle.len()));
        for member in circle {
            let imports = edges.iter().filter(|(from, to)| from == member && circle.contains(to));
            let imports: BTreeSet<_> = imports.map(|(_, to)| to.as_str()).collect();
            let imports = imports.into_iter().collect::<Vec<_>>().join(", ");
            places.push(format!("    {member} -> {imports}"));
        }
    }
    Row { what, count: circles.len(), places }
}

/// Returns the strongly connected components of more than one node, largest first.
fn circles(edges: &[(String, String)]) -> Vec<Vec<String>> {
    let mut graph = DiGraph::<&str, ()>::new();
    let mut nodes = BTreeMap::new();
    for (from, to) in edges {
        let [from, to] =
            [from, to].map(|name| *nodes.entry(name).or_insert_with(|| graph.add_node(name)));
        graph.update_edge(from, to, ());
    }
    let names = |part: Vec<NodeIndex>| {
        let mut names: Vec<String> = part.iter().map(|node| graph[*node].to_owned()).collect();
        names.sort();
        names
    };
    let parts = tarjan_scc(&graph).into_iter().filter(|part| part.len() > 1);
    let mut circles: Vec<Vec<String>> = parts.map(names).collect();
    circles.sort_by_key(|circle| (usize::MAX - circle.len(), circle.clone()));
    circles
}

/// Returns the folder directly below `src` that contains a file, or the file itself if it lies in
/// `src`.
fn folder(file: &str) -> String {
    let (before, inside) = file.split_once("src/").unwrap_or(("", file));
    let first = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
    format!("{before}src/{first}")
}

/// Returns the `src` folder of each library, and its name.
fn crates(repository: &Repository) -> Vec<(String, String)> {
    let name = |text: &str| {
        let manifest: Table = text.parse().ok()?;
        manifest.get("package")?.get("name").and_then(Value::as_str).map(str::to_owned)
    };
    let library = |(file, text): &(String, String)| {
        Some((file.strip_suffix("Cargo.toml")?.to_owned() + "src", name(text)?))
    };
    repository.manifests.iter().filter_map(library).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    #[test]
    fn circles_are_found_and_lines_are_not() {
        let edge = |(from, to): (&str, &str)| (from.to_owned(), to.to_owned());
        let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "f")].map(edge);
        assert_eq!(circles(&edges), [["a", "b", "c"]]);
    }

    #[test]
    fn folders_that_import_each_other_are_a_finding() {
        let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let manifest = "[package]\nname = \"strait-core\"\n".to_owned();
        let mut repository = Repository {
            sources: vec![
                file("core/src/lib.rs", "mod one;\nmod two;\n"),
                file("core/src/one.rs", "use crate::two::Two;\npub struct One;\n"),
                file("core/src/two.rs", "pub struct Two;\n"),
            ],
            manifests: vec![("core/Cargo.toml".into(), manifest)],
            ..Repository::default()
        };
        assert_eq!(findings(&repository), []);
        repository.sources[2].text = "use crate::one::One;\npub struct Two(One);\n".into();
        let found = findings(&repository);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].problem.contains("core/src/one -> core/src/two"), "{found:?}");
    }

    #[test]
    fn a_file_of_src_and_its_folder_are_one_room() {
        assert_eq!(folder("core/src/buffer/copy/bulk.rs"), "core/src/buffer");
        assert_eq!(folder("shim/strait/src/world.rs"), folder("shim/strait/src/world/waiting.rs"));
    }
}
