//! The length from which the RDMA channel moves parts between the users' buffers, and whether it
//! does so by RDMA read or by RDMA write.

use core::error::Error;
use core::ptr::NonNull;

use serde::Serialize;
use strait::raw::{Part, RdmaChannel};
use strait::{World, env};
use strait_core::ring::Design;

use super::{Crossover, crossover, judge};
use crate::measure::report::Report;
use crate::measure::sampling::{Batch, Effort};
use crate::measure::stage::BenchStage;
use crate::payload::{self, Mismatch};

/// The compared lengths of a part, in bytes.
pub(super) const SIZES: [usize; 9] =
    [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];

/// The lengths of parts, in bytes, for which RDMA read and write are compared.
pub(super) const LONG_SIZES: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];

/// A choice between designs, for programs.
#[derive(Serialize)]
pub(super) struct DesignChoice {
    tune: &'static str,
    pub(super) variable: &'static str,
    pub(super) choice: &'static str,
    /// The setting in force.
    pub(super) current: &'static str,
}

/// Number of calls after which a rank that waits yields.
const POLLS: u32 = 64;

/// The context of the messages that connect the pipes.
const CONTEXT: u32 = 0x7000_0000;

/// Parts there and back through a channel of its own.
struct ChannelPingPong<'world> {
    world: &'world World,
    partner: u32,
    /// Dropped before the buffers, which its device may use.
    channel: RdmaChannel,
    out: Vec<u8>,
    back: Vec<u8>,
}

impl<'world> ChannelPingPong<'world> {
    /// Opens a channel of `design` for parts of `bytes` bytes, which copies parts of up to
    /// `copy_max` bytes. No other has this `round`.
    fn open(
        stage: &BenchStage<'world>,
        round: u32,
        bytes: usize,
        (design, copy_max): (Design, usize),
    ) -> Result<Self, strait::Error> {
        let world = stage.endpoint.world();
        let mut channel = RdmaChannel::open(world, CONTEXT, round)?;
        channel.set_design(design);
        channel.set_copy_max(copy_max as u32);
        let (out, back) = (vec![0; bytes], vec![0; bytes]);
        Ok(Self { world, partner: stage.partner, channel, out, back })
    }

    fn put(&mut self, from: NonNull<u8>) -> Result<(), strait::Error> {
        let (mut done, mut polls) = (0, 0);
        while done < self.out.len() {
            poll_politely(&mut polls);
            // SAFETY: `done` bytes of the buffer are put, so the rest lies in it.
            let rest = Part { base: unsafe { from.add(done) }, length: self.out.len() - done };
            // SAFETY: the buffer outlives the channel, and only this loop uses it meanwhile.
            done += unsafe { self.channel.put(self.world, self.partner, &[rest]) }?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), strait::Error> {
        let into = NonNull::from(self.back.as_mut_slice()).cast::<u8>();
        let (mut done, mut polls) = (0, 0);
        while done < self.back.len() {
            poll_politely(&mut polls);
            // SAFETY: `done` bytes of the buffer are read, so the rest lies in it.
            let rest = Part { base: unsafe { into.add(done) }, length: self.back.len() - done };
            // SAFETY: the buffer outlives the channel, and only this loop uses it meanwhile.
            done += unsafe { self.channel.read(self.world, self.partner, &[rest]) }?;
        }
        Ok(())
    }
}

/// Yields the processor at intervals: the partner may need it.
fn poll_politely(polls: &mut u32) {
    *polls += 1;
    if polls.is_multiple_of(POLLS) {
        std::thread::yield_now();
    }
}

impl Batch for ChannelPingPong<'_> {
    fn prepare(&mut self, seed: u64) {
        payload::fill(&mut self.out, seed);
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            let out = NonNull::from(self.out.as_mut_slice()).cast();
            self.put(out)?;
            self.read()?;
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.read()?;
            let back = NonNull::from(self.back.as_mut_slice()).cast();
            self.put(back)?;
        }
        Ok(())
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        payload::verify(&self.back, seed)
    }
}

/// Returns the median ratio of the times of two designs, each with its longest copied part.
fn compare(
    stage: &BenchStage<'_>,
    effort: Effort,
    what: (&'static str, &'static str, usize),
    (round, designs): (u32, [(Design, usize); 2]),
    report: &mut Report,
) -> Result<f64, Box<dyn Error>> {
    let mut lower = ChannelPingPong::open(stage, round, what.2, designs[0])?;
    let mut upper = ChannelPingPong::open(stage, round + 1, what.2, designs[1])?;
    let ratio = judge(stage, effort, what, &mut lower, &mut upper, report)?;
    lower.channel.close(lower.world)?;
    upper.channel.close(upper.world)?;
    // The partner may still poll its end of a pipe.
    stage.barrier()?;
    report.step();
    Ok(ratio)
}

/// Returns the design that moved long parts faster: by RDMA read, or by RDMA write.
pub(super) fn choose(
    stage: &BenchStage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<DesignChoice, Box<dyn Error>> {
    const NAME: &str = "ring";
    let copied = 1024;
    let designs = [(Design::ZeroCopy, copied), (Design::RendezvousWrite, copied)];
    let first = 2 * SIZES.len() as u32;
    let mut product = 1.0;
    for (round, bytes) in (first..).step_by(2).zip(LONG_SIZES) {
        let what = (NAME, "read or write", bytes);
        product *= compare(stage, effort, what, (round, designs), report)?;
    }
    let chosen = if product < 1.0 { Design::RendezvousWrite } else { Design::ZeroCopy };
    let current = env::ring()?.name();
    Ok(DesignChoice { tune: NAME, variable: "STRAIT_RING", choice: chosen.name(), current })
}

/// Returns the last length of a part for which the copy through the ring is as good.
pub(super) fn search(
    stage: &BenchStage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<Crossover, Box<dyn Error>> {
    const NAME: &str = "ring_copy_max";
    let mut ratios = Vec::with_capacity(SIZES.len());
    for (round, bytes) in (0..).step_by(2).zip(SIZES) {
        let designs = [(Design::ZeroCopy, bytes), (Design::ZeroCopy, bytes - 1)];
        let what = (NAME, "copied, then moved", bytes);
        ratios.push((bytes, compare(stage, effort, what, (round, designs), report)?));
    }
    Ok(Crossover {
        tune: NAME,
        variable: "STRAIT_RING_COPY_MAX",
        crossover: crossover(&ratios),
        current: env::ring_copy_max()? as usize,
    })
}
