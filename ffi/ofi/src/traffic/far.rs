//! Reading and writing the memory of processes elsewhere: the device does it, and the owner takes no part.
//!
//! ```text
//! origin                                            owner
//!  | first access to a region: ASK, libfabric's key   |
//!  |------------------------------------------------->| registers it with its device
//!  |     OPEN, that key, the device's, the region     |
//!  |<-------------------------------------------------|
//!  | from then on: RDMA, beside the stream            |
//!  |     RECALL: the device has no room for another   |
//!  |<-------------------------------------------------|
//!  | RETURNED: no transfer names the region any more  |
//!  |------------------------------------------------->|
//! ```
//!
//! What one process asks of another is begun in order, and a write after the reads before it are done. An access waits while the
//! device, its registrations or the [slots](landing) are all in use: whatever is in use is given back by transfers that are under
//! way. Where a device does not say that a write is at the peer, the owner says so of a message behind it.

mod landing;
mod owner;
mod running;

use core::ptr::NonNull;
use std::collections::{BTreeMap, HashMap, VecDeque};

use strait_core::hca::Remote;
use strait_core::progress::{Begun, Direct, Part, Way};

use super::remote::Access;
use super::{Op, Traffic};
use crate::abi::{Ssize, errno};
use crate::buffer::Buffer;
use crate::wire::{Head, Kind, Opened};
use landing::Landing;
use running::{Held, Running};

/// Number of accesses whose regions are asked for together.
const ASKED_AHEAD: usize = 32;

/// Number of regions of others to remember. When there are more, all are asked for anew.
const KNOWN_MAX: usize = 4096;

/// Accesses to memory elsewhere, and what devices know of memory.
#[derive(Debug, Default)]
pub(super) struct Far {
    /// Regions of others, by owner and libfabric's key. `None`: asked for.
    known: HashMap<(u32, u64), Option<Opened>>,
    /// Accesses that are not over, by the owner of the memory.
    flows: BTreeMap<u32, Flow>,
    landing: Option<Landing>,
    /// Users' buffers that are registered.
    registered: usize,
    /// Regions that their owners have called back while transfers name them.
    recalled: Vec<(u32, u64)>,
    lent: owner::Lent,
}

/// Accesses to the memory of one process, oldest first.
#[derive(Debug, Default)]
struct Flow {
    /// Those of which some bytes are in no transfer yet. Only of the first, some may be.
    waiting: VecDeque<Running>,
    /// Those of which all bytes are in transfers.
    flying: VecDeque<Running>,
    /// Reads among the flying.
    reads: usize,
    /// The owner was asked by this number whether it has what the first so many of the flying wrote.
    proving: Option<(u32, usize)>,
    /// Number of the flying, from the first on, of which the owner has said so.
    proven: usize,
}

