//! Copies between two processes with one copy: `process_vm_readv` and `process_vm_writev`.
//!
//! Only a trial shows whether the kernel allows these calls: containers and security modules forbid
//! them without notice. Where process namespaces differ, the number of a peer may even be another
//! process's. So the first job with a peer reads the peer's *witness*: four words that no other
//! process has at that address.
//!
//! `strait info` reports a kernel that forbids the calls from the start. If the kernel refuses
//! after a first success, [`Cma::take_refusals`] says so, once for each peer.

use core::fmt;
use core::ptr::NonNull;
use std::io;

use strait_core::buffer::{Direction, Part};
use strait_core::layout::{Liveness, Segment};
use strait_core::lmt::{CopyJob, Refused, RemoteBuffer};

use crate::liveness;

/// Most parts of a buffer that one call takes.
const PARTS: usize = 64;

/// Most bytes that one call asks for; the kernel moves no more than 2 GiB.
const CALL_BYTES: usize = 1 << 30;

/// The words of a witness: a mark, the process's number, its start time, and the rank.
type WitnessWords = [u64; 4];

/// Access to the memory of the peers.
#[derive(Debug)]
pub struct Cma {
    rank: u32,
    peers: Vec<CmaPeer>,
    /// Refusals that were not taken.
    refusals: Vec<CopyRefusal>,
    _witness: Witness,
    /// Number of jobs until one is refused, as by a kernel that withdraws its permission.
    #[cfg(any(test, feature = "testing"))]
    pub refuse_after: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum CmaPeer {
    Unknown,
    /// The number of the process that is the peer.
    Proven(libc::pid_t),
    Refused,
}

/// The kernel's refusal to copy between this process's memory and a peer's, although it allowed a
/// first copy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CopyRefusal {
    rank: u32,
    direction: Direction,
    peer: u32,
    pid: libc::pid_t,
    errno: i32,
}

impl CopyRefusal {
    /// Returns the peer.
    #[must_use]
    pub const fn peer(&self) -> u32 {
        self.peer
    }
}

impl fmt::Display for CopyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, direction, peer, pid, errno } = *self;
        let call = match direction {
            Direction::Read => "process_vm_readv",
            Direction::Write => "process_vm_writev",
        };
        let error = io::Error::from_raw_os_error(errno);
        write!(
            f,
            "rank {rank}: {call} to rank {peer} (process {pid}) is refused, although a first read \
             worked: {error}; most likely a seccomp filter, kernel.yama.ptrace_scope, or a change \
             of credentials or namespaces. Large messages with this rank go through shared memory \
             from here on; nothing is lost. STRAIT_LMT=copy_ring does so from the start"
        )
    }
}

impl Cma {
    /// Creates the access for `rank` and publishes the witness of `rank`.
    pub fn new(segment: &Segment, rank: u32) -> Self {
        Self {
            rank,
            peers: (0..segment.ranks()).map(|_| CmaPeer::Unknown).collect(),
            refusals: Vec::new(),
            _witness: Witness::publish(&segment.rank_block(rank).liveness, rank),
            #[cfg(any(test, feature = "testing"))]
            refuse_after: None,
        }
    }

    /// Performs a job, or a part of it.
    ///
    /// # Errors
    ///
    /// [`Refused`] when not all of the job was done.
    ///
    /// # Safety
    ///
    /// The engine returned the job, and no other call was made to the engine since.
    pub unsafe fn perform(&mut self, segment: &Segment, job: &CopyJob) -> Result<(), Refused> {
        #[cfg(any(test, feature = "testing"))]
        if let Some(left) = &mut self.refuse_after {
            *left = left.checked_sub(1).ok_or(Refused)?;
        }
        let RemoteBuffer::Private(remote) = job.remote else { return Err(Refused) };
        let pid = self.prove(segment, job.peer)?;
        // SAFETY: the engine returned the job just now (contract of `perform`).
        let moved = unsafe { self.carry(pid, job, remote) };
        if let Err(error) = moved {
            self.peers[job.peer as usize] = CmaPeer::Refused;
            // A dying peer's memory cannot be read, which is no refusal. Its end is reported
            // elsewhere.
            let errno = error.raw_os_error().unwrap_or(0);
            if !liveness::is_ending(&segment.rank_block(job.peer).liveness, errno) {
                let (rank, direction, peer) = (self.rank, job.direction, job.peer);
                self.refusals.push(CopyRefusal { rank, direction, peer, pid, errno });
            }
            return Err(Refused);
        }
        Ok(())
    }

