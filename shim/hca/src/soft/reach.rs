//! Carries out one request on the peer's memory, without the peer.

use core::ops::Deref;

use strait_core::hca::fabric::{ReceiveBuffer, ReceiveResult};
use strait_core::hca::{Access, RemoteAddress, WorkError};
use strait_core::layout::Life;
use strait_core::sync::Ordering::SeqCst;
use strait_core::sync::fence;
use strait_platform::backoff::{END_LIMIT, END_PERIOD, PeriodicWait};
use strait_platform::liveness::mark_dead;
use strait_platform::lock::acquire;

use super::block::{BlockEnd, DeviceBlock, EndId, EndState};
use super::regions::{find, lies_in, remote};
use super::shared::SharedDevice;
use super::work::{DeviceAtomic, SoftVerb, SoftWork, Tried};

/// Whether the last aligned word of a write lands after all others, that is, whether the kernel
/// copies one part before the next. On x86, stores take effect in order, and those of one string
/// instruction before those of a later one (Intel's manual, volume 3, "Memory Ordering"). For other
/// processors no source guarantees it.
pub(super) const ORDERED: bool = cfg!(target_arch = "x86_64");

/// Size in bytes of the word that lands as a whole.
const WORD: usize = 8;

impl SharedDevice {
    /// Attempts one request over the connection from this device's end `near` to `far`.
    pub(super) fn carry_out(&self, near: EndId, far: &BlockEnd, work: &SoftWork) -> Tried {
        let regions = self.regions();
        let reach = match self.reach(near, far) {
            Ok(reach) => reach,
            Err(error) => return Tried::Ended(Err(error)),
        };
        if !work.keyed().iter().all(|piece| regions.covers(piece, work.verb.fetches())) {
            return Tried::Ended(Err(WorkError::LocalAccess));
        }
        let outcome = match work.verb {
            SoftVerb::Write { to, immediate: None } => reach.write(work, to),
            SoftVerb::Write { to, immediate: Some(immediate) } => {
                let Some(taken) = reach.take_receive() else { return reach.is_not_ready() };
                let written = reach.write(work, to);
                let arrival =
                    if written.is_ok() { ReceiveResult::Immediate } else { ReceiveResult::Cut };
                taken.complete(arrival, work.length as u32, immediate);
                written
            }
            SoftVerb::Read { from } => reach.read(work, from),
            SoftVerb::Send => {
                let Some(taken) = reach.take_receive() else { return reach.is_not_ready() };
                reach.send(work, &taken)
            }
            SoftVerb::Atomic { target, change } => reach.atomic(work, target, change),
        };
        Tried::Ended(outcome)
    }

    /// Returns access to the peer, while the connection holds.
    fn reach(&self, near: EndId, far: &BlockEnd) -> Result<PeerMemory<'_>, WorkError> {
        let own = self.block();
        let block = self.fabric.block(far.end.rank).ok_or(WorkError::Unreachable)?;
        if own.connections[near.index as usize].stage(near.generation) != EndState::Connected {
            return Err(WorkError::Flushed);
        }
        if block.liveness.state() != Life::Alive {
            return Err(WorkError::Unreachable);
        }
        match block.connections[far.end.index as usize].stage(far.end.generation) {
            EndState::Connected => Ok(PeerMemory { shared: self, own, block, far: *far }),
            EndState::Broken => Err(WorkError::Flushed),
            EndState::Closed | EndState::Open => Err(WorkError::Unreachable),
        }
    }
}

/// Access to the peer's memory.
#[derive(Clone, Copy, Debug)]
struct PeerMemory<'a> {
    shared: &'a SharedDevice,
    own: &'a DeviceBlock,
    /// The peer's block.
    block: &'a DeviceBlock,
    far: BlockEnd,
}

/// A receive of the peer that this device has taken, to fill it.
struct ClaimedReceive<'a> {
    reach: PeerMemory<'a>,
    slot: usize,
    lent: ReceiveBuffer,
}

impl ClaimedReceive<'_> {
    fn complete(&self, arrival: ReceiveResult, length: u32, immediate: u32) {
        let PeerMemory { shared, block, far, .. } = self.reach;
        block.slots[self.slot].complete(arrival, length, immediate);
        shared.ring(block, far.end.rank);
    }
}

