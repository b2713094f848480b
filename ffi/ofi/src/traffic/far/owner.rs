//! Regions of this process that the devices of other processes access.
//!
//! A device registers a limited number of regions at a time. When it has no room for a region that
//! a peer asks for, the owner recalls the region that was requested least recently. The holders of
//! that region finish the transfers that name it, return it, and ask again when they need it again.
//!
//! The request waits until there is room. The answer that there is no such region is only for keys
//! that do not exist.

use core::ptr::NonNull;
use std::collections::hash_map::Entry;

use strait_core::buffer::Part;

use super::leases::Lease;
use crate::abi::errno;
use crate::traffic::Traffic;
use crate::wire::{HeadKind, Opened, ProviderHead};

/// Maximum number of regions that are recalled at a time. Each takes one message in each direction.
const RECALLED_MAX: usize = 32;

/// The result of a request.
enum OpenReply {
    Tell(Opened),
    Wait,
}

impl Traffic {
    /// Records a peer's request to access this process's memory with its device.
    pub(in crate::traffic) fn serve_ask(&mut self, source: u32, key: u64) {
        self.far.lent.asked.push_back((source, key));
        self.serve_asked();
    }

    /// Answers the peers that have asked, as far as the device has room.
    pub(super) fn serve_asked(&mut self) {
        if self.far.lent.recalled > 0 {
            self.forget_gone_holders();
        }
        while let Some(&(source, key)) = self.far.lent.asked.front() {
            let OpenReply::Tell(opened) = self.answer(source, key) else { return };
            self.far.lent.asked.pop_front();
            let head = ProviderHead { tag: key, data: 0 };
            // A peer that is gone needs no answer.
            let _ = self.tell(source, HeadKind::Open.key(0), head, &opened.bytes());
        }
    }

    fn answer(&mut self, source: u32, key: u64) -> OpenReply {
        let Some(registered) = self.domain.region(key) else {
            return OpenReply::Tell(Opened::refused(errno::EACCES));
        };
        let Self { port, far, .. } = self;
        far.lent.clock += 1;
        let lease = match far.lent.regions.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let base = core::ptr::with_exposed_provenance_mut(registered.base);
                let base = NonNull::new(base).unwrap_or(NonNull::dangling());
                let part = Part { base, length: registered.length };
                // SAFETY: the user registered the memory for such accesses, and closes the region
                // when they end.
                let Some(region) = (unsafe { port.register(part, registered.access) }) else {
                    return self.make_room();
                };
                let lease = Lease { region, holders: Vec::new(), used: 0, is_recalled: false };
                entry.insert(lease)
            }
        };
        if lease.is_recalled {
            return OpenReply::Wait;
        }
        lease.used = far.lent.clock;
        if !lease.holders.contains(&source) {
            lease.holders.push(source);
        }
        OpenReply::Tell(Opened::new(&registered, lease.region.remote_key))
    }

    /// Recalls regions, if there are any, when the device has no room for requested regions.
    fn make_room(&mut self) -> OpenReply {
        if self.far.lent.recalled > 0 {
            return OpenReply::Wait;
        }
        for _ in 0..self.far.lent.asked.len().min(RECALLED_MAX) {
            self.recall_oldest();
        }
        // Registrations for this process's own accesses and messages are released when these end.
        let is_at_rest = self.far.registered == 0 && self.pending.is_empty();
        let nothing_comes = self.far.lent.recalled == 0 && is_at_rest;
        if nothing_comes {
            OpenReply::Tell(Opened::refused(errno::ENOMEM))
        } else {
            OpenReply::Wait
        }
    }

    /// Recalls the region that was requested least recently.
    fn recall_oldest(&mut self) {
        let open = self.far.lent.regions.iter_mut().filter(|(_, lease)| !lease.is_recalled);
        let Some((&key, lease)) = open.min_by_key(|(_, lease)| lease.used) else { return };
        lease.is_recalled = true;
        self.far.lent.recalled += 1;
        for holder in lease.holders.clone() {
            let head = ProviderHead { tag: key, data: 0 };
            // A later poll detects that the peer is gone.
            let _ = self.tell(holder, HeadKind::Recall.key(0), head, &[]);
        }
    }

    /// Handles a peer's return of the region with this key.
    pub(in crate::traffic) fn take_returned(&mut self, source: u32, key: u64) {
        let Some(lease) = self.far.lent.regions.get_mut(&key) else { return };
        lease.holders.retain(|holder| *holder != source);
        self.end_returned();
        self.serve_asked();
    }

    fn forget_gone_holders(&mut self) {
        let Self { port, far, .. } = self;
        for lease in far.lent.regions.values_mut().filter(|lease| lease.is_recalled) {
            lease.holders.retain(|holder| port.gone(*holder).is_none());
        }
        self.end_returned();
    }

    /// Releases the registrations of recalled regions that have no holder any more.
    fn end_returned(&mut self) {
        let Self { port, far, .. } = self;
        let ended = |_: &u64, lease: &mut Lease| lease.is_recalled && lease.holders.is_empty();
        for (_, lease) in far.lent.regions.extract_if(ended) {
            port.release(lease.region);
            far.lent.recalled -= 1;
        }
    }

    /// Closes the region with this key, which then belongs to the user alone.
    pub(crate) fn close_region(&mut self, key: u64) {
        if let Some(lease) = self.far.lent.regions.remove(&key) {
            self.far.lent.recalled -= usize::from(lease.is_recalled);
            self.port.release(lease.region);
        }
    }
}
