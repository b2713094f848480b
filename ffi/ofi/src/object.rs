//! The common parts of all objects: a fid at the beginning, and the way they end.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::abi::{
    FiStatus, Fid, FidArg, LengthArg, MemoryArg, NewArg, ObjectArg, Ops, Ssize, absent, errno,
};

/// An object that the user knows by its [`Fid`].
///
/// # Safety
///
/// The type is `repr(C)`. It begins with a [`Fid`] and the fields that libfabric puts behind it. It
/// is the only type with this `Class` and this `CLASS`.
pub(crate) unsafe trait Object: Sized {
    /// The marker type of the class.
    type Class;

    /// The number of the class in the fid.
    const CLASS: usize;

    /// The functions that every object has.
    const OPS: Ops = Ops {
        size: size_of::<Ops>(),
        close: close::<Self>,
        bind: Self::BIND,
        control: Self::CONTROL,
        ops_open: absent,
        tostr: absent,
        ops_set: absent,
    };

    /// Binds another object to it.
    const BIND: extern "C" fn(FidArg<'_>, Option<FidArg<'_>>, u64) -> FiStatus = bind_nothing;

    /// `fi_control`.
    const CONTROL: extern "C" fn(FidArg<'_>, c_int, *mut c_void) -> FiStatus = control_nothing;

    /// Returns the object that a call passes.
    #[inline(always)]
    fn of<'call>(object: ObjectArg<'call, Self::Class>) -> &'call Self {
        // SAFETY: the object is open and of the class (invariant), and no other type has the class
        // (trait).
        unsafe { object.fid().cast::<Self>().as_ref() }
    }

    /// Returns the object that a call passes to bind it, or to make another object from it.
    fn keep(object: ObjectArg<'_, Self::Class>) -> ObjectRef<Self> {
        // The user closes such an object after those that depend on it (`fi_close`).
        ObjectRef(object.fid().cast())
    }

    /// Returns the table of functions.
    fn ops() -> *const Ops {
        const { &Self::OPS }
    }
}

/// Makes the fid of a new object.
pub(crate) fn fid<T: Object>(context: *mut c_void) -> Fid {
    Fid { fclass: T::CLASS, context, ops: T::ops() }
}

/// A reference to an object that stays open as long as the reference lives. Either the user closes
/// the object later, or the object drops the reference before it closes.
#[repr(transparent)]
pub(crate) struct ObjectRef<T: ?Sized>(NonNull<T>);

impl<T: ?Sized> Clone for ObjectRef<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for ObjectRef<T> {}

impl<T: ?Sized> fmt::Debug for ObjectRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized> ObjectRef<T> {
    /// # Safety
    ///
    /// The object stays in place, and the reference is dropped before the object closes.
    pub(crate) unsafe fn new(object: &T) -> Self {
        Self(NonNull::from(object))
    }

    /// Returns the address of the object.
    pub(crate) const fn address(self) -> *const () {
        self.0.as_ptr().cast_const().cast()
    }

    /// Returns a reference to a part of the object, or to the object as another type.
    pub(crate) fn project<U: ?Sized>(self, part: impl FnOnce(&T) -> &U) -> ObjectRef<U> {
        // The part stays in place as long as the object, which calls only share.
        ObjectRef(NonNull::from(part(&self)))
    }
}

impl<T: ?Sized> Deref for ObjectRef<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the object is open (invariant), and calls only lend shared references.
        unsafe { self.0.as_ref() }
    }
}

/// Passes a new object to the user, which owns it until the user closes it.
pub(crate) fn hand_out<T: Object>(object: T, to: NewArg<'_>) -> FiStatus {
    hand_out_if(object, to, |_| Ok(()))
}

/// Passes a new object to the user if `prepare` succeeds. `prepare` gets it at its final address.
pub(crate) fn hand_out_if<T: Object>(
    object: T,
    to: NewArg<'_>,
    prepare: impl FnOnce(&T) -> Result<(), FiStatus>,
) -> FiStatus {
    if to.is_null() {
        return -errno::EINVAL;
    }
    let object = Box::into_raw(Box::new(object));
    // SAFETY: the object was just made.
    if let Err(error) = prepare(unsafe { &*object }) {
        // SAFETY: the user has not received the object.
        drop(unsafe { Box::from_raw(object) });
        return error;
    }
    to.write(object.cast());
    0
}

extern "C" fn close<T: Object>(fid: FidArg<'_>) -> FiStatus {
    // SAFETY: the table that leads here belongs to an object of type `T`, which `hand_out` made and
    // the user closes once.
    drop(unsafe { Box::from_raw(fid.fid().cast::<T>().as_ptr()) });
    0
}

/// Accepts a binding that needs no work: an address vector to an event queue.
extern "C" fn bind_nothing(_: FidArg<'_>, _: Option<FidArg<'_>>, _: u64) -> FiStatus {
    0
}

extern "C" fn control_nothing(_: FidArg<'_>, _: c_int, _: *mut c_void) -> FiStatus {
    -errno::ENOSYS
}

/// Calls a function that the common case does not need. It is a separate function, so that the
/// common case saves no register for it.
#[cold]
#[inline(never)]
pub(crate) fn aside(act: impl FnOnce() -> Ssize) -> Ssize {
    act()
}

/// Returns the object of a fid that a call passes, if it is of this class. The user closes the
/// object after those that depend on it (`fi_close`).
pub(crate) fn as_class<T: Object>(fid: FidArg<'_>) -> Option<ObjectRef<T>> {
    // The class proves the type of the object.
    (fid.class() == T::CLASS).then(|| ObjectRef(fid.fid().cast()))
}

/// `fi_eq_strerror`.
pub(crate) extern "C" fn strerror<C>(
    _queue: ObjectArg<'_, C>,
    _errno: c_int,
    _data: *const c_void,
    buffer: MemoryArg,
    length: LengthArg,
) -> *const c_char {
    const TEXT: &CStr = c"strait: no event can fail";
    buffer.fill_text(length, TEXT.to_bytes());
    TEXT.as_ptr()
}