    /// Returns the refusals since the last call of this function, at most one for each peer.
    pub fn take_refusals(&mut self) -> Vec<CopyRefusal> {
        core::mem::take(&mut self.refusals)
    }

    /// Copies all pieces between this process's memory and that of `peer`.
    ///
    /// # Errors
    ///
    /// The kernel's error. Some of the pieces may have been copied.
    ///
    /// # Safety
    ///
    /// The local side of each piece is valid for the reads or writes of this direction.
    pub unsafe fn copy(
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
                    // SAFETY: the caller guarantees that each local piece is valid for this
                    // direction (contract of `copy`).
                    unsafe { call.make(pid, direction) }?;
                }
            }
        }
        // SAFETY: the caller guarantees that each local piece is valid for this direction (contract
        // of `copy`).
        unsafe { call.make(pid, direction) }
    }

    /// Returns whether this rank can access the memory of `peer`, as its first access showed.
    pub fn reaches(&mut self, segment: &Segment, peer: u32) -> bool {
        self.prove(segment, peer).is_ok()
    }

    /// Returns whether this rank can already access the memory of `peer`, of which it may not have
    /// heard yet. Another answer than yes does not last.
    pub fn already_reaches(&mut self, segment: &Segment, peer: u32) -> bool {
        self.look_for(segment, peer).is_some()
    }

    /// Moves all of a job.
    ///
    /// # Safety
    ///
    /// The contract of [`Cma::perform`] holds.
    unsafe fn carry(&self, pid: libc::pid_t, job: &CopyJob, remote: u64) -> io::Result<()> {
        let mut done = 0;
        while done < job.length {
            let mut local = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
            let (count, length) = gather(job, done, &mut local);
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let remote = remote_part(remote.wrapping_add(done as u64), length)?;
            // SAFETY: the engine has claimed the buffer of the job's own part for it (contract of
            // `carry`).
            done += unsafe { transfer(pid, job.direction, &local[..count], &[remote], length) }?;
        }
        Ok(())
    }

    /// Returns the process that is `peer`, after it has read the peer's witness once. A peer of
    /// which no witness can be read is refused from then on.
    fn prove(&mut self, segment: &Segment, peer: u32) -> Result<libc::pid_t, Refused> {
        self.look_for(segment, peer).ok_or_else(|| {
            self.peers[peer as usize] = CmaPeer::Refused;
            Refused
        })
    }

    /// Returns the process that is `peer`, if it has been proven or can be proven now.
    fn look_for(&mut self, segment: &Segment, peer: u32) -> Option<libc::pid_t> {
        let known = &mut self.peers[peer as usize];
        if let CmaPeer::Unknown = *known {
            let found = find(&segment.rank_block(peer).liveness, peer);
            *known = found.map_or(CmaPeer::Unknown, CmaPeer::Proven);
        }
        match *known {
            CmaPeer::Proven(pid) => Some(pid),
            CmaPeer::Unknown | CmaPeer::Refused => None,
        }
    }
}

