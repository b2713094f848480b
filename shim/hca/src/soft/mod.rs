//! A software HCA, for ranks on one host.
//!
//! The devices of a job share a [`Fabric`]. The target's processor does no work. The posting thread
//! (or its device thread) looks the key up in the target's table in the fabric. Then it moves the
//! data by `process_vm_readv` and `process_vm_writev`.
//!
//! The device guarantees no more than a real one. Atomics are a load and a store under the device's
//! own lock, *not* coherent with the processor's atomics. A bad key breaks the connection on both
//! sides.
//!
//! There are three modes ([`SoftMode`]):
//!
//! - `inline`: the posting thread does the work when it posts.
//! - `engine`: a device thread does the work, in the time that a [`TimeModel`] gives.
//! - `iwarp`: as `inline`, without the features that iWARP lacks.
//!
//! This module trusts nothing that another process wrote, except for the addresses of a region,
//! which cannot be checked. The reasons are in `docs/decisions/soft-hca.md`.

mod abroad;
mod block;
mod engine;
mod event;
mod execute;
mod fabric;
mod queue;
mod reach;
mod receive;
mod regions;
mod shared;
mod time;
mod work;

use core::fmt;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use strait_core::hca::{
    Access, Address, Atomics, Capabilities, Completion, Connection, Hca, HcaError, PostError,
    Readiness, Region, Sge, WorkRequest,
};
use strait_core::layout::Life;
use strait_platform::cma::{Witness, find};
use strait_platform::liveness::attach_self;
use strait_platform::wakeup_socket::WakeupSocket;

use block::{BlockEnd, CONNECTIONS, EndId, EndState, RECEIVES};
use engine::DeviceThread;
use queue::Queues;
use shared::SharedDevice;
use work::SoftWork;

use super::cq::{EventDriven, Events};

pub use engine::THREAD;
pub use fabric::{Fabric, FabricError};
pub use time::{BadModel, TimeModel};

/// The thread that carries out posted requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SoftMode {
    /// The posting thread, when it posts. A request that has to wait is tried again when the thread
    /// polls.
    #[default]
    Inline,
    /// A thread of the device, in the time that the model gives.
    Engine(TimeModel),
    /// The posting thread, with no more features than iWARP has: no atomics, no immediates, no
    /// acknowledged writes, and no connection of a rank to itself.
    Iwarp,
}

impl SoftMode {
    /// The modes that `STRAIT_HCA` can select.
    pub const ALL: [Self; 3] =
        [Self::Inline, Self::Engine(TimeModel::INFINIBAND_2004), Self::Iwarp];

    /// Returns the name of the mode in `STRAIT_HCA`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inline => "soft-inline",
            Self::Engine(_) => "soft-engine",
            Self::Iwarp => "soft-iwarp",
        }
    }
}

impl fmt::Display for SoftMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Inline | Self::Iwarp => Ok(()),
            Self::Engine(model) => write!(f, ": {model}"),
        }
    }
}

/// The software HCA of one rank.
#[derive(Debug)]
pub struct SoftHca {
    shared: Arc<SharedDevice>,
    mode: SoftMode,
    engine: Option<DeviceThread>,
    events: Events,
    receives: receive::PostedReceives,
    /// Free connection ends. The end that is free for the longest time is used first.
    free: VecDeque<u32>,
    opened: u32,
    _witness: Witness,
}

impl SoftHca {
    /// Attaches the device of `rank` to a fabric. The rank is this process or a thread of it.
    ///
    /// # Errors
    ///
    /// [`FabricError`] when the file is not a fabric, or when the rank has a device already.
    pub fn attach(fabric: &OwnedFd, rank: u32, mode: SoftMode) -> Result<Self, FabricError> {
        Self::on(Fabric::attach(fabric)?, rank, mode)
    }

    /// Makes a device on a fabric of its own. By their addresses, it reaches all other devices of
    /// this kind that this user has on this host.
    ///
    /// # Errors
    ///
    /// [`FabricError`] when there is no memory for it, or when the process has made too many
    /// devices.
    pub fn alone(mode: SoftMode) -> Result<Self, FabricError> {
        let (fabric, rank) = Fabric::alone()?;
        Self::on(fabric, rank, mode)
    }

