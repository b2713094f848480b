//! The HCA: the few verbs of an RDMA device that Strait is built on (`[RdmaChannel04]` §2).
//!
//! [`Hca`] is what the ring channel, windows and network locks are written against. Devices are in the `strait` crate (a
//! software HCA, and libibverbs). Wrappers go around any of them: [`fault`] makes things go wrong, [`trace`] tells what
//! happens. One conformance suite holds them all to what is said here.
//!
//! # What a device guarantees
//!
//! - Work requests of one connection start in the order of their posting, and their completions are reported in it. Writes
//!   and sends of one connection also take effect at the peer in it. A read or an atomic sees what was written before on
//!   its connection, and takes place when the peer's processor sees that, too; it may be overtaken by *later* writes and sends unless they are fenced ([`WorkRequest::fenced`]).
//! - Within one write nothing is said about order: its last byte may be there before its first, unless
//!   [`Capabilities::ordered_bytes`] says otherwise. What must come last is a later request. An aligned word of 8 bytes is
//!   there whole or not at all.
//! - Between connections there is no order at all.
//! - The atomics of a device are atomic among themselves. Against the CPU's only where [`Atomics::Coherent`] says so.
//! - A request that fails breaks its connection: it completes with its reason, what was posted after it with
//!   [`WorkError::Flushed`], and nothing else of it takes effect. A later post is refused ([`PostError::Broken`]) or
//!   flushed. So it is at the peer's end, which may also find nobody there ([`WorkError::Unreachable`]). Other connections
//!   and posted receives stay as they are.
//!
//! Absent on purpose: completion queues as objects (a device has one), unreliable transports, callbacks, waiting.

mod error;
pub mod fabric;
pub mod fault;
pub mod trace;
mod work;

pub use error::{HcaError, PostError, WorkError};
pub use work::{Completion, Done, Operation, Piece, Remote, WorkRequest};

use core::ptr::NonNull;

/// An RDMA device, as one rank uses it.
pub trait Hca {
    /// What the device can do.
    fn capabilities(&self) -> Capabilities;

    /// Registers `length` bytes from `base` for use by the device.
    ///
    /// # Safety
    ///
    /// The memory stays mapped until the region is deregistered, and as long as it is registered peers may read and write it
    /// as far as `access` says, at any time, without this process taking part.
    ///
    /// # Errors
    ///
    /// [`HcaError::Memory`] when the system does not let more memory be pinned.
    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError>;

    /// Gives a region back. From now on its keys are refused; work under way that uses them fails.
    ///
    /// # Errors
    ///
    /// [`HcaError::UnknownRegion`] for a region that is not registered.
    fn deregister(&mut self, region: Region) -> Result<(), HcaError>;

    /// Deregisters memory that is about to go away. Unlike after [`Hca::deregister`], no registration
    /// of it stays with a device that keeps some for later use.
    ///
    /// # Errors
    ///
    /// As [`Hca::deregister`].
    fn retire(&mut self, region: Region) -> Result<(), HcaError> {
        self.deregister(region)
    }

    /// Makes this side's end of a connection to `peer`, and says what the peer has to know to connect to it. The embedder
    /// brings the address there by whatever way it has.
    ///
    /// # Errors
    ///
    /// [`HcaError::Connections`] when the device has no room for another one.
    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError>;

    /// Connects this side's end to the peer's. Called again until it is [`Readiness::Ready`]; until then nothing can be posted.
    ///
    /// # Errors
    ///
    /// [`HcaError::Unreachable`] when the peer does not answer or the address is no address of this kind of device.
    fn connect(&mut self, connection: Connection, address: &Address)
    -> Result<Readiness, HcaError>;

    /// Takes a connection down. What is under way on it completes as [`WorkError::Flushed`] or not at all.
    ///
    /// # Errors
    ///
    /// [`HcaError::UnknownConnection`] for a connection that is not open.
    fn close(&mut self, connection: Connection) -> Result<(), HcaError>;

    /// Posts one work request. The device finds in memory what this processor has written before.
    ///
    /// # Safety
    ///
    /// Until the request completes its pieces are valid for the device: for reads by it in a write or send, for writes by it
    /// in a read or atomic, and nobody else writes (or, of what it writes, touches) them. With [`WorkRequest::inline`] the
    /// pieces of a write or send are read before the call returns, and need no key.
    ///
    /// # Errors
    ///
    /// [`PostError::Full`] is back-pressure: poll, then post again. Nothing was posted on any error.
    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError>;

