//! Other MPI libraries on this machine, from the record of `cargo xtask peers`.

use core::error::Error;
use std::collections::BTreeMap;
use std::path::Path;

use super::data::PaperFigure;
use super::series::{Origin, Series};

/// The rows of the record that belong to a figure: their prefix, and what a value in nanoseconds is
/// divided by. 0: the value becomes megabytes per second.
const ROWS: [(&str, &str, f64); 2] = [("Nemesis07 3a", "pp_", 1.0), ("Nemesis07 3b", "bw_", 0.0)];

/// Values in nanoseconds by library, row and bytes.
#[derive(Debug, Default)]
pub(super) struct PeerRecord(BTreeMap<(String, String, u64), Vec<f64>>);

impl PeerRecord {
    /// Reads the record. Without one there are no series of peers.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn read(file: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let Some(file) = file else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("the record of peers {}: {error}", file.display()))?;
        Ok(Self::parse(&text))
    }

    /// Parses lines such as `openmpi row pp_8 8 ns 30,45,45 31,45,45`. Others are skipped.
    fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for line in text.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            let [library, "row", name, bytes, "ns", batches @ ..] = words.as_slice() else {
                continue;
            };
            let Ok(bytes) = bytes.parse() else { continue };
            let value = |batch: &&str| batch.split(',').next()?.parse::<f64>().ok();
            let key = ((*library).to_owned(), (*name).to_owned(), bytes);
            all.0.entry(key).or_default().extend(batches.iter().filter_map(value));
        }
        all
    }

    /// Returns the series of a figure: for each library and size the fastest batch.
    pub(super) fn series(&self, figure: &PaperFigure) -> Vec<Series> {
        let key = figure.key();
        let Some((_, prefix, scale)) = ROWS.iter().find(|(of, ..)| *of == key) else {
            return Vec::new();
        };
        let mut points: BTreeMap<&str, Vec<[f64; 2]>> = BTreeMap::new();
        for ((library, name, bytes), values) in &self.0 {
            let best = values.iter().copied().reduce(f64::min);
            let (true, Some(best)) = (name.starts_with(prefix) && library != "strait", best) else {
                continue;
            };
            let bytes = *bytes as f64;
            let y = if *scale == 0.0 { bytes * 1e3 / best } else { best / scale };
            points.entry(library).or_default().push([bytes, y]);
        }
        let series = points.into_iter().map(|(library, mut points)| {
            points.sort_by(|one, other| one[0].total_cmp(&other[0]));
            points.dedup_by(|one, other| one[0] == other[0]);
            Series { name: library.to_owned(), origin: Origin::Peer, points }
        });
        series.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::data;

    #[test]
    fn the_fastest_batch_of_each_library_counts() {
        let text = "openmpi row pp_64 64 ns 260,45,45 255,45,45\nopenmpi row pp_8 8 ns 250,1,1\n\
                    strait row pp_8 8 ns 100,1,1\nnonsense\n\
                    intel row bw_1M 1048576 ns 100000,1,1\n";
        let record = PeerRecord::parse(text);
        let figures = data::figures().unwrap();
        let of = |name| record.series(figures.iter().find(|one| one.key() == name).unwrap());
        let latency = of("Nemesis07 3a");
        assert_eq!(latency.len(), 1);
        assert_eq!(latency[0].points, [[8.0, 250.0], [64.0, 255.0]]);
        assert!((of("Nemesis07 3b")[0].points[0][1] - 10_485.76).abs() < 0.01);
        assert!(of("Nemesis07 4").is_empty());
    }
}