    fn on(fabric: Fabric, rank: u32, mode: SoftMode) -> Result<Self, FabricError> {
        let ranks = fabric.ranks();
        let block = fabric.block(rank).ok_or(FabricError::Rank { rank, ranks })?;
        if block.liveness.state() != Life::Unborn {
            return Err(FabricError::Taken { rank });
        }
        let no_wakeup_socket = |error: std::io::Error| FabricError::NoSocket {
            error: Errno::from_io_error(&error).unwrap_or(Errno::INVAL),
        };
        let socket = WakeupSocket::bind(&event::wakeup_socket(fabric.nonce(), rank))
            .map_err(no_wakeup_socket)?;
        let events = Events::new(Arc::new(socket.descriptor().map_err(no_wakeup_socket)?));
        attach_self(&block.liveness);
        let witness = Witness::publish(&block.liveness, rank);
        let salt = strait_platform::segment::nonce()? as u32;
        let model = match mode {
            SoftMode::Inline | SoftMode::Iwarp => TimeModel::NONE,
            SoftMode::Engine(model) => model,
        };
        let shared = Arc::new(SharedDevice::new(fabric, rank, socket, salt, Queues::new(model)));
        let engine = matches!(mode, SoftMode::Engine(_))
            .then(|| DeviceThread::start(&shared))
            .transpose()?;
        Ok(Self {
            shared,
            mode,
            engine,
            events,
            receives: receive::PostedReceives::new(),
            free: (0..CONNECTIONS).collect(),
            // Generations start at a random number, so that an address of an earlier device with
            // this rank is not valid for this one.
            opened: salt,
            _witness: witness,
        })
    }

    /// Returns the rank that owns this device.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.shared.rank
    }

    /// Returns the mode of this device.
    #[must_use]
    pub const fn mode(&self) -> SoftMode {
        self.mode
    }

    /// Returns whether a thread of the device carries out posted requests.
    #[must_use]
    pub const fn has_thread(&self) -> bool {
        self.engine.is_some()
    }

    /// Registers the memory of a region that another device of this rank has, under that device's
    /// keys. The two devices then take the same keys, and so do their peers. Posted receives with
    /// room for a message do not take these keys.
    ///
    /// # Safety
    ///
    /// As for [`Hca::register`], with the same access.
    ///
    /// # Errors
    ///
    /// [`HcaError::Memory`] when the device has no room for another region, and
    /// [`HcaError::Device`] when a region has one of the keys.
    pub(crate) unsafe fn register_as(
        &mut self,
        region: Region,
        access: Access,
    ) -> Result<(), HcaError> {
        self.shared.regions().add_named(region, access, &self.shared.block().regions)
    }

    /// Returns the state of this side's end. A peer may break it.
    fn stage(&self, end: EndId) -> EndState {
        self.shared.block().connections[end.index as usize].stage(end.generation)
    }
}

impl Hca for SoftHca {
    fn capabilities(&self) -> Capabilities {
        let is_iwarp = self.mode == SoftMode::Iwarp;
        Capabilities {
            inline: work::INLINE as u32,
            pieces: work::PIECES as u32,
            read_pieces: work::PIECES as u32,
            reads: queue::READS,
            depth: queue::DEPTH,
            receives: RECEIVES,
            message: work::MESSAGE,
            atomics: if is_iwarp { Atomics::None } else { Atomics::Hca },
            immediate: !is_iwarp,
            acknowledged: !is_iwarp,
            ordered_bytes: reach::ORDERED,
        }
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        let (base, length) = (base.as_ptr().addr() as u64, length as u64);
        self.shared.regions().add(base, length, access, &self.shared.block().regions)
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        self.shared.regions().remove(region, &self.shared.block().regions)?;
        self.shared.quiesce(&region);
        Ok(())
    }

    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError> {
        if !self.shared.fabric.may_have(peer) {
            return Err(HcaError::Unreachable { peer });
        }
        let index = self.free.pop_front().ok_or(HcaError::Connections { limit: CONNECTIONS })?;
        self.opened = self.opened.wrapping_add(1);
        let end = EndId { rank: self.shared.rank, index, generation: self.opened };
        self.shared.block().connections[index as usize].set(end.generation, EndState::Open);
        self.shared.device().queues.open(end);
        Ok((Connection(index), block::address_of(end, self.shared.fabric.nonce())))
    }

