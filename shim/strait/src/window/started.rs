//! Puts and gets that continue after their call, until the next synchronisation completes them
//! (MPI-4.1 §12.3). The caller keeps the memory until then, so the device moves the bytes directly
//! from or to it while the caller computes.
//!
//! Gets that fit a slot land in the slot, and the lane copies them to the caller's memory when they
//! are done. Longer transfers are registered. All other operations are complete when their call
//! returns, or copy what they need.

use strait_core::buffer::{Direction, Part as Buffer};
use strait_core::engine::Channel;
use strait_core::hca::{Access, Region};
use strait_core::rma::SLOT;
use strait_core::sync::{Step, reached};

use super::Window;
use super::part::{PartAccess, RemoteMember, WindowPart};
use super::started_transfers::StartedTransfers;
use crate::Error;

impl Window<'_> {
    /// Does the work of [`crate::raw::RawWindow::start_put`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    #[inline(always)]
    pub(crate) unsafe fn start_put(
        &self,
        data: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees the memory (contract of `start_put`).
        unsafe { self.start_transfer(Direction::Write, data, target, displacement) }?;
        reached(Step::WindowPut);
        Ok(())
    }

    /// Does the work of [`crate::raw::RawWindow::start_get`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    #[inline(always)]
    pub(crate) unsafe fn start_get(
        &self,
        buffer: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees the memory (contract of `start_get`).
        unsafe { self.start_transfer(Direction::Read, buffer, target, displacement) }
    }

    /// # Safety
    ///
    /// The memory is valid for the reads or writes of this direction until the next
    /// synchronisation.
    #[inline(always)]
    unsafe fn start_transfer(
        &self,
        way: Direction,
        memory: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<(), Error> {
        let (part, offset) = self.locate(target, displacement, memory.length)?;
        if let (PartAccess::Device(_), Some(remote)) = (part.reach.get(), &part.remote) {
            // SAFETY: `locate` has checked the part, and the caller guarantees the memory (contract
            // of `start_transfer`).
            if unsafe { self.start_remote((part, remote), way, offset, memory) }? {
                return Ok(());
            }
        }
        // SAFETY: `locate` has checked the part, and the caller guarantees the memory (contract of
        // `start_transfer`).
        unsafe { self.copy(part, offset, way, memory.base, memory.length) }
    }

    /// Starts a transfer by the device. Returns false if this one cannot continue after the call;
    /// then nothing was done.
    ///
    /// # Safety
    ///
    /// The contract of [`Window::start_transfer`] holds, and the bytes lie in the part.
    #[inline(never)]
    unsafe fn start_remote(
        &self,
        (part, remote): (&WindowPart, &RemoteMember),
        way: Direction,
        offset: usize,
        memory: Buffer,
    ) -> Result<bool, Error> {
        let there = remote.part.get().after(offset);
        match way {
            _ if memory.length == 0 => return Ok(false),
            Direction::Write if memory.length <= SLOT => return Ok(false),
            Direction::Read if memory.length <= SLOT => {
                // SAFETY: the caller guarantees the memory until the request is done or the lane is
                // broken (contract of `start_remote`).
                let last = self
                    .ask(remote, |lane, device| unsafe { lane.fetch_to(device, memory, there) })?;
                part.started.borrow_mut().last = last;
                return Ok(true);
            }
            Direction::Read | Direction::Write => {}
        }
        let access = match way {
            Direction::Read => Access::LOCAL,
            Direction::Write => Access::LOCAL_READ,
        };
        // SAFETY: the caller guarantees the memory (contract of `start_remote`). The region is
        // released when the device is done with it.
        let region = self.world.with_network(|network| unsafe { network.register(memory, access) });
        let Some(region) = region.flatten() else { return Ok(false) };
        let near = (memory.base, region.local_key);
        // SAFETY: the caller guarantees both sides (contract of `start_remote`), and the memory is
        // registered.
        match unsafe { self.ask_registered(remote, way, near, offset, memory.length) } {
            Ok(last) => {
                let started = &mut *part.started.borrow_mut();
                started.last = last;
                started.regions.push((last, region));
                self.release_done(remote, started);
                Ok(true)
            }
            Err(error) => {
                self.world.with_network(|network| {
                    network.break_lane(remote.lane);
                    network.release(region);
                });
                Err(error)
            }
        }
    }

    /// Releases the registrations with which the device is done, so that they do not accumulate
    /// until the next synchronisation.
    fn release_done(&self, remote: &RemoteMember, started: &mut StartedTransfers) {
        self.world.with_network(|network| {
            let done = network.on_lane(remote.lane, |lane, _| {
                let is_done = |(last, _): &&(u64, Region)| lane.is_done(*last) == Ok(true);
                Ok(started.regions.iter().take_while(is_done).count())
            });
            let done = done.unwrap_or(0);
            started.regions.drain(..done).for_each(|(_, region)| network.release(region));
        });
    }

    /// Waits until the device no longer accesses memory of the caller for transfers with a part.
    pub(super) fn complete_started(&self, part: &WindowPart) -> Result<(), Error> {
        let Some(remote) = &part.remote else { return Ok(()) };
        let StartedTransfers { last, regions } = part.started.take();
        if last == 0 {
            return Ok(());
        }
        let done = self.await_done(remote, last);
        self.world.with_network(|network| {
            if done.is_err() {
                network.break_lane(remote.lane);
            }
            regions.into_iter().for_each(|(_, region)| network.release(region));
        });
        done
    }
}
