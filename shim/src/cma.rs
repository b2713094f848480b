//! One copy between two processes: `process_vm_readv` and `process_vm_writev`.
//!
//! Whether the kernel lets us is known from trying, and only from trying: containers and security modules forbid it in ways
//! that nothing announces. Worse, where process namespaces differ the number of a peer may be another process's. So the
//! first job with a peer reads the peer's *witness*, a few words that no other process has in that place.
//!
//! A kernel that forbids it from the start is nothing to speak of: `strait info` tells. One that changes its mind in the middle
//! is, so the first refusal after that says so on standard error, once for each peer.

use core::ptr::NonNull;
use std::io::{self, Write};

use strait_core::layout::{Liveness, Segment};
use strait_core::lmt::{Direction, Job, Refused, Remote};
use strait_core::progress::Part;

use crate::liveness;

/// Most parts of a buffer that one call takes.
const PARTS: usize = 64;

/// Most bytes that one call is asked for; the kernel moves no more than 2 GiB.
const CALL_BYTES: usize = 1 << 30;

/// What a witness says: which process, started when, which rank.
type Words = [u64; 4];

/// The ways into the peers' memories.
#[derive(Debug)]
pub(crate) struct Cma {
    rank: u32,
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
            rank,
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
        let Remote::Private(remote) = job.remote else { return Err(Refused) };
        let pid = self.prove(segment, job.peer)?;
        let moved = self.carry(pid, job, remote);
        if let Err(error) = moved {
            self.peers[job.peer as usize] = Peer::Refused;
            // What a dying peer cannot give is no fault of the kernel's, and its end is told elsewhere.
            let errno = error.raw_os_error().unwrap_or(0);
            if !liveness::is_ending(&segment.rank_block(job.peer).liveness, errno) {
                let text = refusal(self.rank, job, pid, &error);
                // There may be nobody to read it, which is no reason to fail.
                let _ = writeln!(std::io::stderr(), "{text}");
            }
            return Err(Refused);
        }
        Ok(())
    }

    /// Copies pieces between this process's memory and that of `peer`, all of them.
    ///
    /// # Errors
    ///
    /// What the kernel says. Some of it may have been copied.
    ///
    /// # Safety
    ///
    /// Each piece's own side is valid for the reads or writes of this direction.
    pub(crate) unsafe fn copy(
        &mut self,
        segment: &Segment,
        peer: u32,
        direction: Direction,
        pieces: impl IntoIterator<Item = Piece>,
    ) -> io::Result<()> {
        let denied = |Refused| io::Error::from(io::ErrorKind::PermissionDenied);
        let pid = self.prove(segment, peer).map_err(denied)?;
        let mut call = Call::new();
        for mut piece in pieces {
            while piece.length > 0 {
                piece = call.take(piece);
                if call.is_full() {
                    // SAFETY: by the contract.
                    unsafe { call.make(pid, direction) }?;
                }
            }
        }
        // SAFETY: by the contract.
        unsafe { call.make(pid, direction) }
    }

    /// Whether this rank can reach into the memory of `peer`, as far as is known from a first look.
    pub(crate) fn reaches(&mut self, segment: &Segment, peer: u32) -> bool {
        self.prove(segment, peer).is_ok()
    }

    /// Moves all of a job.
    fn carry(&self, pid: libc::pid_t, job: &Job, remote: u64) -> io::Result<()> {
        let mut done = 0;
        while done < job.length {
            let mut local = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
            let (count, length) = gather(job, done, &mut local);
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let remote = remote_part(remote.wrapping_add(done as u64), length)?;
            // SAFETY: the job's own part lies in a buffer that the engine has claimed for it.
            done += unsafe { transfer(pid, job.direction, &local[..count], &[remote], length) }?;
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

/// Bytes that are contiguous in both processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// In this process.
    pub(crate) local: NonNull<u8>,
    /// The address in the other one.
    pub(crate) remote: u64,
    /// Bytes.
    pub(crate) length: usize,
}

/// The pieces of one system call.
struct Call {
    local: [libc::iovec; PARTS],
    remote: [libc::iovec; PARTS],
    count: usize,
    length: usize,
}

impl Call {
    const fn new() -> Self {
        let nothing = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
        Self { local: nothing, remote: nothing, count: 0, length: 0 }
    }

    const fn is_full(&self) -> bool {
        self.count == PARTS || self.length == CALL_BYTES
    }

    /// Takes a piece, or the beginning of it. There is room. What is left of it.
    fn take(&mut self, Piece { local, remote, length }: Piece) -> Piece {
        let taken = length.min(CALL_BYTES - self.length);
        let (here, there) = (local.as_ptr().cast(), remote as usize);
        self.local[self.count] = libc::iovec { iov_base: here, iov_len: taken };
        let there = core::ptr::without_provenance_mut(there);
        self.remote[self.count] = libc::iovec { iov_base: there, iov_len: taken };
        self.count += 1;
        self.length += taken;
        let (remote, length) = (remote.wrapping_add(taken as u64), length - taken);
        // SAFETY: within the piece, or one past its end.
        Piece { local: unsafe { local.add(taken) }, remote, length }
    }

    /// Makes the call, and is empty again.
    ///
    /// # Safety
    ///
    /// As for [`Cma::copy`].
    unsafe fn make(&mut self, pid: libc::pid_t, direction: Direction) -> io::Result<()> {
        let (count, length) = (core::mem::take(&mut self.count), core::mem::take(&mut self.length));
        if length == 0 {
            return Ok(());
        }
        let (local, remote) = (&self.local[..count], &self.remote[..count]);
        // SAFETY: by the contract.
        let moved = unsafe { transfer(pid, direction, local, remote, length) }?;
        if moved == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// This process's own witness. Its address is published; it stays as long as this value.
#[derive(Debug)]
pub(crate) struct Witness(#[allow(dead_code, reason = "peers read it")] Box<Words>);

impl Witness {
    /// The witness of `rank`, whose process `liveness` names, published there.
    pub(crate) fn publish(liveness: &Liveness, rank: u32) -> Self {
        let words = Box::new(words(liveness, rank));
        liveness.set_witness(core::ptr::from_ref(&*words).addr() as u64);
        Self(words)
    }
}

fn words(liveness: &Liveness, rank: u32) -> Words {
    let (pid, started) = liveness.process();
    [u64::from_le_bytes(*b"STRAITvm"), u64::from(pid), started, u64::from(rank)]
}

/// The process that is `rank`, proven by a look at its witness; `None` when the kernel or the witness says otherwise.
pub(crate) fn find(liveness: &Liveness, rank: u32) -> Option<libc::pid_t> {
    let expected = words(liveness, rank);
    let pid = libc::pid_t::try_from(liveness.process().0).ok()?;
    let mut found = [0_u64; 4];
    let length = size_of::<Words>();
    let local = libc::iovec { iov_base: found.as_mut_ptr().cast(), iov_len: length };
    let remote = remote_part(liveness.witness(), length).ok()?;
    // SAFETY: `found` has room for what is read.
    let read = unsafe { transfer(pid, Direction::Read, &[local], &[remote], length) };
    (read.is_ok_and(|read| read == length) && found == expected).then_some(pid)
}

/// What is said when the kernel takes back what it allowed.
fn refusal(rank: u32, job: &Job, pid: libc::pid_t, error: &io::Error) -> String {
    let call = match job.direction {
        Direction::Read => "process_vm_readv",
        Direction::Write => "process_vm_writev",
    };
    format!(
        "strait: rank {rank}: {call} to rank {} (process {pid}) is refused, although a first read worked: {error}; \
         most likely a seccomp filter, kernel.yama.ptrace_scope, or a change of credentials or namespaces. Large \
         messages with this rank go through shared memory from here on; nothing is lost. STRAIT_LMT=copy_ring does \
         so from the start",
        job.peer
    )
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

/// `length` bytes at an address in another process.
fn remote_part(address: u64, length: usize) -> io::Result<libc::iovec> {
    let address = usize::try_from(address).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: length })
}

/// Moves up to `length` bytes between `local` and `remote` in the process `pid`, each `length` bytes. The bytes moved, at least
/// one.
///
/// # Safety
///
/// The memory of `local` is valid for the reads or writes of this direction, for `length` bytes in all.
unsafe fn transfer(
    pid: libc::pid_t,
    direction: Direction,
    local: &[libc::iovec],
    remote: &[libc::iovec],
    length: usize,
) -> io::Result<usize> {
    debug_assert_eq!(remote.iter().map(|part| part.iov_len).sum::<usize>(), length);
    let (first, count) = (local.as_ptr(), local.len() as libc::c_ulong);
    let (there, parts) = (remote.as_ptr(), remote.len() as libc::c_ulong);
    // SAFETY: by the contract for our memory; the kernel checks the address in the other process.
    let moved = unsafe {
        match direction {
            Direction::Read => libc::process_vm_readv(pid, first, count, there, parts, 0),
            Direction::Write => libc::process_vm_writev(pid, first, count, there, parts, 0),
        }
    };
    match usize::try_from(moved) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(moved) => Ok(moved),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests;
