//! `strait bench halo`: tiles of a torus exchange their rims, for each size of tile and kind of
//! calls (`[Nemesis07]` §4.4).
//!
//! The north and west neighbours of a tile get two rows or columns of its words, the south and east
//! neighbours one. Rows are sent in place. Columns are gathered first, within the measured time.

use core::error::Error;

use clap::Args;
use strait::{Endpoint, Rank, wait_all};

use crate::bench::benchmark::Benchmark;
use crate::bench::options::{Common, asked_or, parse_side};
use crate::measure::report::{Report, Row};
use crate::measure::sampling::Effort;
use crate::measure::stage::BenchStage;
use crate::measure::stats::SampleSummary;
use crate::measure::together::{self, COLUMNS, Together};
use crate::payload::{self, Mismatch};

/// Tiles of a torus that exchange one to two rows and columns with their neighbours
#[derive(Args, Debug)]
pub(crate) struct HaloBench {
    /// Words of 8 bytes a side [default: the powers of two from 2 to 1024]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_side)]
    tiles: Vec<usize>,
    #[command(flatten)]
    common: Common,
}

impl HaloBench {
    fn sides(&self) -> Vec<usize> {
        asked_or(&self.tiles, (1..=10).map(|power| 1 << power))
    }
}

impl Benchmark for HaloBench {
    fn common(&self) -> Common {
        self.common
    }

    fn steps(&self, _stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(HaloCalls::ALL.len() * self.sides().len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        run(stage, self.common.effort(), &self.sides(), report)
    }
}

/// Size of a word in bytes.
const WORD: usize = size_of::<u64>();

/// The order in which one exchange posts its messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum HaloCalls {
    /// One direction after the other.
    SendRecv,
    /// Receive and send of one direction after the other. One wait covers all.
    IsendIrecv,
    /// All receives, then all sends, in the order in which persistent requests are started.
    ReceivesFirst,
}

impl HaloCalls {
    const ALL: [(Self, &'static str); 3] = [
        (Self::SendRecv, "sendrecv"),
        (Self::IsendIrecv, "isend, irecv"),
        (Self::ReceivesFirst, "persistent order"),
    ];
}

/// The direction of a message, which comes from the opposite side. The number is its tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Neighbour {
    North,
    South,
    West,
    East,
}

impl Neighbour {
    const ALL: [Self; 4] = [Self::North, Self::South, Self::West, Self::East];

    const fn back(self) -> Self {
        match self {
            Self::North => Self::South,
            Self::South => Self::North,
            Self::West => Self::East,
            Self::East => Self::West,
        }
    }

    /// Returns the number of rows or columns that go in this direction.
    const fn depth(self) -> usize {
        if matches!(self, Self::North | Self::West) { 2 } else { 1 }
    }

    /// Returns the indices of the words that go in this direction, in a tile of `side` words a
    /// side, in the order of the message.
    fn rim(self, side: usize) -> impl Iterator<Item = usize> {
        let first = if self.depth() == 2 { 0 } else { side - 1 };
        let by_row = matches!(self, Self::North | Self::South);
        let place = move |line, at| if by_row { line * side + at } else { at * side + line };
        (first..first + self.depth()).flat_map(move |line| (0..side).map(move |at| place(line, at)))
    }
}

/// The ranks as a torus, row by row, as close to a square as their number allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Torus {
    rows: u32,
    columns: u32,
}

impl Torus {
    fn of(ranks: u32) -> Self {
        let rows = (1..=ranks.isqrt()).rev().find(|rows| ranks.is_multiple_of(*rows)).unwrap_or(1);
        Self { rows, columns: ranks / rows }
    }

    /// Returns the next rank on that side. With one row or column it is the rank itself.
    const fn neighbour(self, rank: Rank, way: Neighbour) -> Rank {
        let Self { rows, columns } = self;
        let (row, column) = (rank / columns, rank % columns);
        match way {
            Neighbour::North => (row + rows - 1) % rows * columns + column,
            Neighbour::South => (row + 1) % rows * columns + column,
            Neighbour::West => row * columns + (column + columns - 1) % columns,
            Neighbour::East => row * columns + (column + 1) % columns,
        }
    }
}

/// One rank's tile and its surroundings.
struct Tile<'world> {
    endpoint: Endpoint<'world>,
    torus: Torus,
    calls: HaloCalls,
    side: usize,
    words: Vec<u64>,
    /// The gathered columns that go west and east.
    columns: [Vec<u64>; 2],
    /// The received words, by the direction of their message.
    halo: [Vec<u64>; 4],
}

impl<'world> Tile<'world> {
    fn new(endpoint: Endpoint<'world>, calls: HaloCalls, side: usize) -> Self {
        let room = |way: Neighbour| vec![0; way.depth() * side];
        Self {
            endpoint,
            torus: Torus::of(endpoint.world().size()),
            calls,
            side,
            words: vec![0; side * side],
            columns: [Neighbour::West, Neighbour::East].map(room),
            halo: Neighbour::ALL.map(room),
        }
    }

