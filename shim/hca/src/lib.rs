//! Devices: the implementations of [`strait_core::hca::Hca`], the choice between them, and waits
//! for their completions.
//!
//! Two devices on one fabric, with the RDMA channel between them:
//!
//! ```
//! use std::ptr::NonNull;
//! use strait_core::buffer::Part;
//! use strait_core::hca::{Access, Hca as _, Readiness};
//! use strait_core::ring::{Design, Link, LinkConfig, LinkMemory};
//! use strait_core::sync::CacheLine;
//! use strait_hca::soft::{Fabric, SoftHca, SoftMode};
//!
//! fn part(bytes: &mut [u8]) -> Part {
//!     Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() }
//! }
//!
//! let config = LinkConfig { slots: 8, ..LinkConfig::new(Design::Pipeline) };
//! let fabric = Fabric::create(2)?;
//! let open = |rank: u32| {
//!     let mut device = SoftHca::attach(&fabric, rank, SoftMode::Inline)?;
//!     let lines: Vec<_> = (0..config.bytes() / 64).map(|_| CacheLine([0_u8; 64])).collect();
//!     let base = NonNull::from(lines.leak()).cast();
//!     // SAFETY: the memory is leaked, and only the link uses it.
//!     let region = unsafe { device.register(base, config.bytes(), Access::ALL) }?;
//!     let (local_key, remote_key) = (region.local_key, region.remote_key);
//!     let lent = LinkMemory { base, local_key, remote_key };
//!     // SAFETY: the memory is zero, aligned, registered and long enough.
//!     let (link, address) = unsafe { Link::init(&mut device, 1 - rank, config, lent) }?;
//!     Ok::<_, Box<dyn std::error::Error>>((device, link, address))
//! };
//! let (mut device, mut link, address) = open(0)?;
//! let (mut other_device, mut other, other_address) = open(1)?;
//! while (link.connect(&mut device, &other_address)?, other.connect(&mut other_device, &address)?)
//!     != (Readiness::Ready, Readiness::Ready)
//! {}
//!
//! let (mut message, mut buffer) = (*b"through the ring", [0; 16]);
//! // SAFETY: both arrays outlive the links.
//! let put = unsafe { link.put(&mut device, &[part(&mut message)]) }?;
//! // SAFETY: both arrays outlive the links.
//! let got = unsafe { other.get(&mut other_device, &[part(&mut buffer)]) }?;
//! assert_eq!((put, got, &buffer), (16, 16, b"through the ring"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod choice;
mod composite;
pub mod cq;
mod device;
pub mod soft;
#[cfg(feature = "verbs")]
pub mod verbs;

pub use choice::{DeviceChoice, DeviceKind, NoChoice, Rail};
pub use composite::Composite;
pub use device::{Demand, Device, NoDevice};
