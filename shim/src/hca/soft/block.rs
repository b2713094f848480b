//! What one rank's device keeps in the fabric.
//!
//! Only the owner writes its block, but for four things that peers do to it: they take receives, complete them, break
//! connections, and hold the two locks. Zeroed memory is a device that has not attached.

use strait_core::hca::Address;
use strait_core::hca::fabric::{Claim, Receives, RegionEntry, Slot};
use strait_core::layout::Liveness;
use strait_core::lock::Lock;
use strait_core::shm::Doorbell;
use strait_core::sync::Ordering::{Acquire, Relaxed, Release};
use strait_core::sync::{AtomicU64, CacheLine};

/// What every address of this kind of device begins with.
const KIND: &[u8; 8] = b"STRsoft\x01";

/// Regions that a device registers at a time.
pub(super) const REGIONS: u32 = 1024;

/// Connections that a device has at a time.
pub(super) const CONNECTIONS: u32 = 1024;

/// Receives that are posted and not completed.
pub(super) const RECEIVES: u32 = 1024;

/// The device of one rank, as its peers see it.
///
/// | offset | size  | field         | written by                                             |
/// |-------:|------:|---------------|--------------------------------------------------------|
/// |      0 |    64 | `liveness`    | owner                                                  |
/// |     64 |    64 | `access`      | owner                                                  |
/// |    128 |    64 | `atomics`     | whoever does an atomic on the owner's memory           |
/// |    192 |    64 | `event`       | owner, whoever completes something of the owner's      |
/// |    256 |    64 | `receives`    | `posted` owner; `lock` and `taken` whoever sends       |
/// |    320 | 32768 | `regions`     | owner                                                  |
/// |  33088 | 32768 | `connections` | owner; its peer breaks it                              |
/// |  65856 | 32768 | `slots`       | owner; while one is taken, who took it                 |
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Block {
    /// Which process the device is in, and whether it is still there.
    pub(super) liveness: CacheLine<Liveness>,
    /// The remote region that this device reads or writes just now.
    pub(super) access: CacheLine<Claim>,
    /// Held for each atomic on this rank's memory.
    pub(super) atomics: CacheLine<Lock>,
    /// Armed by the owner, rung by who completes something.
    pub(super) event: CacheLine<Doorbell>,
    /// Which receives are posted, and which are taken.
    pub(super) receives: CacheLine<Receives>,
    pub(super) regions: [RegionEntry; REGIONS as usize],
    pub(super) connections: [End; CONNECTIONS as usize],
    pub(super) slots: [Slot; RECEIVES as usize],
}

const _: () = {
    assert!(size_of::<Block>() == 98_624, "docs/decisions/soft-hca.md says so");
    assert!(core::mem::offset_of!(Block, regions) == 320);
    assert!(core::mem::offset_of!(Block, connections) == 33_088);
    assert!(core::mem::offset_of!(Block, slots) == 65_856);
};

/// One end of a connection.
#[derive(Debug)]
#[repr(C)]
pub(super) struct End {
    /// Generation and stage in one word, so that nobody breaks a later connection for an earlier one.
    state: AtomicU64,
    peer: AtomicU64,
    peer_generation: AtomicU64,
    _reserved: AtomicU64,
}

/// How far one end of a connection is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    Closed,
    Open,
    Connected,
    Broken,
}

/// Which end of which connection: what an address says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct EndId {
    pub(super) rank: u32,
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl EndId {
    /// The end as peers get to know it.
    ///
    /// | offset | size | field        |
    /// |-------:|-----:|--------------|
    /// |      0 |    8 | `STRsoft`    |
    /// |      8 |    8 | nonce        |
    /// |     16 |    4 | rank         |
    /// |     20 |    4 | index        |
    /// |     24 |    4 | generation   |
    pub(super) fn to_address(self, nonce: u64) -> Address {
        let mut address = Address([0; Address::LENGTH]);
        address.0[..8].copy_from_slice(KIND);
        address.0[8..16].copy_from_slice(&nonce.to_le_bytes());
        address.0[16..20].copy_from_slice(&self.rank.to_le_bytes());
        address.0[20..24].copy_from_slice(&self.index.to_le_bytes());
        address.0[24..28].copy_from_slice(&self.generation.to_le_bytes());
        address
    }

    /// The end with this address, and its fabric's nonce; `None` when it is no address of this kind of device.
    pub(super) fn from_address(address: &Address) -> Option<(u64, Self)> {
        let word = |at: usize| {
            let bytes = address.0[at..at + 4].try_into().unwrap_or_default();
            u32::from_le_bytes(bytes)
        };
        let (rank, index, generation) = (word(16), word(20), word(24));
        let nonce = u64::from_le_bytes(address.0[8..16].try_into().unwrap_or_default());
        let is_one = address.0.starts_with(KIND) && index < CONNECTIONS;
        is_one.then_some((nonce, Self { rank, index, generation }))
    }
}

impl End {
    const fn word(generation: u32, stage: Stage) -> u64 {
        (generation as u64) << 32 | stage as u64
    }

    pub(super) fn set(&self, generation: u32, stage: Stage) {
        // Release, pairs with `stage`: who finds an end connected finds to whom.
        self.state.store(Self::word(generation, stage), Release);
    }

    /// Says which end the other one is. Before [`Stage::Connected`].
    pub(super) fn set_peer(&self, peer: EndId) {
        self.peer.store((peer.rank as u64) << 32 | peer.index as u64, Relaxed);
        self.peer_generation.store(peer.generation.into(), Relaxed);
    }

    /// Whether the other end is this one.
    pub(super) fn is_peer(&self, peer: EndId) -> bool {
        self.peer.load(Relaxed) == (u64::from(peer.rank) << 32 | u64::from(peer.index))
            && self.peer_generation.load(Relaxed) == u64::from(peer.generation)
    }

    /// The stage of the connection of this generation; closed when the end has another one.
    pub(super) fn stage(&self, generation: u32) -> Stage {
        let word = self.state.load(Acquire);
        if (word >> 32) as u32 != generation {
            return Stage::Closed;
        }
        match word as u32 {
            1 => Stage::Open,
            2 => Stage::Connected,
            3 => Stage::Broken,
            _ => Stage::Closed,
        }
    }

    /// Breaks the connection of this generation, if it is still there.
    pub(super) fn shatter(&self, generation: u32) {
        let connected = Self::word(generation, Stage::Connected);
        let broken = Self::word(generation, Stage::Broken);
        let _ = self.state.compare_exchange(connected, broken, Release, Relaxed);
    }
}
