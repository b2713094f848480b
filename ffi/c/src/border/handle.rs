//! Handles as parameters.

use core::cell::Cell;
use core::marker::PhantomData;

use super::place::no_place;
use crate::entry::Called;
use crate::handle::{self, Handle, HandleKind};
use crate::instance::Instance;

/// A handle that a call of C passes.
///
/// Invariant: until the call returns, no other thread uses the world that the handle leads to.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct HandleArg<'call> {
    handle: Handle,
    call: PhantomData<&'call Instance>,
}

impl<'call> HandleArg<'call> {
    /// The null handle: `NULL` in C.
    pub(crate) const NULL: Self = Self { handle: Handle::NONE, call: PhantomData };

    /// Wraps a handle that this library stored in an earlier call.
    ///
    /// # Safety
    ///
    /// The invariant of the type holds for the current call.
    pub(crate) const unsafe fn of_call(handle: Handle) -> Self {
        Self { handle, call: PhantomData }
    }

    /// Returns the handle of a world that the current call has looked up.
    pub(crate) const fn of(instance: &'call Instance) -> Self {
        Self { handle: instance.handle(), call: PhantomData }
    }

    /// Returns the handle as a number.
    #[inline(always)]
    pub(crate) const fn handle(self) -> Handle {
        self.handle
    }

    /// Returns true for `NULL`.
    pub(crate) const fn is_null(self) -> bool {
        self.handle.0 == 0
    }

    /// Returns the world if this is the handle of an open world.
    #[inline(always)]
    pub(crate) fn find(self) -> Option<&'call Instance> {
        let instance = handle::find(self.handle)?;
        // SAFETY: the instance of an open world exists, and only this thread uses it (invariant).
        Some(unsafe { instance.as_ref() })
    }

    /// Returns the world that this handle names.
    #[inline(always)]
    pub(crate) fn world(self) -> Called<&'call Instance> {
        self.find().ok_or_else(|| handle::bad(self.handle, HandleKind::World))
    }

    /// Returns the world to which the handle's request, message, window or connection belongs.
    #[inline(always)]
    pub(crate) fn world_of(self, kind: HandleKind) -> Called<&'call Instance> {
        match handle::instance_at(self.handle) {
            // SAFETY: the instance of an open world exists, and only this thread uses it
            // (invariant).
            Some(instance) => Ok(unsafe { instance.as_ref() }),
            None => Err(handle::bad(self.handle, kind)),
        }
    }

    /// Passes this thread's last failure to the log of the handle's world, if it has a log.
    pub(crate) fn log(self) {
        if let Some(instance) = handle::logger(self.handle) {
            // SAFETY: the instance of an open world exists, and only this thread uses it
            // (invariant).
            unsafe { instance.as_ref() }.options().log();
        }
    }

    /// Closes the world. The handle is invalid afterwards.
    ///
    /// # Safety
    ///
    /// The caller no longer uses any reference to the world that this call's handles returned.
    pub(crate) unsafe fn close(self) -> Called<Box<Instance>> {
        // SAFETY: only this thread uses the world (invariant), and it holds no reference (contract
        // of `close`).
        unsafe { handle::close(self.handle) }
    }
}

/// The address of a handle, which the call may read and clear. It may be null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct HandlePlaceArg<'call>(Option<&'call Cell<HandleArg<'call>>>);

impl<'call> HandlePlaceArg<'call> {
    pub(crate) const fn at(place: &'call Cell<HandleArg<'call>>) -> Self {
        Self(Some(place))
    }

    /// Returns the stored handle, or the null handle when the address is null.
    pub(crate) fn peek(self) -> HandleArg<'call> {
        self.0.map_or(HandleArg::NULL, Cell::get)
    }

    /// Returns the stored handle and the world to which it belongs.
    #[inline]
    pub(crate) fn open(self, kind: HandleKind) -> Called<(Handle, &'call Instance)> {
        let Some(place) = self.0 else { return Err(no_place()) };
        let argument = place.get();
        Ok((argument.handle(), argument.world_of(kind)?))
    }

    /// Stores `NULL`, because the handle has ended.
    pub(crate) fn clear(self) {
        if let Some(place) = self.0 {
            place.set(HandleArg::NULL);
        }
    }
}
