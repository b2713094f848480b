//! Slots through which handles lead to objects, for interfaces that give integers to their callers.
//!
//! Writers: a thread that opens or closes an object, one at a time (the embedder has a lock).
//! Readers: any threads. All operations are wait-free. A zeroed slot is free.
//! Absent on purpose: the numbering of handles, and a check of the threads that use an object.

use core::ptr::{NonNull, null_mut};

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicPtr, AtomicU64, order};

/// One object, and the handle that leads to it.
#[derive(Debug)]
#[repr(C)]
pub struct HandleSlot<T> {
    handle: AtomicU64,
    object: AtomicPtr<T>,
}

impl<T> HandleSlot<T> {
    /// Creates a slot without an object, which has this handle: 0 for a free one.
    #[cfg(not(strait_loom))]
    #[must_use]
    pub const fn without_object(handle: u64) -> Self {
        Self { handle: AtomicU64::new(handle), object: AtomicPtr::new(null_mut()) }
    }

    /// Creates a slot without an object. The constructors of loom are not `const`.
    #[cfg(strait_loom)]
    #[must_use]
    pub fn without_object(handle: u64) -> Self {
        Self { handle: AtomicU64::new(handle), object: AtomicPtr::new(null_mut()) }
    }

    /// Gives a slot that no reader knows yet this handle, without an object.
    pub fn reserve(&self, handle: u64) {
        self.handle.store(handle, Relaxed);
    }

    /// Returns whether the slot is free. Only writers call it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.handle.load(Relaxed) == 0
    }

    /// Puts an object into the slot. The handle is valid from now on.
    pub fn open(&self, handle: u64, object: *mut T) {
        // ORDER handle/1: Release, pairs with handle/4: the object is complete when it is found by
        //   its slot alone.
        self.object.store(object, order("handle/1", Release));
        // ORDER handle/2: Release, pairs with handle/3: the slot has its object, and the object is
        //   complete, when the handle is found.
        self.handle.store(handle, order("handle/2", Release));
    }

    /// Returns the object if `handle` leads to it.
    ///
    /// # Safety
    ///
    /// No thread closes the object of `handle` during the call, and `handle` is not one that the
    /// slot has [without an object](Self::without_object).
    #[inline(always)]
    #[must_use]
    pub unsafe fn find(&self, handle: u64) -> Option<NonNull<T>> {
        if self.handle() != handle {
            return None;
        }
        // Relaxed: handle/3 orders it.
        let object = self.object.load(Relaxed);
        debug_assert!(!object.is_null(), "a handle without an object");
        // SAFETY: `open` stored the object before the handle, and `close` removes it after the
        // handle; no thread does that meanwhile (contract of `find`).
        Some(unsafe { NonNull::new_unchecked(object) })
    }

    /// Returns the handle of the slot, or 0.
    #[inline(always)]
    #[must_use]
    pub fn handle(&self) -> u64 {
        // ORDER handle/3: Acquire, pairs with handle/2: the other end.
        self.handle.load(order("handle/3", Acquire))
    }

    /// Returns the object of the slot, whatever its handle.
    #[inline(always)]
    #[must_use]
    pub fn object(&self) -> Option<NonNull<T>> {
        // ORDER handle/4: Acquire, pairs with handle/1: the other end.
        NonNull::new(self.object.load(order("handle/4", Acquire)))
    }

    /// Empties the slot, if `handle` leads to it, and returns the object.
    #[must_use]
    pub fn close(&self, handle: u64) -> Option<NonNull<T>> {
        if self.handle.load(Relaxed) != handle {
            return None;
        }
        self.handle.store(0, Relaxed);
        NonNull::new(self.object.swap(null_mut(), Relaxed))
    }
}

/// The address of a table of slots, which is made when it is first needed.
#[derive(Debug)]
#[repr(transparent)]
pub struct SlotTable<T>(AtomicPtr<HandleSlot<T>>);

impl<T> SlotTable<T> {
    /// Creates the address of a first table.
    #[cfg(not(strait_loom))]
    #[must_use]
    pub const fn new(first: *mut HandleSlot<T>) -> Self {
        Self(AtomicPtr::new(first))
    }

    /// Creates the address of a first table. The constructors of loom are not `const`.
    #[cfg(strait_loom)]
    #[must_use]
    pub fn new(first: *mut HandleSlot<T>) -> Self {
        Self(AtomicPtr::new(first))
    }

    /// Replaces the table.
    pub fn replace(&self, table: *mut HandleSlot<T>) {
        // ORDER handle/5: Release, pairs with handle/6: the slots of the table come before its
        //   address.
        self.0.store(table, order("handle/5", Release));
    }

    /// Returns the table.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> *mut HandleSlot<T> {
        // ORDER handle/6: Acquire, pairs with handle/5: the other end.
        self.0.load(order("handle/6", Acquire))
    }
}
