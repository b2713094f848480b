//! A method of another crate that moves this rank's large messages.

use core::cell::OnceCell;
use core::ptr::NonNull;

use strait_core::lmt::TransferMethod;

use crate::memory::ShmEngine;

/// The method that the engine of a world calls. It outlives the engine.
#[derive(Default)]
pub(super) struct OwnedMethod(OnceCell<NonNull<dyn TransferMethod + Send>>);

impl Drop for OwnedMethod {
    fn drop(&mut self) {
        if let Some(method) = self.0.take() {
            // SAFETY: the pointer came from a box (`OwnedMethod::set`), and the engine,
            // which used it, was dropped before.
            drop(unsafe { Box::from_raw(method.as_ptr()) });
        }
    }
}

impl OwnedMethod {
    /// Takes the method of a world and gives it to the engine, or returns it if there is one.
    ///
    /// # Safety
    ///
    /// The functions of `method` make no call of the engine, which is dropped before this value.
    pub(super) unsafe fn set(
        &self,
        method: Box<dyn TransferMethod + Send>,
        engine: &mut ShmEngine,
    ) -> Result<(), Box<dyn TransferMethod + Send>> {
        if self.0.get().is_some() {
            return Err(method);
        }
        let Some(pointer) = NonNull::new(Box::into_raw(method)) else { return Ok(()) };
        let _ = self.0.set(pointer);
        // SAFETY: the method lives until this value is dropped, after the engine, and nothing else
        // uses it. It makes no call of the engine (contract of `set`).
        let _ = unsafe { engine.set_transfer_method(pointer) };
        Ok(())
    }
}
