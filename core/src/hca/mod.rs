//! The HCA: the verbs of an RDMA device that Strait uses (`[RdmaChannel04]` §2).
//!
//! The ring channel, windows and network locks are written against [`Hca`]. Devices are in the
//! `strait` crate: a software HCA, and libibverbs. Wrappers apply to any device: [`fault`] injects
//! faults, [`trace`] reports calls. One conformance suite checks every device against the
//! guarantees below.
//!
//! # What a device guarantees
//!
//! - Work requests of one connection start in the order of their posting, and their completions are
//!   reported in that order. Writes and sends of one connection also take effect at the peer in
//!   that order.
//! - A read or an atomic sees what was written before on its connection, and takes place when the
//!   peer's processor sees that, too. *Later* writes and sends may overtake it unless they are
//!   fenced ([`WorkRequest::fenced`]).
//! - The order within one write is undefined: its last byte may arrive before its first, unless
//!   [`Capabilities::ordered_bytes`] says otherwise. Data that must arrive last needs a later
//!   request. An aligned word of 8 bytes arrives whole or not at all.
//! - Requests on different connections have no order.
//! - The atomics of a device are atomic with each other. They are atomic with those of the CPU only
//!   where [`Atomics::Coherent`] says so.
//! - A request that fails breaks its connection. It completes with its error. Later posted requests
//!   complete with [`WorkError::Flushed`] and have no effect. A later post is refused
//!   ([`PostError::Broken`]) or flushed. The peer's end breaks too, and may report
//!   [`WorkError::Unreachable`]. Other connections and posted receives are not affected.
//!
//! Absent on purpose: completion queues as objects (a device has one), unreliable transports,
//! callbacks, waiting.

mod error;
pub mod fabric;
pub mod fault;
pub mod trace;
mod work;

pub use error::{ConnectStep, HcaError, PostError, WorkError};
pub use work::{Completion, Done, Operation, RemoteAddress, Sge, WorkRequest};

use core::ptr::NonNull;

/// An RDMA device, as one rank uses it.
pub trait Hca {
    /// Returns what the device can do.
    fn capabilities(&self) -> Capabilities;

    /// Registers `length` bytes from `base` for use by the device.
    ///
    /// # Safety
    ///
    /// The memory stays mapped until the region is deregistered. While it is registered, peers may
    /// read and write it at any time, as far as `access` permits, without this process taking part.
    ///
    /// # Errors
    ///
    /// [`HcaError::Memory`] if the system does not permit more memory to be pinned.
    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError>;

    /// Deregisters a region. From now on its keys are refused; requests in flight that use them
    /// fail.
    ///
    /// # Errors
    ///
    /// [`HcaError::UnknownRegion`] if the region is not registered.
    fn deregister(&mut self, region: Region) -> Result<(), HcaError>;

    /// Deregisters memory that is about to be unmapped. A device that caches registrations keeps
    /// none of this memory; after [`Hca::deregister`] it may keep some.
    ///
    /// # Errors
    ///
    /// [`HcaError::UnknownRegion`] if the region is not registered.
    fn retire(&mut self, region: Region) -> Result<(), HcaError> {
        self.deregister(region)
    }

    /// Creates this side's end of a connection to `peer`, and returns the address that the peer
    /// needs to connect to it. The embedder delivers the address by its own means.
    ///
    /// # Errors
    ///
    /// [`HcaError::Connections`] if the device has no room for another connection.
    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError>;

    /// Connects this side's end to the peer's. The caller repeats the call until the result is
    /// [`Readiness::Ready`]; nothing can be posted before.
    ///
    /// # Errors
    ///
    /// [`HcaError::Unreachable`] if the address does not belong to this kind of device,
    /// [`HcaError::Connect`] if a step of connecting failed, [`HcaError::Refused`] if the peer does
    /// not know the connection.
    fn connect(&mut self, connection: Connection, address: &Address)
    -> Result<Readiness, HcaError>;

    /// Closes a connection. Requests in flight on it complete with [`WorkError::Flushed`] or not at
    /// all.
    ///
    /// # Errors
    ///
    /// [`HcaError::UnknownConnection`] if the connection is not open.
    fn close(&mut self, connection: Connection) -> Result<(), HcaError>;

    /// Posts one work request. The device sees everything that this processor has written before.
    ///
    /// # Safety
    ///
    /// Until the request completes, its pieces are valid for the device: for reading in a write or
    /// send, for writing in a read or atomic. Until then, no other code writes memory that the
    /// device reads, or accesses memory that the device writes.
    ///
    /// With [`WorkRequest::inline`], the device reads the pieces of a write or send before the call
    /// returns, and they need no key.
    ///
    /// # Errors
    ///
    /// [`PostError::Full`] is back-pressure: poll, then post again. On any error, nothing was
    /// posted.
    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError>;

