//! Atomic integers with the operations that the algorithms use, and no others.
//!
//! Wrappers rather than re-exports, so that clippy can tell an atomic that came through the facade from one that did
//! not. Each call is inlined to its `core` namesake.

#[cfg(not(strait_loom))]
#[allow(clippy::disallowed_types, reason = "this is the facade")]
mod provider {
    pub(super) use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
}
#[cfg(strait_loom)]
mod provider {
    pub(super) use loom::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
}

use super::Ordering;

macro_rules! atomic {
    ($(#[$doc:meta])* $name:ident, $integer:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[cfg_attr(not(strait_loom), repr(transparent))]
        pub struct $name(
            #[allow(clippy::disallowed_types, reason = "this is the facade")] provider::$name,
            /// What each load writes, for loom's sake.
            #[cfg(strait_loom)]
            provider::AtomicU8,
        );

        #[allow(clippy::disallowed_types, reason = "this is the facade")]
        impl $name {
            /// An atomic with this value.
            #[cfg(not(strait_loom))]
            #[must_use]
            pub const fn new(value: $integer) -> Self {
                Self(provider::$name::new(value))
            }

            /// An atomic with this value; loom's cannot be made in constants.
            #[cfg(strait_loom)]
            #[must_use]
            pub fn new(value: $integer) -> Self {
                Self(provider::$name::new(value), provider::AtomicU8::new(0))
            }

            /// Reads the value.
            #[inline(always)]
            #[must_use]
            pub fn load(&self, ordering: Ordering) -> $integer {
                // Loom forgets a thread's load once another thread loads the same, and then never tries the other's next write
                // before it (its issues 166 and 392). Of writes it forgets none.
                #[cfg(strait_loom)]
                self.1.fetch_add(0, Ordering::Relaxed);
                self.0.load(ordering)
            }

            /// Writes the value.
            #[inline(always)]
            pub fn store(&self, value: $integer, ordering: Ordering) {
                self.0.store(value, ordering);
            }

            /// Writes the value and gives the one before.
            #[inline(always)]
            pub fn swap(&self, value: $integer, ordering: Ordering) -> $integer {
                self.0.swap(value, ordering)
            }

            /// Adds and gives the value before.
            #[inline(always)]
            pub fn fetch_add(&self, value: $integer, ordering: Ordering) -> $integer {
                self.0.fetch_add(value, ordering)
            }

            /// Raises the value to at least `value` and gives the one before.
            #[inline(always)]
            pub fn fetch_max(&self, value: $integer, ordering: Ordering) -> $integer {
                self.0.fetch_max(value, ordering)
            }

            /// Writes `new` if the value is `current`.
            ///
            /// # Errors
            ///
            /// The value that was there instead.
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

            /// As `compare_exchange`, but may fail although the value is `current`.
            ///
            /// # Errors
            ///
            /// The value that was there.
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

            /// The address, for a system call that waits on it.
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
    /// A byte that several processes reach.
    AtomicU8, u8
}
atomic! {
    /// A 16-bit word that several processes reach.
    AtomicU16, u16
}
atomic! {
    /// A 32-bit word that several processes reach.
    AtomicU32, u32
}
atomic! {
    /// A 64-bit word that several processes reach.
    AtomicU64, u64
}
