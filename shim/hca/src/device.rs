//! A device of any kind that a job can use.

use core::fmt;
use core::ptr::NonNull;

use strait_core::hca::{
    Access, Address, Capabilities, Completion, Connection, Hca, HcaError, PostError, Readiness,
    Region, Sge, WorkRequest,
};

use super::choice::Rail;
use super::composite::Composite;
use super::cq::{EventDriven, Events};
use super::soft::SoftHca;
#[cfg(feature = "verbs")]
use super::verbs::{OpenError, Verbs, VerbsConfig};

/// A device of any kind.
#[cfg_attr(
    feature = "verbs",
    expect(clippy::large_enum_variant, reason = "a rank has one, and it does not move")
)]
pub enum Device {
    /// The software HCA.
    Soft(SoftHca),
    /// An RDMA device through libibverbs.
    #[cfg(feature = "verbs")]
    Verbs(Verbs),
    /// A software HCA for peers of this host, and another device for all others.
    Composite(Box<Composite<Self>>),
}

/// The resources that a rank needs from its device.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Number of connections at a time.
    pub connections: u32,
    /// Number of posted receives.
    pub receives: u32,
    /// Number of registered bytes.
    pub memory: u64,
}

impl Device {
    /// Opens the device of `rank` among those that
    /// [`DeviceChoice::Verbs`](super::DeviceChoice::Verbs) names.
    ///
    /// # Errors
    ///
    /// [`NoDevice`].
    #[cfg(feature = "verbs")]
    pub fn verbs(
        rails: &[Rail],
        gid: Option<u8>,
        rank: u32,
        demand: Demand,
    ) -> Result<Self, NoDevice> {
        let rail = rails.get(rank as usize % rails.len().max(1));
        let Demand { connections, receives, memory } = demand;
        let config = VerbsConfig {
            device: rail.map(|rail| rail.device.clone()),
            port: rail.and_then(|rail| rail.port),
            gid,
            connections,
            receives,
            memory,
            ..VerbsConfig::default()
        };
        Verbs::open(&config).map(Self::Verbs).map_err(NoDevice::Verbs)
    }

    /// Returns whether threads carry out posted requests, on processors that ranks may want.
    pub fn has_threads(&self) -> bool {
        match self {
            Self::Soft(device) => device.has_thread(),
            #[cfg(feature = "verbs")]
            Self::Verbs(device) => device.has_threads(),
            Self::Composite(device) => device.near().has_thread() || device.far().has_threads(),
        }
    }

    /// Fails, because this program was built without the feature `verbs`.
    ///
    /// # Errors
    ///
    /// [`NoDevice::NotBuilt`].
    #[cfg(not(feature = "verbs"))]
    pub fn verbs(_: &[Rail], _: Option<u8>, _: u32, _: Demand) -> Result<Self, NoDevice> {
        Err(NoDevice::NotBuilt)
    }
}

/// The reason why libibverbs has no device for a rank.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoDevice {
    /// This program was built without the feature `verbs`.
    NotBuilt,
    /// No device could be opened.
    #[cfg(feature = "verbs")]
    Verbs(OpenError),
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => f.write_str(
                "this program was built without RDMA devices: build it with `--features verbs`",
            ),
            #[cfg(feature = "verbs")]
            Self::Verbs(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for NoDevice {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NotBuilt => None,
            #[cfg(feature = "verbs")]
            Self::Verbs(error) => error.source(),
        }
    }
}

/// Evaluates one expression for a device of either kind.
macro_rules! each {
    ($any:expr, $device:ident => $does:expr) => {
        match $any {
            Device::Soft($device) => $does,
            #[cfg(feature = "verbs")]
            Device::Verbs($device) => $does,
            Device::Composite($device) => $does,
        }
    };
}

impl Hca for Device {
    fn capabilities(&self) -> Capabilities {
        each!(self, device => device.capabilities())
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        // SAFETY: the caller upholds the contract of `Hca::register`, and the arguments are passed
        // on unchanged.
        each!(self, device => unsafe { device.register(base, length, access) })
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        each!(self, device => device.deregister(region))
    }

    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError> {
        each!(self, device => device.open(peer))
    }

    fn connect(
        &mut self,
        connection: Connection,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        each!(self, device => device.connect(connection, address))
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        each!(self, device => device.close(connection))
    }

    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        // SAFETY: the caller upholds the contract of `Hca::post`, and the arguments are passed on
        // unchanged.
        each!(self, device => unsafe { device.post(connection, request) })
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Sge) -> Result<(), PostError> {
        // SAFETY: the caller upholds the contract of `Hca::post_receive`, and the arguments are
        // passed on unchanged.
        each!(self, device => unsafe { device.post_receive(id, piece) })
    }

    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError> {
        each!(self, device => device.poll(into))
    }

    fn arm(&mut self) -> Result<(), HcaError> {
        each!(self, device => device.arm())
    }

    fn copied(&mut self, bytes: usize) {
        each!(self, device => device.copied(bytes));
    }
}

impl EventDriven for Device {
    fn events(&self) -> Events {
        each!(self, device => device.events())
    }
}
