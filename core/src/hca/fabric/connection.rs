//! The ends of connections between software devices.

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, order};

/// One end of a connection. Its device opens, connects and closes it; the peer's device may break
/// it.
#[derive(Debug)]
#[repr(C)]
pub struct ConnectionEnd {
    /// Generation and state in one word, so that a peer cannot break a later connection in place of
    /// an earlier one.
    state: AtomicU64,
    peer: AtomicU64,
    peer_generation: AtomicU64,
    _reserved: AtomicU64,
}

/// The state of one end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndState {
    /// No connection has this end, or none of the asked generation.
    Closed,
    /// The end waits for its peer.
    Open,
    /// The end names its peer.
    Connected,
    /// A request failed, or the peer is gone.
    Broken,
}

/// The identity of one end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EndId {
    /// The rank of the device.
    pub rank: u32,
    /// The place of the end in its device.
    pub index: u32,
    /// The number of the connection among those that have used the place.
    pub generation: u32,
}

impl ConnectionEnd {
    /// Creates a closed end, for models and tests. In a fabric, zeroed memory is one.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            state: AtomicU64::new(0),
            peer: AtomicU64::new(0),
            peer_generation: AtomicU64::new(0),
            _reserved: AtomicU64::new(0),
        }
    }

    const fn word(generation: u32, state: EndState) -> u64 {
        (generation as u64) << 32 | state as u64
    }

    /// Sets the state of this generation. Only the owner calls it.
    pub fn set(&self, generation: u32, state: EndState) {
        // ORDER connection/1: Release, pairs with connection/2: a device that finds the end
        //   connected also finds its peer.
        self.state.store(Self::word(generation, state), order("connection/1", Release));
    }

    /// Records the other end. It precedes [`EndState::Connected`].
    pub fn set_peer(&self, peer: EndId) {
        // Relaxed: connection/1 publishes both words.
        self.peer.store((peer.rank as u64) << 32 | peer.index as u64, Relaxed);
        self.peer_generation.store(peer.generation.into(), Relaxed);
    }

    /// Returns whether `peer` is the other end. The caller has found the end connected, now or
    /// before.
    #[must_use]
    pub fn is_peer(&self, peer: EndId) -> bool {
        self.peer.load(Relaxed) == (u64::from(peer.rank) << 32 | u64::from(peer.index))
            && self.peer_generation.load(Relaxed) == u64::from(peer.generation)
    }

    /// Returns the state of the connection of this generation, or closed when the end has another
    /// generation.
    #[must_use]
    pub fn stage(&self, generation: u32) -> EndState {
        // ORDER connection/2: Acquire, pairs with connection/1: the other end.
        let word = self.state.load(order("connection/2", Acquire));
        if (word >> 32) as u32 != generation {
            return EndState::Closed;
        }
        match word as u32 {
            1 => EndState::Open,
            2 => EndState::Connected,
            3 => EndState::Broken,
            _ => EndState::Closed,
        }
    }

    /// Breaks the connection of this generation, if it still exists.
    pub fn shatter(&self, generation: u32) {
        let connected = Self::word(generation, EndState::Connected);
        let broken = Self::word(generation, EndState::Broken);
        // ORDER connection/3: Relaxed. It publishes nothing of its own, and as a read-modify-write
        //   it continues the release sequence of connection/1.
        let relaxed = order("connection/3", Relaxed);
        let _ = self.state.compare_exchange(connected, broken, relaxed, Relaxed);
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_later_connection_is_not_broken_in_place_of_an_earlier_one() {
        let (end, peer) = (ConnectionEnd::closed(), EndId { rank: 3, index: 5, generation: 8 });
        end.set(1, EndState::Open);
        end.shatter(1);
        assert_eq!(end.stage(1), EndState::Open, "only a connected end breaks");
        end.set_peer(peer);
        end.set(1, EndState::Connected);
        end.set(1, EndState::Closed);
        end.set(2, EndState::Connected);
        end.shatter(1);
        assert_eq!((end.stage(1), end.stage(2)), (EndState::Closed, EndState::Connected));
        end.shatter(2);
        assert_eq!(end.stage(2), EndState::Broken);
        assert!(end.is_peer(peer) && !end.is_peer(EndId { generation: 9, ..peer }));
    }
}