    fn gather_columns(&mut self) {
        for (way, column) in [Neighbour::West, Neighbour::East].into_iter().zip(&mut self.columns) {
            for (word, place) in column.iter_mut().zip(way.rim(self.side)) {
                *word = self.words[place];
            }
        }
    }

    fn exchange(&mut self) -> Result<(), strait::Error> {
        self.gather_columns();
        let Self { endpoint, torus, calls, side, words, columns, halo } = self;
        let rank = endpoint.world().rank();
        let data = |way| match way {
            Neighbour::North => &words[..2 * *side],
            Neighbour::South => &words[(*side - 1) * *side..],
            Neighbour::West => &columns[0][..],
            Neighbour::East => &columns[1][..],
        };
        let to = |way| torus.neighbour(rank, way);
        if *calls == HaloCalls::SendRecv {
            return Neighbour::ALL.into_iter().zip(halo).try_for_each(|(way, halo)| {
                let (from, tag) = (to(way.back()), way as u32);
                endpoint.sendrecv(data(way), to(way), tag, halo, from, tag).map(drop)
            });
        }
        endpoint.scope(|scope| {
            let send = |way| scope.isend(data(way), to(way), way as u32);
            let receive =
                |halo, way: Neighbour| scope.irecv::<[u64]>(halo, to(way.back()), way as u32);
            let [n, s, w, e] = halo;
            let [north, south, west, east] = Neighbour::ALL;
            let mut requests = match calls {
                HaloCalls::ReceivesFirst => [
                    receive(n, north)?,
                    receive(s, south)?,
                    receive(w, west)?,
                    receive(e, east)?,
                    send(north)?,
                    send(south)?,
                    send(west)?,
                    send(east)?,
                ],
                HaloCalls::IsendIrecv | HaloCalls::SendRecv => [
                    receive(n, north)?,
                    send(north)?,
                    receive(s, south)?,
                    send(south)?,
                    receive(w, west)?,
                    send(west)?,
                    receive(e, east)?,
                    send(east)?,
                ],
            };
            wait_all(&mut requests)
        })
    }

    /// Returns the word at `place` of `rank`'s tile in a sample.
    fn word(&self, seed: u64, rank: Rank, place: usize) -> u64 {
        let seed = seed * u64::from(self.endpoint.world().size()) + u64::from(rank);
        u64::from_le_bytes(payload::pattern(seed, place as u64))
    }
}

impl Together for Tile<'_> {
    /// Writes new words into the rim: only these are sent. Earlier samples had another pattern.
    fn prepare(&mut self, seed: u64) {
        let rank = self.endpoint.world().rank();
        for place in Neighbour::ALL.into_iter().flat_map(|way| way.rim(self.side)) {
            self.words[place] = self.word(seed, rank, place);
        }
    }

    fn run(&mut self, rounds: u64) -> Result<(), strait::Error> {
        (0..rounds).try_for_each(|_| self.exchange())
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        let rank = self.endpoint.world().rank();
        Neighbour::ALL.into_iter().zip(&self.halo).try_for_each(|(way, halo)| {
            let from = self.torus.neighbour(rank, way.back());
            let sent: Vec<_> =
                way.rim(self.side).map(|place| self.word(seed, from, place)).collect();
            payload::compare(bytemuck::cast_slice(halo), bytemuck::cast_slice(&sent))
        })
    }
}

fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    sides: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&[&["tile", "calls"], &COLUMNS[..]].concat());
    for &side in sides {
        for (calls, name) in HaloCalls::ALL {
            let mut tile = Tile::new(stage.endpoint, calls, side);
            let samples = together::measure(stage, effort, &mut tile)?;
            let row = |metric, unit, summary: SampleSummary| {
                Row::new("halo", side * WORD, metric, unit, summary).of_variant(name)
            };
            if let Some([min, p50, p99, bare, times]) = together::tell(report, &samples, row)? {
                let tile = format!("{side} x {side}");
                report.line([tile, name.to_owned(), min, p50, p99, bare, times]);
            }
            report.step();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tori_are_near_squares_and_their_neighbours_mutual() {
        let shapes = [2, 4, 6, 8, 14].map(|ranks| {
            let Torus { rows, columns } = Torus::of(ranks);
            (rows, columns)
        });
        assert_eq!(shapes, [(1, 2), (2, 2), (2, 3), (2, 4), (2, 7)]);
        let torus = Torus::of(8);
        assert_eq!(Neighbour::ALL.map(|way| torus.neighbour(1, way)), [5, 5, 0, 2]);
        assert_eq!(Neighbour::ALL.map(|way| torus.neighbour(7, way)), [3, 3, 6, 4]);
        for rank in 0..8 {
            for way in Neighbour::ALL {
                assert_eq!(torus.neighbour(torus.neighbour(rank, way), way.back()), rank);
            }
        }
    }

    #[test]
    fn rims_are_two_rows_and_columns_or_one() {
        let [north, south, west, east] = Neighbour::ALL.map(|way| way.rim(3).collect::<Vec<_>>());
        assert_eq!((north, south), (vec![0, 1, 2, 3, 4, 5], vec![6, 7, 8]));
        assert_eq!((west, east), (vec![0, 3, 6, 1, 4, 7], vec![2, 5, 8]));
    }
}
