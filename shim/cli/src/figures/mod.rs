//! `strait figures`: remakes the measured figures and tables of the five papers, and compares them
//! with what the papers' texts state.
//!
//! The clock of this machine measures what it can show, by runs of `strait bench`. The shipping
//! state machines play the rest in virtual time (`strait-sim`). `figures/papers.toml` has the
//! papers' values, orders and factors, and says how each figure is remade.

mod applications;
mod clock;
mod counters;
mod data;
mod expect;
mod ours;
mod page;
mod peers;
mod plot;
mod remade;
mod series;
mod virtual_time;

use core::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use strait::topology;

use crate::output::say;
use crate::table::{TextTable, reader_width};
use clock::BenchRunner;
use data::PaperFigure;
use expect::Finding;
use peers::PeerRecord;
use remade::{Remade, Verdict, Workshop};
use series::Series;
use virtual_time::Player;

/// Remake the figures of the five papers, and write a page that compares them
#[derive(Args, Debug)]
pub(crate) struct Figures {
    /// Only the figures of these papers, such as Nemesis07 (docs/papers.md has the keys)
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    paper: Vec<String>,
    /// Only figures of these numbers, such as 3a or T1
    #[arg(long, value_name = "FIG", value_delimiter = ',')]
    only: Vec<String>,
    /// Directory of the page, index.html, and of its numbers, figures.json
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// Record of `cargo xtask peers --record`: adds other MPI libraries to the plots
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// Fewer points and short measurements: less than a minute in all
    #[arg(long)]
    quick: bool,
    /// Print the table of verdicts in Markdown, with what was found
    #[arg(long)]
    markdown: bool,
}

impl Figures {
    /// Remakes the figures, writes the page, and prints the verdicts.
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        let figures = self.chosen(data::figures()?)?;
        let peers = PeerRecord::read(self.peers.as_deref())?;
        let mut workshop = Workshop {
            runner: BenchRunner::new(self.quick),
            player: Player::new(self.quick),
            peers,
        };
        let bar = ProgressBar::new(figures.len() as u64);
        bar.set_style(ProgressStyle::with_template("{msg:40} {wide_bar} {pos}/{len}")?);
        let mut all = Vec::with_capacity(figures.len());
        for figure in figures {
            bar.set_message(figure.key());
            all.push(workshop.remake(figure));
            bar.inc(1);
        }
        bar.finish_and_clear();
        let machine = machine(self.quick);
        fs::create_dir_all(&self.out).map_err(|error| unwritable(&self.out, &error))?;
        write(&self.out.join("index.html"), &page::html(&all, &machine)?)?;
        write(&self.out.join("figures.json"), &json(&all, &machine)?)?;
        self.report(&all)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the figures that the options name.
    fn chosen(&self, all: Vec<PaperFigure>) -> Result<Vec<PaperFigure>, Box<dyn Error>> {
        let unknown = |asked: &[String], known: &dyn Fn(&str) -> bool| {
            asked.iter().find(|name| !known(name)).cloned()
        };
        let papers = |name: &str| all.iter().any(|figure| figure.paper == name);
        if let Some(name) = unknown(&self.paper, &papers) {
            return Err(format!("no paper has the key {name}: docs/papers.md has the keys").into());
        }
        let numbers = |name: &str| all.iter().any(|figure| figure.name == name);
        if let Some(name) = unknown(&self.only, &numbers) {
            return Err(format!("no paper has a measured figure {name}").into());
        }
        let asked = |list: &[String], name: &String| list.is_empty() || list.contains(name);
        let wanted = |figure: &PaperFigure| {
            asked(&self.paper, &figure.paper) && asked(&self.only, &figure.name)
        };
        let chosen: Vec<_> = all.into_iter().filter(wanted).collect();
        if chosen.is_empty() {
            return Err("no figure of these papers has this number".into());
        }
        Ok(chosen)
    }

    fn report(&self, all: &[Remade]) -> Result<(), Box<dyn Error>> {
        if self.markdown {
            say("| figure | title | how | verdict | found |\n|---|---|---|---|---|")?;
            return all.iter().try_for_each(|remade| say(&markdown(remade))).map_err(Into::into);
        }
        let mut table = TextTable::new();
        table.columns(&["figure", "title", "how", "verdict"]);
        for Remade { figure, verdict, .. } in all {
            let cells = [&figure.key(), figure.title.as_str(), figure.how.name(), verdict.name()];
            table.line(cells.map(str::to_owned).to_vec());
        }
        say(&table.text(reader_width()))?;
        let counts = page::tally(all).into_iter().filter(|(_, count)| *count > 0);
        let counts: Vec<_> =
            counts.map(|(verdict, count)| format!("{count} {}", verdict.name())).collect();
        say(&format!("\n{}: {}", counts.join(", "), self.out.join("index.html").display()))?;
        Ok(())
    }
}

/// Returns a row of the table in Markdown.
fn markdown(remade: &Remade) -> String {
    let Remade { figure, findings, verdict, .. } = remade;
    let found = findings.iter().map(|Finding { says, holds, found }| {
        let but = if *holds == Some(false) { "**not** " } else { "" };
        format!("{but}{says}: {found}")
    });
    let found = found.collect::<Vec<_>>().join("; ");
    let found = figure.reason.clone().unwrap_or(found);
    let cells = [&figure.key(), figure.title.as_str(), figure.how.name(), verdict.name(), &found];
    format!("| {} |", cells.join(" | "))
}

/// One figure in the JSON.
#[derive(Serialize)]
struct FigureRecord<'a> {
    paper: &'a str,
    figure: &'a str,
    title: &'a str,
    place: &'a str,
    says: &'a str,
    how: &'a str,
    x: &'a str,
    unit: &'a str,
    labels: &'a [String],
    series: &'a [Series],
    findings: &'a [Finding],
    verdict: Verdict,
    differs: Option<&'a str>,
    part: Option<&'a str>,
    reason: Option<&'a str>,
    drawn: Option<&'a str>,
    failure: Option<&'a str>,
}

fn json(all: &[Remade], machine: &str) -> Result<String, serde_json::Error> {
    let record = |remade: &'_ Remade| {
        let Remade { figure, series, findings, verdict, failure } = remade;
        serde_json::to_value(FigureRecord {
            paper: &figure.paper,
            figure: &figure.name,
            title: &figure.title,
            place: &figure.place,
            says: &figure.says,
            how: figure.how.name(),
            x: &figure.x,
            unit: &figure.unit,
            labels: &figure.labels,
            series,
            findings,
            verdict: *verdict,
            differs: figure.differs.as_deref(),
            part: figure.part.as_deref(),
            reason: figure.reason.as_deref(),
            drawn: figure.drawn.as_deref(),
            failure: failure.as_deref(),
        })
    };
    let figures = all.iter().map(record).collect::<Result<Vec<_>, _>>()?;
    serde_json::to_string_pretty(&serde_json::json!({ "machine": machine, "figures": figures }))
}

/// Returns a sentence about this machine and run.
fn machine(quick: bool) -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown model", |(_, model)| model);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?");
    let run = if quick { "A quick run: few points, short measurements." } else { "A full run." };
    format!(
        "Strait {} on {} processors ({model}), load {load}. {run} Figures in virtual time and by \
         counters are \
         the same on every machine.",
        env!("CARGO_PKG_VERSION"),
        topology::allowed_cpu_count()
    )
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be written: {error}; --out names another directory", file.display())
}
