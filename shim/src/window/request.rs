//! Operations that do not wait (MPI-4.1 §12.3.5).
//!
//! What is done when the call returns gives a request that is over: everything on one node, accumulates, and what goes through a slot.
//! By messages it is over when it is packed.
//! Longer puts and gets between nodes go on by themselves: the device needs neither side's processor.

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::hca::Access;
use strait_core::lmt::Direction;
use strait_core::progress::{Channel, Owner, Part as Buffer, Status, Way};
use strait_core::reduce::Op;
use strait_core::rma::SLOT;

use super::far::Far;
use super::part::Reach;
use super::{Window, WindowDesign};
use crate::endpoint::{part_of, part_of_mut};
use crate::network::Transfer;
use crate::{Error, Number, Request, Scope, Unscoped};

impl<'scope> Scope<'scope, '_> {
    /// As [`Window::put`], and `data` is to stay as it is until the request is over, or the scope: then it may be changed. The
    /// request's status names the target's rank. What was put is at the target after the next synchronisation, not before.
    ///
    /// # Errors
    ///
    /// As [`Window::put`], for what is known at the start.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.5, `MPI_RPUT`.
    pub fn rput<T: NoUninit>(
        &'scope self,
        window: &'scope Window<'_>,
        data: &'scope [T],
        target: u32,
        displacement: usize,
    ) -> Result<Request<'scope>, Error> {
        let buffer = part_of(bytemuck::must_cast_slice(data));
        // SAFETY: `data` is borrowed for 'scope, and when that ends no transfer of the scope goes on.
        let begun = unsafe { window.begin_put_as(self.owner(), buffer, target, displacement) };
        Ok(self.keep(begun?))
    }

    /// As [`Window::get`], and `buffer` has the bytes when the request is over.
    ///
    /// # Errors
    ///
    /// As [`Scope::rput`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.5, `MPI_RGET`.
    pub fn rget<T: NoUninit + AnyBitPattern>(
        &'scope self,
        window: &'scope Window<'_>,
        buffer: &'scope mut [T],
        target: u32,
        displacement: usize,
    ) -> Result<Request<'scope>, Error> {
        let buffer = part_of_mut(bytemuck::must_cast_slice_mut(buffer));
        // SAFETY: as in `rput`.
        let begun = unsafe { window.begin_get_as(self.owner(), buffer, target, displacement) };
        Ok(self.keep(begun?))
    }

    /// As [`Window::accumulate`]. It is over when the call returns.
    ///
    /// # Errors
    ///
    /// As [`Window::accumulate`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.5, `MPI_RACCUMULATE`.
    pub fn raccumulate<T: Number>(
        &'scope self,
        window: &'scope Window<'_>,
        data: &[T],
        target: u32,
        displacement: usize,
        op: Op,
    ) -> Result<Request<'scope>, Error> {
        window.accumulate(data, target, displacement, op)?;
        Ok(self.keep(window.over(target, size_of_val(data))?))
    }

    /// As [`Window::get_accumulate`]. It is over when the call returns.
    ///
    /// # Errors
    ///
    /// As [`Window::get_accumulate`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.5, `MPI_RGET_ACCUMULATE`.
    pub fn rget_accumulate<T: Number>(
        &'scope self,
        window: &'scope Window<'_>,
        data: &[T],
        results: &mut [T],
        target: u32,
        displacement: usize,
        op: Op,
    ) -> Result<Request<'scope>, Error> {
        window.get_accumulate(data, results, target, displacement, op)?;
        Ok(self.keep(window.over(target, size_of_val(data))?))
    }
}

