//! Resources of the library, each given back when its owner goes.

use core::ffi::c_int;
use core::ptr::NonNull;

use super::OpenError;

/// One object that the library made.
pub(super) struct Owned<T> {
    raw: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T) -> c_int,
}

impl<T> Owned<T> {
    /// Takes what the library returned when asked for `what`: null if it refused.
    ///
    /// # Safety
    ///
    /// Unless it is null, `raw` is the only handle to a live object, `destroy` is what ends it, and this owner is dropped
    /// before what the object was made of.
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

    /// The library's handle. Valid as long as `self` is.
    pub(super) fn as_ptr(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: by the contract of `new` the object is live, nobody else ends it, and nothing made of it is left.
        // A refusal leaves it to the end of the process; there is nobody to tell.
        let _ = unsafe { (self.destroy)(self.as_ptr()) };
    }
}