/// What becomes of the first access that waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// It goes on later.
    Later,
    /// The owner is to be asked for the device's key.
    Ask,
    /// All of it is in transfers.
    Begun,
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
        let parts = match &mut copy {
            None => buffer.parts().into(),
            Some(copy) => {
                // SAFETY: by the contract; the copy has room.
                unsafe { buffer.copy_to(copy.as_mut_ptr()) };
                [Part { base: NonNull::from(&mut **copy).cast(), length }].into()
            }
        };
        let is_told = access.op == Op::Read || length == 0 || self.port.acknowledges();
        let running = Running {
            access,
            length,
            parts,
            begun: 0,
            next: None,
            held: VecDeque::new(),
            last: 0,
            wants_proof: !is_told,
            _copy: copy,
        };
        self.far.flows.entry(access.rank).or_default().waiting.push_back(running);
        self.push_flow(access.rank);
        0
    }

    /// Whether accesses to memory of `rank` are under way.
    pub(super) fn has_far(&self, rank: u32) -> bool {
        !self.far.flows.is_empty() && self.far.flows.contains_key(&rank)
    }

    /// Goes on with all accesses, and with the questions of peers.
    pub(super) fn push_far(&mut self) {
        let mut next = self.far.flows.first_key_value().map(|(rank, _)| *rank);
        while let Some(rank) = next {
            self.push_flow(rank);
            next = self.far.flows.range(rank + 1..).next().map(|(rank, _)| *rank);
        }
        if !self.far.lent.is_idle() {
            self.serve_asked();
        }
    }

    /// Goes on with the accesses to memory of one process.
    fn push_flow(&mut self, rank: u32) {
        if self.port.gone(rank).is_some() {
            return self.fail_flow(rank);
        }
        loop {
            // First, for what is over gives its registrations and slots back.
            self.end_flown(rank);
            match self.step(rank) {
                Step::Begun => {}
                Step::Failed(error) => self.end_waiting(rank, error),
                Step::Later => break,
                Step::Ask if self.ask(rank) => {}
                Step::Ask => break,
            }
        }
        self.return_recalled(rank);
        if self.far.flows.get(&rank).is_some_and(Flow::is_empty) {
            self.far.flows.remove(&rank);
        }
    }

    /// Begins as much of the first access that waits as the device takes.
    fn step(&mut self, rank: u32) -> Step {
        let Self { port, far, .. } = self;
        let Far { known, flows, landing, registered, .. } = far;
        let Some(flow) = flows.get_mut(&rank) else { return Step::Later };
        let Some(running) = flow.waiting.front_mut() else { return Step::Later };
        let Access { op, address, key, .. } = running.access;
        let opened = match known.get(&(rank, key)) {
            None => return Step::Ask,
            Some(None) => return Step::Later,
            Some(Some(opened)) => opened,
        };
        if let Err(error) = opened.allows(op, address, running.length) {
            return Step::Failed(error);
        }
        if op == Op::Write && flow.reads > 0 {
            return Step::Later;
        }
        running.take_landed(port, landing, rank);
        let way = if op == Op::Read { Way::Read } else { Way::Write };
        while running.begun < running.length {
            if running.next.is_none() {
                match running.prepare(port, landing, registered) {
                    Ok(true) => {}
                    Ok(false) => return Step::Later,
                    Err(error) => return Step::Failed(error),
                }
            }
            let Some((near, local_key)) = &mut running.next else { return Step::Later };
            let there = address.wrapping_add(running.begun as u64);
            let remote = Remote { address: there, key: opened.key };
            let direct = Direct { way, near: *near, key: *local_key, far: remote };
            // SAFETY: by the contract of `access_far`: the memory is the operation's until its completion, which comes when the last
            // transfer is done or the peer is gone, whose link is closed then. A slot is as long.
            let Some(Begun { number, bytes }) = (unsafe { port.transfer(rank, &direct) }) else {
                return Step::Later;
            };
            // SAFETY: no more is moved than there is.
            near.base = unsafe { near.base.add(bytes) };
            near.length -= bytes;
            if near.length == 0 {
                running.next = None;
            }
            running.begun += bytes;
            running.last = number;
            if let Some(Held::Slot { last, .. }) = running.held.back_mut() {
                *last = number;
            }
        }
        flow.reads += usize::from(op == Op::Read);
        flow.flying.extend(flow.waiting.pop_front());
        Step::Begun
    }

    /// Asks the owner of the memory for the device's keys of the regions that the first accesses need. False: later.
    fn ask(&mut self, rank: u32) -> bool {
        if self.far.known.len() >= KNOWN_MAX {
            self.far.known.retain(|_, known| known.is_none());
        }
        let Some(flow) = self.far.flows.get(&rank) else { return false };
        let first = flow.waiting.iter().take(ASKED_AHEAD);
        let keys: Vec<_> = first.map(|running| running.access.key).collect();
        for key in keys {
            if self.far.known.contains_key(&(rank, key)) {
                continue;
            }
            let head = Head { tag: key, data: 0 };
            // A peer that is gone is found to be, and for want of memory it is asked again.
            if self.tell(rank, Kind::Ask.key(0), head, &[]) != 0 {
                return false;
            }
            self.far.known.insert((rank, key), None);
        }
        true
    }

    /// Ends the accesses that are over, and asks the owner of written memory where that is needed.
    fn end_flown(&mut self, rank: u32) {
        loop {
            let Some(flow) = self.far.flows.get_mut(&rank) else { return };
            let port = &self.port;
            let is_over = |it: &Running| it.length == 0 || port.is_transferred(rank, it.last);
            let Some(first) = flow.flying.front().filter(|first| is_over(first)) else { return };
            if first.wants_proof && flow.proven == 0 {
                if flow.proving.is_some() {
                    return;
                }
                let count = flow.flying.iter().take_while(|it| is_over(it)).count();
                return self.ask_for_proof(rank, count);
            }
            flow.proven = flow.proven.saturating_sub(1);
            if let Some((_, count)) = &mut flow.proving {
                *count = count.saturating_sub(1);
            }
            let Some(running) = flow.flying.pop_front() else { return };
            flow.reads -= usize::from(running.access.op == Op::Read);
            self.end_far(running, 0);
        }
    }

    /// Asks the owner of written memory to say when it has heard of it: what comes behind a write is heard after it.
    fn ask_for_proof(&mut self, rank: u32, count: usize) {
        let number = self.next_number();
        let head = Head { tag: number.into(), data: 0 };
        // A peer that is gone is found to be, and for want of memory it is asked again.
        if self.tell(rank, Kind::Prove.key(0), head, &[]) == 0
            && let Some(flow) = self.far.flows.get_mut(&rank)
        {
            flow.proving = Some((number, count));
        }
    }

    /// A peer wants to know whether what it wrote is here: it is.
    pub(super) fn serve_prove(&mut self, source: u32, head: Head) {
        let _ = self.tell(source, Kind::Proved.key(0), head, &[]);
    }

    /// A peer has what was written.
    pub(super) fn take_proved(&mut self, source: u32, number: u64) {
        let Some(flow) = self.far.flows.get_mut(&source) else { return };
        if let Some((_, count)) = flow.proving.take_if(|(asked, _)| u64::from(*asked) == number) {
            flow.proven = count;
        }
        self.push_flow(source);
    }

    /// A peer says which memory its device opens to us, or that there is none.
    pub(super) fn take_open(&mut self, source: u32, key: u64, body: &[u8]) {
        let Some(known) = self.far.known.get_mut(&(source, key)) else { return };
        let opened = Opened::parse(body).unwrap_or(Opened::refused(errno::EACCES));
        *known = Some(opened);
        self.push_flow(source);
        if opened.refusal != 0 {
            // Whoever needs it again asks again.
            self.far.known.remove(&(source, key));
        }
    }

    /// The owner of a region wants it back.
    pub(super) fn take_recall(&mut self, source: u32, key: u64) {
        // A question about it is answered when it has been returned.
        if matches!(self.far.known.get(&(source, key)), Some(Some(_))) {
            self.far.known.remove(&(source, key));
        }
        self.far.recalled.push((source, key));
        self.push_flow(source);
    }

    /// Returns the regions that were called back and that no transfer names any more.
    fn return_recalled(&mut self, rank: u32) {
        let mut place = 0;
        while let Some(&(owner, key)) = self.far.recalled.get(place) {
            let flow = self.far.flows.get(&rank);
            let names = |it: &Running| {
                let is_over = it.begun == 0 || self.port.is_transferred(rank, it.last);
                it.access.key == key && !is_over
            };
            let is_named =
                flow.is_some_and(|flow| flow.waiting.iter().take(1).chain(&flow.flying).any(names));
            if owner != rank || is_named {
                place += 1;
                continue;
            }
            self.far.recalled.swap_remove(place);
            let head = Head { tag: key, data: 0 };
            // A peer that is gone misses nothing.
            let _ = self.tell(rank, Kind::Returned.key(0), head, &[]);
        }
    }

    /// The first access that waits fails.
    fn end_waiting(&mut self, rank: u32, error: i32) {
        let flow = self.far.flows.get_mut(&rank);
        if let Some(running) = flow.and_then(|flow| flow.waiting.pop_front()) {
            self.end_far(running, error);
        }
    }

    /// All accesses to the memory of a process that is gone fail.
    fn fail_flow(&mut self, rank: u32) {
        self.far.recalled.retain(|(owner, _)| *owner != rank);
        self.far.known.retain(|(owner, _), _| *owner != rank);
        let Some(flow) = self.far.flows.remove(&rank) else { return };
        for running in flow.flying.into_iter().chain(flow.waiting) {
            self.end_far(running, errno::ECONNRESET);
        }
    }

    /// An access is over: nothing of it is in a transfer.
    fn end_far(&mut self, mut running: Running, error: i32) {
        let Self { port, far, .. } = self;
        for held in core::mem::take(&mut running.held) {
            match held {
                Held::Region(region) => {
                    port.release(region);
                    far.registered -= 1;
                }
                Held::Slot { slot, offset, length, .. } => {
                    let Some(landing) = &mut far.landing else { continue };
                    if error == 0 {
                        running.take_out(landing, &slot, offset, length);
                    }
                    landing.give_back(slot);
                }
            }
        }
        self.accessed(&running.access, running.length, error);
    }

    /// Waits until no device is at work for this process.
    pub(super) fn finish_far(&mut self) {
        while !self.far.flows.is_empty() && self.port.poll().is_ok() {
            self.drain();
            self.push_far();
            std::thread::yield_now();
        }
        if let Some(landing) = self.far.landing.take() {
            landing.close(&self.port);
        }
    }
}

impl Flow {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flying.is_empty()
    }
}