    /// Lends `piece` to the device for one message from any peer. The completion of the receive
    /// carries `id`.
    ///
    /// # Safety
    ///
    /// Until its receive completes, the piece is valid for writes by the device, and no other code
    /// accesses it.
    ///
    /// # Errors
    ///
    /// [`PostError::Full`] if [`Capabilities::receives`] receives are already posted.
    unsafe fn post_receive(&mut self, id: u64, piece: Sge) -> Result<(), PostError>;

    /// Moves completions to `into`, as far as there is room, and returns their number. This
    /// processor sees the effects of every operation that they report as done.
    ///
    /// # Errors
    ///
    /// [`HcaError::Device`] if the device itself has failed.
    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError>;

    /// Requests an event for the next completion. After arming, the caller polls once more before
    /// it sleeps, because earlier completions are not announced.
    ///
    /// # Errors
    ///
    /// [`HcaError::Device`] if the device itself has failed.
    fn arm(&mut self) -> Result<(), HcaError>;

    /// Tells the device that this rank's processor has just copied `bytes` bytes to or from memory
    /// that the device accesses. A device that models time charges the rank for it; other devices
    /// ignore it.
    #[inline(always)]
    fn copied(&mut self, _bytes: usize) {}
}

/// The abilities and limits of a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Capabilities {
    /// Longest message that is sent inline, in bytes; zero means none.
    pub inline: u32,
    /// Maximum number of pieces that one work request gathers.
    pub pieces: u32,
    /// Maximum number of pieces that one read scatters.
    pub read_pieces: u32,
    /// Maximum number of reads and atomics in flight on one connection; further ones wait in the
    /// device.
    pub reads: u32,
    /// Maximum number of work requests that are posted on one connection and not known to be
    /// complete. A request is known to be complete when its completion, or that of a later request,
    /// was polled. A further request fails with [`PostError::Full`].
    pub depth: u32,
    /// Maximum number of receives that are posted and not complete.
    pub receives: u32,
    /// Longest message, in bytes.
    pub message: u64,
    /// The atomics of the device.
    pub atomics: Atomics,
    /// True if a write can carry an immediate.
    pub immediate: bool,
    /// True if a write or send completes when the peer's device has it. False, as on iWARP, if it
    /// completes when its pieces may be reused. Its arrival is then known only when a later read on
    /// the connection completes. A request that fails at the peer may then have completed as done;
    /// the connection breaks all the same.
    pub acknowledged: bool,
    /// True if the last 8 bytes of a write, where they are an aligned word, arrive only when all
    /// others have arrived. No standard guarantees it.
    pub ordered_bytes: bool,
}

impl Capabilities {
    /// Returns true if the device has this operation.
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
    /// The device has no atomics, as on iWARP.
    None,
    /// The atomics are atomic with other atomics of the same device.
    Hca,
    /// The atomics are also atomic with those of the CPU.
    Coherent,
}

/// The permitted accesses to a region. A local read is always permitted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Access {
    /// The device may write the region for this rank: results of reads and atomics, and messages.
    /// On iWARP peers may then write it, too, because the device handles the answer to a read as a
    /// write of the peer.
    pub local_write: bool,
    /// Peers may read it.
    pub remote_read: bool,
    /// Peers may write it.
    pub remote_write: bool,
    /// Peers may use atomics on it.
    pub remote_atomic: bool,
}

impl Access {
    /// Read access, for this rank only.
    pub const LOCAL_READ: Self =
        Self { local_write: false, remote_read: false, remote_write: false, remote_atomic: false };
    /// Read and write access, for this rank only.
    pub const LOCAL: Self = Self { local_write: true, ..Self::LOCAL_READ };
    /// Every access, for this rank and its peers.
    pub const ALL: Self =
        Self { local_write: true, remote_read: true, remote_write: true, remote_atomic: true };
}

/// Registered memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Region {
    /// Address of its first byte.
    pub base: u64,
    /// Length, in bytes.
    pub length: u64,
    /// Key for this rank's own work requests.
    pub local_key: u32,
    /// Key for peers.
    pub remote_key: u32,
}

/// This side's end of a connection: an index that the device assigned.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Connection(pub u32);

/// The state of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readiness {
    /// The connection is not ready yet.
    Pending,
    /// Requests can be posted.
    Ready,
}

/// The address that a peer needs to connect to an end. Only the device interprets its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Address(pub [u8; Self::LENGTH]);

impl Address {
    /// Size of an address, in bytes.
    pub const LENGTH: usize = 64;
}
