//! Both ranks of a pair put to each other between two fences, beside messages both ways (`[OneSided04]` §3.4.2); and puts of many blocks,
//! beside one of as many bytes, and between nodes packed beside a request for each block.

use core::error::Error;

use strait::{Assert, Endpoint, Shape, Window, wait_all};

use super::report::Report;
use super::sampling::{Batch, Effort, measure};
use super::stage::Stage;
use super::stats;
use super::window::tell;

/// Sizes that are put both ways.
const SIZES: [usize; 3] = [8, 4 << 10, 64 << 10];

/// Bytes of a block of those with gaps.
const BLOCKS: [usize; 3] = [8, 256, 4 << 10];

/// Bytes of a block of those that are packed.
const PACKED: [usize; 5] = [8, 64, 256, 1 << 10, 4 << 10];

/// Blocks of one put.
const COUNT: usize = 16;

/// How many measurements [`run`] takes.
pub(super) fn steps(stage: &Stage<'_>) -> usize {
    let packed = if stage.crosses() { PACKED.len() } else { 0 };
    SIZES.len() + BLOCKS.len() + packed
}

/// The context of the messages.
const CONTEXT: u32 = 4;

/// Measures both. All ranks call it.
pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let pair = [stage.rank().min(stage.partner), stage.rank().max(stage.partner)];
    let group = stage.endpoint.group(&pair)?;
    let window = group.allocate_window(2 * COUNT * BLOCKS[BLOCKS.len() - 1], 1)?;
    let target = 1 - group.place();
    let endpoint = stage.endpoint.with_context(CONTEXT);
    for bytes in SIZES {
        let exchange = |by_window| Exchange {
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
        let put = |shape| Blocks { window: &window, target, data: data.clone(), shape, pack: None };
        let mut bare = put(Shape::Contiguous { length: COUNT * block });
        let mut work = put(Shape::Strided { count: COUNT, block, stride: 2 * block });
        let samples = measure(stage, effort, Some(&mut bare), &mut work)?;
        let name = format!("{COUNT} blocks of {}", stats::bytes(block));
        tell(stage, report, "put", name, COUNT * block, Some("without_gaps"), &samples)?;
    }
    for block in PACKED.into_iter().filter(|_| stage.crosses()) {
        let shape = Shape::Strided { count: COUNT, block, stride: 2 * block };
        let data = vec![1; COUNT * block];
        let put =
            |pack| Blocks { window: &window, target, data: data.clone(), shape, pack: Some(pack) };
        let (mut bare, mut work) = (put(0), put(usize::MAX));
        let samples = measure(stage, effort, Some(&mut bare), &mut work)?;
        let name = format!("{COUNT} blocks of {}, packed", stats::bytes(block));
        tell(stage, report, "put", name, COUNT * block, Some("requests"), &samples)?;
    }
    window.free()?;
    Ok(())
}

/// Both put, or send.
struct Exchange<'a> {
    endpoint: Endpoint<'a>,
    window: &'a Window<'a>,
    target: u32,
    partner: u32,
    own: Vec<u8>,
    theirs: Vec<u8>,
    by_window: bool,
}

impl Exchange<'_> {
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

impl Batch for Exchange<'_> {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.rounds(rounds)
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        self.rounds(rounds)
    }
}

/// One put of all blocks at a time, flushed.
struct Blocks<'a> {
    window: &'a Window<'a>,
    target: u32,
    data: Vec<u8>,
    shape: Shape<'static>,
    /// Bytes of the longest blocks that are packed, if that is not left to the library.
    pack: Option<usize>,
}

impl Batch for Blocks<'_> {
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
