//! The transport between nodes, and the RDMA devices of this machine with their usability.

use strait::env;
use strait::hca::soft::SoftMode;

use super::Fact;

/// The state of a device that could be opened.
const USABLE: &str = "usable";

/// Returns the transport that a job would use, and the devices.
pub(super) fn network() -> Vec<Fact> {
    let devices = devices();
    let fact = |name, value, note: &str| Fact::new("network", name, value, note);
    let mut facts = match env::hca() {
        Ok(Some(choice)) => {
            vec![fact("between nodes", choice.to_string(), "as STRAIT_HCA says")]
        }
        Ok(None) => {
            let usable = devices.iter().find(|device| device.value == USABLE);
            let (several, note) = match usable {
                Some(device) => (format!("verbs: {}", device.name), "the first that is usable"),
                None => ("nothing".into(), "no RDMA device is usable: see ibverbs"),
            };
            let note_of_soft = "the software device, unless STRAIT_HCA says otherwise";
            vec![
                fact("nodes on one host", SoftMode::default().name().into(), note_of_soft),
                fact("nodes on several", several, note),
            ]
        }
        Err(error) => vec![fact("between nodes", "unusable".into(), &error.to_string())],
    };
    facts.extend(devices);
    facts
}

/// Opens each device.
#[cfg(feature = "verbs")]
fn devices() -> Vec<Fact> {
    use strait::hca::verbs::{Verbs, VerbsConfig};
    use strait_core::hca::{Atomics, Hca as _};

    let fact = |name: &str, value: &str, note: String| Fact::new("ibverbs", name, value, note);
    let names = match Verbs::names() {
        Ok(names) if names.is_empty() => return vec![fact("devices", "none", String::new())],
        Ok(names) => names,
        Err(error) => return vec![fact("devices", "none", error.to_string())],
    };
    let gid = env::hca_gid().unwrap_or_default();
    let opened = names.iter().map(|name| {
        let device = Some(name.clone());
        match Verbs::open(&VerbsConfig { device, gid, connections: 1, ..VerbsConfig::default() }) {
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
                fact(name, USABLE, note)
            }
            Err(error) => fact(name, "not usable", error.to_string()),
        }
    });
    opened.collect()
}

/// Lists their names: without the library nothing more is known.
#[cfg(not(feature = "verbs"))]
fn devices() -> Vec<Fact> {
    const FOLDER: &str = "/sys/class/infiniband";
    let note = "this program was built without the feature `verbs`";
    let names = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let value = if names.is_empty() { "none".into() } else { names.join(", ") };
    vec![Fact::new("ibverbs", "devices", value, note)]
}
