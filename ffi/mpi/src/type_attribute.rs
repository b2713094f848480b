//! The attribute that tells when a datatype is freed.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use super::shutdown::null_copy;
use super::types::TypeCache;
use super::{host, state};
use crate::abi::{self, Handle};

/// The deletion callback of the attribute.
extern "C" fn delete(
    datatype: Handle,
    _keyval: c_int,
    _value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // The caller of the function that frees the type holds no lock.
    if let Some(front) = state::enter() {
        front.types.forget(datatype);
    }
    0
}

impl TypeCache {
    /// Makes the attribute that tells when a type is freed. Errors in the communicator `private`,
    /// which no program has, are returned from now on.
    pub(crate) fn prepare(&self, private: Handle) {
        // SAFETY: the communicator exists.
        unsafe { host::Comm_set_errhandler(private, abi::errors_return()) };
        self.silent.set(private);
        let mut keyval = 0;
        // SAFETY: the callbacks have the types of the standard, and the result has a place.
        let code = unsafe {
            let delete = delete as *mut c_void;
            host::Type_create_keyval(null_copy(), delete, &raw mut keyval, null_mut())
        };
        if code == 0 {
            self.keyval.set(keyval);
        }
    }
}
