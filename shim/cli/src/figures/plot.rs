//! One figure as SVG.

use core::error::Error;
use core::fmt::Display;
use core::ops::Range;

use plotters::prelude::*;

use super::data::PaperFigure;
use super::expect::number;
use super::remade::Remade;
use super::series::{Origin, Series};

/// Size of a plot, in pixels.
const SIZE: (u32, u32) = (560, 330);

/// Colours of this run's series.
const OURS: [RGBColor; 6] = [
    RGBColor(31, 100, 180),
    RGBColor(216, 90, 20),
    RGBColor(30, 140, 70),
    RGBColor(140, 70, 170),
    RGBColor(190, 150, 0),
    RGBColor(90, 90, 90),
];

/// Colours of the paper's values without a series of this run, and that of peers.
const PAPERS: [RGBColor; 6] = [
    RGBColor(0, 0, 0),
    RGBColor(120, 60, 20),
    RGBColor(150, 20, 60),
    RGBColor(20, 110, 120),
    RGBColor(110, 110, 0),
    RGBColor(90, 60, 140),
];
const PEER: RGBColor = RGBColor(150, 150, 150);

/// Draws the series of a figure. Returns nothing if there is no point.
pub(super) fn svg(remade: &Remade) -> Result<Option<String>, Box<dyn Error>> {
    let figure = &remade.figure;
    let lines: Vec<_> = remade.series.iter().filter(|series| !series.points.is_empty()).collect();
    let all = || lines.iter().flat_map(|series| &series.points);
    let positive = all().all(|[_, y]| *y > 0.0);
    let axes = Axes { log_x: figure.log, log_y: (figure.log || figure.log_y) && positive };
    let xs = range(all().map(|point| axes.place(*point).0));
    let (Some(xs), Some(ys)) = (xs, range(all().map(|point| axes.place(*point).1))) else {
        return Ok(None);
    };
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let ys = match axes.log_y {
        true => ys.start - 0.1..ys.end + 0.1,
        false => ys.start.min(0.0) * 1.1..(ys.end.max(0.0) * 1.1).max(0.01),
    };
    draw(&root, figure, &lines, axes, (wide(&xs), ys))?;
    root.present()?;
    drop(root);
    Ok(Some(text))
}

/// Returns the names of the series with their marks, as HTML. They stand below the plot, where they
/// hide no point.
pub(super) fn legend(remade: &Remade) -> String {
    let lines: Vec<_> = remade.series.iter().filter(|series| !series.points.is_empty()).collect();
    let entry = |(series, RGBColor(r, g, b)): (&&Series, RGBColor)| {
        let (mark, origin) = match series.origin {
            Origin::Ours => ("●", ""),
            Origin::Paper => ("✕", "paper: "),
            Origin::Peer => ("▲", ""),
        };
        let name = &series.name;
        format!("<span><b style=\"color:rgb({r},{g},{b})\">{mark}</b> {origin}{name}</span>")
    };
    let entries: Vec<_> = lines.iter().zip(colours(&lines)).map(entry).collect();
    format!("<p class=\"legend\">{}</p>", entries.join(" "))
}

/// Returns the colour of each series.
fn colours(lines: &[&Series]) -> Vec<RGBColor> {
    let (mut own, mut stated) = (0, 0);
    let colour = |series: &&Series| match series.origin {
        Origin::Ours => {
            own += 1;
            OURS[(own - 1) % OURS.len()]
        }
        // The paper's series have the colour of ours with the same name.
        Origin::Paper => {
            stated += 1;
            let ours = lines.iter().filter(|one| one.origin == Origin::Ours);
            let same = ours.clone().position(|one| one.name == series.name);
            same.map_or(PAPERS[(stated - 1) % PAPERS.len()], |at| OURS[at % OURS.len()])
        }
        Origin::Peer => PEER,
    };
    lines.iter().map(colour).collect()
}

/// Which axes are logarithmic. Their coordinates are logarithms of 2 and of 10.
#[derive(Clone, Copy, Debug)]
struct Axes {
    log_x: bool,
    log_y: bool,
}

impl Axes {
    /// Returns the coordinates of a point. Zero bytes have a place left of one byte.
    fn place(self, [x, y]: [f64; 2]) -> (f64, f64) {
        let x = if self.log_x { x.max(0.5).log2() } else { x };
        (x, if self.log_y { y.log10() } else { y })
    }

    /// Returns the values at coordinates.
    fn x_of(self, at: f64) -> f64 {
        if self.log_x { at.exp2() } else { at }
    }

    fn y_of(self, at: f64) -> f64 {
        if self.log_y { 10_f64.powf(at) } else { at }
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    values.for_each(|value| (least, most) = (least.min(value), most.max(value)));
    (least <= most).then_some(least..most)
}

/// Returns a range with room at both ends.
fn wide(range: &Range<f64>) -> Range<f64> {
    let room = ((range.end - range.start) * 0.06).max(0.25);
    range.start - room..range.end + room
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(
    root: &Area<'_>,
    figure: &PaperFigure,
    lines: &[&Series],
    axes: Axes,
    (xs, ys): (Range<f64>, Range<f64>),
) -> Result<(), Box<dyn Error>> {
    let mut chart = ChartBuilder::on(root)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(62)
        .build_cartesian_2d(xs, ys)?;
    let along = |x: &f64| label(figure, axes.x_of(*x));
    let (x_labels, across) = match figure.labels.len() {
        0 => (8, figure.x.as_str()),
        count => (2 * count + 1, ""),
    };
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .axis_style(RGBColor(120, 120, 120))
        .x_labels(x_labels)
        .y_labels(6)
        .x_label_formatter(&along)
        .y_label_formatter(&|y| number(axes.y_of(*y)))
        .x_desc(across)
        .y_desc(figure.unit.as_str())
        .label_style(("sans-serif", 13))
        .draw()?;
    for (series, colour) in lines.iter().zip(colours(lines)) {
        let points = || series.points.iter().map(|point| axes.place(*point));
        let size = 4;
        let is_line = series.origin != Origin::Paper && figure.labels.is_empty();
        if is_line {
            chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
        }
        match series.origin {
            Origin::Ours => {
                chart.draw_series(points().map(|at| Circle::new(at, size, colour.filled())))?;
            }
            Origin::Paper => {
                let cross = |at| Cross::new(at, size + 1, colour.stroke_width(2));
                chart.draw_series(points().map(cross))?;
            }
            Origin::Peer => {
                let mark = |at| TriangleMarker::new(at, size, colour.filled());
                chart.draw_series(points().map(mark))?;
            }
        }
    }
    Ok(())
}

/// Returns the text of a place on the horizontal axis.
fn label(figure: &PaperFigure, x: f64) -> String {
    if !figure.labels.is_empty() {
        let is_whole = (x - x.round()).abs() < 0.01 && x > -0.01;
        let known = is_whole.then(|| figure.labels.get(x.round() as usize)).flatten();
        return known.cloned().unwrap_or_default();
    }
    let (kib, mib) = (1024.0, 1_048_576.0);
    match x {
        _ if !figure.x.contains("bytes") => number(x),
        x if x >= mib => format!("{} MiB", rounded(x / mib)),
        x if x >= kib => format!("{} KiB", rounded(x / kib)),
        x => rounded(x).to_string(),
    }
}

fn rounded(value: f64) -> impl Display {
    (value * 10.0).round() / 10.0
}
