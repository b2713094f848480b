//! Checks that dependencies between the crates of the workspace point one way.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::{Finding, Repository};

/// Every package of the repository, with the packages that it may depend on.
const MAY_USE: [(&str, &[&str]); 19] = [
    ("strait-core", &[]),
    ("strait-bare", &["strait-core"]),
    ("strait-platform", &["strait-core"]),
    ("strait-hca", &["strait-core", "strait-platform"]),
    ("strait", &["strait-core", "strait-hca", "strait-platform"]),
    ("strait-sim", &["strait", "strait-core"]),
    ("strait-cli", &["strait", "strait-core", "strait-sim"]),
    ("strait-ffi", &["strait"]),
    ("strait-ofi", &["strait", "strait-core"]),
    ("strait-mpi-mpich", &["strait"]),
    ("strait-mpi-standard", &["strait"]),
    ("strait-mpi-openmpi", &["strait"]),
    ("strait-tests", &["strait", "strait-core", "strait-sim"]),
    ("strait-simulations", &["strait", "strait-core", "strait-sim", "strait-tests"]),
    ("strait-ffi-fuzzed", &["strait"]),
    ("strait-fuzz", &["strait-ffi-fuzzed", "strait-tests"]),
    ("strait-loom-tests", &["strait-core"]),
    ("strait-benches", &["strait", "strait-core"]),
    ("xtask", &[]),
];

pub(super) fn findings(repository: &Repository) -> Vec<Finding> {
    repository.manifests.iter().flat_map(|(file, text)| in_manifest(file, text)).collect()
}

fn in_manifest(file: &str, text: &str) -> Vec<Finding> {
    let finding = |line, problem| Finding { file: file.to_owned(), line, problem };
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![finding(1, format!("no TOML: {error}"))],
    };
    let package = manifest.get("package").and_then(|package| package.get("name"));
    let Some(package) = package.and_then(Value::as_str) else {
        return Vec::new(); // the workspace itself
    };
    let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == package) else {
        let problem = format!(
            "{package} has no place in the order of crates: give it one in MAY_USE of \
             xtask/src/tidy/direction.rs"
        );
        return vec![finding(1, problem)];
    };
    let mut used = BTreeSet::new();
    collect(&manifest, &mut used);
    let ours = |name: &&String| MAY_USE.iter().any(|(package, _)| package == name);
    let forbidden = used.iter().filter(ours).filter(|name| !allowed.contains(&name.as_str()));
    let complaint = |name: &String| {
        let line = text.lines().position(|line| declares(line, name));
        let allowed = if allowed.is_empty() { "no other crate".into() } else { allowed.join(", ") };
        let problem = format!(
            "{package} depends on {name}: of this workspace it may use {allowed}; move what it \
             needs down, or take it as an argument"
        );
        finding(line.map_or(1, |at| at + 1), problem)
    };
    forbidden.map(complaint).collect()
}

/// Returns whether this line of a manifest declares the package `name`, under its own name or
/// another.
fn declares(line: &str, name: &str) -> bool {
    let key = line.split(['=', '.']).next().unwrap_or("");
    key.trim() == name || line.contains(&format!("package = \"{name}\""))
}

/// Collects the packages of every dependency table in `table`: plain, dev and build, also under
/// each target.
fn collect(table: &Table, used: &mut BTreeSet<String>) {
    for (key, value) in table {
        let Some(inner) = value.as_table() else { continue };
        match key.as_str() {
            "dependencies" | "dev-dependencies" | "build-dependencies" => {
                for (name, dependency) in inner {
                    let renamed = dependency.get("package").and_then(Value::as_str);
                    used.insert(renamed.unwrap_or(name).to_owned());
                }
            }
            "target" => {
                for target in inner.values().filter_map(Value::as_table) {
                    collect(target, used);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::lines;
    use super::*;

    fn found(text: &str) -> Vec<Finding> {
        let manifests = vec![("a/Cargo.toml".to_owned(), text.to_owned())];
        findings(&Repository { manifests, ..Repository::default() })
    }

    #[test]
    fn the_core_uses_no_other_crate_in_any_table() {
        let text = "[package]\nname = \"strait-core\"\n[dependencies]\nheapless = \"1\"\n\
                    [dev-dependencies]\nstrait = { path = \"../shim/strait\" }\n\
                    [target.'cfg(unix)'.build-dependencies]\nx = { package = \"xtask\" }\n";
        assert_eq!(lines(&found(text), "strait-core depends on"), [6, 8]);
    }

    #[test]
    fn downwards_is_allowed() {
        let text = "[package]\nname = \"strait\"\n[dependencies]\nstrait-core.workspace = true\n";
        assert_eq!(found(text), []);
        let upwards = text.replace("strait-core.", "strait-tests.");
        assert_eq!(
            lines(&found(&upwards), "it may use strait-core, strait-hca, strait-platform"),
            [4]
        );
    }

    #[test]
    fn a_new_crate_must_be_given_a_place() {
        assert_eq!(lines(&found("[package]\nname = \"strait-extra\"\n"), "no place"), [1]);
        assert_eq!(lines(&found("[package"), "no TOML"), [1]);
        assert_eq!(found("[workspace]\nmembers = []\n"), []);
    }
}
