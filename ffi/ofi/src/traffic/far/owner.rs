//! Regions of this process that the devices of others reach.
//!
//! A device registers a limited number of regions at a time. When it has no room for one that a peer asks for, the region that was
//! asked for least recently is called back: its holders finish the transfers that name it, return it, and ask again when they need
//! it again. Until there is room the question waits. The answer that there is no such region is for keys that do not exist alone.

use core::ptr::NonNull;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use strait_core::hca::Region;
use strait_core::progress::Part;

use crate::abi::errno;
use crate::traffic::Traffic;
use crate::wire::{Head, Kind, Opened};

/// Number of regions that are called back at a time: each takes a message there and back.
const RECALLED_MAX: usize = 32;

/// Regions that are open to the devices of peers, and peers that wait for one.
#[derive(Debug, Default)]
pub(super) struct Lent {
    /// By libfabric's key.
    regions: HashMap<u64, Lease>,
    /// Peers that have asked, and the keys, oldest first.
    asked: VecDeque<(u32, u64)>,
    /// Number of answers so far.
    clock: u64,
    /// Number of leases that are called back.
    recalled: usize,
}

/// A region that the device has registered for peers.
#[derive(Debug)]
struct Lease {
    region: Region,
    /// Peers that know the device's key.
    holders: Vec<u32>,
    /// When a peer last asked for it.
    used: u64,
    /// The holders are to return it.
    is_recalled: bool,
}

/// What becomes of a question.
enum Answer {
    Tell(Opened),
    Wait,
}

impl Lent {
    /// Whether no peer waits for an answer, and no region for its return.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.recalled == 0
    }
}

impl Traffic {
    /// A peer wants to reach our memory by its device.
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
            let Answer::Tell(opened) = self.answer(source, key) else { return };
            self.far.lent.asked.pop_front();
            let head = Head { tag: key, data: 0 };
            // A peer that is gone need not know.
            let _ = self.tell(source, Kind::Open.key(0), head, &opened.bytes());
        }
    }

    fn answer(&mut self, source: u32, key: u64) -> Answer {
        // SAFETY: a domain outlives what was made in it.
        let Some(registered) = (unsafe { &*self.domain }).region(key) else {
            return Answer::Tell(Opened::refused(errno::EACCES));
        };
        let Self { port, far, .. } = self;
        far.lent.clock += 1;
        let lease = match far.lent.regions.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let base = core::ptr::with_exposed_provenance_mut(registered.base);
                let base = NonNull::new(base).unwrap_or(NonNull::dangling());
                let part = Part { base, length: registered.length };
                // SAFETY: the user registered it for that, and says when that ends.
                let Some(region) = (unsafe { port.register(part, registered.access) }) else {
                    return self.make_room();
                };
                let lease = Lease { region, holders: Vec::new(), used: 0, is_recalled: false };
                entry.insert(lease)
            }
        };
        if lease.is_recalled {
            return Answer::Wait;
        }
        lease.used = far.lent.clock;
        if !lease.holders.contains(&source) {
            lease.holders.push(source);
        }
        Answer::Tell(Opened::new(&registered, lease.region.remote_key))
    }

    /// Has regions come back, if there are any: the device has no room for those that peers wait for.
    fn make_room(&mut self) -> Answer {
        if self.far.lent.recalled > 0 {
            return Answer::Wait;
        }
        for _ in 0..self.far.lent.asked.len().min(RECALLED_MAX) {
            self.recall_oldest();
        }
        // What is registered for this process's own accesses and messages comes back when they end.
        let is_at_rest = self.far.registered == 0 && self.pending.is_empty();
        let nothing_comes = self.far.lent.recalled == 0 && is_at_rest;
        if nothing_comes { Answer::Tell(Opened::refused(errno::ENOMEM)) } else { Answer::Wait }
    }

    /// Calls the region back that was asked for least recently.
    fn recall_oldest(&mut self) {
        let open = self.far.lent.regions.iter_mut().filter(|(_, lease)| !lease.is_recalled);
        let Some((&key, lease)) = open.min_by_key(|(_, lease)| lease.used) else { return };
        lease.is_recalled = true;
        self.far.lent.recalled += 1;
        for holder in lease.holders.clone() {
            let head = Head { tag: key, data: 0 };
            // A peer that is gone is found to be.
            let _ = self.tell(holder, Kind::Recall.key(0), head, &[]);
        }
    }

    /// A peer does not reach the region of this key any more.
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

    /// Gives back to the device what was called back and has no holder any more.
    fn end_returned(&mut self) {
        let Self { port, far, .. } = self;
        let ended = |_: &u64, lease: &mut Lease| lease.is_recalled && lease.holders.is_empty();
        for (_, lease) in far.lent.regions.extract_if(ended) {
            port.release(lease.region);
            far.lent.recalled -= 1;
        }
    }

    /// The region of this key is the user's alone again.
    pub(crate) fn close_region(&mut self, key: u64) {
        if let Some(lease) = self.far.lent.regions.remove(&key) {
            self.far.lent.recalled -= usize::from(lease.is_recalled);
            self.port.release(lease.region);
        }
    }
}
