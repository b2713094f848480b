//! What the kernels share: their names and classes, and their outcome.

use core::fmt;

use clap::ValueEnum;

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
    /// Symmetric over-relaxation of a flow.
    Lu,
    /// Block-tridiagonal systems of a flow.
    Bt,
    /// Radix sort, of SPLASH-2.
    Radix,
}

impl NpbKernel {
    /// Returns whether the kernel runs with this number of ranks.
    pub(super) const fn takes(self, ranks: u32) -> bool {
        match self {
            Self::Is | Self::Cg | Self::Mg => ranks.is_power_of_two(),
            Self::Ep | Self::Lu | Self::Bt | Self::Radix => true,
        }
    }
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
            Self::Lu => "LU",
            Self::Bt => "BT",
            Self::Radix => "RADIX",
        })
    }
}

impl fmt::Display for NpbClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::S { "S" } else { "W" })
    }
}

/// A result, and the value that NPB publishes or that follows from the definition.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelOutcome {
    pub(super) found: f64,
    pub(super) expected: f64,
    /// The error that NPB allows, in parts of the value.
    pub(super) tolerance: f64,
}

impl KernelOutcome {
    /// Returns the outcome of several results, each beside its expected value: the first that
    /// is wrong, or else the first.
    pub(super) fn of_all(results: impl IntoIterator<Item = (f64, f64)>, tolerance: f64) -> Self {
        let outcomes = results
            .into_iter()
            .map(|(found, expected)| Self { found, expected, tolerance })
            .collect::<Vec<_>>();
        let wrong = outcomes.iter().find(|outcome| !outcome.is_verified());
        *wrong.unwrap_or(&outcomes[0])
    }

    /// Returns whether the result is the expected one.
    pub(super) fn is_verified(&self) -> bool {
        ((self.found - self.expected) / self.expected).abs() <= self.tolerance
    }

    /// Returns both values as text.
    pub(super) fn texts(&self) -> [String; 2] {
        let digits = if self.tolerance == 0.0 { 0 } else { 10 };
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
            "the result is {found}, not {expected}: messages were damaged, or the kernel is wrong"
        )
    }
}
