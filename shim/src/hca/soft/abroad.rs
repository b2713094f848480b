//! Devices that no job holds together.
//!
//! Each has a fabric of its own, in an anonymous file that bears the device's number, and that its process holds open. The number says
//! which process that is. So who has an address of such a device, or finds its number at a lock, finds the file among the open
//! files of the process, and maps it: nobody has to hand it over, and nothing is left of it.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use super::fabric::{Blocks, FabricError};
use crate::segment::open_memfd_of;

/// Devices of this kind that one process may make.
const DEVICES: u32 = 1 << DEVICE_BITS;

/// Bits of a number that say which device of its process it is. The others are the process's number, which has 22 at most.
const DEVICE_BITS: u32 = 8;

/// A number that no other device has while this process lives. None is less than 256.
pub(super) fn number() -> Result<u32, FabricError> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let made = MADE.fetch_update(Relaxed, Relaxed, |made| (made < DEVICES).then_some(made + 1));
    let device = made.map_err(|limit| FabricError::Numbers { limit })?;
    Ok(std::process::id() << DEVICE_BITS | device)
}

/// What the file of a device is called.
pub(super) fn name(number: u32) -> String {
    format!("strait-device-{number:08x}")
}

/// The fabrics of others that a device has met. They stay mapped as long as it.
#[derive(Debug)]
pub(super) struct Abroad {
    /// Its own, by which others find it. `None`: it meets nobody.
    own: Option<OwnedFd>,
    met: Chain,
}

/// Those that were met, oldest first.
#[derive(Debug, Default)]
struct Chain(OnceLock<Box<(Blocks, Chain)>>);

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

    pub(super) fn iter(&self) -> impl Iterator<Item = &Blocks> {
        let links = core::iter::successors(self.met.0.get(), |link| link.1.0.get());
        links.map(|link| &link.0)
    }

    /// The fabric of the last device that was met with this number: an earlier one is gone, and its process's number another's.
    pub(super) fn last(&self, number: u32) -> Option<&Blocks> {
        self.iter().filter(|blocks| blocks.block(number).is_some()).last()
    }

    /// The fabric of the device with this number and nonce.
    pub(super) fn find(&self, number: u32, nonce: u64) -> Option<&Blocks> {
        let is_it = |blocks: &&Blocks| blocks.nonce() == nonce;
        self.last(number).filter(is_it).or_else(|| self.seek(number).filter(is_it))
    }

    /// Maps the fabric of the living device with this number.
    pub(super) fn seek(&self, number: u32) -> Option<&Blocks> {
        let (name, process) = (name(number), number >> DEVICE_BITS);
        self.own.as_ref()?;
        let is_it = |found: &str| (found == name).then_some(());
        let (_, file) = open_memfd_of(process, is_it)?;
        let found = Blocks::attach(&file).ok().filter(|blocks| blocks.block(number).is_some())?;
        let mut link = Box::new((found, Chain::default()));
        let mut end = &self.met;
        loop {
            match end.0.set(link) {
                Ok(()) => return end.0.get().map(|link| &link.0),
                Err(back) => link = back,
            }
            // It is not the end.
            end = &end.0.get()?.1;
        }
    }
}
