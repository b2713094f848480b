//! Strait: a transport kernel for MPI.
//!
//! A [`World`] is a process's place in a job that `strait run` started; its [`Endpoint`] sends and receives tagged
//! messages. Ranks on one node talk through shared memory, without a system call or an allocation on the path of a
//! short message.
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
//! A buffer is a slice of numbers, or of any type without padding that [`bytemuck`] knows: `Pod`, or `NoUninit` to send
//! and `AnyBitPattern` to receive. This crate re-exports it with its derive macros:
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
//! One thread at a time uses a [`World`] and all that comes from it: this is `MPI_THREAD_SERIALIZED`, and the compiler
//! holds to it. A world can be moved to another thread, or be shared in a [`Mutex`](std::sync::Mutex). A blocking call
//! holds the lock, so two threads of one process cannot wait for each other in it.
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
//! [`World::finalize`] takes the world, so windows, groups and requests must have ended before: the compiler says
//! E0505, "cannot move out of `world` because it is borrowed", where one still lives. [`Window::free`] ends a window with
//! all members; dropping a window or a request ends it, too.
//!
//! Threads, signal handlers, allocator hooks: none. Progress is made inside calls, and by a thread where a program asks for one
//! ([`World::start_progress_thread`]).

mod alloc;
pub mod boot;
mod chime;
mod cma;
mod collective;
mod endpoint;
pub mod env;
mod error;
pub mod hca;
mod liveness;
mod lock;
mod matched;
mod memory;
mod network;
mod nodes;
pub mod observe;
#[doc(hidden)]
pub mod parsers;
mod patience;
pub mod port;
mod request;
mod segment;
mod sleep;
pub mod topology;
mod unscoped;
mod window;
mod world;

pub use alloc::SharedMemory;
pub use bytemuck;
pub use collective::{CollectiveError, Group, Number};
pub use endpoint::Endpoint;
pub use error::Error;
pub use matched::{Matched, Message};
pub use memory::SystemMemory;
pub use network::NetworkError;
pub use nodes::Nodes;
pub use request::{
    OwnedRequest, Request, Scope, test_all, test_any, test_some, wait_all, wait_any, wait_some,
};
pub use strait_core::layout::{Call, Wait};
pub use strait_core::lmt::Transfer;
pub use strait_core::lock::{LockType, Mode as LockMode};
pub use strait_core::matching::{ANY_SOURCE, ANY_TAG, TAG_MAX};
pub use strait_core::progress::{
    Fault, Held, Part, Rtrs, SentShort, Sign, StartError, Status, Tuning,
};
pub use strait_core::reduce::{Integer, Op};
pub use strait_core::regcache::Counts as Registrations;
pub use strait_core::rma::{Run, Shape};
pub use strait_core::rndv::Rendezvous;
pub use unscoped::Unscoped;
pub use window::{
    Accumulates, Assert, AtomicityDomain, Attached, Exposable, Local, LockCounters, LockDesign,
    LockPolicy, Operation, Window, WindowDesign, WindowError, WindowOptions,
};
pub use world::World;

/// A process of a job, from 0.
pub type Rank = u32;

/// A message's tag, from 0 to [`TAG_MAX`] (MPI-4.1 §3.2.3).
pub type Tag = u32;
