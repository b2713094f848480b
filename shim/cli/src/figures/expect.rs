//! Whether a remade figure has the orders and factors that its paper states.

use serde::Serialize;

use super::data::{Better, Expectation};
use super::series::Series;

/// The result of one expectation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// What is expected.
    pub(super) says: String,
    /// Whether it came out; `None` if series or points are missing.
    pub(super) holds: Option<bool>,
    /// The values found.
    pub(super) found: String,
}

/// Compares `series` with what is expected of them.
pub(super) fn check(expected: &Expectation, series: &[Series], better: Better) -> Finding {
    let checked = ordered(expected, series, better)
        .or_else(|| quotient(expected, series))
        .or_else(|| spread(expected, series))
        .or_else(|| growth(expected, series))
        .or_else(|| single(expected, series));
    let says = expected.says.clone();
    match checked {
        Some((holds, found)) => Finding { says, holds: Some(holds), found },
        None => Finding { says, holds: None, found: "no data".to_owned() },
    }
}

type Checked = Option<(bool, String)>;

fn named<'a>(series: &'a [Series], name: &str) -> Option<&'a Series> {
    series.iter().find(|one| one.name == name && !one.points.is_empty())
}

/// Returns whether `x` is in the range of the expectation.
fn counts(expected: &Expectation, x: f64) -> bool {
    expected.x.is_none_or(|only| (only - x).abs() < 1e-9)
        && expected.x_above.is_none_or(|least| x >= least)
        && expected.x_below.is_none_or(|most| x <= most)
}

fn within(expected: &Expectation, value: f64) -> bool {
    expected.at_least.is_none_or(|least| value >= least)
        && expected.at_most.is_none_or(|most| value <= most)
}

/// Series from the best to the worst.
fn ordered(expected: &Expectation, all: &[Series], better: Better) -> Checked {
    let names = expected.order.as_ref()?;
    let lines = names.iter().map(|name| named(all, name)).collect::<Option<Vec<_>>>()?;
    let slack = expected.slack.unwrap_or(1.0);
    let ahead = |one: f64, other: f64| match better {
        Better::Lower => one <= other * slack,
        Better::Higher => one * slack >= other,
    };
    let (mut places, mut failures) = (0, Vec::new());
    for [x, _] in lines[0].points.iter().filter(|[x, _]| counts(expected, *x)) {
        let Some(values) = lines.iter().map(|line| line.at(*x)).collect::<Option<Vec<_>>>() else {
            continue;
        };
        places += 1;
        if !values.is_sorted_by(|one, other| ahead(*one, *other)) {
            let shown: Vec<_> = names
                .iter()
                .zip(&values)
                .map(|(name, y)| format!("{name} {}", number(*y)))
                .collect();
            failures.push(format!("at {}: {}", number(*x), shown.join(", ")));
        }
    }
    match failures.first() {
        _ if places == 0 => None,
        None => Some((true, format!("at {places} of {places} places"))),
        Some(first) => {
            let right = places - failures.len();
            Some((false, format!("at {right} of {places} places; {first}")))
        }
    }
}

/// The quotient of two series.
fn quotient(expected: &Expectation, all: &[Series]) -> Checked {
    let [over, under] = expected.ratio.as_ref()?;
    let x = expected.x?;
    let (over, under) = (named(all, over)?.at(x)?, named(all, under)?);
    let value = over / under.at(expected.x2.unwrap_or(x))?;
    Some((within(expected, value), format!("factor {}", number(value))))
}

/// The quotient of the largest and the smallest value.
fn spread(expected: &Expectation, all: &[Series]) -> Checked {
    let line = named(all, expected.flat.as_ref()?)?;
    let counted = line.points.iter().filter(|[x, _]| counts(expected, *x));
    let values: Vec<_> = counted.map(|[_, y]| *y).collect();
    let (least, most) =
        (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
    let value = most / least;
    Some((within(expected, value), format!("largest by smallest {}", number(value))))
}

/// The quotient of the last and the first value.
fn growth(expected: &Expectation, all: &[Series]) -> Checked {
    let line = named(all, expected.grows.as_ref()?)?;
    let counted: Vec<_> = line.points.iter().filter(|[x, _]| counts(expected, *x)).collect();
    let value = counted.last()?[1] / counted.first()?[1];
    (counted.len() > 1)
        .then(|| (within(expected, value), format!("last by first {}", number(value))))
}

/// One value.
fn single(expected: &Expectation, all: &[Series]) -> Checked {
    let value = named(all, expected.value.as_ref()?)?.at(expected.x?)?;
    Some((within(expected, value), number(value)))
}

/// Formats with three significant digits.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match () {
        () if size >= 100.0 || value.fract() == 0.0 => 0,
        () if size >= 10.0 => 1,
        () if size >= 0.1 => 2,
        () => 4,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> [Series; 2] {
        let of = |name: &str, y: [f64; 3]| {
            Series::ours(name, vec![[1.0, y[0]], [2.0, y[1]], [4.0, y[2]]])
        };
        [of("fast", [1.0, 2.0, 8.0]), of("slow", [2.0, 3.0, 4.0])]
    }

    fn holds(expected: &Expectation) -> Option<bool> {
        check(expected, &lines(), Better::Lower).holds
    }

    fn order() -> Expectation {
        let order = Some(vec!["fast".into(), "slow".into()]);
        Expectation { order, ..Expectation::default() }
    }

    #[test]
    fn an_order_holds_where_it_counts() {
        assert_eq!(holds(&order()), Some(false), "not at 4");
        assert_eq!(holds(&Expectation { x_below: Some(2.0), ..order() }), Some(true));
        assert_eq!(holds(&Expectation { x: Some(4.0), ..order() }), Some(false));
        assert_eq!(holds(&Expectation { slack: Some(2.0), ..order() }), Some(true));
        assert_eq!(holds(&Expectation { x: Some(3.0), ..order() }), None, "no data");
        let higher = check(&order(), &lines(), Better::Higher).holds;
        assert_eq!(higher, Some(false), "higher is better at 4 alone");
    }

    #[test]
    fn factors_have_bounds() {
        let ratio = || Expectation {
            ratio: Some(["slow".into(), "fast".into()]),
            x: Some(1.0),
            ..Expectation::default()
        };
        assert_eq!(holds(&Expectation { at_least: Some(2.0), ..ratio() }), Some(true));
        assert_eq!(holds(&Expectation { at_most: Some(1.9), ..ratio() }), Some(false));
        let flat =
            Expectation { flat: Some("slow".into()), at_most: Some(2.0), ..Expectation::default() };
        assert_eq!(holds(&flat), Some(true));
        let grows = Expectation {
            grows: Some("fast".into()),
            at_least: Some(9.0),
            ..Expectation::default()
        };
        assert_eq!(holds(&grows), Some(false));
        let value = Expectation {
            value: Some("fast".into()),
            x: Some(2.0),
            at_most: Some(2.0),
            ..Expectation::default()
        };
        assert_eq!(holds(&value), Some(true));
        assert_eq!(holds(&Expectation { value: Some("none".into()), ..value }), None);
    }
}
