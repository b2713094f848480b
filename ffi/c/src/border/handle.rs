//! Handles as parameters.

use core::cell::Cell;
use core::marker::PhantomData;

use crate::handle::Handle;

/// A handle that a call of C passes.
///
/// Invariant: until the call returns, no other thread uses the world that the handle leads to.
/// `worlds` has the steps from the handle to that world.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct HandleArg<'call> {
    handle: Handle,
    call: PhantomData<&'call ()>,
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

    /// Returns the handle as a number.
    #[inline(always)]
    pub(crate) const fn handle(self) -> Handle {
        self.handle
    }

    /// Returns true for `NULL`.
    pub(crate) const fn is_null(self) -> bool {
        self.handle.0 == 0
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
        self.stored().unwrap_or(HandleArg::NULL)
    }

    /// Returns the stored handle, or `None` when the address is null.
    #[inline(always)]
    pub(crate) fn stored(self) -> Option<HandleArg<'call>> {
        self.0.map(Cell::get)
    }

    /// Stores `NULL`, because the handle has ended.
    pub(crate) fn clear(self) {
        if let Some(place) = self.0 {
            place.set(HandleArg::NULL);
        }
    }
}
