//! Reads and writes of memory on other nodes. The device performs them, and the owner takes no
//! part.
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
//! The accesses of one process to another start in order. A write starts after the earlier reads
//! are done.
//!
//! An access waits while the device, its registrations or the [slots](landing) are all in use.
//! Pending transfers return whatever is in use.
//!
//! Some devices do not report that a write has arrived at the peer. Then the owner confirms it with
//! its answer to a message behind the write.

mod accesses;
mod landing;
mod leases;
mod owner;
mod running;

use core::ptr::NonNull;
use std::collections::VecDeque;

use strait::port::Next;
use strait_core::buffer::{Direction, Part};
use strait_core::engine::{Begun, Direct};
use strait_core::hca::RemoteAddress;

use super::Traffic;
use super::access::RemoteAccess;
use crate::abi::{Ssize, errno};
use crate::buffer::UserBuffer;
use crate::cause::ErrorCause;
use crate::operation::OperationKind;
use crate::wire::{HeadKind, Opened, ProviderHead};
use accesses::PeerAccesses;
pub(super) use accesses::RemoteAccesses;
use running::{RegisteredMemory, Running};

/// Number of accesses that request their regions together.
const ASKED_AHEAD: usize = 32;

/// Maximum number of known regions of other processes. When there are more, all are requested anew.
const KNOWN_MAX: usize = 4096;

/// The next step for the first waiting access.
#[derive(Clone, Copy, Debug)]
enum NextAccess {
    /// It continues later.
    Later,
    /// The owner must be asked for the device's key.
    Ask,
    /// All of its bytes are in transfers.
    Begun,
    Failed(ErrorCause),
}

