//! Operations on windows without borrows.

use core::ptr::NonNull;

use strait_core::buffer::Part;

use crate::unscoped::Unscoped;
use crate::{Attached, Error, Number, Window, sealed};

impl sealed::Sealed for Window<'_> {}

/// Operations on a [`Window`] without borrows.
pub trait RawWindow: sealed::Sealed {
    /// Starts a put as [`crate::Scope::rput`] does, for a caller that keeps the buffer.
    ///
    /// # Errors
    ///
    /// Fails as [`crate::Scope::rput`] does.
    ///
    /// # Safety
    ///
    /// The caller meets the contract of [`super::RawEndpoint::begin_send`].
    unsafe fn begin_put(
        &self,
        data: Part,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error>;

    /// Starts a get as [`crate::Scope::rget`] does, for a caller that keeps the buffer.
    ///
    /// # Errors
    ///
    /// Fails as [`crate::Scope::rget`] does.
    ///
    /// # Safety
    ///
    /// The caller meets the contract of [`super::RawEndpoint::begin_recv`].
    unsafe fn begin_get(
        &self,
        buffer: Part,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error>;

    /// Puts as [`Window::put`] does, for a caller that keeps the buffer. A long put to another node
    /// continues after the call, until the next synchronisation with the target.
    ///
    /// # Errors
    ///
    /// Fails as [`Window::put`] does, for errors that are known at the start. The synchronisation
    /// returns the others.
    ///
    /// # Safety
    ///
    /// The bytes of `data` stay valid for reads and unchanged until the next call of one of these
    /// for the target, or the end of the epoch at it, has returned: [`Window::flush`],
    /// [`Window::flush_local`], [`Window::flush_all`], [`Window::unlock`], [`Window::unlock_all`],
    /// [`Window::complete`], [`Window::fence`], [`Window::free`]. Also when that call fails.
    unsafe fn start_put(&self, data: Part, target: u32, displacement: usize) -> Result<(), Error>;

    /// Gets as [`Window::get`] does, for a caller that keeps the buffer. A get from another node
    /// continues after the call, until the next synchronisation with the target. The buffer has the
    /// bytes then.
    ///
    /// # Errors
    ///
    /// Fails as [`RawWindow::start_put`] does.
    ///
    /// # Safety
    ///
    /// The bytes of `buffer` stay valid for writes, and nothing else accesses them, for as long as
    /// [`RawWindow::start_put`] needs its data.
    unsafe fn start_get(&self, buffer: Part, target: u32, displacement: usize)
    -> Result<(), Error>;

    /// Returns a completed operation of `bytes` bytes on the target. A C interface uses it in place
    /// of [`crate::Scope::raccumulate`], since accumulates are complete when their call returns.
    ///
    /// # Errors
    ///
    /// [`crate::WindowError::Target`] when the target does not exist.
    fn over(&self, target: u32, bytes: usize) -> Result<Unscoped, Error>;

    /// Attaches memory that the caller keeps, as a C interface needs it.
    ///
    /// # Errors
    ///
    /// Fails as [`Window::attach`] does.
    ///
    /// # Safety
    ///
    /// The caller meets the contract of [`crate::WindowBuilder::over_raw`], until no member reaches
    /// the memory any more and it is detached, or the window is freed.
    unsafe fn attach_over(&self, base: NonNull<u8>, length: usize) -> Result<Attached, Error>;

    /// Adds `operand` to one number and returns the previous one, if the processor does that at
    /// once. Returns `None` if it takes more, also if the call is wrong, and has done nothing then:
    /// [`Window::fetch_and_op`] serves every call.
    fn add_at_once<T: Number>(&self, operand: T, target: u32, displacement: usize) -> Option<T>;
}

impl RawWindow for Window<'_> {
    #[inline(always)]
    unsafe fn begin_put(
        &self,
        data: Part,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_put`).
        unsafe { Window::begin_put(self, data, target, displacement) }
    }

    #[inline(always)]
    unsafe fn begin_get(
        &self,
        buffer: Part,
        target: u32,
        displacement: usize,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_get`).
        unsafe { Window::begin_get(self, buffer, target, displacement) }
    }

    #[inline(always)]
    unsafe fn start_put(&self, data: Part, target: u32, displacement: usize) -> Result<(), Error> {
        // SAFETY: the caller guarantees the same (contract of `start_put`).
        unsafe { Window::start_put(self, data, target, displacement) }
    }

    #[inline(always)]
    unsafe fn start_get(
        &self,
        buffer: Part,
        target: u32,
        displacement: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees the same (contract of `start_get`).
        unsafe { Window::start_get(self, buffer, target, displacement) }
    }

    #[inline(always)]
    fn over(&self, target: u32, bytes: usize) -> Result<Unscoped, Error> {
        Window::over(self, target, bytes)
    }

    #[inline(always)]
    unsafe fn attach_over(&self, base: NonNull<u8>, length: usize) -> Result<Attached, Error> {
        // SAFETY: the caller guarantees the same (contract of `attach_over`).
        unsafe { Window::attach_over(self, base, length) }
    }

    #[inline(always)]
    fn add_at_once<T: Number>(&self, operand: T, target: u32, displacement: usize) -> Option<T> {
        Window::add_at_once(self, operand, target, displacement)
    }
}
