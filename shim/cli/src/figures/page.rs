//! The page: a summary on top, then each figure.

use core::fmt::Write as _;

use super::data::How;
use super::expect::number;
use super::plot;
use super::remade::{Remade, Verdict};
use super::series::Origin;

/// The style sheet.
const STYLE: &str = include_str!("../../figures/page.css");

/// The reason of a difference in a figure by the clock that has no other.
const BY_CLOCK: &str = "The clock shows this machine and its load at the moment of the run. If the \
                        difference stays on an idle machine, it is real.";

/// Returns the page.
pub(super) fn html(all: &[Remade], machine: &str) -> Result<String, Box<dyn core::error::Error>> {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Strait: the papers' figures</title><style>{STYLE}</style></head><body>\n\
         <h1>The figures of the five papers, remade</h1>\n<p>{}</p>\n",
        escape(machine)
    );
    page += &counts(all);
    page += &summary(all);
    for remade in all {
        page += &section(remade)?;
    }
    page += "</body></html>\n";
    Ok(page)
}

/// Returns the number of figures with each verdict.
pub(super) fn tally(all: &[Remade]) -> Vec<(Verdict, usize)> {
    let count = |verdict| all.iter().filter(|remade| remade.verdict == verdict).count();
    Verdict::ALL.map(|verdict| (verdict, count(verdict))).into()
}

fn counts(all: &[Remade]) -> String {
    let mut text = "<p class=\"counts\">".to_owned();
    for (verdict, count) in tally(all).into_iter().filter(|(_, count)| *count > 0) {
        let _ =
            write!(text, "<span class=\"{}\">{count} {}</span> ", class(verdict), verdict.name());
    }
    text + "</p>\n"
}

fn summary(all: &[Remade]) -> String {
    let mut text = "<table><thead><tr><th>figure</th><th>what the paper says</th><th>how</th>\
                    <th>verdict</th></tr></thead><tbody>\n"
        .to_owned();
    let mut paper = "";
    for remade in all {
        let figure = &remade.figure;
        if paper != figure.paper {
            paper = &figure.paper;
            let _ = writeln!(text, "<tr class=\"paper\"><td colspan=\"4\">{paper}</td></tr>");
        }
        let _ = writeln!(
            text,
            "<tr><td><a href=\"#{}\">{}</a> {}</td><td>{}</td><td class=\"how\">{}</td>\
             <td><span class=\"{}\">{}</span></td></tr>",
            anchor(remade),
            number_of(&figure.name),
            escape(&figure.title),
            escape(&figure.says),
            figure.how.name(),
            class(remade.verdict),
            remade.verdict.name(),
        );
    }
    text + "</tbody></table>\n"
}

fn section(remade: &Remade) -> Result<String, Box<dyn core::error::Error>> {
    let figure = &remade.figure;
    let mut text = format!(
        "<section id=\"{}\"><h2>{} {}: {} <span class=\"{}\">{}</span></h2>\n\
         <p class=\"place\">{}; {}</p>\n<div class=\"both\"><div>",
        anchor(remade),
        figure.paper,
        number_of(&figure.name),
        escape(&figure.title),
        class(remade.verdict),
        remade.verdict.name(),
        escape(&figure.place),
        figure.how.name(),
    );
    match (figure.how, plot::svg(remade)?) {
        (How::None, _) => {}
        (_, Some(svg)) => {
            text += &svg;
            text += &plot::legend(remade);
        }
        (_, None) => text += "<p class=\"none\">no points</p>",
    }
    text += "</div><div>\n";
    let _ = writeln!(text, "<p><b>The paper:</b> {}</p>", escape(&figure.says));
    if !remade.findings.is_empty() {
        text += "<ul class=\"findings\">";
        for finding in &remade.findings {
            let mark = match finding.holds {
                Some(true) => "yes",
                Some(false) => "no",
                None => "?",
            };
            let _ = write!(
                text,
                "<li class=\"{mark}\">{} <span class=\"found\">({})</span></li>",
                escape(&finding.says),
                escape(&finding.found)
            );
        }
        text += "</ul>\n";
    }
    let unexplained = BY_CLOCK.to_owned();
    let by_clock = (figure.how == How::Clock).then_some(&unexplained);
    let differs = figure.differs.as_ref().or(by_clock);
    let differs = differs.filter(|_| remade.verdict == Verdict::Differs);
    let remarks = [
        ("Why it differs", differs),
        ("What is missing", figure.part.as_ref()),
        ("Why it is not remade", figure.reason.as_ref()),
        ("Only in the paper's drawing", figure.drawn.as_ref()),
        ("Not measured in this run", remade.failure.as_ref()),
    ];
    for (name, remark) in remarks {
        if let Some(remark) = remark {
            let _ = writeln!(text, "<p><b>{name}:</b> {}</p>", escape(remark));
        }
    }
    text += &stated(remade);
    Ok(text + "</div></div></section>\n")
}

/// Returns the values that the paper states, each beside ours.
fn stated(remade: &Remade) -> String {
    let figure = &remade.figure;
    if figure.values.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<table class=\"values\"><thead><tr><th>series</th><th>{}</th><th>paper, {unit}</th>\
         <th>here, {unit}</th></tr></thead><tbody>",
        escape(&figure.x),
        unit = escape(&figure.unit)
    );
    for value in &figure.values {
        let name = value.here.as_ref().unwrap_or(&value.series);
        let mut ours = remade.series.iter().filter(|series| series.origin == Origin::Ours);
        let here = ours.find(|series| series.name == *name).and_then(|series| series.at(value.x));
        let x = match figure.labels.get(value.x as usize) {
            Some(label) => label.clone(),
            None => number(value.x),
        };
        let bound = value.bound.as_ref().map(|bound| format!(" ({bound})")).unwrap_or_default();
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}{}</td><td>{}</td></tr>",
            escape(&value.series),
            escape(&x),
            number(value.value),
            escape(&bound),
            here.map_or_else(|| "–".to_owned(), number)
        );
    }
    text + "</tbody></table>\n"
}

fn anchor(remade: &Remade) -> String {
    format!("{}-{}", remade.figure.paper, remade.figure.name)
}

/// Returns the number of a figure or table as the text calls it.
fn number_of(name: &str) -> String {
    match name.strip_prefix('T') {
        Some(table) => format!("table {table}"),
        None => format!("figure {name}"),
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "verdict holds",
        Verdict::HoldsInPart => "verdict part",
        Verdict::Differs => "verdict differs",
        Verdict::NoData | Verdict::NotRemade => "verdict none",
    }
}

/// Makes HTML of a text, in which code is between backquotes.
fn escape(text: &str) -> String {
    let text =
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let mut html = String::new();
    for (at, part) in text.split('`').enumerate() {
        let is_code = at % 2 == 1;
        html += &if is_code { format!("<code>{part}</code>") } else { part.to_owned() };
    }
    html
}
