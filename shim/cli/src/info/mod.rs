//! `strait info`: usable and unusable features of this machine, with reasons, and the limits in
//! force.

mod network;
mod probes;

use core::error::Error;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use strait::boot::{JobStart, Launcher, SegmentConfig};
use strait::env::{self, VARIABLES};
use strait::{Transfer, Tuning};
use strait_core::layout::{LAYOUT_VERSION, SegmentPlan};
use strait_core::lmt::{CANDIDATES, CLASSES};

use crate::output::say;
use crate::table::{TextTable, reader_width};

/// Show the usable and unusable features of this machine, with reasons, and the limits in force
#[derive(Args, Debug)]
pub(crate) struct Info {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// One reported fact.
#[derive(Debug, Serialize)]
struct Fact {
    section: &'static str,
    name: String,
    value: String,
    /// The reason, or the meaning.
    note: String,
}

impl Fact {
    fn new(
        section: &'static str,
        name: impl Into<String>,
        value: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self { section, name: name.into(), value: value.into(), note: note.into() }
    }
}

impl Info {
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut facts = version();
        facts.extend(start());
        facts.extend(probes::transport());
        facts.extend(probes::hardware());
        facts.extend(network::network());
        facts.extend(thresholds());
        facts.extend(transfers());
        facts.extend(variables());
        if self.json {
            for fact in &facts {
                say(&serde_json::to_string(fact)?)?;
            }
        } else {
            say(&text(&facts, reader_width()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn version() -> Vec<Fact> {
    let note = "ranks of one job must agree on it";
    vec![
        Fact::new("version", "strait", env!("CARGO_PKG_VERSION"), ""),
        Fact::new("version", "segment layout", LAYOUT_VERSION.to_string(), note),
    ]
}

/// Returns how this process was started, which is useful under a launcher.
fn start() -> Vec<Fact> {
    let fact = |name, value: String, note: &str| Fact::new("start", name, value, note);
    match JobStart::ask() {
        Ok(None) => vec![fact("launcher", "none".into(), "this process is not a rank of a job")],
        Ok(Some(JobStart { launcher, rank, nodes })) => {
            let (name, note) = match launcher {
                Launcher::Strait => ("strait run", "it makes the segments"),
                _ => ("PMI-1", "another launcher: the first rank of each node makes its segment"),
            };
            let on = nodes.node_of(rank).unwrap_or(0).to_string();
            vec![
                fact("launcher", name.into(), note),
                fact("rank", rank.to_string(), ""),
                fact("node", on, "of this rank"),
                fact("nodes", nodes.to_string(), "ranks of one node share memory"),
            ]
        }
        Err(error) => vec![fact("launcher", "unusable".into(), &error.to_string())],
    }
}

/// Returns the limits that choose the path of a message, and its cost in memory.
fn thresholds() -> Vec<Fact> {
    let fact = |name, value: String, note: &str| Fact::new("thresholds", name, value, note);
    let SegmentConfig { cells_per_rank, cell_payload, fastbox_lines, heap_bytes, .. } =
        SegmentConfig::new(2);
    let mut facts = match env::tuning() {
        Ok(Tuning {
            fastbox_max,
            eager_max,
            stream_max,
            parcel_max,
            unexpected_max,
            bypass,
            transfer,
            kernel_copies_first,
            remote_transfer,
            rendezvous,
        }) => {
            vec![
                fact(
                    "fastbox_max",
                    format!("{fastbox_max} B"),
                    "longest message by baton or fastbox",
                ),
                fact("eager_max", format!("{eager_max} B"), "longest message copied through cells"),
                fact(
                    "stream_max",
                    format!("{stream_max} B"),
                    "longest message in the stream between nodes",
                ),
                fact(
                    "parcel_max",
                    format!("{parcel_max} B"),
                    "longest message in parcels, while some are free",
                ),
                fact(
                    "unexpected_max",
                    format!("{unexpected_max} B"),
                    "memory for one peer's messages; beyond it the peer keeps them",
                ),
                fact("bypass", if bypass { "on" } else { "off" }.into(), "of posted receives"),
                fact("transfer", transfer.name().into(), "transfer of longer messages on a node"),
                fact(
                    "kernel_copies_first",
                    if kernel_copies_first { "yes" } else { "no" }.into(),
                    "whether auto begins with them between cores without a common cache",
                ),
                fact(
                    "remote_transfer",
                    remote_transfer.name().into(),
                    "way of announced messages between nodes",
                ),
                fact("rendezvous", rendezvous.name().into(), "protocol of longer messages"),
            ]
        }
        Err(error) => [
            "fastbox_max",
            "eager_max",
            "stream_max",
            "parcel_max",
            "unexpected_max",
            "bypass",
            "transfer",
            "kernel_copies_first",
            "remote_transfer",
            "rendezvous",
        ]
        .map(|name| fact(name, "unusable".into(), &error.to_string()))
        .into(),
    };
    let own = env::accumulate_max();
    let own = own.map_or_else(|error| error.to_string(), |bytes| format!("{bytes} B"));
    let note =
        "longest accumulate that a remote origin does under a lock; the target does the rest";
    facts.push(fact("accumulate_max", own, note));
    facts.extend([
        fact("fastbox_lines", fastbox_lines.to_string(), "lines of 64 bytes in a fastbox"),
        fact("cell_payload", format!("{cell_payload} B"), "longer messages take several cells"),
        fact("cells_per_rank", cells_per_rank.to_string(), "a sender without cells waits"),
        fact(
            "heap_bytes",
            format!("{heap_bytes} B"),
            "maximum that a rank can allocate in the segment",
        ),
    ]);
    if let Ok(plan) = SegmentPlan::new(SegmentConfig::new(2)) {
        let bytes = plan.bytes_with_active_pairs(1);
        facts.push(fact(
            "segment",
            format!("{bytes} B"),
            "size for a job of 2 ranks that communicate",
        ));
        let bytes = plan.parcel_bytes();
        facts.push(fact("parcels", format!("{bytes} B"), "size for a pair that uses them"));
        let bytes = plan.ring_bytes();
        facts.push(fact(
            "copy ring",
            format!("{bytes} B"),
            "size for each direction of large messages",
        ));
    }
    facts
}

/// Returns the transfers that large messages can use, and those from which `auto` chooses, by
/// length.
fn transfers() -> Vec<Fact> {
    let fact = |name: String, value, note: &str| Fact::new("transfers", name, value, note);
    let listed = |transfers: &[Transfer]| {
        transfers.iter().map(|transfer| transfer.name()).collect::<Vec<_>>().join(", ")
    };
    let reads = probes::reads_memory();
    let mut facts: Vec<_> = Transfer::ALL
        .into_iter()
        .map(|transfer| {
            let (value, note) = match transfer {
                Transfer::Auto => {
                    ("usable", "the fastest in recent measurements, for each peer and class")
                }
                Transfer::CmaShared if reads => ("usable", "one copy, shared by both sides"),
                Transfer::Cma if reads => ("usable", "one copy by the receiver"),
                Transfer::CmaShared | Transfer::Cma => {
                    ("blocked", "see process_vm_readv; the copy ring is used instead")
                }
                Transfer::CopyRing => ("usable", "two simultaneous copies, through the cache"),
                Transfer::CopyRingStreamed => {
                    ("usable", "two simultaneous copies; the first bypasses the caches")
                }
            };
            fact(transfer.name().into(), value.into(), note)
        })
        .collect();
    let mut above = env::tuning().map_or(0, |tuning| tuning.eager_max);
    for up_to in CLASSES {
        if up_to > above {
            let class = format!("auto, {} to {} B", above + 1, up_to);
            facts.push(fact(
                class,
                listed(&CANDIDATES),
                "measured, and each measured again at times",
            ));
            above = up_to;
        }
    }
    facts.push(fact(
        format!("auto, from {} B", above + 1),
        listed(&CANDIDATES),
        "measured, and each measured again at times",
    ));
    facts
}

fn variables() -> Vec<Fact> {
    let fact = |variable: &env::Variable| {
        let value = std::env::var_os(variable.name);
        let value = value.map_or_else(
            || format!("not set ({})", variable.default),
            |value| value.to_string_lossy().into_owned(),
        );
        Fact::new("variables", variable.name, value, variable.meaning)
    };
    let mistyped = env::unknown().into_iter().map(|unknown| {
        let value = std::env::var_os(&unknown.name).unwrap_or_default();
        Fact::new("variables", &unknown.name, value.to_string_lossy(), unknown.to_string())
    });
    VARIABLES.iter().map(fact).chain(mistyped).collect()
}

/// Formats the facts for readers in `width` columns at most, with a heading for each section.
///
/// Each section is a table of its own, so that a long name widens only its own section.
fn text(facts: &[Fact], width: u16) -> String {
    let mut text = Vec::new();
    for section in facts.chunk_by(|one, other| one.section == other.section) {
        let mut table = TextTable::new();
        for fact in section {
            table.line(vec![format!("  {}", fact.name), fact.value.clone(), fact.note.clone()]);
        }
        table.keep_first_column();
        text.push(format!(" {}\n{}", section[0].section, table.text(width)));
    }
    text.join("\n")
}
