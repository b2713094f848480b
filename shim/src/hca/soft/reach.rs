//! Carrying out one request: into the peer's memory, without the peer.

use core::ops::Deref;
use core::time::Duration;

use strait_core::hca::fabric::{Arrival, Lent};
use strait_core::hca::{Access, Remote, WorkError};
use strait_core::layout::Life;
use strait_core::sync::Ordering::SeqCst;
use strait_core::sync::fence;

use super::Shared;
use super::block::{Block, EndId, Stage};
use super::regions::{index, lies_in, remote};
use super::work::{Change, Verb, Work};
use crate::liveness::mark_dead;
use crate::lock::acquire;

/// Whether the last aligned word of a write comes after all others: whether one part of a copy by the kernel comes before the
/// next one. On x86 stores take effect in order, and those of one string instruction before those of a later one (Intel's
/// manual, volume 3, "Memory Ordering"). Elsewhere nobody says so.
pub(super) const ORDERED: bool = cfg!(target_arch = "x86_64");

/// The word that lands whole, bytes.
const WORD: usize = 8;

/// Looks at a process that has given up its memory, until it counts as one that lives on without its first thread.
const LOOKS_FOR_END: u32 = 1000;

/// Time between two such looks.
const PAUSE_FOR_END: Duration = Duration::from_millis(1);

/// The other end of a connection, found and proven.
#[derive(Clone, Copy, Debug)]
pub(super) struct Far {
    pub(super) end: EndId,
    /// The process, known to be the peer's.
    pub(super) pid: libc::pid_t,
}

/// What came of a try.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tried {
    /// It is done, or it failed.
    Ended(Result<(), WorkError>),
    /// The peer has no receive posted.
    NotReady,
}

impl Shared {
    /// Tries one request over the connection from our end `near` to `far`.
    pub(super) fn carry_out(&self, near: EndId, far: &Far, work: &Work) -> Tried {
        let regions = self.regions();
        let reach = match self.reach(near, far) {
            Ok(reach) => reach,
            Err(error) => return Tried::Ended(Err(error)),
        };
        if !work.keyed().iter().all(|piece| regions.covers(piece, work.verb.fetches())) {
            return Tried::Ended(Err(WorkError::LocalAccess));
        }
        let outcome = match work.verb {
            Verb::Write { to, immediate: None } => reach.write(work, to),
            Verb::Write { to, immediate: Some(immediate) } => {
                let Some(taken) = reach.take_receive() else { return reach.is_not_ready() };
                let written = reach.write(work, to);
                let arrival = if written.is_ok() { Arrival::Immediate } else { Arrival::Cut };
                taken.complete(arrival, work.length as u32, immediate);
                written
            }
            Verb::Read { from } => reach.read(work, from),
            Verb::Send => {
                let Some(taken) = reach.take_receive() else { return reach.is_not_ready() };
                reach.send(work, &taken)
            }
            Verb::Atomic { target, change } => reach.atomic(work, target, change),
        };
        Tried::Ended(outcome)
    }

    /// The way to the peer, while the connection holds.
    fn reach(&self, near: EndId, far: &Far) -> Result<Reach<'_>, WorkError> {
        let own = self.block();
        let block = self.fabric.block(far.end.rank).ok_or(WorkError::Unreachable)?;
        if own.connections[near.index as usize].stage(near.generation) != Stage::Connected {
            return Err(WorkError::Flushed);
        }
        if block.liveness.state() != Life::Alive {
            return Err(WorkError::Unreachable);
        }
        match block.connections[far.end.index as usize].stage(far.end.generation) {
            Stage::Connected => Ok(Reach { shared: self, own, block, far: *far }),
            Stage::Broken => Err(WorkError::Flushed),
            Stage::Closed | Stage::Open => Err(WorkError::Unreachable),
        }
    }
}

/// A way to the peer's memory.
#[derive(Clone, Copy, Debug)]
struct Reach<'a> {
    shared: &'a Shared,
    own: &'a Block,
    /// The peer's.
    block: &'a Block,
    far: Far,
}

/// A receive of the peer's that is ours to fill.
struct Taken<'a> {
    reach: Reach<'a>,
    slot: usize,
    lent: Lent,
}

impl Taken<'_> {
    fn complete(&self, arrival: Arrival, length: u32, immediate: u32) {
        let Reach { shared, block, far, .. } = self.reach;
        block.slots[self.slot].complete(arrival, length, immediate);
        shared.ring(block, far.end.rank);
    }
}

