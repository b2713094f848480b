//! A software HCA, for ranks on one host.
//!
//! The devices of a job share a [`Fabric`]. The target's processor is not involved in anything: whoever posts a request (or
//! its device thread) looks the key up in the target's table in the fabric and moves the data by `process_vm_readv` and
//! `process_vm_writev`. What the device guarantees, and what it does not, is that of a real one: atomics are a load and a
//! store under the device's own lock, *not* coherent with the processor's; a bad key breaks the connection on both sides.
//!
//! Three modes ([`Mode`]): `inline`, where the poster does the work when it posts, `engine`, where a thread does it, in the
//! time that a [`TimeModel`] says, and `iwarp`, which is `inline` without what iWARP lacks.
//!
//! Nothing here trusts what another process wrote, but for one thing that cannot be checked: the addresses of a region.
//! The reasons are in `docs/decisions/soft-hca.md`.

mod abroad;
mod block;
mod engine;
mod event;
mod fabric;
mod queue;
mod reach;
mod receive;
mod regions;
mod time;
mod work;

use core::fmt;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use strait_core::hca::{
    Access, Address, Atomics, Capabilities, Completion, Connection, Hca, HcaError, Piece,
    PostError, Readiness, Region, WorkRequest,
};
use strait_core::layout::Life;

use block::{Block, CONNECTIONS, EndId, RECEIVES, Stage};
use engine::Engine;
use queue::{Due, Hand, Next, Queues};
use reach::{Far, Tried};
use regions::Regions;
use work::Work;

use super::cq::{EventDriven, Events};
use crate::chime::Chime;
use crate::cma::{Witness, find};
use crate::liveness::{attach_self, has_ended};

pub use fabric::{Fabric, FabricError};
pub use time::{BadModel, TimeModel};

/// The name of a device's thread.
pub const THREAD: &str = "strait-hca";

/// Who does the work that is posted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Whoever posts, when it posts; what has to wait is tried again when it polls.
    #[default]
    Inline,
    /// A thread of the device, in the time that the model says.
    Engine(TimeModel),
    /// As [`Mode::Inline`], with no more than iWARP has: there are no atomics and no immediates, writes are not acknowledged, and
    /// no rank connects to itself.
    Iwarp,
}

impl Mode {
    /// The modes that `STRAIT_HCA` can ask for.
    pub const ALL: [Self; 3] =
        [Self::Inline, Self::Engine(TimeModel::INFINIBAND_2004), Self::Iwarp];

    /// What `STRAIT_HCA` calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inline => "soft-inline",
            Self::Engine(_) => "soft-engine",
            Self::Iwarp => "soft-iwarp",
        }
    }
}

impl fmt::Display for Mode {
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
    shared: Arc<Shared>,
    mode: Mode,
    engine: Option<Engine>,
    events: Events,
    receives: receive::Posted,
    /// Free ends. The one that is longest free goes first.
    free: VecDeque<u32>,
    opened: u32,
    _witness: Witness,
}

/// What the owner of a device and its thread share.
#[derive(Debug)]
struct Shared {
    fabric: Fabric,
    rank: u32,
    /// Heard when something has completed.
    chime: Chime,
    /// Locked while a request is carried out, so that a region is not given back under it. Before `device`, if both.
    regions: Mutex<Regions>,
    device: Mutex<Device>,
    /// Something was posted, or the device is to stop.
    posted: Condvar,
    /// A request was carried out.
    ended: Condvar,
}

#[derive(Debug)]
struct Device {
    queues: Queues,
    /// The connection on which a request is carried out just now.
    at_work: Option<EndId>,
    asleep: bool,
    stop: bool,
}

impl Shared {
    fn block(&self) -> &Block {
        self.fabric.block(self.rank).expect("the rank was checked when it attached")
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep<'a>(
        &'a self,
        device: MutexGuard<'a, Device>,
        longest: core::time::Duration,
    ) -> MutexGuard<'a, Device> {
        let slept = self.posted.wait_timeout(device, longest);
        slept.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Carries out one request, with the queues unlocked meanwhile.
    fn do_one<'a>(
        &'a self,
        mut device: MutexGuard<'a, Device>,
        due: &Due,
    ) -> MutexGuard<'a, Device> {
        device.at_work = Some(due.near);
        drop(device);
        let began = Instant::now();
        let tried = self.carry_out(due.near, &due.far, &due.work);
        let mut now = Instant::now();
        let took = now - began;
        // It was faster than any before.
        while matches!(tried, Tried::Ended(Ok(()))) && now < due.due {
            std::thread::yield_now();
            now = Instant::now();
        }
        let mut device = self.device();
        device.at_work = None;
        if let Some((near, far)) = device.queues.tried(due, tried, took, now) {
            self.shatter(near, &far);
        }
        self.ended.notify_all();
        if device.queues.has_completions() {
            self.ring(self.block(), self.rank);
        }
        device
    }

    /// Carries out what is due as the owner, unless the device's thread is about it.
    fn drive<'a>(&'a self, mut device: MutexGuard<'a, Device>) -> MutexGuard<'a, Device> {
        while device.queues.is_busy() && device.at_work.is_none() {
            let Next::Now(due) = device.queues.next(Hand::Owner, Instant::now()) else { break };
            device = self.do_one(device, &due);
        }
        device
    }

    /// Breaks a connection on both sides.
    fn shatter(&self, near: EndId, far: &Far) {
        self.block().connections[near.index as usize].shatter(near.generation);
        if let Some(block) = self.fabric.block(far.end.rank) {
            block.connections[far.end.index as usize].shatter(far.end.generation);
        }
    }

    /// Waits until nobody reaches into a region any more, whose key is revoked. Who died does not.
    fn quiesce(&self, region: &Region) {
        for block in self.fabric.blocks() {
            let mut looks = 0_u32;
            while block.access.is_on(self.rank, region.remote_key) {
                std::thread::yield_now();
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(1024) && has_ended(&block.liveness) {
                    break;
                }
            }
        }
    }
}

