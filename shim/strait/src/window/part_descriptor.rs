//! The descriptor that a member publishes of its part while a window is made.

use strait_core::buffer::Part as Buffer;
use strait_core::hca::{Region, RemoteAddress};
use strait_core::layout::Corrupt;

/// The member could not make its part.
pub(super) const FAILED: u64 = 1;
/// The part lies in the member's heap.
pub(super) const MAPPED: u64 = 2;
/// The part is private memory of the member.
pub(super) const PRIVATE: u64 = 3;

/// The member attaches memory later.
pub(super) const DYNAMIC: u64 = 4;

/// The member promises [`Accumulates::Single`](crate::Accumulates::Single).
pub(super) const SINGLE: u64 = 1;

/// Marks members that ask for [`crate::WindowDesign::SendRecv`], in the word of the baseline.
pub(super) const SEND_RECV: u64 = 1 << 32;

/// Marks members with a device that has atomics, or with no need for one, in the word of the lock.
pub(super) const ATOMICS: u64 = 1 << 8;

/// Marks members with device atomics that agree with the processor's, in the word of the lock.
pub(super) const COHERENT: u64 = 1 << 9;

/// The descriptor of a member's part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartDescriptor {
    pub(super) kind: u64,
    /// Offset from the start of the member's heap in bytes, or an address in its memory.
    pub(super) place: u64,
    pub(super) length: u64,
    pub(super) unit: u64,
    /// Offset of the member's block from the start of its heap, in bytes.
    pub(super) block: u64,
    /// [`SINGLE`], or 0 when the member promises nothing about its accumulates.
    pub(super) accumulates: u64,
    /// The memory that devices reach, if the window spans nodes.
    pub(super) internode: MemberRegions,
    /// The words for the locks: see [`Opening::words`](super::passive::Opening::words).
    pub(super) lock: u64,
    pub(super) manager: u64,
    /// The member's number of the window, if that uses messages, and the design: see
    /// [`BaselineId::word`](super::baseline_id::BaselineId::word).
    pub(super) baseline: u64,
}

/// The memory of a member that the devices of others reach.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemberRegions {
    pub(super) part: RegionAddress,
    pub(super) block: RegionAddress,
    pub(super) operand_buffers: RegionAddress,
}

/// An address in registered memory, and its remote key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RegionAddress {
    pub(super) address: u64,
    key: u64,
}

impl RegionAddress {
    pub(super) fn of(memory: Buffer, region: &Region) -> Self {
        Self { address: memory.base.addr().get() as u64, key: region.remote_key.into() }
    }

    const fn words(self) -> [u64; 2] {
        [self.address, self.key]
    }

    const fn at([address, key]: [u64; 2]) -> Self {
        Self { address, key }
    }

    pub(super) fn remote(self) -> Result<RemoteAddress, Corrupt> {
        let Self { address, key } = self;
        let key = u32::try_from(key).map_err(|_| Corrupt::Length { found: key, max: NO_KEY })?;
        Ok(RemoteAddress { address, key })
    }
}

/// The largest remote key.
const NO_KEY: u64 = u32::MAX as u64;

impl PartDescriptor {
    /// Number of words in a descriptor.
    pub(super) const WORDS: usize = 15;

    pub(super) fn failed() -> Self {
        Self { kind: FAILED, ..Self::default() }
    }

    pub(super) const fn words(self) -> [u64; Self::WORDS] {
        let Self {
            kind,
            place,
            length,
            unit,
            block: own,
            accumulates,
            internode,
            lock,
            manager: lock_manager,
            baseline,
        } = self;
        let MemberRegions { part, block, operand_buffers } = internode;
        let ([a, b], [c, d], [e, f]) = (part.words(), block.words(), operand_buffers.words());
        [
            kind,
            place,
            length,
            unit,
            own,
            accumulates,
            a,
            b,
            c,
            d,
            e,
            f,
            lock,
            lock_manager,
            baseline,
        ]
    }

    pub(super) const fn of(words: [u64; Self::WORDS]) -> Self {
        let [
            kind,
            place,
            length,
            unit,
            own,
            accumulates,
            a,
            b,
            c,
            d,
            e,
            f,
            lock,
            lock_manager,
            baseline,
        ] = words;
        let (part, block, operand_buffers) =
            (RegionAddress::at([a, b]), RegionAddress::at([c, d]), RegionAddress::at([e, f]));
        let internode = MemberRegions { part, block, operand_buffers };
        Self {
            kind,
            place,
            length,
            unit,
            block: own,
            accumulates,
            internode,
            lock,
            manager: lock_manager,
            baseline,
        }
    }

    /// Returns whether the member asks for [`crate::WindowDesign::SendRecv`].
    pub(super) const fn goes_by_messages(&self) -> bool {
        self.baseline & SEND_RECV != 0
    }

    /// Returns whether the device of every member has atomics, or none is needed.
    pub(super) fn have_atomics(all: &[Self]) -> bool {
        all.iter().all(|descriptor| descriptor.lock & ATOMICS != 0)
    }

    /// Returns whether the atomics of every member's device agree with the processor's.
    pub(super) fn are_coherent(all: &[Self]) -> bool {
        all.iter().all(|descriptor| descriptor.lock & COHERENT != 0)
    }
}