/// Bytes that are contiguous in both processes.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Its address in this process.
    pub local: NonNull<u8>,
    /// Its address in the other process.
    pub remote: u64,
    /// Its length in bytes.
    pub length: usize,
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

    /// Takes a piece, or its beginning, and returns the rest. The call has room.
    fn take(&mut self, Piece { local, remote, length }: Piece) -> Piece {
        let taken = length.min(CALL_BYTES - self.length);
        let (here, there) = (local.as_ptr().cast(), remote as usize);
        self.local[self.count] = libc::iovec { iov_base: here, iov_len: taken };
        let there = core::ptr::without_provenance_mut(there);
        self.remote[self.count] = libc::iovec { iov_base: there, iov_len: taken };
        self.count += 1;
        self.length += taken;
        let (remote, length) = (remote.wrapping_add(taken as u64), length - taken);
        // SAFETY: `taken <= length`, so the pointer stays within the piece or one past its end.
        Piece { local: unsafe { local.add(taken) }, remote, length }
    }

    /// Makes the call, and empties `self`.
    ///
    /// # Safety
    ///
    /// Each local piece is valid for the reads or writes of this direction.
    unsafe fn make(&mut self, pid: libc::pid_t, direction: Direction) -> io::Result<()> {
        let (count, length) = (core::mem::take(&mut self.count), core::mem::take(&mut self.length));
        if length == 0 {
            return Ok(());
        }
        let (local, remote) = (&self.local[..count], &self.remote[..count]);
        // SAFETY: the caller guarantees that each local piece is valid for this direction (contract
        // of `make`).
        let moved = unsafe { transfer(pid, direction, local, remote, length) }?;
        if moved == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// This process's own witness. Its address is published, and stays valid as long as this value.
#[derive(Debug)]
pub struct Witness(#[allow(dead_code, reason = "peers read it")] Box<WitnessWords>);

impl Witness {
    /// Publishes the witness of `rank` in `liveness`, which names the rank's process.
    pub fn publish(liveness: &Liveness, rank: u32) -> Self {
        let words = Box::new(words(liveness, rank));
        liveness.set_witness(core::ptr::from_ref(&*words).addr() as u64);
        Self(words)
    }
}

fn words(liveness: &Liveness, rank: u32) -> WitnessWords {
    let (pid, started) = liveness.process();
    [u64::from_le_bytes(*b"STRAITvm"), u64::from(pid), started, u64::from(rank)]
}

/// Returns the process that is `rank`, proven by a read of its witness. Returns `None` when the
/// kernel refuses or the witness differs.
pub fn find(liveness: &Liveness, rank: u32) -> Option<libc::pid_t> {
    let expected = words(liveness, rank);
    let pid = libc::pid_t::try_from(liveness.process().0).ok()?;
    let mut found = [0_u64; 4];
    let length = size_of::<WitnessWords>();
    let local = libc::iovec { iov_base: found.as_mut_ptr().cast(), iov_len: length };
    let remote = remote_part(liveness.witness(), length).ok()?;
    // SAFETY: `found` has room for the `length` bytes that are read.
    let read = unsafe { transfer(pid, Direction::Read, &[local], &[remote], length) };
    (read.is_ok_and(|read| read == length) && found == expected).then_some(pid)
}

/// Fills `parts` with the job's own memory from `done` bytes on. Returns the number of parts and
/// their total length.
fn gather(job: &CopyJob, done: usize, parts: &mut [libc::iovec; PARTS]) -> (usize, usize) {
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

/// Returns the part of `length` bytes at an address in another process.
fn remote_part(address: u64, length: usize) -> io::Result<libc::iovec> {
    let address = usize::try_from(address).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: length })
}

/// Moves up to `length` bytes between `local` and `remote` of the process `pid`, which are `length`
/// bytes each. Returns the number of bytes moved, at least one.
///
/// # Safety
///
/// The memory of `local` is valid for the reads or writes of this direction, for `length` bytes in
/// all.
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
    // SAFETY: the caller guarantees that `local` is valid for this direction (contract of
    // `transfer`). The kernel checks the addresses in the other process.
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
