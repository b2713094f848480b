//! Puts in both directions between two fences, beside messages in both directions (`[OneSided04]`
//! §3.4.2).
//!
//! Puts of many blocks, beside one put of as many bytes. Between nodes, packed blocks beside one
//! request for each block.

use core::error::Error;

use strait::{Assert, Endpoint, Shape, Window, wait_all};

use super::window::tell;
use crate::measure::report::Report;
use crate::measure::sampling::{Batch, Effort, measure};
use crate::measure::stage::BenchStage;
use crate::measure::stats;

/// Sizes in bytes of the puts in both directions.
const SIZES: [usize; 3] = [8, 4 << 10, 64 << 10];

/// Sizes in bytes of blocks with gaps.
const BLOCKS: [usize; 3] = [8, 256, 4 << 10];

/// Sizes in bytes of packed blocks.
const PACKED: [usize; 5] = [8, 64, 256, 1 << 10, 4 << 10];

/// Number of blocks in one put.
const COUNT: usize = 16;

/// Returns the number of measurements that [`run`] takes.
pub(super) fn steps(stage: &BenchStage<'_>) -> usize {
    let packed = if stage.crosses() { PACKED.len() } else { 0 };
    SIZES.len() + BLOCKS.len() + packed
}

/// The context of the messages.
const CONTEXT: u32 = 4;

/// Takes both measurements. All ranks call it.
pub(super) fn run(
    stage: &BenchStage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let pair = [stage.rank().min(stage.partner), stage.rank().max(stage.partner)];
    let group = stage.endpoint.group(&pair)?;
    let window = Window::builder(&group).allocate(2 * COUNT * BLOCKS[BLOCKS.len() - 1])?;
    let target = 1 - group.place();
    let endpoint = stage.endpoint.with_context(CONTEXT);
    for bytes in SIZES {
        let exchange = |by_window| TwoWayExchange {
            endpoint,
            window: &window,
            target,
            partner: stage.partner,
            own: vec![1; bytes],
            theirs: vec![0; bytes],
            by_window,
        };
        let (mut bare, mut work) = (exchange(false), exchange(true));
        let samples = measure(stage, effort, Some(&mut bare), &mut work)?;
        let name = format!("{}, both ways, fence", stats::bytes(bytes));
        tell(stage, report, "put", name, bytes, Some("messages"), &samples)?;
    }
    for block in BLOCKS {
        let data = vec![1; COUNT * block];
        let put =
            |shape| BlockPuts { window: &window, target, data: data.clone(), shape, pack: None };
        let mut bare = put(Shape::Contiguous { length: COUNT * block });
        let mut work = put(Shape::Strided { count: COUNT, block, stride: 2 * block });
        let samples = measure(stage, effort, Some(&mut bare), &mut work)?;
        let name = format!("{COUNT} blocks of {}", stats::bytes(block));
        tell(stage, report, "put", name, COUNT * block, Some("without_gaps"), &samples)?;
    }
    for block in PACKED.into_iter().filter(|_| stage.crosses()) {
        let shape = Shape::Strided { count: COUNT, block, stride: 2 * block };
        let data = vec![1; COUNT * block];
        let put = |pack| BlockPuts {
            window: &window,
            target,
            data: data.clone(),
            shape,
            pack: Some(pack),
        };
        let (mut bare, mut work) = (put(0), put(usize::MAX));
        let samples = measure(stage, effort, Some(&mut bare), &mut work)?;
        let name = format!("{COUNT} blocks of {}, packed", stats::bytes(block));
        tell(stage, report, "put", name, COUNT * block, Some("requests"), &samples)?;
    }
    window.free()?;
    Ok(())
}

/// Ranks that both put, or both send.
struct TwoWayExchange<'a> {
    endpoint: Endpoint<'a>,
    window: &'a Window<'a>,
    target: u32,
    partner: u32,
    own: Vec<u8>,
    theirs: Vec<u8>,
    by_window: bool,
}

impl TwoWayExchange<'_> {
    fn rounds(&mut self, rounds: u64) -> Result<(), strait::Error> {
        let Self { endpoint, window, target, partner, ref own, ref mut theirs, by_window } = *self;
        for _ in 0..rounds {
            if by_window {
                window.put(own, target, 0)?;
                window.fence(Assert::NONE)?;
                continue;
            }
            endpoint.scope(|scope| {
                let receive = scope.irecv(&mut theirs[..], partner, 0)?;
                let send = scope.isend(&own[..], partner, 0)?;
                wait_all(&mut [receive, send])
            })?;
        }
        Ok(())
    }
}

impl Batch for TwoWayExchange<'_> {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.rounds(rounds)
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.rounds(rounds)
    }
}

/// Puts of all blocks, one put at a time, each flushed.
struct BlockPuts<'a> {
    window: &'a Window<'a>,
    target: u32,
    data: Vec<u8>,
    shape: Shape<'static>,
    /// Maximum size in bytes of a packed block. `None`: the library chooses.
    pack: Option<usize>,
}

impl Batch for BlockPuts<'_> {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.pack.into_iter().for_each(|bytes| self.window.pack_up_to(bytes));
        for _ in 0..rounds {
            let data = [std::io::IoSlice::new(&self.data)];
            self.window.put_vectored(&data, self.target, 0, self.shape)?;
            self.window.flush(self.target)?;
        }
        Ok(())
    }

    fn follow(&mut self, _rounds: u64) -> Result<(), strait::Error> {
        Ok(())
    }
}
