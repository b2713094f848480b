//! Atomic integers with the operations that the algorithms use, and no others.
//!
//! The types are wrappers rather than re-exports. clippy can therefore tell an atomic of the facade
//! from one that bypasses it. Each call is inlined to its `core` namesake.

#[cfg(not(strait_loom))]
#[allow(clippy::disallowed_types, reason = "this is the facade")]
mod provider {
    pub(super) use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64};
}
#[cfg(strait_loom)]
mod provider {
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64};
}

use super::ordering::Ordering;

macro_rules! atomic {
    ($(#[$doc:meta])* $name:ident, $integer:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[cfg_attr(not(strait_loom), repr(transparent))]
        pub struct $name(
            #[allow(clippy::disallowed_types, reason = "this is the facade")] provider::$name,
            /// A byte that each load modifies; see `load`.
            #[cfg(strait_loom)]
            provider::AtomicU8,
        );

        #[allow(clippy::disallowed_types, reason = "this is the facade")]
        impl $name {
            /// Creates an atomic with this value.
            #[cfg(not(strait_loom))]
            #[must_use]
            pub const fn new(value: $integer) -> Self {
                Self(provider::$name::new(value))
            }

            /// Creates an atomic with this value. The constructor of loom is not `const`.
            #[cfg(strait_loom)]
            #[must_use]
            pub fn new(value: $integer) -> Self {
                Self(provider::$name::new(value), provider::AtomicU8::new(0))
            }

            /// Reads the value.
            #[inline(always)]
            #[must_use]
            pub fn load(&self, ordering: Ordering) -> $integer {
                // Loom forgets a thread's load once another thread loads the same location. It then
                // never explores the schedules in which the other thread's next write precedes that
                // load (loom issues 166 and 392). Loom forgets no write, so each load also writes a
                // byte.
                #[cfg(strait_loom)]
                self.1.fetch_add(0, Ordering::Relaxed);
                self.0.load(ordering)
            }

            /// Writes the value.
            #[inline(always)]
            pub fn store(&self, value: $integer, ordering: Ordering) {
                self.0.store(value, ordering);
            }

            /// Writes the value and returns the previous one.
            #[inline(always)]
            pub fn swap(&self, value: $integer, ordering: Ordering) -> $integer {
                self.0.swap(value, ordering)
            }

            /// Adds `value` and returns the previous value.
            #[inline(always)]
            pub fn fetch_add(&self, value: $integer, ordering: Ordering) -> $integer {
                self.0.fetch_add(value, ordering)
            }

            /// Raises the value to at least `value` and returns the previous one.
            #[inline(always)]
            pub fn fetch_max(&self, value: $integer, ordering: Ordering) -> $integer {
                self.0.fetch_max(value, ordering)
            }

            /// Writes `new` if the value is `current`.
            ///
            /// # Errors
            ///
            /// The value found instead.
            #[inline(always)]
            pub fn compare_exchange(
                &self,
                current: $integer,
                new: $integer,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$integer, $integer> {
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Writes `new` if the value is `current`; it can also fail spuriously.
            ///
            /// # Errors
            ///
            /// The value found.
            #[inline(always)]
            pub fn compare_exchange_weak(
                &self,
                current: $integer,
                new: $integer,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$integer, $integer> {
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            /// Returns the address, for a system call that waits on the word.
            #[cfg(not(strait_loom))]
            #[must_use]
            pub fn as_ptr(&self) -> *mut $integer {
                self.0.as_ptr()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(0)
            }
        }
    };
}

atomic! {
    /// A byte that several processes access.
    AtomicU8, u8
}
atomic! {
    /// A 16-bit word that several processes access.
    AtomicU16, u16
}
atomic! {
    /// A 32-bit word that several processes access.
    AtomicU32, u32
}
atomic! {
    /// A 64-bit word that several processes access.
    AtomicU64, u64
}

/// A pointer that several threads of one process access. It is never in a segment.
#[derive(Debug)]
#[cfg_attr(not(strait_loom), repr(transparent))]
pub struct AtomicPtr<T>(
    #[allow(clippy::disallowed_types, reason = "this is the facade")] provider::AtomicPtr<T>,
    /// A byte that each load modifies, as in the other atomics.
    #[cfg(strait_loom)]
    provider::AtomicU8,
);

#[allow(clippy::disallowed_types, reason = "this is the facade")]
impl<T> AtomicPtr<T> {
    /// Creates an atomic with this value.
    #[cfg(not(strait_loom))]
    #[must_use]
    pub const fn new(value: *mut T) -> Self {
        Self(provider::AtomicPtr::new(value))
    }

    /// Creates an atomic with this value. The constructor of loom is not `const`.
    #[cfg(strait_loom)]
    #[must_use]
    pub fn new(value: *mut T) -> Self {
        Self(provider::AtomicPtr::new(value), provider::AtomicU8::new(0))
    }

    /// Reads the value.
    #[inline(always)]
    #[must_use]
    pub fn load(&self, ordering: Ordering) -> *mut T {
        #[cfg(strait_loom)]
        self.1.fetch_add(0, Ordering::Relaxed);
        self.0.load(ordering)
    }

    /// Writes the value.
    #[inline(always)]
    pub fn store(&self, value: *mut T, ordering: Ordering) {
        self.0.store(value, ordering);
    }

    /// Writes the value and returns the previous one.
    #[inline(always)]
    pub fn swap(&self, value: *mut T, ordering: Ordering) -> *mut T {
        self.0.swap(value, ordering)
    }
}
