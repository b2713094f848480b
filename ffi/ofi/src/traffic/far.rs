//! Reading and writing the memory of processes elsewhere: the device does it, and the owner takes no part.
//!
//! ```text
//! origin                                            owner
//!  | first access to a region: ASK, libfabric's key   |
//!  |------------------------------------------------->| registers it with its device
//!  |     OPEN, that key, the device's, the region     |
//!  |<-------------------------------------------------|
//!  | from then on: RDMA, beside the stream            |
//! ```
//!
//! What one process asks of another is begun in order, and a write after the reads before it are done. Where a device does not
//! say that a write is at the peer, the owner says so of a message behind it.

use core::ptr::NonNull;
use std::collections::{HashMap, VecDeque};

use strait_core::hca::{Access as Rights, Region, Remote};
use strait_core::progress::{Begun, Direct, Part, Way};

use super::remote::Access;
use super::{Op, Traffic};
use crate::abi::{Ssize, errno};
use crate::buffer::Buffer;
use crate::wire::{Head, Kind, Opened};

/// Accesses to memory elsewhere, and what devices know of memory.
#[derive(Debug, Default)]
pub(super) struct Far {
    /// Regions of others, by owner and libfabric's key. `None`: asked for.
    known: HashMap<(u32, u64), Option<Opened>>,
    /// Own regions that devices of others may reach, by libfabric's key.
    opened: HashMap<u64, Region>,
    /// Under way, oldest first.
    running: VecDeque<Running>,
}

/// An access that is under way.
#[derive(Debug)]
struct Running {
    access: Access,
    length: usize,
    /// What no transfer has begun of: of its parts the first is next.
    rest: VecDeque<(Part, Region)>,
    begun: usize,
    /// All that were registered for it.
    regions: Vec<Region>,
    /// The last transfer.
    last: u64,
    proof: Proof,
    /// Of what the user has back already.
    _copy: Option<Box<[u8]>>,
}

/// How it is known that an access is over when the device says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Proof {
    /// The device's word is enough, or the owner's is here.
    Given,
    /// The owner has to be asked.
    Wanted,
    /// It was asked, by this number.
    Asked(u32),
}

/// What becomes of an access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// It goes on later.
    Later,
    /// The owner is to be asked whether it is over.
    Ask,
    Done,
    Failed(i32),
}

impl Traffic {
    /// Begins an access.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until the completion; of an injected one, until this returns.
    pub(super) unsafe fn access_far(&mut self, access: Access, buffer: &Buffer) -> Ssize {
        if self.port.gone(access.rank).is_some() {
            return -(errno::ECONNRESET as Ssize);
        }
        let length = buffer.length();
        let mut copy = access.inject.then(|| vec![0; length].into_boxed_slice());
        let whole = copy.as_mut().map(|copy| {
            // SAFETY: by the contract; the copy has room.
            unsafe { buffer.copy_to(copy.as_mut_ptr()) };
            [Part { base: NonNull::from(&mut **copy).cast(), length }]
        });
        let parts = whole.as_ref().map_or(buffer.parts(), |whole| whole);
        let rights = if access.op == Op::Read { Rights::LOCAL } else { Rights::LOCAL_READ };
        let (mut rest, mut regions) = (VecDeque::new(), Vec::new());
        for &part in parts.iter().filter(|part| part.length > 0) {
            // SAFETY: by the contract; the copy is kept as long.
            let Some(region) = (unsafe { self.port.register(part, rights) }) else {
                regions.into_iter().for_each(|region| self.port.release(region));
                self.progress();
                return -(errno::EAGAIN as Ssize);
            };
            rest.push_back((part, region));
            regions.push(region);
        }
        if !self.far.known.contains_key(&(access.rank, access.key)) {
            let head = Head { tag: access.key, data: 0 };
            let asked = self.tell(access.rank, Kind::Ask.key(0), head, &[]);
            if asked < 0 {
                regions.into_iter().for_each(|region| self.port.release(region));
                return asked;
            }
            self.far.known.insert((access.rank, access.key), None);
        }
        let is_told = access.op == Op::Read || length == 0 || self.port.acknowledges();
        let proof = if is_told { Proof::Given } else { Proof::Wanted };
        let running =
            Running { access, length, rest, begun: 0, regions, last: 0, proof, _copy: copy };
        self.far.running.push_back(running);
        self.push_far();
        0
    }

    /// Whether accesses to memory of `rank` are under way.
    pub(super) fn has_far(&self, rank: u32) -> bool {
        self.far.running.iter().any(|running| running.access.rank == rank)
    }

    /// Goes on with all accesses.
    pub(super) fn push_far(&mut self) {
        let mut place = 0;
        while let Some(running) = self.far.running.get(place) {
            let rank = running.access.rank;
            let before = self.far.running.range(..place).filter(|it| it.access.rank == rank);
            let (mut is_next, mut reads) = (true, false);
            for earlier in before {
                is_next &= earlier.rest.is_empty();
                reads |= earlier.access.op == Op::Read;
            }
            let may_begin = is_next && (running.access.op == Op::Read || !reads);
            match self.step(place, may_begin) {
                Step::Later => place += 1,
                Step::Ask => {
                    self.ask_for_proof(place);
                    place += 1;
                }
                Step::Done => self.end_far(place, 0),
                Step::Failed(error) => self.end_far(place, error),
            }
        }
    }

