//! The block of one rank's device in the fabric.
//!
//! Only the owner writes its block, with four exceptions: peers take receives, complete them, break
//! connections, and hold the two locks. A zeroed block is a device that has not attached.

use strait_core::hca::Address;
pub(super) use strait_core::hca::fabric::{ConnectionEnd, EndId, EndState};
use strait_core::hca::fabric::{ReceiveSlot, Receives, RegionClaim, RegionEntry};
use strait_core::layout::Liveness;
use strait_core::lock::RevocableLock;
use strait_core::shm::Doorbell;
use strait_core::sync::CacheLine;

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

/// Encodes the end as an address for peers.
///
/// | offset | size | field        |
/// |-------:|-----:|--------------|
/// |      0 |    8 | `STRsoft`    |
/// |      8 |    8 | nonce        |
/// |     16 |    4 | rank         |
/// |     20 |    4 | index        |
/// |     24 |    4 | generation   |
pub(super) fn address_of(end: EndId, nonce: u64) -> Address {
    let mut address = Address([0; Address::LENGTH]);
    address.0[..8].copy_from_slice(KIND);
    address.0[8..16].copy_from_slice(&nonce.to_le_bytes());
    address.0[16..20].copy_from_slice(&end.rank.to_le_bytes());
    address.0[20..24].copy_from_slice(&end.index.to_le_bytes());
    address.0[24..28].copy_from_slice(&end.generation.to_le_bytes());
    address
}

/// Returns the end with this address, and its fabric's nonce. Returns `None` when the address
/// is not of this kind of device.
pub(super) fn end_at(address: &Address) -> Option<(u64, EndId)> {
    let word = |at: usize| {
        let bytes = address.0[at..at + 4].try_into().unwrap_or_default();
        u32::from_le_bytes(bytes)
    };
    let (rank, index, generation) = (word(16), word(20), word(24));
    let nonce = u64::from_le_bytes(address.0[8..16].try_into().unwrap_or_default());
    let is_one = address.0.starts_with(KIND) && index < CONNECTIONS;
    is_one.then_some((nonce, EndId { rank, index, generation }))
}

/// The other end of a connection, with its proven process.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockEnd {
    pub(super) end: EndId,
    /// The process, which is proven to be the peer's.
    pub(super) pid: libc::pid_t,
}
