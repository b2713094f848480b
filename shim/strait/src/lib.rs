//! Strait: a transport kernel for MPI.
//!
//! A [`World`] is the membership of this process in a job that `strait run` started. Its
//! [`Endpoint`] sends and receives tagged messages. Ranks on one node talk through shared memory. A
//! short message needs no system call and no allocation on its path.
//!
//! ```no_run
//! fn main() -> Result<(), strait::Error> {
//!     let world = strait::World::init()?;
//!     let endpoint = world.endpoint();
//!     if world.rank() == 0 {
//!         endpoint.send(&[3.5_f64, 4.5], 1, 7)?;
//!     } else if world.rank() == 1 {
//!         let mut numbers = [0.0_f64; 2];
//!         let status = endpoint.recv(&mut numbers, 0, 7)?;
//!         println!("{} bytes from rank {}: {numbers:?}", status.bytes, status.source);
//!     }
//!     world.finalize()
//! }
//! ```
//!
//! # Data of your own types
//!
//! A buffer is a slice of numbers, or of any type without padding that [`bytemuck`] knows. The type
//! implements `Pod`, or `NoUninit` to be sent and `AnyBitPattern` to be received. This crate
//! re-exports `bytemuck` with its derive macros:
//!
//! ```
//! use strait::bytemuck::{Pod, Zeroable};
//!
//! #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
//! #[bytemuck(crate = "strait::bytemuck")]
//! #[repr(C)]
//! struct Particle {
//!     x: f64,
//!     y: f64,
//!     id: u64,
//! }
//!
//! # fn main() -> Result<(), strait::Error> {
//! let worlds = strait::World::in_process(2)?;
//! let sent = [Particle { x: 1.0, y: 2.0, id: 3 }];
//! worlds[0].endpoint().send(&sent, 1, 0)?;
//! let mut received = [Particle::zeroed()];
//! worlds[1].endpoint().recv(&mut received, 0, 0)?;
//! assert_eq!(received, sent);
//! # Ok(()) }
//! ```
//!
//! # Threads
//!
//! One thread at a time uses a [`World`] and all values that come from it. This is
//! `MPI_THREAD_SERIALIZED`, and the compiler enforces it. A world can move to another thread, or be
//! shared in a [`Mutex`](std::sync::Mutex). A blocking call holds the mutex, so two threads of one
//! process cannot wait for each other's messages.
//!
//! ```compile_fail,E0277
//! fn both(world: &strait::World) {
//!     std::thread::scope(|scope| {
//!         scope.spawn(|| world.endpoint().send(&[1_u8], 1, 0));
//!     });
//! }
//! ```
//!
//! ```no_run
//! fn both(world: &std::sync::Mutex<strait::World>) {
//!     std::thread::scope(|scope| {
//!         scope.spawn(|| world.lock().unwrap().endpoint().send(&[1_u8], 1, 0));
//!     });
//! }
//! ```
//!
//! # The end
//!
//! [`World::finalize`] consumes the world, so all windows, groups and requests must have ended
//! before. Where one of them still lives, the compiler reports E0505, "cannot move out of `world`
//! because it is borrowed". [`Window::free`] ends a window together with all members. Dropping a
//! window or a request also ends it.
//!
//! The library installs no signal handlers and no allocator hooks. It makes progress inside calls.
//! It starts a thread only where a program asks for one ([`World::start_progress_thread`]).

mod alloc;
pub mod boot;
mod buffer;
mod collective;
mod designs;
mod endpoint;
mod endpoint_lines;
pub mod env;
mod error;
mod lock_policy;
mod matched;
mod memory;
mod network;
#[doc(hidden)]
pub mod parsers;
pub mod port;
pub mod profile;
mod progress;
pub mod raw;
mod rdma_channel;
mod request;
mod reserved;
mod scope;
mod sealed;
mod short_probe;
mod source;
pub mod transfer_method;
mod unscoped;
mod warning;
mod window;
mod world;

pub use alloc::SharedMemory;
pub use buffer::{RecvBuffer, SendBuffer, Vectored};
pub use bytemuck;
pub use collective::{Contribution, Group, InPlace, Number, Reduction};
pub use designs::{LockDesign, WindowDesign};
pub use endpoint::Endpoint;
pub use error::{CollectiveError, Error, ErrorKind, NetworkError, ProfileError, WindowError};
pub use lock_policy::LockPolicy;
pub use matched::Message;
pub use memory::SystemMemory;
pub use request::Request;
pub use request::owned::OwnedRequest;
pub use request::several::{test_all, test_any, test_some, wait_all, wait_any, wait_some};
pub use scope::Scope;
pub use source::{Source, Tag};
pub use strait_core::engine::{
    FailureCause, Fault, RemoteTransfers, Rtrs, StartError, Status, Tuning, UnexpectedUsage,
};
pub use strait_core::layout::{Call, Wait};
pub use strait_core::lmt::{RemoteTransfer, Transfer};
pub use strait_core::lock::{LockCosts, LockMode, LockType};
pub use strait_core::matching::{ANY_TAG, TAG_MAX};
pub use strait_core::reduce::{Integer, Op};
pub use strait_core::regcache::CacheStats as Registrations;
pub use strait_core::rma::{ByteRun, Shape};
pub use strait_core::rndv::Rendezvous;
pub use strait_hca as hca;
pub use strait_platform::{Nodes, Rank, observe, topology};
pub(crate) use unscoped::Unscoped;
pub use warning::Warning;
pub use window::attachments::Attached;
pub use window::builder::{WindowBuilder, WindowMembers};
pub use window::epochs::Assert;
pub use window::expose::Exposable;
pub use window::local::Local;
pub use window::options::{Accumulates, AtomicityDomain, WindowOptions};
pub use window::passive::state::LockCounters;
pub use window::{RmaOperation, Window};
pub use world::World;
pub use world::builder::{Progress, WorldBuilder};