    fn step(&mut self, place: usize, may_begin: bool) -> Step {
        let Self { port, far, .. } = self;
        let Some(running) = far.running.get_mut(place) else { return Step::Later };
        let Access { op, rank, address, key, .. } = running.access;
        if port.gone(rank).is_some() {
            return Step::Failed(errno::ECONNRESET);
        }
        let Some(Some(opened)) = far.known.get(&(rank, key)) else { return Step::Later };
        if !opened.holds(address, running.length) {
            return Step::Failed(errno::EACCES);
        }
        let way = if op == Op::Read { Way::Read } else { Way::Write };
        while may_begin && let Some((near, region)) = running.rest.front_mut() {
            let there = address.wrapping_add(running.begun as u64);
            let remote = Remote { address: there, key: opened.key };
            let direct = Direct { way, near: *near, key: region.local_key, far: remote };
            // SAFETY: by the contract of `access_far`: the memory is the operation's until its completion, which comes when the last
            // transfer is done or the peer is gone, whose link is closed then.
            let Some(Begun { number, bytes }) = (unsafe { port.transfer(rank, &direct) }) else {
                return Step::Later;
            };
            running.last = number;
            running.begun += bytes;
            // SAFETY: no more is moved than there is.
            near.base = unsafe { near.base.add(bytes) };
            near.length -= bytes;
            if near.length == 0 {
                running.rest.pop_front();
            }
        }
        let is_over = running.rest.is_empty()
            && (running.length == 0 || port.is_transferred(rank, running.last));
        match running.proof {
            _ if !is_over => Step::Later,
            Proof::Given => Step::Done,
            Proof::Wanted => Step::Ask,
            Proof::Asked(_) => Step::Later,
        }
    }

    /// Asks the owner of written memory to say when it has heard of it: what comes behind a write is heard after it.
    fn ask_for_proof(&mut self, place: usize) {
        let number = self.next_number();
        let Some(rank) = self.far.running.get(place).map(|it| it.access.rank) else { return };
        let head = Head { tag: number.into(), data: 0 };
        // Whoever is gone is found so, and for want of memory it is asked again.
        if self.tell(rank, Kind::Prove.key(0), head, &[]) == 0
            && let Some(running) = self.far.running.get_mut(place)
        {
            running.proof = Proof::Asked(number);
        }
    }

    /// A peer wants to know whether what it wrote is here: it is.
    pub(super) fn serve_prove(&mut self, source: u32, head: Head) {
        let _ = self.tell(source, Kind::Proved.key(0), head, &[]);
    }

    /// A peer has what was written.
    pub(super) fn take_proved(&mut self, source: u32, number: u64) {
        for running in &mut self.far.running {
            let is_asked =
                matches!(running.proof, Proof::Asked(asked) if u64::from(asked) == number);
            if is_asked && running.access.rank == source {
                running.proof = Proof::Given;
            }
        }
        self.push_far();
    }

    fn end_far(&mut self, place: usize, error: i32) {
        let Some(running) = self.far.running.remove(place) else { return };
        running.regions.into_iter().for_each(|region| self.port.release(region));
        self.accessed(&running.access, running.length, error);
    }

    /// A peer wants to reach our memory by its device.
    pub(super) fn serve_ask(&mut self, source: u32, key: u64) {
        // SAFETY: a domain outlives what was made in it.
        let found = unsafe { &*self.domain }.region(key).and_then(|(base, length)| {
            let region = match self.far.opened.get(&key) {
                Some(region) => *region,
                None => {
                    let base = core::ptr::with_exposed_provenance_mut(base);
                    let part = Part { base: NonNull::new(base)?, length };
                    // SAFETY: the user registered it for that, and says when that ends.
                    let region = unsafe { self.port.register(part, Rights::ALL) }?;
                    self.far.opened.insert(key, region);
                    region
                }
            };
            Some(Opened { key: region.remote_key, base: base as u64, length: length as u64 })
        });
        let head = Head { tag: key, data: 0 };
        // Whoever is gone need not know. What is not there has no length.
        let opened = found.unwrap_or_default();
        let _ = self.tell(source, Kind::Open.key(0), head, &opened.bytes());
    }

    /// A peer says which memory its device opens to us.
    pub(super) fn take_open(&mut self, source: u32, key: u64, body: &[u8]) {
        if let Some(known) = self.far.known.get_mut(&(source, key)) {
            *known = Some(Opened::parse(body).unwrap_or_default());
            self.push_far();
        }
    }

    /// The region of this key is the user's alone again.
    pub(crate) fn close_region(&mut self, key: u64) {
        if let Some(region) = self.far.opened.remove(&key) {
            self.port.release(region);
        }
    }

    /// Waits until no device is at work for this process.
    pub(super) fn finish_far(&mut self) {
        while !self.far.running.is_empty() && self.port.poll().is_ok() {
            self.drain();
            self.push_far();
            std::thread::yield_now();
        }
    }
}
