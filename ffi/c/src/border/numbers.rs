//! Numbers as parameters: a pointer to them, and the name of their type.

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use shim::{Integer, Number};

use super::memory::{BufferArg, DataArg};
use super::place::{CountArg, OutArg};
use crate::failure::{Called, Failure};

/// `strait_type` in C: the type of the numbers behind the pointers of the same call.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct TypeArg(c_int);

/// The proof that the current call names the type `T`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Typed<T>(PhantomData<T>);

/// An action on numbers of any type.
pub(crate) trait ActOnNumbers {
    type Done;
    fn act<T: Number>(self, typed: Typed<T>) -> Called<Self::Done>;
}

/// An action on integers of any type.
pub(crate) trait ActOnIntegers {
    type Done;
    fn act<T: Number + Integer + PartialEq>(self, typed: Typed<T>) -> Called<Self::Done>;
}

/// An action on numbers, as it serves integers.
struct Integers<A>(A);

impl<A: ActOnNumbers> ActOnIntegers for Integers<A> {
    type Done = A::Done;

    fn act<T: Number + Integer + PartialEq>(self, typed: Typed<T>) -> Called<A::Done> {
        self.0.act(typed)
    }
}

impl TypeArg {
    /// Returns a type, as a fuzzer passes it.
    #[cfg(any(test, fuzzing))]
    pub(crate) const fn of(number: c_int) -> Self {
        Self(number)
    }

    /// Performs `action` for the type that C names.
    pub(crate) fn dispatch<A: ActOnNumbers>(self, action: A) -> Called<A::Done> {
        match self.0 {
            8 => action.act::<f32>(Typed(PhantomData)),
            9 => action.act::<f64>(Typed(PhantomData)),
            _ => self.dispatch_integers(Integers(action)),
        }
    }

    /// Performs `action` for a number that is added as one of the type that C names is, if most
    /// programs add such numbers: integers of 4 and 8 bytes, with or without a sign, and `double`.
    #[inline(always)]
    pub(crate) fn dispatch_addend<A: ActOnNumbers>(self, action: A) -> Option<Called<A::Done>> {
        Some(match self.0 {
            4 | 5 => action.act::<u32>(Typed(PhantomData)),
            6 | 7 => action.act::<u64>(Typed(PhantomData)),
            9 => action.act::<f64>(Typed(PhantomData)),
            _ => return None,
        })
    }

    /// Performs `action` for the type that C names, which must be an integer type.
    pub(crate) fn dispatch_integers<A: ActOnIntegers>(self, action: A) -> Called<A::Done> {
        match self.0 {
            0 => action.act::<i8>(Typed(PhantomData)),
            1 => action.act::<u8>(Typed(PhantomData)),
            2 => action.act::<i16>(Typed(PhantomData)),
            3 => action.act::<u16>(Typed(PhantomData)),
            4 => action.act::<i32>(Typed(PhantomData)),
            5 => action.act::<u32>(Typed(PhantomData)),
            6 => action.act::<i64>(Typed(PhantomData)),
            7 => action.act::<u64>(Typed(PhantomData)),
            _ => Err(self.unknown()),
        }
    }

    fn unknown(self) -> Box<Failure> {
        let text = "use a strait_type, for this call one of integers if it compares";
        Failure::argument(format!("type {}: {text}", self.0))
    }
}

impl<'call> DataArg<'call> {
    /// Returns the numbers. Null is allowed when the count is zero.
    pub(crate) fn numbers<T: Number>(self, count: CountArg, _: Typed<T>) -> Called<&'call [T]> {
        let base = aligned::<T>(self.base, count.get())?;
        // SAFETY: the call may read this many numbers of this type (invariants); `aligned` checks
        // the address.
        Ok(unsafe { core::slice::from_raw_parts(base.as_ptr(), count.get()) })
    }

    /// Returns the single number.
    #[inline(always)]
    pub(crate) fn number<T: Number>(self, _: Typed<T>) -> Called<T> {
        // SAFETY: the call may read one number of this type (invariants), which is aligned.
        Ok(unsafe { aligned::<T>(self.base, 1)?.read() })
    }
}

impl<'call> BufferArg<'call> {
    /// Returns the numbers. Null is allowed when the count is zero.
    pub(crate) fn numbers<T: Number>(self, count: CountArg, _: Typed<T>) -> Called<&'call mut [T]> {
        let base = aligned::<T>(self.base, count.get())?;
        // SAFETY: only the call uses these numbers, which have this type (invariants); `aligned`
        // checks the address.
        Ok(unsafe { core::slice::from_raw_parts_mut(base.as_ptr(), count.get()) })
    }

    /// Returns the address of the single number.
    pub(crate) fn number<T: Number>(self, _: Typed<T>) -> Called<OutArg<'call, T>> {
        let place = aligned::<T>(self.base, 1)?.cast::<core::cell::Cell<MaybeUninit<T>>>();
        // SAFETY: the call may write one number of this type (invariants), which is aligned.
        Ok(OutArg::at(unsafe { place.as_ref() }))
    }
}

/// Returns the address of the first of `count` numbers, which must be aligned to their size.
#[inline(always)]
fn aligned<T>(base: *const c_void, count: usize) -> Called<NonNull<T>> {
    match NonNull::new(base.cast_mut().cast::<T>()) {
        Some(base) if base.is_aligned() && count <= isize::MAX as usize / size_of::<T>() => {
            Ok(base)
        }
        None if count == 0 => Ok(NonNull::dangling()),
        _ => Err(no_numbers(base, count, size_of::<T>())),
    }
}

#[cold]
#[inline(never)]
fn no_numbers(base: *const c_void, count: usize, size: usize) -> Box<Failure> {
    Failure::argument(format!(
        "there are no {count} numbers of {size} bytes at {base:?}: they lie on multiples of their \
         size"
    ))
}
