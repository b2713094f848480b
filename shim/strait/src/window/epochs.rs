//! The epochs of active synchronisation that one member has open.

use core::ops::BitOr;

use strait_core::rma::Pair;

/// A caller's promises about an epoch (MPI-4.1 §12.5.5). The operator `|` joins them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Assert(u8);

impl Assert {
    /// No promise.
    pub const NONE: Self = Self(0);
    /// `MPI_MODE_NOSTORE`: the part was not written by its owner's own stores since the last
    /// synchronisation.
    pub const NO_STORE: Self = Self(1);
    /// `MPI_MODE_NOPUT`: the part will not be written by puts and accumulates until the next
    /// synchronisation.
    pub const NO_PUT: Self = Self(2);
    /// `MPI_MODE_NOPRECEDE`: the fence ends no epoch with operations. Either all members promise it
    /// or none.
    pub const NO_PRECEDE: Self = Self(4);
    /// `MPI_MODE_NOSUCCEED`: no operations follow until the next fence. Either all members promise
    /// it or none.
    pub const NO_SUCCEED: Self = Self(8);
    /// `MPI_MODE_NOCHECK`: `post` is called before `start`, and both callers promise it.
    pub const NO_CHECK: Self = Self(16);

    /// Returns true when all of `other` is promised.
    ///
    /// ```
    /// use strait::Assert;
    ///
    /// let promises = Assert::NO_STORE | Assert::NO_PUT;
    /// assert!(promises.has(Assert::NO_PUT) && !promises.has(Assert::NO_CHECK));
    /// ```
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Assert {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The epochs of one member.
#[derive(Debug)]
pub(super) struct Epochs {
    pub(super) pairs: Box<[Pair]>,
    /// The targets of the access epoch.
    pub(super) access: Epoch,
    /// The origins of the exposure epoch that may not have completed. Completed origins are removed
    /// from the end.
    pub(super) exposure: Epoch,
}

/// An epoch with some members, and whether it is open.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    pub(super) open: bool,
    pub(super) places: Vec<u32>,
}

impl Epoch {
    pub(super) fn begin(&mut self, places: &[u32]) {
        self.open = true;
        self.places.clear();
        // Most epochs have one member, and a copy by the C library takes longer.
        places.iter().for_each(|place| self.places.push(*place));
    }

    /// Ends the epoch. Returns false when it was not open.
    pub(super) fn end(&mut self) -> bool {
        core::mem::replace(&mut self.open, false)
    }
}

impl Epochs {
    pub(super) fn new(members: u32) -> Self {
        let pairs = (0..members).map(|_| Pair::default()).collect();
        Self { pairs, access: Epoch::default(), exposure: Epoch::default() }
    }
}