    fn connect(
        &mut self,
        connection: Connection,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        let unknown = HcaError::UnknownConnection { connection: connection.0 };
        let mut device = self.shared.device();
        let link = device.queues.link(connection).ok_or(unknown)?;
        let fabric = &self.shared.fabric;
        let Some((peer, block)) = fabric.find(address) else {
            return Err(HcaError::Unreachable { peer: u32::MAX });
        };
        let unreachable = HcaError::Unreachable { peer: peer.rank };
        if self.mode == SoftMode::Iwarp && peer.rank == self.shared.rank {
            return Err(unreachable);
        }
        if link.far.is_none_or(|far| far.end != peer) {
            let pid = find(&block.liveness, peer.rank).ok_or(unreachable)?;
            link.far = Some(BlockEnd { end: peer, pid });
            let own = &self.shared.block().connections[connection.0 as usize];
            own.set_peer(peer);
            own.set(link.end.generation, EndState::Connected);
        }
        let theirs = &block.connections[peer.index as usize];
        match theirs.stage(peer.generation) {
            EndState::Open => Ok(Readiness::Pending),
            // The end was connected to this one, so all that it did is visible, even if it has gone
            // since. The next request finds that out.
            _ if theirs.is_peer(link.end) => Ok(Readiness::Ready),
            EndState::Connected | EndState::Broken | EndState::Closed => Err(unreachable),
        }
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        let mut device = self.shared.device();
        let end = device.queues.close(connection);
        let end = end.ok_or(HcaError::UnknownConnection { connection: connection.0 })?;
        self.shared.block().connections[end.index as usize].set(end.generation, EndState::Closed);
        while device.at_work == Some(end) {
            device = self.shared.ended.wait(device).unwrap_or_else(PoisonError::into_inner);
        }
        self.free.push_back(end.index);
        Ok(())
    }

    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        if !self.capabilities().has(&request.operation) {
            return Err(PostError::Unsupported);
        }
        let mut work = SoftWork::new(request)?;
        let mut device = self.shared.device();
        let link = device.queues.link(connection).ok_or(PostError::NotConnected)?;
        if link.is_broken() {
            return Err(PostError::Broken);
        }
        match self.stage(link.end) {
            EndState::Connected => {}
            EndState::Broken => return Err(PostError::Broken),
            EndState::Open | EndState::Closed => return Err(PostError::NotConnected),
        }
        if link.is_full() {
            return Err(PostError::Full);
        }
        // SAFETY: the caller guarantees that the pieces are valid for reads (contract of
        // `Hca::post`).
        unsafe { work.take_inline() };
        device.queues.post(connection, work, Instant::now());
        if device.asleep {
            self.shared.posted.notify_one();
        }
        // With a device thread, the owner returns at once.
        if self.engine.is_none() {
            drop(self.shared.drive(device));
        }
        Ok(())
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Sge) -> Result<(), PostError> {
        self.receives.post(self.shared.block(), id, &piece)
    }

    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError> {
        let mut device = self.shared.drive(self.shared.device());
        while let Some(arrived) = self.receives.next(self.shared.block(), &self.shared.fabric)? {
            device.queues.arrive(arrived);
        }
        Ok(device.queues.take(into))
    }

    fn arm(&mut self) -> Result<(), HcaError> {
        self.shared.arm();
        Ok(())
    }
}

impl EventDriven for SoftHca {
    fn events(&self) -> Events {
        self.events.clone()
    }
}

impl Drop for SoftHca {
    fn drop(&mut self) {
        let block = self.shared.block();
        block.liveness.end(Life::Finished);
        drop(self.engine.take());
        let regions = self.shared.regions().all();
        for region in regions {
            // The region is known, since `all` has just listed it.
            let _ = self.deregister(region);
        }
    }
}

#[cfg(test)]
mod tests;
