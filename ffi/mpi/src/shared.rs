//! Shared ownership within this process, counted without atomic instructions where calls take no
//! lock.
//!
//! A call may drop its references after it has let the lock go, while another thread clones one. So
//! the count is atomic whenever calls take the lock. All other calls come one after the other.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

use super::lock;

/// A reference to a value that lives until its last reference is dropped.
pub(crate) struct Shared<T> {
    place: NonNull<SharedPlace<T>>,
    owns: PhantomData<SharedPlace<T>>,
}

/// A value with the number of its references.
struct SharedPlace<T> {
    references: AtomicUsize,
    value: T,
}

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        let counted = Box::new(SharedPlace { references: AtomicUsize::new(1), value });
        Self { place: NonNull::from(Box::leak(counted)), owns: PhantomData }
    }

    /// Returns the value if this is its only reference. Call it with the lock.
    pub(crate) fn into_inner(self) -> Option<T> {
        if self.count() != 1 {
            return None;
        }
        let place = self.place;
        core::mem::forget(self);
        // SAFETY: `new` made the place by a box, and no other reference to it exists.
        Some(unsafe { Box::from_raw(place.as_ptr()) }.value)
    }

    /// Returns the number of references. Another thread may change it meanwhile.
    pub(crate) fn count(&self) -> usize {
        self.counted().references.load(Relaxed)
    }

    /// Returns whether both refer to the same value.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.place == other.place
    }

    #[inline(always)]
    const fn counted(&self) -> &SharedPlace<T> {
        // SAFETY: the place lives until its last reference is dropped, and `self` is one.
        unsafe { self.place.as_ref() }
    }

    /// Ends this reference. Returns whether it was the last one.
    #[inline(always)]
    fn end(&self) -> bool {
        let references = &self.counted().references;
        let before = if lock::is_locked() {
            // Whoever drops the value has seen what the users of other references did.
            references.fetch_sub(1, AcqRel)
        } else {
            let before = references.load(Relaxed);
            references.store(before - 1, Relaxed);
            before
        };
        before == 1
    }
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        let references = &self.counted().references;
        if lock::is_locked() {
            references.fetch_add(1, Relaxed);
        } else {
            references.store(references.load(Relaxed) + 1, Relaxed);
        }
        Self { place: self.place, owns: PhantomData }
    }
}

impl<T> Drop for Shared<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.end() {
            // SAFETY: `new` made the place by a box, and no reference to it exists any more.
            unsafe { free(self.place) };
        }
    }
}

/// Drops a value. It is a function of its own, so that the end of other references is short.
///
/// # Safety
///
/// [`Shared::new`] made the place, and no reference to it exists any more.
#[cold]
#[inline(never)]
unsafe fn free<T>(place: NonNull<SharedPlace<T>>) {
    // SAFETY: the place comes from a box (contract of `free`).
    drop(unsafe { Box::from_raw(place.as_ptr()) });
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T: core::fmt::Debug> core::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}