impl Traffic {
    /// Starts an access.
    pub(super) fn access_far(&mut self, access: RemoteAccess, buffer: &UserBuffer) -> Ssize {
        if self.port.gone(access.rank).is_some() {
            return -(errno::ECONNRESET as Ssize);
        }
        let length = buffer.length();
        let mut copy = access.inject.then(|| vec![0; length].into_boxed_slice());
        let parts = match &mut copy {
            None => buffer.parts().into(),
            Some(copy) => {
                buffer.copy_to(copy);
                [Part { base: NonNull::from(&mut **copy).cast(), length }].into()
            }
        };
        let is_told = access.op == OperationKind::Read || length == 0 || self.port.acknowledges();
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

    /// Returns whether accesses to memory of `rank` are pending.
    pub(super) fn has_far(&self, rank: u32) -> bool {
        !self.far.flows.is_empty() && self.far.flows.contains_key(&rank)
    }

    /// Continues all accesses, and answers requests of peers.
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

    /// Continues the accesses to memory of one process.
    fn push_flow(&mut self, rank: u32) {
        if self.port.gone(rank).is_some() {
            return self.fail_flow(rank);
        }
        loop {
            // This comes first, since completed accesses return their registrations and slots.
            self.end_flown(rank);
            match self.step(rank) {
                NextAccess::Begun => {}
                NextAccess::Failed(cause) => self.end_waiting(rank, cause),
                NextAccess::Later => break,
                NextAccess::Ask if self.ask(rank) => {}
                NextAccess::Ask => break,
            }
        }
        self.return_recalled(rank);
        if self.far.flows.get(&rank).is_some_and(PeerAccesses::is_empty) {
            self.far.flows.remove(&rank);
        }
    }

    /// Starts as much of the first waiting access as the device accepts.
    fn step(&mut self, rank: u32) -> NextAccess {
        let Self { port, far, .. } = self;
        let RemoteAccesses { known, flows, landing, registered, .. } = far;
        let Some(flow) = flows.get_mut(&rank) else { return NextAccess::Later };
        let Some(running) = flow.waiting.front_mut() else { return NextAccess::Later };
        let RemoteAccess { op, address, key, .. } = running.access;
        let opened = match known.get(&(rank, key)) {
            None => return NextAccess::Ask,
            Some(None) => return NextAccess::Later,
            Some(Some(opened)) => opened,
        };
        if let Err(error) = opened.allows(op, address, running.length) {
            let is_refused = error == errno::EACCES;
            let cause = if is_refused { ErrorCause::Access } else { ErrorCause::Number(error) };
            return NextAccess::Failed(cause);
        }
        if op == OperationKind::Write && flow.reads > 0 {
            return NextAccess::Later;
        }
        running.take_landed(port, landing, rank);
        let way = if op == OperationKind::Read { Direction::Read } else { Direction::Write };
        while running.begun < running.length {
            if running.next.is_none() {
                match running.prepare(port, landing, registered) {
                    Ok(true) => {}
                    Ok(false) => return NextAccess::Later,
                    Err(error) => return NextAccess::Failed(ErrorCause::Number(error)),
                }
            }
            let Some((near, local_key)) = &mut running.next else { return NextAccess::Later };
            let there = address.wrapping_add(running.begun as u64);
            let remote = RemoteAddress { address: there, key: opened.key };
            let direct = Direct { direction: way, near: *near, key: *local_key, far: remote };
            // SAFETY: the memory belongs to the operation until its completion (invariant of
            // `UserBuffer`). The completion comes when the last transfer is done, or when the peer
            // is gone and its link is closed. A slot lives as long.
            let Some(Begun { number, bytes }) = (unsafe { port.transfer(rank, &direct) }) else {
                return NextAccess::Later;
            };
            // SAFETY: `bytes` is at most the length of the part.
            near.base = unsafe { near.base.add(bytes) };
            near.length -= bytes;
            if near.length == 0 {
                running.next = None;
            }
            running.begun += bytes;
            running.last = number;
            if let Some(RegisteredMemory::Slot { last, .. }) = running.held.back_mut() {
                *last = number;
            }
        }
        flow.reads += usize::from(op == OperationKind::Read);
        flow.flying.extend(flow.waiting.pop_front());
        NextAccess::Begun
    }

    /// Asks the owner of the memory for the device's keys of the regions that the first accesses
    /// need. Returns false if it must be repeated later.
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
            let head = ProviderHead { tag: key, data: 0 };
            // A later poll detects that the peer is gone. After a lack of memory the owner is asked
            // again.
            if self.tell(rank, HeadKind::Ask.key(0), head, &[]) != 0 {
                return false;
            }
            self.far.known.insert((rank, key), None);
        }
        true
    }

    /// Ends the accesses that are complete, and asks the owner of written memory where necessary.
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
            flow.reads -= usize::from(running.access.op == OperationKind::Read);
            self.end_far(running, None);
        }
    }

    /// Asks the owner of written memory to report when the question arrives: a message behind a
    /// write arrives after it.
    fn ask_for_proof(&mut self, rank: u32, count: usize) {
        let number = self.next_number();
        let head = ProviderHead { tag: number.into(), data: 0 };
        // A later poll detects that the peer is gone. After a lack of memory the owner is asked
        // again.
        if self.tell(rank, HeadKind::Prove.key(0), head, &[]) == 0
            && let Some(flow) = self.far.flows.get_mut(&rank)
        {
            flow.proving = Some((number, count));
        }
    }

    /// Answers a peer's question whether its writes have arrived: they have.
    pub(super) fn serve_prove(&mut self, source: u32, head: ProviderHead) {
        let _ = self.tell(source, HeadKind::Proved.key(0), head, &[]);
    }

    /// Handles a peer's confirmation that writes have arrived.
    pub(super) fn take_proved(&mut self, source: u32, number: u64) {
        let Some(flow) = self.far.flows.get_mut(&source) else { return };
        if let Some((_, count)) = flow.proving.take_if(|(asked, _)| u64::from(*asked) == number) {
            flow.proven = count;
        }
        self.push_flow(source);
    }

    /// Handles a peer's answer: the memory that its device opens to this process, or a refusal.
    pub(super) fn take_open(&mut self, source: u32, key: u64, body: &[u8]) {
        let Some(known) = self.far.known.get_mut(&(source, key)) else { return };
        let opened = Opened::parse(body).unwrap_or(Opened::refused(errno::EACCES));
        *known = Some(opened);
        self.push_flow(source);
        if opened.refusal != 0 {
            // The next access to the region asks again.
            self.far.known.remove(&(source, key));
        }
    }

    /// Handles the recall of a region by its owner.
    pub(super) fn take_recall(&mut self, source: u32, key: u64) {
        // If a request for it is pending, the answer comes after its return.
        if matches!(self.far.known.get(&(source, key)), Some(Some(_))) {
            self.far.known.remove(&(source, key));
        }
        self.far.recalled.push((source, key));
        self.push_flow(source);
    }

    /// Returns the recalled regions that no transfer names any more.
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
            let head = ProviderHead { tag: key, data: 0 };
            // A peer that is gone needs no message.
            let _ = self.tell(rank, HeadKind::Returned.key(0), head, &[]);
        }
    }

    /// Fails the first waiting access.
    fn end_waiting(&mut self, rank: u32, cause: ErrorCause) {
        let flow = self.far.flows.get_mut(&rank);
        if let Some(running) = flow.and_then(|flow| flow.waiting.pop_front()) {
            self.end_far(running, Some(cause));
        }
    }

    /// Fails all accesses to the memory of a process that is gone.
    fn fail_flow(&mut self, rank: u32) {
        self.far.recalled.retain(|(owner, _)| *owner != rank);
        self.far.known.retain(|(owner, _), _| *owner != rank);
        let Some(flow) = self.far.flows.remove(&rank) else { return };
        let cause = self.cause_of_end(rank);
        for running in flow.flying.into_iter().chain(flow.waiting) {
            self.end_far(running, Some(cause));
        }
    }

    /// Ends an access of which no byte is in a transfer.
    fn end_far(&mut self, mut running: Running, cause: Option<ErrorCause>) {
        let Self { port, far, .. } = self;
        for held in core::mem::take(&mut running.held) {
            match held {
                RegisteredMemory::Region(region) => {
                    port.release(region);
                    far.registered -= 1;
                }
                RegisteredMemory::Slot { slot, offset, length, .. } => {
                    let Some(landing) = &mut far.landing else { continue };
                    if cause.is_none() {
                        running.take_out(landing, &slot, offset, length);
                    }
                    landing.give_back(slot);
                }
            }
        }
        self.accessed(&running.access, running.length, cause);
    }

    /// Waits until no device works for this process.
    pub(super) fn finish_far(&mut self) {
        let mut backoff = self.port.backoff();
        while !self.far.flows.is_empty() && self.port.poll().is_ok() {
            self.drain();
            self.push_far();
            if backoff.pause() == Next::Sleep {
                std::thread::sleep(backoff.sleep_time());
            }
        }
        if let Some(landing) = self.far.landing.take() {
            landing.close(&self.port);
        }
    }
}
