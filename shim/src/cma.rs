//! One copy between two processes: `process_vm_readv` and `process_vm_writev`.
//!
//! Whether the kernel lets us is known from trying, and only from trying: containers and security modules forbid it in ways
//! that nothing announces. Worse, where process namespaces differ the number of a peer may be another process's. So the
//! first job with a peer reads the peer's *witness*, a few words that no other process has in that place.

use core::ptr::NonNull;

use strait_core::layout::{Liveness, Segment};
use strait_core::lmt::{Direction, Job, Refused};
use strait_core::progress::Part;

/// Most parts of a buffer that one call takes.
const PARTS: usize = 64;

/// What a witness says: which process, started when, which rank.
type Words = [u64; 4];

/// The ways into the peers' memories.
#[derive(Debug)]
pub(crate) struct Cma {
    peers: Vec<Peer>,
    _witness: Witness,
    /// Jobs to go until one is refused, as a kernel would that changes its mind.
    #[cfg(test)]
    pub(crate) refuse_after: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Peer {
    Unknown,
    /// The process that is the peer.
    Proven(libc::pid_t),
    Refused,
}

impl Cma {
    /// The ways of `rank`, whose witness is published.
    pub(crate) fn new(segment: &Segment, rank: u32) -> Self {
        Self {
            peers: (0..segment.ranks()).map(|_| Peer::Unknown).collect(),
            _witness: Witness::publish(&segment.rank_block(rank).liveness, rank),
            #[cfg(test)]
            refuse_after: None,
        }
    }

    /// Does a job, or as much of it as goes.
    ///
    /// # Errors
    ///
    /// [`Refused`]: not all of it was done.
    pub(crate) fn perform(&mut self, segment: &Segment, job: &Job) -> Result<(), Refused> {
        #[cfg(test)]
        if let Some(left) = &mut self.refuse_after {
            *left = left.checked_sub(1).ok_or(Refused)?;
        }
        let pid = self.prove(segment, job.peer)?;
        let mut done = 0;
        while done < job.length {
            let mut local = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
            let (count, length) = gather(job, done, &mut local);
            if length == 0 {
                return Err(Refused);
            }
            let remote = job.remote.wrapping_add(done as u64);
            // SAFETY: the job's own part lies in a buffer that the engine has claimed for it.
            let moved = unsafe { transfer(pid, job.direction, &local[..count], remote, length) };
            done += moved.ok_or(Refused)?;
        }
        Ok(())
    }

    /// The process that is `peer`, after a look at its witness.
    fn prove(&mut self, segment: &Segment, peer: u32) -> Result<libc::pid_t, Refused> {
        let known = &mut self.peers[peer as usize];
        if let Peer::Unknown = *known {
            let found = find(&segment.rank_block(peer).liveness, peer);
            *known = found.map_or(Peer::Refused, Peer::Proven);
        }
        match *known {
            Peer::Proven(pid) => Ok(pid),
            Peer::Unknown | Peer::Refused => Err(Refused),
        }
    }
}

/// This process's own witness. Its address is published; it stays as long as this value.
#[derive(Debug)]
pub(crate) struct Witness(#[allow(dead_code, reason = "peers read it")] Box<Words>);

impl Witness {
    /// The witness of `rank`, whose process `liveness` names, published there.
    pub(crate) fn publish(liveness: &Liveness, rank: u32) -> Self {
        Self::publish_as(liveness, liveness.process(), rank)
    }

    /// The witness of `rank`, this process, published before `liveness` names the process.
    pub(crate) fn publish_as(liveness: &Liveness, process: (u32, u64), rank: u32) -> Self {
        let words = Box::new(words(process, rank));
        liveness.set_witness(core::ptr::from_ref(&*words).addr() as u64);
        Self(words)
    }
}

fn words((pid, started): (u32, u64), rank: u32) -> Words {
    [u64::from_le_bytes(*b"STRAITvm"), u64::from(pid), started, u64::from(rank)]
}

/// The process that is `rank`, proven by a look at its witness; `None` when the kernel or the witness says otherwise.
pub(crate) fn find(liveness: &Liveness, rank: u32) -> Option<libc::pid_t> {
    let expected = words(liveness.process(), rank);
    let pid = libc::pid_t::try_from(liveness.process().0).ok()?;
    let mut found = [0_u64; 4];
    let length = size_of::<Words>();
    let local = libc::iovec { iov_base: found.as_mut_ptr().cast(), iov_len: length };
    // SAFETY: `found` has room for what is read.
    let read = unsafe { transfer(pid, Direction::Read, &[local], liveness.witness(), length) };
    (read == Some(length) && found == expected).then_some(pid)
}

/// The job's own memory from `done` bytes on: how many of `parts` it takes, and their length together.
fn gather(job: &Job, done: usize, parts: &mut [libc::iovec; PARTS]) -> (usize, usize) {
    let (mut count, mut length) = (0, 0);
    job.local.after(done).pieces(job.length - done, |Part { base, length: piece }| {
        if let Some(part) = parts.get_mut(count) {
            *part = libc::iovec { iov_base: NonNull::cast(base).as_ptr(), iov_len: piece };
            count += 1;
            length += piece;
        }
    });
    (count, length)
}

/// Moves up to `length` bytes between `local` and the address `remote` in the process `pid`. The bytes moved, at least one.
///
/// # Safety
///
/// The memory of `local` is valid for the reads or writes of this direction, for `length` bytes in all.
unsafe fn transfer(
    pid: libc::pid_t,
    direction: Direction,
    local: &[libc::iovec],
    remote: u64,
    length: usize,
) -> Option<usize> {
    let address = core::ptr::without_provenance_mut(usize::try_from(remote).ok()?);
    let remote = libc::iovec { iov_base: address, iov_len: length };
    let (first, count) = (local.as_ptr(), local.len() as libc::c_ulong);
    // SAFETY: by the contract for our memory; the kernel checks the address in the other process.
    let moved = unsafe {
        match direction {
            Direction::Read => libc::process_vm_readv(pid, first, count, &raw const remote, 1, 0),
            Direction::Write => libc::process_vm_writev(pid, first, count, &raw const remote, 1, 0),
        }
    };
    usize::try_from(moved).ok().filter(|moved| *moved > 0)
}

#[cfg(test)]
mod tests;
