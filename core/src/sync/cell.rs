//! Interior mutability that is reached only through closures, so that loom sees every payload
//! access.

#[cfg(strait_loom)]
pub use loom::cell::UnsafeCell;

/// A cell that two processes access, one at a time, under the protocol of its owner.
#[cfg(not(strait_loom))]
#[allow(clippy::disallowed_types, reason = "this is the facade")]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(strait_loom))]
#[allow(clippy::disallowed_types, reason = "this is the facade")]
impl<T> UnsafeCell<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer to read from. The owner's protocol is the proof that justifies the
    /// dereference.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer to write to. The owner's protocol is the proof that justifies the
    /// dereference.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
