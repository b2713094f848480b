//! The block of one rank's device in the fabric.
//!
//! Only the owner writes its block, with four exceptions: peers take receives, complete them, break
//! connections, and hold the two locks. A zeroed block is a device that has not attached.

use strait_core::hca::Address;
use strait_core::hca::fabric::{ReceiveSlot, Receives, RegionClaim, RegionEntry};
use strait_core::layout::Liveness;
use strait_core::lock::RevocableLock;
use strait_core::shm::Doorbell;
use strait_core::sync::Ordering::{Acquire, Relaxed, Release};
use strait_core::sync::{AtomicU64, CacheLine};

/// The first bytes of every address of this kind of device.
const KIND: &[u8; 8] = b"STRsoft\x01";

/// Number of regions that a device registers at a time.
pub(super) const REGIONS: u32 = 1024;

/// Number of connections that a device has at a time.
pub(super) const CONNECTIONS: u32 = 1024;

/// Number of receives that are posted and not completed.
pub(super) const RECEIVES: u32 = 1024;

/// The device of one rank, as its peers see it.
///
/// | offset | size  | field         | written by                                             |
/// |-------:|------:|---------------|--------------------------------------------------------|
/// |      0 |    64 | `liveness`    | owner                                                  |
/// |     64 |    64 | `access`      | owner                                                  |
/// |    128 |    64 | `atomics`     | devices that do atomics on the owner's memory          |
/// |    192 |    64 | `event`       | owner; devices that complete its requests or receives  |
/// |    256 |    64 | `receives`    | `posted` owner; `lock` and `taken` senders             |
/// |    320 | 32768 | `regions`     | owner                                                  |
/// |  33088 | 32768 | `connections` | owner; its peer breaks it                              |
/// |  65856 | 32768 | `slots`       | owner; the sender of a slot while it is taken          |
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct DeviceBlock {
    /// The process of the device, and whether it is alive.
    pub(super) liveness: CacheLine<Liveness>,
    /// The remote region that this device is reading or writing.
    pub(super) access: CacheLine<RegionClaim>,
    /// Held during each atomic on this rank's memory.
    pub(super) atomics: CacheLine<RevocableLock>,
    /// Armed by the owner, and rung by the device that completes a request.
    pub(super) event: CacheLine<Doorbell>,
    /// The receives that are posted, and those that are taken.
    pub(super) receives: CacheLine<Receives>,
    pub(super) regions: [RegionEntry; REGIONS as usize],
    pub(super) connections: [ConnectionEnd; CONNECTIONS as usize],
    pub(super) slots: [ReceiveSlot; RECEIVES as usize],
}

const _: () = {
    assert!(size_of::<DeviceBlock>() == 98_624, "docs/decisions/soft-hca.md says so");
    assert!(core::mem::offset_of!(DeviceBlock, regions) == 320);
    assert!(core::mem::offset_of!(DeviceBlock, connections) == 33_088);
    assert!(core::mem::offset_of!(DeviceBlock, slots) == 65_856);
};

/// One end of a connection.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ConnectionEnd {
    /// Generation and state in one word, so that a peer cannot break a later connection in place of
    /// an earlier one.
    state: AtomicU64,
    peer: AtomicU64,
    peer_generation: AtomicU64,
    _reserved: AtomicU64,
}

/// The state of one end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EndState {
    Closed,
    Open,
    Connected,
    Broken,
}

/// The identity of one end of a connection: the contents of an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct EndId {
    pub(super) rank: u32,
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl EndId {
    /// Encodes the end as an address for peers.
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

    /// Returns the end with this address, and its fabric's nonce. Returns `None` when the address
    /// is not of this kind of device.
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

/// The other end of a connection, with its proven process.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockEnd {
    pub(super) end: EndId,
    /// The process, which is proven to be the peer's.
    pub(super) pid: libc::pid_t,
}

impl ConnectionEnd {
    const fn word(generation: u32, stage: EndState) -> u64 {
        (generation as u64) << 32 | stage as u64
    }

    pub(super) fn set(&self, generation: u32, stage: EndState) {
        // Release, pairs with the load in `stage`: a peer that finds an end connected also finds
        // its peer.
        self.state.store(Self::word(generation, stage), Release);
    }

    /// Records the other end. It precedes [`EndState::Connected`].
    pub(super) fn set_peer(&self, peer: EndId) {
        self.peer.store((peer.rank as u64) << 32 | peer.index as u64, Relaxed);
        self.peer_generation.store(peer.generation.into(), Relaxed);
    }

    /// Returns whether `peer` is the other end.
    pub(super) fn is_peer(&self, peer: EndId) -> bool {
        self.peer.load(Relaxed) == (u64::from(peer.rank) << 32 | u64::from(peer.index))
            && self.peer_generation.load(Relaxed) == u64::from(peer.generation)
    }

    /// Returns the state of the connection of this generation, or closed when the end has another
    /// generation.
    pub(super) fn stage(&self, generation: u32) -> EndState {
        let word = self.state.load(Acquire);
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
    pub(super) fn shatter(&self, generation: u32) {
        let connected = Self::word(generation, EndState::Connected);
        let broken = Self::word(generation, EndState::Broken);
        let _ = self.state.compare_exchange(connected, broken, Release, Relaxed);
    }
}