    /// Lends `piece` to the device for one message that any peer sends. The receive that it completes bears `id`.
    ///
    /// # Safety
    ///
    /// The piece is valid for writes by the device, and nobody else touches it, until its receive completes.
    ///
    /// # Errors
    ///
    /// [`PostError::Full`] when as many are posted as [`Capabilities::receives`] says.
    unsafe fn post_receive(&mut self, id: u64, piece: Piece) -> Result<(), PostError>;

    /// Takes completions, as many as there are and `into` has room for. Returns how many. What they say is done, this processor finds
    /// in memory.
    ///
    /// # Errors
    ///
    /// [`HcaError::Device`] when the device itself has failed.
    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError>;

    /// Asks for an event with the next completion. After arming, poll once more before sleeping: what came before is not
    /// announced.
    ///
    /// # Errors
    ///
    /// [`HcaError::Device`] when the device itself has failed.
    fn arm(&mut self) -> Result<(), HcaError>;

    /// Hears that this rank's processor has just copied `bytes` bytes to or from memory that the device reaches. A device
    /// that imitates time charges the rank for it; to any other it means nothing.
    #[inline(always)]
    fn copied(&mut self, _bytes: usize) {}
}

/// What a device can do. The numbers are limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Capabilities {
    /// Longest message that goes inline, bytes; zero: none.
    pub inline: u32,
    /// Pieces that one work request gathers.
    pub pieces: u32,
    /// Pieces that one read scatters.
    pub read_pieces: u32,
    /// Reads and atomics that are under way on one connection at a time; more wait their turn in the device.
    pub reads: u32,
    /// Work requests per connection that are posted and not known to be done, that is, whose completion or that of a later
    /// one was not polled. One more is [`PostError::Full`].
    pub depth: u32,
    /// Receives that are posted and not completed.
    pub receives: u32,
    /// Longest message, bytes.
    pub message: u64,
    /// Which atomics there are.
    pub atomics: Atomics,
    /// Whether a write can carry an immediate.
    pub immediate: bool,
    /// Whether a write or send completes when the peer's device has it. Else, as on iWARP, it completes when its pieces may be
    /// used again; that all of them have arrived is known when a later read on the connection is done, and one that fails at
    /// the peer may have completed as done: the connection breaks all the same.
    pub acknowledged: bool,
    /// Whether the last 8 bytes of a write, where they are an aligned word, are there only when all others are. No
    /// standard promises it.
    pub ordered_bytes: bool,
}

impl Capabilities {
    /// Whether there is such an operation at all.
    #[must_use]
    pub const fn has(&self, operation: &Operation<'_>) -> bool {
        match operation {
            Operation::WriteImmediate { .. } => self.immediate,
            Operation::CompareAndSwap { .. } | Operation::FetchAndAdd { .. } => {
                !matches!(self.atomics, Atomics::None)
            }
            Operation::Write { .. } | Operation::Read { .. } | Operation::Send { .. } => true,
        }
    }
}

/// The atomics of a device, and what they are atomic with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Atomics {
    /// The device has none, as iWARP.
    None,
    /// Atomic with other atomics of the same device.
    Hca,
    /// Atomic with those of the CPU, too.
    Coherent,
}

/// What may be done to a region. A local read always may.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Access {
    /// The device may write it on this rank's behalf: reads and atomics post their result there, messages arrive there. On
    /// iWARP peers may then write it, too: to the device, the answer to a read is one of the peer's writes.
    pub local_write: bool,
    /// Peers may read it.
    pub remote_read: bool,
    /// Peers may write it.
    pub remote_write: bool,
    /// Peers may use atomics on it.
    pub remote_atomic: bool,
}

impl Access {
    /// Only read, only by this rank.
    pub const LOCAL_READ: Self =
        Self { local_write: false, remote_read: false, remote_write: false, remote_atomic: false };
    /// Read and written by this rank.
    pub const LOCAL: Self = Self { local_write: true, ..Self::LOCAL_READ };
    /// Everything.
    pub const ALL: Self =
        Self { local_write: true, remote_read: true, remote_write: true, remote_atomic: true };
}

/// Registered memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Region {
    /// Address of its first byte.
    pub base: u64,
    /// Length, bytes.
    pub length: u64,
    /// Key for this rank's own work requests.
    pub local_key: u32,
    /// Key for peers.
    pub remote_key: u32,
}

/// This side's end of a connection: an index that the device gave.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Connection(pub u32);

/// How far a connection is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readiness {
    /// Not yet there.
    Pending,
    /// Requests can be posted.
    Ready,
}

/// What a peer has to know to connect to an end: bytes that only the device understands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Address(pub [u8; Self::LENGTH]);

impl Address {
    /// Bytes of an address.
    pub const LENGTH: usize = 64;
}
