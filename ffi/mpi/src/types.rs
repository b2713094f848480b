//! The datatypes of the program, flat, by handle.
//!
//! A handle names another type as soon as its type is freed. An attribute of each type that we know
//! tells that: a host deletes it in the call that frees the type.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use core::ptr::null_mut;
use std::collections::HashMap;

use super::flat::FlatType;
use super::host;
use crate::abi::{self, Handle};
use crate::front::shared::Shared;

pub(crate) mod basic;
mod contents;

/// Number of places of the table of sizes: a power of two.
const PLACES: usize = 64;

/// Datatypes that were used before.
pub(crate) struct TypeCache {
    /// Handles of types without gaps, with the size of an element.
    sizes: [Cell<(Handle, usize)>; PLACES],
    flat: RefCell<HashMap<Handle, Shared<FlatType>>>,
    pub(super) keyval: Cell<c_int>,
}

impl Default for TypeCache {
    fn default() -> Self {
        Self {
            sizes: [const { Cell::new((0, 0)) }; PLACES],
            flat: RefCell::default(),
            keyval: Cell::new(0),
        }
    }
}

/// Returns the place of a handle in the table of sizes.
#[inline(always)]
const fn place(handle: Handle) -> usize {
    #[allow(clippy::unnecessary_cast, reason = "handles of some interfaces are narrower")]
    let bits = handle as usize;
    (bits ^ bits >> 6 ^ bits >> 12) % PLACES
}

impl TypeCache {
    /// Returns the size of an element of a type without gaps that is predefined, or was used.
    #[inline(always)]
    pub(crate) fn known_size(&self, datatype: Handle) -> Option<usize> {
        if let Some(size) = abi::builtin_size(datatype) {
            return Some(size);
        }
        let (handle, size) = self.sizes[place(datatype)].get();
        (handle == datatype).then_some(size)
    }

    /// Returns a datatype.
    ///
    /// # Errors
    ///
    /// The code of the host's function that failed, which has called the error handler.
    pub(crate) fn find(&self, datatype: Handle) -> Result<Shared<FlatType>, c_int> {
        if let Some(flat) = self.flat.borrow().get(&datatype) {
            return Ok(Shared::clone(flat));
        }
        let (flat, is_predefined) = contents::flatten(datatype)?;
        let flat = Shared::new(flat);
        if is_predefined || self.will_hear_of(datatype) {
            if flat.is_contiguous() {
                self.sizes[place(datatype)].set((datatype, flat.size));
            }
            self.flat.borrow_mut().insert(datatype, Shared::clone(&flat));
        }
        Ok(flat)
    }

    /// Sets the attribute. Returns whether its deletion will be heard of.
    fn will_hear_of(&self, datatype: Handle) -> bool {
        // SAFETY: the handle was just used, so it names a type.
        unsafe { host::Type_set_attr(datatype, self.keyval.get(), null_mut()) == 0 }
    }

    pub(crate) fn forget(&self, datatype: Handle) {
        let at = &self.sizes[place(datatype)];
        if at.get().0 == datatype {
            at.set((0, 0));
        }
        self.flat.borrow_mut().remove(&datatype);
    }
}
