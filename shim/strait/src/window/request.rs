//! Operations that return a request instead of waiting (MPI-4.1 §12.3.5).
//!
//! An operation that is complete when its call returns gives a completed request: all operations on
//! one node, accumulates, and transfers through a slot. An operation by messages gives a completed
//! request when it is packed. Longer internode puts and gets continue by themselves, since the
//! device needs neither side's processor.

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::buffer::{Direction, Part as Buffer};
use strait_core::engine::{Channel, Owner, Status};
use strait_core::hca::Access;
use strait_core::reduce::Op;
use strait_core::rma::SLOT;

use super::Window;
use super::part::{PartAccess, RemoteMember};
use crate::buffer::{part_of, part_of_mut};
use crate::network::WindowTransfer;
use crate::{Error, Number, Request, Scope, Unscoped, WindowDesign};

impl<'scope> Scope<'scope, '_> {
    /// Starts a put. `data` stays unchanged until the request is complete, or the scope ends; then
    /// it may be changed. The request's status names the target's rank. The bytes are at the target
    /// after the next synchronisation, not before.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// world.endpoint().scope(|scope| {
    ///     let request = scope.rput(&window, &[1.5_f64, 2.5], 1, 0)?;
    ///     // Compute while the data are on their way.
    ///     assert_eq!(request.wait()?.bytes, 16);
    ///     Ok::<(), strait::Error>(())
    /// })?;
    /// window.fence(Assert::NONE)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::put`] does, for errors that are known at the start;
    /// [`Error::OtherWorld`] when the window is of another world than the scope.
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
        window.check_is_of(self)?;
        let buffer = part_of(bytemuck::must_cast_slice(data));
        // SAFETY: `data` is borrowed for `'scope`, and no transfer of the scope outlives it.
        let begun = unsafe { window.begin_put_as(self.owner(), buffer, target, displacement) };
        Ok(self.keep(begun?))
    }

    /// Starts a get. `buffer` holds the bytes when the request is complete.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// let mut numbers = [1.5_f64; 2];
    /// world.endpoint().scope(|scope| scope.rget(&window, &mut numbers, 1, 0)?.wait())?;
    /// assert_eq!(numbers, [0.0; 2]);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Scope::rput`] does.
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
        window.check_is_of(self)?;
        let buffer = part_of_mut(bytemuck::must_cast_slice_mut(buffer));
        // SAFETY: `buffer` is borrowed for `'scope`, and no transfer of the scope outlives it.
        let begun = unsafe { window.begin_get_as(self.owner(), buffer, target, displacement) };
        Ok(self.keep(begun?))
    }

    /// Accumulates as [`Window::accumulate`] does. The request is complete when the call returns.
    ///
    /// ```
    /// # use strait::{Assert, Window, Op};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// world.endpoint().scope(|scope| {
    ///     scope.raccumulate(&window, &[1_u64], 1, 0, Op::Sum)?.wait()?;
    ///     Ok::<(), strait::Error>(())
    /// })?;
    /// window.fence(Assert::NONE)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::accumulate`] does.
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

    /// Accumulates as [`Window::get_accumulate`] does. The request is complete when the call
    /// returns.
    ///
    /// ```
    /// # use strait::{Assert, Window, Op};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// let mut before = [9_u64];
    /// world.endpoint().scope(|scope| {
    ///     scope.rget_accumulate(&window, &[1], &mut before, 0, 0, Op::Sum)?.wait()
    /// })?;
    /// assert_eq!(before, [0]);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::get_accumulate`] does.
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
    /// Checks that the window is of the same world as a scope, which settles its own world's
    /// operations.
    fn check_is_of(&self, scope: &Scope<'_, '_>) -> Result<(), Error> {
        self.world.number().check(scope.endpoint().world().number())
    }

    /// Does the work of [`crate::raw::RawWindow::begin_put`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    pub(crate) unsafe fn begin_put(
        &self,
        data: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees that `data` stays valid and unchanged (contract of
        // `begin_put`).
        unsafe { self.begin_put_as(Owner::UNSCOPED, data, target, displacement) }
    }

    /// Does the work of [`crate::raw::RawWindow::begin_get`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    pub(crate) unsafe fn begin_get(
        &self,
        buffer: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees that `buffer` stays valid and unused (contract of
        // `begin_get`).
        unsafe { self.begin_get_as(Owner::UNSCOPED, buffer, target, displacement) }
    }

    /// # Safety
    ///
    /// The caller meets the contract of [`Window::begin_put`].
    unsafe fn begin_put_as(
        &self,
        owner: Owner,
        data: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees that the data stay valid (contract of this function).
        let begun = unsafe { self.begin(owner, Direction::Write, data, target, displacement) }?;
        if let Some(begun) = begun {
            return Ok(begun);
        }
        let (part, offset) = self.locate(target, displacement, data.length)?;
        // SAFETY: `locate` has checked the part. The caller guarantees `data` (contract of
        // `begin_put`).
        unsafe { self.copy(part, offset, Direction::Write, data.base, data.length) }?;
        self.over(target, data.length)
    }

    /// # Safety
    ///
    /// The caller meets the contract of [`Window::begin_get`].
    unsafe fn begin_get_as(
        &self,
        owner: Owner,
        buffer: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees that the buffer stays valid (contract of this function).
        let begun = unsafe { self.begin(owner, Direction::Read, buffer, target, displacement) }?;
        if let Some(begun) = begun {
            return Ok(begun);
        }
        let (part, offset) = self.locate(target, displacement, buffer.length)?;
        // SAFETY: `locate` has checked the part. The caller guarantees `buffer` (contract of
        // `begin_get`).
        unsafe { self.copy(part, offset, Direction::Read, buffer.base, buffer.length) }?;
        self.over(target, buffer.length)
    }

    /// Does the work of [`crate::raw::RawWindow::over`].
    pub(crate) fn over(&self, target: u32, bytes: usize) -> Result<Unscoped, Error> {
        let source = self.part(target)?.rank;
        Ok(Unscoped::done(Ok(Status { source, tag: 0, bytes })))
    }

    /// Begins a transfer. `None`: this transfer cannot continue by itself, and nothing was done.
    ///
    /// # Safety
    ///
    /// The buffer is valid for the reads or writes of the device until the operation is complete.
    unsafe fn begin(
        &self,
        owner: Owner,
        way: Direction,
        buffer: Buffer,
        target: u32,
        displacement: usize,
    ) -> Result<Option<Unscoped>, Error> {
        if buffer.length <= SLOT && self.design == WindowDesign::Rdma {
            return Ok(None);
        }
        let (part, offset) = self.locate(target, displacement, buffer.length)?;
        if let PartAccess::Messages { place, .. } = part.reach.get() {
            // SAFETY: `locate` has checked the part. The caller guarantees the buffer (contract of
            // `begin`).
            return unsafe { self.begin_records(owner, way, buffer, (place, offset)) };
        }
        let Some(remote) = part.remote.as_ref().filter(|_| part.block.is_none()) else {
            return Ok(None);
        };
        let access = match way {
            Direction::Read => Access::LOCAL,
            Direction::Write => Access::LOCAL_READ,
        };
        let world = self.world;
        // SAFETY: the caller guarantees the buffer (contract of `begin`). The region is released
        // when the transfer has ended.
        let region = world.with_network(|network| unsafe { network.register(buffer, access) });
        let Some(region) = region.flatten() else { return Ok(None) };
        let near = (buffer.base, region.local_key);
        // SAFETY: `locate` has checked the part. The caller guarantees the buffer (contract of
        // `begin`), and it is registered.
        let asked = unsafe { self.ask_registered(remote, way, near, offset, buffer.length) };
        let RemoteMember { rank, lane, .. } = *remote;
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
        let transfer = WindowTransfer { owner, rank, lane, last, region, bytes };
        let id = world.with_network(|network| network.keep(transfer));
        Ok(id.map(|id| Unscoped::transferring(world, id)))
    }
}
