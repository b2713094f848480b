//! The credit, with which the receiver of a stream reports free slots (`[RdmaChannel04]` §4.3).
//!
//! A credit travels in the head of the next message to the peer. If a quarter of the ring is
//! consumed and not reported, the credit is written by a request of its own.

/// How much of our consumption the peer knows.
#[derive(Debug)]
pub(super) struct Credit {
    told: u64,
    every: u64,
}

impl Credit {
    pub(super) const fn new(slots: u64) -> Self {
        Self { told: 0, every: if slots < 4 { 1 } else { slots / 4 } }
    }

    /// Returns true if the credit must be written by a request of its own.
    pub(super) const fn is_due(&self, consumed: u64) -> bool {
        consumed - self.told >= self.every
    }

    /// Notes that the peer is told, and returns the credit.
    pub(super) const fn tell(&mut self, consumed: u64) -> u64 {
        self.told = consumed;
        consumed
    }

    /// Returns the credit that the peer was told last.
    pub(super) const fn told(&self) -> u64 {
        self.told
    }
}
