//! The registered memory of one rank, and its access rights.

use core::ptr::NonNull;

use strait_core::hca::{Access, Region, RemoteAddress, Sge};

/// The regions of one rank.
#[derive(Debug, Default)]
pub(super) struct Regions {
    registered: Vec<RegisteredPart>,
    made: u32,
}

#[derive(Debug)]
struct RegisteredPart {
    base: NonNull<u8>,
    region: Region,
    access: Access,
}

impl Regions {
    /// Registers memory. Keys are never reused, and no two ranks have a key in common.
    pub(super) fn add(
        &mut self,
        rank: u32,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Region {
        self.made += 1;
        let key = rank << 20 | self.made << 1;
        let region = Region {
            base: base.addr().get() as u64,
            length: length as u64,
            local_key: key,
            remote_key: key | 1,
        };
        self.registered.push(RegisteredPart { base, region, access });
        region
    }

    /// Removes a region, by its local key. Returns false if there is none.
    pub(super) fn remove(&mut self, local_key: u32) -> bool {
        let before = self.registered.len();
        self.registered.retain(|registered| registered.region.local_key != local_key);
        self.registered.len() < before
    }

    /// Returns the number of regions.
    pub(super) const fn count(&self) -> usize {
        self.registered.len()
    }

    /// Returns whether the device may use `piece` on this rank's behalf. A piece without bytes is
    /// not checked.
    pub(super) fn allows(&self, piece: &Sge, write: bool) -> bool {
        let mut registered = self.registered.iter();
        piece.length == 0
            || registered.any(|registered| {
                registered.region.local_key == piece.key
                    && (registered.access.local_write || !write)
                    && registered
                        .at(piece.base.addr().get() as u64, u64::from(piece.length))
                        .is_some()
            })
    }

    /// Returns the address of a peer's request for `length` bytes, if the peer has the right.
    pub(super) fn place(
        &self,
        remote: RemoteAddress,
        length: u64,
        right: impl Fn(&Access) -> bool,
    ) -> Option<NonNull<u8>> {
        let found = |registered: &&RegisteredPart| registered.region.remote_key == remote.key;
        let registered = self.registered.iter().find(found)?;
        right(&registered.access).then(|| registered.at(remote.address, length)).flatten()
    }
}

impl RegisteredPart {
    /// Returns the address of `length` bytes at `address`, if they lie in the region.
    fn at(&self, address: u64, length: u64) -> Option<NonNull<u8>> {
        let offset = address.checked_sub(self.region.base)?;
        let end = offset.checked_add(length)?;
        // SAFETY: the region is valid as long as it is registered (contract of `Hca::register`),
        // and the offset is within it.
        (end <= self.region.length).then(|| unsafe { self.base.add(offset as usize) })
    }
}