impl SoftHca {
    /// Attaches `rank`, which is this process or a thread of it, to a fabric.
    ///
    /// # Errors
    ///
    /// [`FabricError`] when the file is no fabric, or the rank has a device already.
    pub fn attach(fabric: &OwnedFd, rank: u32, mode: Mode) -> Result<Self, FabricError> {
        Self::on(Fabric::attach(fabric)?, rank, mode)
    }

    /// A device on a fabric of its own. It reaches all others of this user on this host that are made so, by their addresses.
    ///
    /// # Errors
    ///
    /// [`FabricError`] when there is no memory for it, or the process has made too many.
    pub fn alone(mode: Mode) -> Result<Self, FabricError> {
        let (fabric, rank) = Fabric::alone()?;
        Self::on(fabric, rank, mode)
    }

    fn on(fabric: Fabric, rank: u32, mode: Mode) -> Result<Self, FabricError> {
        let ranks = fabric.ranks();
        let block = fabric.block(rank).ok_or(FabricError::Rank { rank, ranks })?;
        if block.liveness.state() != Life::Unborn {
            return Err(FabricError::Taken { rank });
        }
        let no_chime = |error: std::io::Error| FabricError::NoSocket {
            error: Errno::from_io_error(&error).unwrap_or(Errno::INVAL),
        };
        let chime = Chime::hang(&event::chime(fabric.nonce(), rank)).map_err(no_chime)?;
        let events = Events::new(Arc::new(chime.descriptor().map_err(no_chime)?));
        attach_self(&block.liveness);
        let witness = Witness::publish(&block.liveness, rank);
        let salt = crate::segment::nonce()? as u32;
        let model = match mode {
            Mode::Inline | Mode::Iwarp => TimeModel::NONE,
            Mode::Engine(model) => model,
        };
        let device =
            Device { queues: Queues::new(model), at_work: None, asleep: false, stop: false };
        let shared = Arc::new(Shared {
            fabric,
            rank,
            chime,
            regions: Mutex::new(Regions::new(salt)),
            device: Mutex::new(device),
            posted: Condvar::new(),
            ended: Condvar::new(),
        });
        let engine = matches!(mode, Mode::Engine(_)).then(|| Engine::start(&shared)).transpose()?;
        Ok(Self {
            shared,
            mode,
            engine,
            events,
            receives: receive::Posted::new(),
            free: (0..CONNECTIONS).collect(),
            // What was said of a device that is gone is not said of another with its number.
            opened: salt,
            _witness: witness,
        })
    }

    /// The rank whose device this is.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.shared.rank
    }

    /// Whether a thread of its own carries out what is posted.
    #[must_use]
    pub const fn has_thread(&self) -> bool {
        self.engine.is_some()
    }

    /// How far this side's end is; peers break it.
    fn stage(&self, end: EndId) -> Stage {
        self.shared.block().connections[end.index as usize].stage(end.generation)
    }
}

impl Hca for SoftHca {
    fn capabilities(&self) -> Capabilities {
        let is_iwarp = self.mode == Mode::Iwarp;
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
        self.shared.block().connections[index as usize].set(end.generation, Stage::Open);
        self.shared.device().queues.open(end);
        Ok((Connection(index), end.to_address(self.shared.fabric.nonce())))
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
        if self.mode == Mode::Iwarp && peer.rank == self.shared.rank {
            return Err(unreachable);
        }
        if link.far.is_none_or(|far| far.end != peer) {
            let pid = find(&block.liveness, peer.rank).ok_or(unreachable)?;
            link.far = Some(Far { end: peer, pid });
            let own = &self.shared.block().connections[connection.0 as usize];
            own.set_peer(peer);
            own.set(link.end.generation, Stage::Connected);
        }
        let theirs = &block.connections[peer.index as usize];
        match theirs.stage(peer.generation) {
            Stage::Open => Ok(Readiness::Pending),
            // It was connected to us, so what it did is here, even if it has gone since: the next request finds out.
            _ if theirs.is_peer(link.end) => Ok(Readiness::Ready),
            Stage::Connected | Stage::Broken | Stage::Closed => Err(unreachable),
        }
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        let mut device = self.shared.device();
        let end = device.queues.close(connection);
        let end = end.ok_or(HcaError::UnknownConnection { connection: connection.0 })?;
        self.shared.block().connections[end.index as usize].set(end.generation, Stage::Closed);
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
        let mut work = Work::new(request)?;
        let mut device = self.shared.device();
        let link = device.queues.link(connection).ok_or(PostError::NotConnected)?;
        if link.is_broken() {
            return Err(PostError::Broken);
        }
        match self.stage(link.end) {
            Stage::Connected => {}
            Stage::Broken => return Err(PostError::Broken),
            Stage::Open | Stage::Closed => return Err(PostError::NotConnected),
        }
        if link.is_full() {
            return Err(PostError::Full);
        }
        // SAFETY: by the contract.
        unsafe { work.take_inline() };
        device.queues.post(connection, work, Instant::now());
        if device.asleep {
            self.shared.posted.notify_one();
        }
        // An engine's owner goes its way.
        if self.engine.is_none() {
            drop(self.shared.drive(device));
        }
        Ok(())
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Piece) -> Result<(), PostError> {
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
            // Known, since it was just listed.
            let _ = self.deregister(region);
        }
    }
}

#[cfg(test)]
mod tests;
