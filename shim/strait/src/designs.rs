//! The designs of windows and of their locks, which a program or a setting chooses.

use core::fmt;
use core::str::FromStr;

/// The way in which operations on a window are carried out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum WindowDesign {
    /// At once and without the target: by the origin on one node, by the device between nodes.
    #[default]
    Rdma,
    /// By messages, which the origin sends when it synchronises and the target's calls carry out:
    /// the paper's baseline.
    SendRecv,
}

impl WindowDesign {
    /// Both designs.
    pub const ALL: [Self; 2] = [Self::Rdma, Self::SendRecv];

    /// Returns the name of the design in `STRAIT_WINDOW`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rdma => "rdma",
            Self::SendRecv => "send_recv",
        }
    }
}

impl fmt::Display for WindowDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WindowDesign {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|design| design.name() == name).ok_or(())
    }
}

/// The designs of a window's locks. Each is faster than the others in some situation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockDesign {
    /// The target's lock manager queues requests, and serves them in the target's calls
    /// (`[HybridLock09]` §3).
    TwoSided,
    /// The lock manager of `TwoSided`, served by a thread of the target that never sleeps
    /// (`[OneSided04]` §4.2.1).
    Thread,
    /// The lock manager of `TwoSided`, served by a thread that sleeps until a request arrives
    /// (`[OneSided04]` §4.2.2).
    Event,
    /// Compare-and-swap on one word, with exponential back-off (`[OneSided04]` §4.3.1).
    TestAndSet,
    /// A queue in the memory of the waiting members (`[OneSided04]` §4.3.2).
    Mcs,
    /// A word for processors and a word for devices, between which the lock migrates
    /// (`[HybridLock09]` §4).
    #[default]
    Hybrid,
    /// The lock manager of `TwoSided`, served by a thread of the target for this window alone. The
    /// thread never sleeps (`[OneSided04]` §4.2.1, "one thread per window"). It begins and ends
    /// with the window.
    ThreadPerWindow,
}

impl LockDesign {
    /// All designs.
    pub const ALL: [Self; 7] = [
        Self::TwoSided,
        Self::Thread,
        Self::Event,
        Self::TestAndSet,
        Self::Mcs,
        Self::Hybrid,
        Self::ThreadPerWindow,
    ];

    /// Returns the name of the design in `STRAIT_WINDOW_LOCK`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwoSided => "two_sided",
            Self::Thread => "thread",
            Self::Event => "event",
            Self::TestAndSet => "test_and_set",
            Self::Mcs => "mcs",
            Self::Hybrid => "hybrid",
            Self::ThreadPerWindow => "thread_per_window",
        }
    }

    /// Returns whether a lock manager grants every lock.
    pub(crate) const fn is_managed(self) -> bool {
        matches!(self, Self::TwoSided | Self::Thread | Self::Event | Self::ThreadPerWindow)
    }
}

impl fmt::Display for LockDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LockDesign {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|design| design.name() == name).ok_or(())
    }
}
