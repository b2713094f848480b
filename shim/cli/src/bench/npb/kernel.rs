//! What the kernels share: their names and classes, their ranks, and their outcome.

use core::fmt;

use bytemuck::{AnyBitPattern, NoUninit};
use clap::ValueEnum;
use strait::{Endpoint, Error, Op, wait_all};

/// The tag of the kernels' messages.
const TAG: u32 = 1;

/// A kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum NpbKernel {
    /// Integer sort.
    Is,
    /// Conjugate gradient.
    Cg,
    /// Multigrid.
    Mg,
    /// Embarrassingly parallel.
    Ep,
}

/// A class of problems.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum NpbClass {
    #[value(name = "S")]
    S,
    #[value(name = "W")]
    W,
}

impl fmt::Display for NpbKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Is => "IS",
            Self::Cg => "CG",
            Self::Mg => "MG",
            Self::Ep => "EP",
        })
    }
}

impl fmt::Display for NpbClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::S { "S" } else { "W" })
    }
}

/// A result, and NPB's value of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelOutcome {
    pub(super) found: f64,
    pub(super) expected: f64,
    /// The error that NPB allows, in parts of the value.
    pub(super) tolerance: f64,
}

impl KernelOutcome {
    /// Returns whether the result is NPB's.
    pub(super) fn is_verified(&self) -> bool {
        ((self.found - self.expected) / self.expected).abs() <= self.tolerance
    }

    /// Returns both values as text.
    pub(super) fn texts(&self) -> [String; 2] {
        let digits = if self.tolerance == 0.0 { 0 } else { 12 };
        [self.found, self.expected].map(|value| match digits {
            0 => format!("{value}"),
            _ => format!("{value:.digits$e}"),
        })
    }
}

impl fmt::Display for KernelOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [found, expected] = self.texts();
        write!(
            f,
            "the result is {found}, and NPB publishes {expected}: messages were damaged, or \
                   the kernel is wrong"
        )
    }
}

/// The ranks of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peers<'world> {
    endpoint: Endpoint<'world>,
}

impl<'world> Peers<'world> {
    pub(super) const fn new(endpoint: Endpoint<'world>) -> Self {
        Self { endpoint }
    }

    pub(super) fn rank(&self) -> usize {
        self.endpoint.world().rank() as usize
    }

    pub(super) fn count(&self) -> usize {
        self.endpoint.world().size() as usize
    }

    /// Returns the part of `total` things that belongs to a rank, as a range.
    pub(super) fn part(&self, total: usize, rank: usize) -> core::ops::Range<usize> {
        total * rank / self.count()..total * (rank + 1) / self.count()
    }

    /// Sums numbers of all ranks.
    pub(super) fn sum(&self, numbers: &mut [f64]) -> Result<(), Error> {
        self.endpoint.allreduce(numbers, Op::Sum)
    }

    /// Sends to a peer while it sends to this rank.
    pub(super) fn exchange<T: NoUninit + AnyBitPattern>(
        &self,
        peer: usize,
        out: &[T],
        into: &mut [T],
    ) -> Result<(), Error> {
        let peer = peer as u32;
        self.endpoint.scope(|scope| {
            let receive = scope.irecv(into, peer, TAG)?;
            let send = scope.isend(out, peer, TAG)?;
            wait_all(&mut [receive, send]).map(drop)
        })
    }

    /// Lets every rank have the parts of all others: in rounds in which what is known doubles.
    pub(super) fn gather(&self, all: &mut [f64]) -> Result<(), Error> {
        let (own, total) = (self.rank(), all.len());
        let mut known = 1;
        while known < self.count() {
            let peer = own ^ known;
            let bounds = |rank: usize| {
                let first = rank / known * known;
                self.part(total, first).start..self.part(total, first + known - 1).end
            };
            let out = all[bounds(own)].to_vec();
            self.exchange(peer, &out, &mut all[bounds(peer)])?;
            known *= 2;
        }
        Ok(())
    }
}
