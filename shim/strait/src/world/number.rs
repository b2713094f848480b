//! The numbers of worlds, which tell the worlds of one process apart.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::Error;

/// The number of a world. No other world of this process has it, now or later.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WorldNumber(u64);

impl WorldNumber {
    /// Returns the number of the next world.
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }

    /// Checks that a value of the world with this number is used with that world.
    pub(crate) fn check(self, used_with: Self) -> Result<(), Error> {
        if self == used_with { Ok(()) } else { Err(Error::OtherWorld) }
    }
}
