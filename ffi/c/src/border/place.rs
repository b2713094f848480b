//! Output parameters, arrays, and their element counts.

use core::cell::Cell;
use core::ffi::c_int;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::failure::{Called, Failure};

/// An address where the call may write one `T`. It may be null.
#[repr(transparent)]
pub(crate) struct OutArg<'call, T>(Option<&'call Cell<MaybeUninit<T>>>);

impl<T> Clone for OutArg<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for OutArg<'_, T> {}

impl<'call, T> OutArg<'call, T> {
    pub(crate) const NULL: Self = Self(None);

    pub(crate) const fn at(place: &'call Cell<MaybeUninit<T>>) -> Self {
        Self(Some(place))
    }

    pub(crate) const fn is_null(self) -> bool {
        self.0.is_none()
    }

    /// Refuses a null address for a required result, before the call does anything.
    #[inline(always)]
    pub(crate) fn need(self) -> Called {
        if self.is_null() { Err(no_place()) } else { Ok(()) }
    }

    /// Writes a result that C must accept.
    #[inline(always)]
    pub(crate) fn write(self, value: T) -> Called {
        let Some(place) = self.0 else { return Err(no_place()) };
        place.set(MaybeUninit::new(value));
        Ok(())
    }

    /// Writes a result if C wants it.
    #[inline(always)]
    pub(crate) fn write_if_wanted(self, value: T) {
        if let Some(place) = self.0 {
            place.set(MaybeUninit::new(value));
        }
    }
}

/// The number of elements behind the pointers of the same call.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct CountArg<N = usize>(N);

impl<N: Copy> CountArg<N> {
    #[inline(always)]
    pub(crate) const fn get(self) -> N {
        self.0
    }
}

impl CountArg {
    /// Returns a count that this library has computed from counts of the same call.
    pub(crate) const fn of(count: usize) -> Self {
        Self(count)
    }
}

impl CountArg<u32> {
    pub(crate) const fn widened(self) -> CountArg {
        CountArg(self.0 as usize)
    }
}

impl CountArg<c_int> {
    /// Checks that the count is not negative, and returns it.
    pub(crate) fn checked(self) -> Called<CountArg> {
        match usize::try_from(self.0) {
            Ok(count) => Ok(CountArg(count)),
            Err(_) => Err(Failure::argument(format!("a list of {} elements", self.0))),
        }
    }
}

/// An array with as many values as the [`CountArg`] of the same call says. It may be null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct ArrayArg<'call, T> {
    first: Option<NonNull<T>>,
    call: PhantomData<&'call [T]>,
}

impl<'call, T> ArrayArg<'call, T> {
    pub(crate) const fn is_null(&self) -> bool {
        self.first.is_none()
    }

    /// Refuses a null array, before the call does anything.
    pub(crate) fn need(&self) -> Called {
        if self.is_null() { Err(no_place()) } else { Ok(()) }
    }

    /// Returns the values. Null is allowed when the count is zero.
    pub(crate) fn slice(self, count: CountArg) -> Called<&'call [T]> {
        if count.0 == 0 {
            return Ok(&[]);
        }
        self.slice_if_given(count)?.ok_or_else(no_place)
    }

    /// Returns the values, or `None` when the array is null.
    pub(crate) fn slice_if_given(self, count: CountArg) -> Called<Option<&'call [T]>> {
        if count.0 > isize::MAX as usize / size_of::<T>().max(1) {
            return Err(Failure::argument(format!("a list of {} elements", count.0)));
        }
        let Some(first) = self.first else { return Ok(None) };
        // SAFETY: the array has this many values (invariant), and no more bytes than a slice may
        // have.
        Ok(Some(unsafe { core::slice::from_raw_parts(first.as_ptr(), count.0) }))
    }
}

#[cold]
#[inline(never)]
pub(crate) fn no_place() -> Box<Failure> {
    Failure::argument("a pointer that must lead somewhere is null: see strait.h for which may be")
}