impl<'a> Reach<'a> {
    /// Claims the peer's memory for one access, if the key opens it for that.
    fn claim(
        self,
        at: Remote,
        length: u64,
        allows: impl FnOnce(Access) -> bool,
    ) -> Result<Claimed<'a>, WorkError> {
        self.own.access.set(self.far.end.rank, at.key);
        let claimed = Claimed(self);
        let entry = self.block.regions[index(at.key)].get(at.key);
        let (access, base, whole) = entry.ok_or(WorkError::RemoteAccess)?;
        if allows(access) && lies_in(at.address, length, base, whole) {
            Ok(claimed)
        } else {
            Err(WorkError::RemoteAccess)
        }
    }

    /// Whether the peer is still there, where no data says so: its witness is.
    fn find(self) -> Result<(), WorkError> {
        let mut word = 0_u64;
        let part = libc::iovec { iov_base: core::ptr::from_mut(&mut word).cast(), iov_len: 8 };
        self.transfer(Direction::Read, &mut [part], self.block.liveness.witness())
    }

    /// No receive is posted: by a peer that is there, or by one that is not.
    fn is_not_ready(self) -> Tried {
        self.find().map_or_else(|error| Tried::Ended(Err(error)), |()| Tried::NotReady)
    }

    fn write(self, work: &Work, to: Remote) -> Result<(), WorkError> {
        if work.length == 0 {
            return self.find();
        }
        self.claim(to, work.length, |access| access.remote_write)?.put(work, to.address)
    }

    fn read(self, work: &Work, from: Remote) -> Result<(), WorkError> {
        if work.length == 0 {
            return self.find();
        }
        // The peer sees what was written before when we read what it has written.
        fence(SeqCst);
        self.claim(from, work.length, |access| access.remote_read)?.get(work, from.address)
    }

    fn send(self, work: &Work, taken: &Taken<'_>) -> Result<(), WorkError> {
        let (arrival, outcome) = self.fill(work, taken);
        taken.complete(arrival, work.length as u32, 0);
        outcome
    }

    fn fill(self, work: &Work, taken: &Taken<'_>) -> (Arrival, Result<(), WorkError>) {
        if work.length > taken.lent.length.into() {
            return (Arrival::TooLong, Err(WorkError::Length));
        }
        if work.length == 0 {
            return (Arrival::Message, self.find());
        }
        let Lent { base, length, key } = taken.lent;
        let place = Remote { address: base, key: remote(key) };
        match self.claim(place, length.into(), |access| access.local_write) {
            Ok(claimed) => match claimed.put(work, base) {
                Ok(()) => (Arrival::Message, Ok(())),
                Err(error) => (Arrival::Cut, Err(error)),
            },
            Err(error) => (Arrival::BadPiece, Err(error)),
        }
    }

    /// Loads and stores the peer's word under the peer's lock: atomic with other devices, and with nothing else.
    fn atomic(self, work: &Work, target: Remote, change: Change) -> Result<(), WorkError> {
        let claimed = self.claim(target, 8, |access| access.remote_atomic)?;
        if !target.address.is_multiple_of(8) {
            return Err(WorkError::RemoteAccess);
        }
        let fabric = &self.shared.fabric;
        let me = self.shared.rank;
        let Ok(_locked) = acquire(&self.block.atomics, me, |rank| fabric.has_ended(rank));
        let mut old = 0_u64;
        claimed.word(Direction::Read, &mut old, target.address)?;
        if let Some(mut new) = change.of(old) {
            claimed.word(Direction::Write, &mut new, target.address)?;
        }
        let (parts, _) = work.parts();
        let result: *mut u64 = parts[0].iov_base.cast();
        // SAFETY: 8 bytes that the poster lent, in a region of this process that is still registered (looked up before).
        unsafe { result.write_unaligned(old) };
        Ok(())
    }

    /// Moves all of `parts`, in as many calls as the kernel wants; where [`ORDERED`], the last word after all others.
    fn transfer(
        self,
        direction: Direction,
        parts: &mut [libc::iovec],
        mut address: u64,
    ) -> Result<(), WorkError> {
        let pid = self.far.pid;
        loop {
            let length: usize = parts.iter().map(|part| part.iov_len).sum();
            if length == 0 {
                return Ok(());
            }
            let (first, count) = (parts.as_ptr(), parts.len() as libc::c_ulong);
            let (far, places) = far_parts(direction, address, length);
            let (place, places) = (far.as_ptr(), places as libc::c_ulong);
            // SAFETY: our parts were lent to the device for this; the kernel checks both sides' addresses.
            let moved = unsafe {
                match direction {
                    Direction::Read => libc::process_vm_readv(pid, first, count, place, places, 0),
                    Direction::Write => {
                        libc::process_vm_writev(pid, first, count, place, places, 0)
                    }
                }
            };
            let Ok(moved) = usize::try_from(moved) else { return Err(self.last_error()) };
            if moved == 0 {
                return Err(WorkError::RemoteAccess);
            }
            address += moved as u64;
            advance(parts, moved);
        }
    }

    /// Why the kernel did not move anything.
    fn last_error(self) -> WorkError {
        let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        match error {
            libc::EFAULT => WorkError::RemoteAccess,
            libc::ESRCH => {
                if self.await_end() {
                    // Said to all, since its number may be another's soon.
                    mark_dead(&self.block.liveness);
                }
                WorkError::Unreachable
            }
            libc::EPERM => WorkError::Unreachable,
            other => WorkError::Device { code: other.unsigned_abs() },
        }
    }

    /// Waits until all threads of the peer's process have ended, and says whether they have.
    ///
    /// The first thread of a killed process gives up its memory while another may still be inside a write to a third
    /// process. A lock of the dead that is taken over before that write ends protects nothing: the write lands on top of
    /// what the next holder wrote. The wait has an end, since a program may let its first thread end and go on.
    fn await_end(self) -> bool {
        (0..LOOKS_FOR_END).any(|_| {
            let Ok(has_ended) = self.shared.fabric.has_ended(self.far.end.rank);
            if !has_ended {
                std::thread::sleep(PAUSE_FOR_END);
            }
            has_ended
        })
    }

    /// Takes the receive that the peer posted first.
    fn take_receive(self) -> Option<Taken<'a>> {
        let receives = &self.block.receives;
        let fabric = &self.shared.fabric;
        let me = self.shared.rank;
        let Ok(_locked) = acquire(receives.lock(), me, |rank| fabric.has_ended(rank));
        let (slot, lent) = receives.take(&self.block.slots, me, self.far.end.index)?;
        Some(Taken { reach: self, slot, lent })
    }
}

