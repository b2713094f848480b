//! The output of the program: rows of batches, each with the bare line before and after it.

use crate::stop::Stop;

/// The slowest line between processors that share a cache of their own, in nanoseconds one way.
const NEAR_MAX_NS: f64 = 70.0;

/// Two lines that differ by more than this factor disagree, unless both are near. Between cores of
/// one Xeon a line takes 75 to 130 ns.
const MOVED: f64 = 1.6;

/// One row of one run.
#[derive(Debug, PartialEq)]
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    /// Size of a message, in bytes.
    pub(super) bytes: u64,
    pub(super) unit: Unit,
    pub(super) batches: Vec<Batch>,
}

/// The unit of the values of a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unit {
    /// Time of an operation: the smallest is the best.
    Nanoseconds,
    /// Hidden computation: the largest is the best.
    Percent,
}

impl Unit {
    /// Returns the name in the output.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Percent => "%",
        }
    }

    /// Returns whether `value` is at least as good as `other`.
    pub(super) fn is_as_good(self, value: f64, other: f64) -> bool {
        match self {
            Self::Nanoseconds => value <= other,
            Self::Percent => value >= other,
        }
    }
}

/// One batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Batch {
    pub(super) value: f64,
    /// The bare line before and after, in nanoseconds one way; 0 where there is none.
    pub(super) line: [f64; 2],
}

/// Where the two processors are.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Cores {
    /// They share a cache.
    Near,
    Far,
    /// The ranks take turns, so no line was measured.
    Unknown,
}

impl Cores {
    /// All kinds, in the order of the table.
    pub(super) const ALL: [Self; 3] = [Self::Near, Self::Far, Self::Unknown];

    /// Returns the name in the output.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::Unknown => "-",
        }
    }
}

impl Batch {
    /// Returns where the processors were during this batch, or `None` if they were moved.
    pub(super) fn cores(self) -> Option<Cores> {
        let [before, after] = self.line;
        let (least, most) = (before.min(after), before.max(after));
        match () {
            () if most == 0.0 => Some(Cores::Unknown),
            () if most <= NEAR_MAX_NS => Some(Cores::Near),
            () if most <= MOVED * least => Some(Cores::Far),
            () => None,
        }
    }

    /// Returns the mean of the lines.
    pub(super) fn mean_line(self) -> f64 {
        self.line.iter().sum::<f64>() / 2.0
    }
}

/// Parses what the program says. Lines of the launcher are skipped.
pub(super) fn parse(said: &str) -> Result<Vec<Row<'_>>, Stop> {
    let rows = said.lines().filter_map(|line| line.strip_prefix("row "));
    let row = |line: &str| Stop::Failed(format!("the program says `row {line}`"));
    rows.map(|line| one(line).ok_or_else(|| row(line))).collect()
}

fn one(line: &str) -> Option<Row<'_>> {
    let mut words = line.split_whitespace();
    let (name, bytes) = (words.next()?, words.next()?.parse().ok()?);
    let unit = match words.next()? {
        "ns" => Unit::Nanoseconds,
        "%" => Unit::Percent,
        _ => return None,
    };
    let batch = |word: &str| {
        let mut numbers = word.split(',').map(str::parse);
        let mut next = || numbers.next()?.ok();
        let (value, line) = (next()?, [next()?, next()?]);
        Some(Batch { value, line })
    };
    Some(Row { name, bytes, unit, batches: words.map(batch).collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_among_other_output() {
        let said = "a launcher's warning\nrow ppnb_8 8 ns 105.50,43.8,44.0 99.00,41.0,160.0\n\
                    row ovl_1M 1048576 % -3.25,0.0,0.0\n";
        let rows = parse(said).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].name, rows[0].bytes, rows[0].unit), ("ppnb_8", 8, Unit::Nanoseconds));
        assert_eq!(rows[0].batches[1], Batch { value: 99.0, line: [41.0, 160.0] });
        assert_eq!(rows[1].batches, [Batch { value: -3.25, line: [0.0; 2] }]);
        assert_eq!(rows[1].unit, Unit::Percent);
    }

    #[test]
    fn a_row_that_is_cut_short_is_an_error() {
        for bad in
            ["row", "row x", "row x 8", "row x 8 km 1,2,3", "row x 8 ns 1,2", "row x 8 ns 1,2,z"]
        {
            let said = format!("{bad} \n");
            assert!(parse(&said).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_batch_counts_only_if_its_lines_agree() {
        let cores = |before, after| Batch { value: 1.0, line: [before, after] }.cores();
        assert_eq!(cores(45.0, 52.0), Some(Cores::Near));
        assert_eq!(cores(160.0, 200.0), Some(Cores::Far));
        assert_eq!(cores(66.0, 101.0), Some(Cores::Far));
        assert_eq!(cores(0.0, 0.0), Some(Cores::Unknown));
        for (before, after) in [(45.0, 160.0), (160.0, 45.0), (150.0, 400.0)] {
            assert_eq!(cores(before, after), None, "{before} {after}");
        }
    }
}
