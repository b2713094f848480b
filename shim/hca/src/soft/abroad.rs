//! Devices outside a job.
//!
//! Each such device has a fabric of its own, in an anonymous file with the device's number in its
//! name. The device's process holds the file open, and the number identifies that process.
//!
//! A process may have the address of such a device, or find its number in a lock. It then finds the
//! file among the open files of the device's process, and maps it. So no process has to pass the
//! file on, and nothing is left of it.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use strait_platform::segment::open_memfd_of;

use super::fabric::{FabricError, FabricFile};

/// Number of devices of this kind that one process may make.
const DEVICES: u32 = 1 << DEVICE_BITS;

/// Bits of a number that identify the device within its process. The other bits are the process's
/// number, which has 22 bits at most.
const DEVICE_BITS: u32 = 8;

/// Returns a number that no other device has while this process lives. Every number is 256 or more.
pub(super) fn number() -> Result<u32, FabricError> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let made = MADE.fetch_update(Relaxed, Relaxed, |made| (made < DEVICES).then_some(made + 1));
    let device = made.map_err(|limit| FabricError::Numbers { limit })?;
    Ok(std::process::id() << DEVICE_BITS | device)
}

/// Returns the name of a device's file.
pub(super) fn name(number: u32) -> String {
    format!("strait-device-{number:08x}")
}

/// The fabrics of other devices that a device has found. They stay mapped as long as this value.
#[derive(Debug)]
pub(super) struct Abroad {
    /// The file of the own fabric, by which other devices find it. `None`: it finds no other
    /// devices.
    own: Option<OwnedFd>,
    met: Chain,
}

/// The fabrics that were found, oldest first.
#[derive(Debug, Default)]
struct Chain(OnceLock<Box<(FabricFile, Chain)>>);

impl Abroad {
    pub(super) const fn none() -> Self {
        Self { own: None, met: Chain(OnceLock::new()) }
    }

    pub(super) const fn of(own: OwnedFd) -> Self {
        Self { own: Some(own), met: Chain(OnceLock::new()) }
    }

    pub(super) const fn is_open(&self) -> bool {
        self.own.is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FabricFile> {
        let links = core::iter::successors(self.met.0.get(), |link| link.1.0.get());
        links.map(|link| &link.0)
    }

    /// Returns the fabric that was found last for this number. An earlier one belongs to a device
    /// that is gone, with a process number that was used again.
    pub(super) fn last(&self, number: u32) -> Option<&FabricFile> {
        self.iter().filter(|blocks| blocks.block(number).is_some()).last()
    }

    /// Returns the fabric of the device with this number and nonce.
    pub(super) fn find(&self, number: u32, nonce: u64) -> Option<&FabricFile> {
        let is_it = |blocks: &&FabricFile| blocks.nonce() == nonce;
        self.last(number).filter(is_it).or_else(|| self.seek(number).filter(is_it))
    }

    /// Maps the fabric of the living device with this number.
    pub(super) fn seek(&self, number: u32) -> Option<&FabricFile> {
        let (name, process) = (name(number), number >> DEVICE_BITS);
        self.own.as_ref()?;
        let is_it = |found: &str| (found == name).then_some(());
        let (_, file) = open_memfd_of(process, is_it)?;
        let found =
            FabricFile::attach(&file).ok().filter(|blocks| blocks.block(number).is_some())?;
        let mut link = Box::new((found, Chain::default()));
        let mut end = &self.met;
        loop {
            match end.0.set(link) {
                Ok(()) => return end.0.get().map(|link| &link.0),
                Err(back) => link = back,
            }
            // This link is not the end of the chain.
            end = &end.0.get()?.1;
        }
    }
}