/// The right to one access of the peer's memory. While it lasts, the peer does not give the region back.
struct Claimed<'a>(Reach<'a>);

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        self.0.own.access.clear();
    }
}

impl<'a> Deref for Claimed<'a> {
    type Target = Reach<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Direction {
    Read,
    Write,
}

impl Claimed<'_> {
    fn put(&self, work: &Work, address: u64) -> Result<(), WorkError> {
        let (mut parts, count) = work.parts();
        self.transfer(Direction::Write, &mut parts[..count], address)
    }

    fn get(&self, work: &Work, address: u64) -> Result<(), WorkError> {
        let (mut parts, count) = work.parts();
        self.transfer(Direction::Read, &mut parts[..count], address)
    }

    fn word(&self, direction: Direction, word: &mut u64, address: u64) -> Result<(), WorkError> {
        let base = core::ptr::from_mut(word).cast();
        self.transfer(direction, &mut [libc::iovec { iov_base: base, iov_len: 8 }], address)
    }
}

/// Where `length` bytes at `address` lie in the peer, as the kernel wants it told. For a write that is two parts, of which the
/// second is the last word, if that is aligned and there are others. The kernel fills one part after the other.
fn far_parts(direction: Direction, address: u64, length: usize) -> ([libc::iovec; 2], usize) {
    let part = |at: u64, length| libc::iovec {
        iov_base: core::ptr::without_provenance_mut(at as usize),
        iov_len: length,
    };
    let last = address.wrapping_add(length as u64).wrapping_sub(WORD as u64);
    let is_write = direction == Direction::Write;
    if ORDERED && is_write && last.is_multiple_of(WORD as u64) && length > WORD {
        ([part(address, length - WORD), part(last, WORD)], 2)
    } else {
        ([part(address, length), part(last, 0)], 1)
    }
}

/// Takes `moved` bytes off the front of `parts`.
fn advance(parts: &mut [libc::iovec], mut moved: usize) {
    for part in parts {
        let step = moved.min(part.iov_len);
        part.iov_base = part.iov_base.wrapping_byte_add(step);
        part.iov_len -= step;
        moved -= step;
    }
}
