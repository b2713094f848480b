//! Statistics of many samples, and the format of numbers.

/// The samples of one quantity in three numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SampleSummary {
    /// The minimum.
    pub(crate) min: f64,
    /// The median.
    pub(crate) p50: f64,
    /// 99 of 100 samples are at least as good.
    pub(crate) p99: f64,
    /// Number of samples.
    pub(crate) samples: usize,
}

impl SampleSummary {
    /// Returns the statistics of a quantity that is better when smaller, or `None` without samples.
    pub(crate) fn of_costs(samples: &[f64]) -> Option<Self> {
        Self::of(samples, 0.99)
    }

    /// Returns the statistics of a quantity that is better when larger, or `None` without samples.
    pub(crate) fn of_gains(samples: &[f64]) -> Option<Self> {
        Self::of(samples, 0.01)
    }

    fn of(samples: &[f64], bad: f64) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part).round() as usize];
        let min = *sorted.first()?;
        Some(Self { min, p50: at(0.5), p99: at(bad), samples: sorted.len() })
    }
}

/// Sums sample by sample, as far as all have one: the total of the pairs.
pub(crate) fn sum(all: &[Vec<f64>]) -> Vec<f64> {
    let samples = all.iter().map(Vec::len).min().unwrap_or(0);
    (0..samples).map(|sample| all.iter().map(|one| one[sample]).sum()).collect()
}

/// Formats nanoseconds for readers.
pub(crate) fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        t if t < 9.95 => format!("{t:.1} ns"),
        t if t < 999.5 => format!("{t:.0} ns"),
        t if t < 99_950.0 => format!("{:.2} µs", t / 1e3),
        t if t < 999_500.0 => format!("{:.0} µs", t / 1e3),
        t => format!("{:.2} ms", t / 1e6),
    }
}

/// Formats a ratio for readers.
pub(crate) fn ratio(ratio: f64) -> String {
    if ratio < 9.995 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

/// Formats a number of bytes for readers.
pub(crate) fn bytes(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_taken_at_the_bad_end() {
        let samples: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        let costs = SampleSummary::of_costs(&samples).unwrap();
        assert_eq!(costs, SampleSummary { min: 1.0, p50: 51.0, p99: 100.0, samples: 101 });
        let gains = SampleSummary::of_gains(&samples).unwrap();
        assert_eq!(gains, SampleSummary { min: 1.0, p50: 51.0, p99: 2.0, samples: 101 });
        assert_eq!(SampleSummary::of_costs(&[]), None);
    }

    #[test]
    fn pairs_are_summed_as_far_as_all_measured() {
        assert_eq!(sum(&[vec![1.0, 2.0], vec![10.0, 20.0, 30.0]]), [11.0, 22.0]);
        assert!(sum(&[]).is_empty());
    }

    #[test]
    fn numbers_are_written_short() {
        assert_eq!([time(5.26), time(72.4), time(1200.0)], ["5.3 ns", "72 ns", "1.20 µs"]);
        assert_eq!([time(250_000.0), time(2e6)], ["250 µs", "2.00 ms"]);
        assert_eq!([ratio(1.524), ratio(52.4)], ["1.52", "52"]);
        assert_eq!(
            [bytes(0), bytes(1000), bytes(1024), bytes(3 << 20)],
            ["0 B", "1000 B", "1 KiB", "3 MiB"]
        );
    }
}