impl Window<'_> {
    /// As [`Scope::rput`], for a caller who keeps the buffer.
    ///
    /// # Errors
    ///
    /// As [`Scope::rput`].
    ///
    /// # Safety
    ///
    /// As for [`crate::Endpoint::begin_send`].
    pub unsafe fn begin_put(
        &self,
        data: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        unsafe { self.begin_put_as(Owner::UNSCOPED, data, target, displacement) }
    }

    /// As [`Scope::rget`], for a caller who keeps the buffer.
    ///
    /// # Errors
    ///
    /// As [`Scope::rget`].
    ///
    /// # Safety
    ///
    /// As for [`crate::Endpoint::begin_recv`].
    pub unsafe fn begin_get(
        &self,
        buffer: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        unsafe { self.begin_get_as(Owner::UNSCOPED, buffer, target, displacement) }
    }

    /// # Safety
    ///
    /// As for [`Window::begin_put`].
    unsafe fn begin_put_as(
        &self,
        owner: Owner,
        data: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        if let Some(begun) = unsafe { self.begin(owner, Way::Write, data, target, displacement) }? {
            return Ok(begun);
        }
        let (part, offset) = self.locate(target, displacement, data.length)?;
        // SAFETY: in the part, by `locate`; the data by the contract.
        unsafe { self.copy(part, offset, Direction::Write, data.base, data.length) }?;
        self.over(target, data.length)
    }

    /// # Safety
    ///
    /// As for [`Window::begin_get`].
    unsafe fn begin_get_as(
        &self,
        owner: Owner,
        buffer: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        if let Some(begun) = unsafe { self.begin(owner, Way::Read, buffer, target, displacement) }?
        {
            return Ok(begun);
        }
        let (part, offset) = self.locate(target, displacement, buffer.length)?;
        // SAFETY: in the part, by `locate`; the buffer by the contract.
        unsafe { self.copy(part, offset, Direction::Read, buffer.base, buffer.length) }?;
        self.over(target, buffer.length)
    }

    /// An operation of so many bytes on the target that is over already, as accumulates are when their call returns: what a C interface
    /// gives for [`Scope::raccumulate`].
    ///
    /// # Errors
    ///
    /// [`super::WindowError::Target`].
    pub fn over(&self, target: u32, bytes: usize) -> Result<Unscoped, Error> {
        let source = self.part(target)?.rank;
        Ok(Unscoped::done(Ok(Status { source, tag: 0, bytes })))
    }

    /// Begins a transfer. `None`: this one is none that goes on by itself, and nothing was done.
    ///
    /// # Safety
    ///
    /// The buffer is valid for the reads or writes of the device until the operation is over.
    unsafe fn begin(
        &self,
        owner: Owner,
        way: Way,
        buffer: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<Option<Unscoped>, Error> {
        if buffer.length <= SLOT && self.design == WindowDesign::Rdma {
            return Ok(None);
        }
        let (part, offset) = self.locate(target, displacement, buffer.length)?;
        if let Reach::Messages { place, .. } = part.reach.get() {
            // SAFETY: by the contract.
            return unsafe { self.begin_records(owner, way, buffer, (place, offset)) };
        }
        let Some(far) = part.far.as_ref().filter(|_| part.block.is_none()) else { return Ok(None) };
        let access = match way {
            Way::Read => Access::LOCAL,
            Way::Write => Access::LOCAL_READ,
        };
        let world = self.world;
        // SAFETY: by the contract; it is released when the transfer has ended.
        let region = world.with_network(|network| unsafe { network.register(buffer, access) });
        let Some(region) = region.flatten() else { return Ok(None) };
        let near = (buffer.base, region.local_key);
        // SAFETY: by the contract, and registered.
        let asked = unsafe { self.ask_registered(far, way, near, offset, buffer.length) };
        let Far { rank, lane, .. } = *far;
        let last = match asked {
            Ok(last) => last,
            Err(error) => {
                world.with_network(|network| {
                    network.break_lane(lane);
                    network.release(region);
                });
                return Err(error);
            }
        };
        let bytes = buffer.length;
        let transfer = Transfer { owner, rank, lane, last, region, bytes };
        let id = world.with_network(|network| network.keep(transfer));
        Ok(id.map(Unscoped::transferring))
    }
}
