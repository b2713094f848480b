//! `strait bench collective`: the time of collective operations of all ranks, by length.

use core::error::Error;

use clap::{Args, ValueEnum};
use strait::{Group, Op};

use crate::bench::benchmark::Benchmark;
use crate::bench::options::{Common, asked_or, parse_bytes};
use crate::measure::report::{Report, Row};
use crate::measure::stage::BenchStage;
use crate::measure::stats::SampleSummary;
use crate::measure::together::{self, COLUMNS, Together};

/// Sizes when none are asked for, in bytes.
const SIZES: [usize; 5] = [8, 256, 8 << 10, 64 << 10, 1 << 20];

/// Time of a collective operation of all ranks, by operation and size
#[derive(Args, Debug)]
pub(crate) struct CollectiveBench {
    /// Operations [default: all]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    operation: Vec<CollectiveKind>,
    /// Sizes of the vector of one member, such as 8,1K,64K,1M; of all-to-all and reduce-scatter, of
    /// one block
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes)]
    bytes: Vec<usize>,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum CollectiveKind {
    Broadcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatter,
    Scan,
    Exscan,
}

impl CollectiveBench {
    fn operations(&self) -> Vec<CollectiveKind> {
        if self.operation.is_empty() {
            CollectiveKind::value_variants().to_vec()
        } else {
            self.operation.clone()
        }
    }
}

impl Benchmark for CollectiveBench {
    fn common(&self) -> Common {
        self.common
    }

    fn steps(&self, _stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>> {
        Ok(self.operations().len() * asked_or(&self.bytes, SIZES).len())
    }

    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        report.columns(&[&["operation", "bytes"], &COLUMNS[..]].concat());
        let group = stage.endpoint.everyone();
        for operation in self.operations() {
            let name = operation
                .to_possible_value()
                .map_or(String::new(), |name| name.get_name().to_owned());
            for bytes in asked_or(&self.bytes, SIZES) {
                let mut rounds = Rounds::new(&group, operation, bytes);
                let samples = together::measure(stage, self.common.effort(), &mut rounds)?;
                let row = |metric, unit, summary: SampleSummary| {
                    Row::new("collective", bytes, metric, unit, summary).of_variant(name.clone())
                };
                if let Some([min, p50, p99, bare, times]) = together::tell(report, &samples, row)? {
                    let bytes = bytes.to_string();
                    report.line([name.clone(), bytes, min, p50, p99, bare, times]);
                }
                report.step();
            }
        }
        Ok(())
    }
}

/// Rounds of one operation. The roots take turns, so that no member runs ahead.
struct Rounds<'a> {
    group: &'a Group<'a>,
    operation: CollectiveKind,
    own: Vec<i64>,
    all: Vec<i64>,
    root: u32,
}

impl<'a> Rounds<'a> {
    fn new(group: &'a Group<'a>, operation: CollectiveKind, bytes: usize) -> Self {
        let (members, length) = (group.ranks().len(), bytes.div_ceil(size_of::<i64>()));
        let own = vec![i64::from(group.place()); length];
        Self { group, operation, own, all: vec![0; members * length], root: 0 }
    }

    fn once(&mut self) -> Result<(), strait::Error> {
        let Self { group, operation, own, all, root } = self;
        *root = (*root + 1) % group.ranks().len() as u32;
        let all_at_root = if *root == group.place() { &mut all[..] } else { &mut [] };
        match operation {
            CollectiveKind::Broadcast => group.broadcast(own, *root),
            CollectiveKind::Gather => group.gather(&*own, all_at_root, *root),
            CollectiveKind::Scatter => group.scatter(all_at_root, own, *root),
            CollectiveKind::Allgather => group.allgather(&*own, all),
            CollectiveKind::Alltoall => group.alltoall(strait::InPlace, all),
            CollectiveKind::Reduce => group.reduce(own, Op::Sum, *root),
            CollectiveKind::Allreduce => group.allreduce(own, Op::Sum),
            CollectiveKind::ReduceScatter => group.reduce_scatter_block(all, Op::Sum),
            CollectiveKind::Scan => group.scan(own, Op::Sum),
            CollectiveKind::Exscan => group.exscan(own, Op::Sum),
        }
    }
}

impl Together for Rounds<'_> {
    fn run(&mut self, rounds: u64) -> Result<(), strait::Error> {
        (0..rounds).try_for_each(|_| self.once())
    }
}