impl<'a> PeerMemory<'a> {
    /// Claims the peer's memory for one access, if the key permits that access.
    fn claim(
        self,
        at: RemoteAddress,
        length: u64,
        allows: impl FnOnce(Access) -> bool,
    ) -> Result<PeerAccessGuard<'a>, WorkError> {
        self.own.access.set(self.far.end.rank, at.key);
        let claimed = PeerAccessGuard(self);
        let entry = find(&self.block.regions, at.key);
        let (access, base, whole) = entry.ok_or(WorkError::RemoteAccess)?;
        if allows(access) && lies_in(at.address, length, base, whole) {
            Ok(claimed)
        } else {
            Err(WorkError::RemoteAccess)
        }
    }

    /// Checks whether the peer is still there, for requests without data, by a read of its witness.
    fn find(self) -> Result<(), WorkError> {
        let mut word = 0_u64;
        let part = libc::iovec { iov_base: core::ptr::from_mut(&mut word).cast(), iov_len: 8 };
        self.transfer(AccessDirection::Read, &mut [part], self.block.liveness.witness())
    }

    /// Returns the result when no receive is posted: it depends on whether the peer is still there.
    fn is_not_ready(self) -> Tried {
        self.find().map_or_else(|error| Tried::Ended(Err(error)), |()| Tried::NotReady)
    }

    fn write(self, work: &SoftWork, to: RemoteAddress) -> Result<(), WorkError> {
        if work.length == 0 {
            return self.find();
        }
        self.claim(to, work.length, |access| access.remote_write)?.put(work, to.address)
    }

    fn read(self, work: &SoftWork, from: RemoteAddress) -> Result<(), WorkError> {
        if work.length == 0 {
            return self.find();
        }
        // Store-load order: if this device reads what the peer has written, the peer sees this
        // device's earlier writes.
        fence(SeqCst);
        self.claim(from, work.length, |access| access.remote_read)?.get(work, from.address)
    }

    fn send(self, work: &SoftWork, taken: &ClaimedReceive<'_>) -> Result<(), WorkError> {
        let (arrival, outcome) = self.fill(work, taken);
        taken.complete(arrival, work.length as u32, 0);
        outcome
    }

    fn fill(
        self,
        work: &SoftWork,
        taken: &ClaimedReceive<'_>,
    ) -> (ReceiveResult, Result<(), WorkError>) {
        if work.length > taken.lent.length.into() {
            return (ReceiveResult::TooLong, Err(WorkError::Length));
        }
        if work.length == 0 {
            return (ReceiveResult::Message, self.find());
        }
        let ReceiveBuffer { base, length, key } = taken.lent;
        let place = RemoteAddress { address: base, key: remote(key) };
        match self.claim(place, length.into(), |access| access.local_write) {
            Ok(claimed) => match claimed.put(work, base) {
                Ok(()) => (ReceiveResult::Message, Ok(())),
                Err(error) => (ReceiveResult::Cut, Err(error)),
            },
            Err(error) => (ReceiveResult::BadPiece, Err(error)),
        }
    }

    /// Loads and stores the peer's word under the peer's lock. It is atomic only with respect to
    /// other devices.
    fn atomic(
        self,
        work: &SoftWork,
        target: RemoteAddress,
        change: DeviceAtomic,
    ) -> Result<(), WorkError> {
        let claimed = self.claim(target, 8, |access| access.remote_atomic)?;
        if !target.address.is_multiple_of(8) {
            return Err(WorkError::RemoteAccess);
        }
        let fabric = &self.shared.fabric;
        let me = self.shared.rank;
        let Ok(_locked) = acquire(&self.block.atomics, me, |rank| fabric.has_ended(rank));
        let mut old = 0_u64;
        claimed.word(AccessDirection::Read, &mut old, target.address)?;
        if let Some(mut new) = change.of(old) {
            claimed.word(AccessDirection::Write, &mut new, target.address)?;
        }
        let (parts, _) = work.parts();
        let result: *mut u64 = parts[0].iov_base.cast();
        // SAFETY: the poster lent these 8 bytes, in a region of this process that was looked up
        // above and is still registered.
        unsafe { result.write_unaligned(old) };
        Ok(())
    }

    /// Moves all of `parts`, in as many calls as the kernel needs. Where [`ORDERED`], the last word
    /// lands after all others.
    fn transfer(
        self,
        direction: AccessDirection,
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
            // SAFETY: the poster lent the local parts to the device for this request. The kernel
            // checks the addresses of both sides.
            let moved = unsafe {
                match direction {
                    AccessDirection::Read => {
                        libc::process_vm_readv(pid, first, count, place, places, 0)
                    }
                    AccessDirection::Write => {
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

    /// Returns the reason why the kernel moved nothing.
    fn last_error(self) -> WorkError {
        let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        match error {
            libc::EFAULT => WorkError::RemoteAccess,
            libc::ESRCH => {
                if self.await_end() {
                    // Marked for all ranks, since another process may get its number soon.
                    mark_dead(&self.block.liveness);
                }
                WorkError::Unreachable
            }
            libc::EPERM => WorkError::Unreachable,
            other => WorkError::Device { code: other.unsigned_abs() },
        }
    }

    /// Waits until all threads of the peer's process have ended, and returns whether they have.
    ///
    /// The first thread of a killed process gives up its memory while another may still be inside a
    /// write to a third process. If a dead holder's lock is taken over before that write ends, it
    /// protects nothing: the write lands on top of what the next holder wrote.
    ///
    /// The wait is bounded, since a program may end its first thread and go on.
    fn await_end(self) -> bool {
        let wait = PeriodicWait::new(END_PERIOD, END_LIMIT);
        loop {
            let Ok(has_ended) = self.shared.fabric.has_ended(self.far.end.rank);
            if has_ended || !wait.pause() {
                return has_ended;
            }
        }
    }

    /// Takes the receive that the peer posted first.
    fn take_receive(self) -> Option<ClaimedReceive<'a>> {
        let receives = &self.block.receives;
        let fabric = &self.shared.fabric;
        let me = self.shared.rank;
        let Ok(_locked) = acquire(receives.lock(), me, |rank| fabric.has_ended(rank));
        let (slot, lent) = receives.take(&self.block.slots, me, self.far.end.index)?;
        Some(ClaimedReceive { reach: self, slot, lent })
    }
}

/// The right to one access of the peer's memory. While it exists, the peer does not deregister the
/// region.
struct PeerAccessGuard<'a>(PeerMemory<'a>);

impl Drop for PeerAccessGuard<'_> {
    fn drop(&mut self) {
        self.0.own.access.clear();
    }
}

