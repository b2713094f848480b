//! The RDMA devices of this machine, and whether they can be used.

use super::Fact;

/// Opens each.
#[cfg(feature = "verbs")]
pub(super) fn devices() -> Vec<Fact> {
    use strait::hca::verbs::{Config, Verbs};
    use strait_core::hca::{Atomics, Hca as _};

    let fact = |name: &str, value: &str, note: String| Fact::new("ibverbs", name, value, note);
    let names = match Verbs::names() {
        Ok(names) if names.is_empty() => return vec![fact("devices", "none", String::new())],
        Ok(names) => names,
        Err(error) => return vec![fact("devices", "none", error.to_string())],
    };
    let opened = names.iter().map(|name| {
        let device = Some(name.clone());
        match Verbs::open(&Config { device, connections: 1, ..Config::default() }) {
            Ok(verbs) => {
                let has = verbs.capabilities();
                let atomics = match has.atomics {
                    Atomics::None => "no atomics",
                    Atomics::Hca => "atomics among devices",
                    Atomics::Coherent => "atomics coherent with the processors'",
                };
                let note = format!(
                    "{}; {} B inline, {} reads at a time, {atomics}",
                    verbs.link(),
                    has.inline,
                    has.reads
                );
                fact(name, "usable", note)
            }
            Err(error) => fact(name, "not usable", error.to_string()),
        }
    });
    opened.collect()
}

/// Looks at their names: without the library nothing more can be said.
#[cfg(not(feature = "verbs"))]
pub(super) fn devices() -> Vec<Fact> {
    const FOLDER: &str = "/sys/class/infiniband";
    let note = "this program was built without the feature `verbs`";
    let names = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let value = if names.is_empty() { "none".into() } else { names.join(", ") };
    vec![Fact::new("ibverbs", "devices", value, note)]
}
