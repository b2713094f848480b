//! The credit: how the receiver of a stream says which slots are free again (`[RdmaChannel04]` §4.3).
//!
//! It travels in the head of whatever goes to the peer anyway. When nothing does, and a quarter of the ring is consumed and
//! not told, it is a write of its own.

/// What the peer knows of our consuming.
#[derive(Debug)]
pub(super) struct Credit {
    told: u64,
    every: u64,
}

impl Credit {
    pub(super) const fn new(slots: u64) -> Self {
        Self { told: 0, every: if slots < 4 { 1 } else { slots / 4 } }
    }

    /// Whether it is time for a write of its own.
    pub(super) const fn is_due(&self, consumed: u64) -> bool {
        consumed - self.told >= self.every
    }

    /// Notes that the peer is told, and gives back what.
    pub(super) const fn tell(&mut self, consumed: u64) -> u64 {
        self.told = consumed;
        consumed
    }

    /// What the peer was told last.
    pub(super) const fn told(&self) -> u64 {
        self.told
    }
}
