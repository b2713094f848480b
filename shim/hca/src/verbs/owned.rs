//! Objects of the library, each destroyed when its owner is dropped.

use core::ffi::c_int;
use core::ptr::NonNull;

use super::OpenError;

/// An object that the library made.
pub(super) struct VerbsObject<T> {
    raw: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T) -> c_int,
}

impl<T> VerbsObject<T> {
    /// Takes the object that the library returned for the operation `what`: null if the library
    /// refused.
    ///
    /// # Safety
    ///
    /// Unless it is null, `raw` is the only handle to a live object, and `destroy` destroys it. The
    /// returned owner is dropped before the objects that it was made of, and after those made of
    /// it.
    pub(super) unsafe fn new(
        what: &'static str,
        raw: *mut T,
        destroy: unsafe extern "C" fn(*mut T) -> c_int,
    ) -> Result<Self, OpenError> {
        match NonNull::new(raw) {
            Some(raw) => Ok(Self { raw, destroy }),
            None => Err(OpenError::last(what)),
        }
    }

    /// Returns the library's handle, which is valid as long as `self`.
    pub(super) fn as_ptr(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T> Drop for VerbsObject<T> {
    fn drop(&mut self) {
        // SAFETY: the caller guarantees that the object is live, that no other code destroys it,
        // and that nothing made of it is left (contract of `new`). If the library refuses, the
        // object stays until the process ends, and no caller can handle that.
        let _ = unsafe { (self.destroy)(self.as_ptr()) };
    }
}