impl<'a> Deref for PeerAccessGuard<'a> {
    type Target = PeerMemory<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AccessDirection {
    Read,
    Write,
}

impl PeerAccessGuard<'_> {
    fn put(&self, work: &SoftWork, address: u64) -> Result<(), WorkError> {
        let (mut parts, count) = work.parts();
        self.transfer(AccessDirection::Write, &mut parts[..count], address)
    }

    fn get(&self, work: &SoftWork, address: u64) -> Result<(), WorkError> {
        let (mut parts, count) = work.parts();
        self.transfer(AccessDirection::Read, &mut parts[..count], address)
    }

    fn word(
        &self,
        direction: AccessDirection,
        word: &mut u64,
        address: u64,
    ) -> Result<(), WorkError> {
        let base = core::ptr::from_mut(word).cast();
        self.transfer(direction, &mut [libc::iovec { iov_base: base, iov_len: 8 }], address)
    }
}

/// Returns the parts of `length` bytes at `address` in the peer, as the kernel takes them. A write
/// has two parts if its last word is aligned and not the only one: the second part is that word.
/// The kernel fills one part after the other.
fn far_parts(direction: AccessDirection, address: u64, length: usize) -> ([libc::iovec; 2], usize) {
    let part = |at: u64, length| libc::iovec {
        iov_base: core::ptr::without_provenance_mut(at as usize),
        iov_len: length,
    };
    let last = address.wrapping_add(length as u64).wrapping_sub(WORD as u64);
    let is_write = direction == AccessDirection::Write;
    if ORDERED && is_write && last.is_multiple_of(WORD as u64) && length > WORD {
        ([part(address, length - WORD), part(last, WORD)], 2)
    } else {
        ([part(address, length), part(last, 0)], 1)
    }
}

/// Removes `moved` bytes from the front of `parts`.
fn advance(parts: &mut [libc::iovec], mut moved: usize) {
    for part in parts {
        let step = moved.min(part.iov_len);
        part.iov_base = part.iov_base.wrapping_byte_add(step);
        part.iov_len -= step;
        moved -= step;
    }
}
