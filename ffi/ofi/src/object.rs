//! The common parts of all objects: a fid at the beginning, and the way they end.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Deref;
use core::ptr::NonNull;

use crate::abi::{
    FiStatus, Fid, LengthArg, MemoryArg, NewArg, ObjectArg, Ops, Ssize, absent, errno,
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
    const BIND: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> FiStatus = bind_nothing;

    /// `fi_control`.
    const CONTROL: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> FiStatus = control_nothing;

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
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct ObjectRef<T>(NonNull<T>);

impl<T> Clone for ObjectRef<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ObjectRef<T> {}

impl<T> PartialEq for ObjectRef<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> ObjectRef<T> {
    /// # Safety
    ///
    /// The object stays in place, and the reference is dropped before the object closes.
    pub(crate) const unsafe fn new(object: &T) -> Self {
        Self(NonNull::from_ref(object))
    }

    pub(crate) const fn as_ptr(self) -> *const T {
        self.0.as_ptr()
    }
}

impl<T> Deref for ObjectRef<T> {
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

unsafe extern "C" fn close<T: Object>(fid: *mut Fid) -> FiStatus {
    // SAFETY: `hand_out` made the object, and the user closes it once.
    drop(unsafe { Box::from_raw(fid.cast::<T>()) });
    0
}

/// Accepts a binding that needs no work: an address vector to an event queue.
pub(crate) unsafe extern "C" fn bind_nothing(_: *mut Fid, _: *mut Fid, _: u64) -> FiStatus {
    0
}

unsafe extern "C" fn control_nothing(_: *mut Fid, _: c_int, _: *mut c_void) -> FiStatus {
    -errno::ENOSYS
}

/// Calls a function that the common case does not need. It is a separate function, so that the
/// common case saves no register for it.
#[cold]
#[inline(never)]
pub(crate) fn aside(act: impl FnOnce() -> Ssize) -> Ssize {
    act()
}

/// Returns the object of a fid to be bound. The fid may be null or of another class.
///
/// # Safety
///
/// `fid` is null or was returned by this provider, and is closed after the object to which it is
/// bound.
pub(crate) unsafe fn as_class<T: Object>(fid: *mut Fid) -> Option<ObjectRef<T>> {
    // SAFETY: null, or an object of this provider (contract of `as_class`).
    let found = unsafe { fid.as_ref() }?;
    // The class proves the type of the object.
    (found.fclass == T::CLASS).then(|| ObjectRef(NonNull::from_ref(found).cast()))
}

/// `fi_cq_strerror` and `fi_eq_strerror`.
pub(crate) extern "C" fn strerror<C>(
    _queue: ObjectArg<'_, C>,
    _errno: c_int,
    _data: *const c_void,
    buffer: MemoryArg,
    length: LengthArg,
) -> *const c_char {
    const TEXT: &CStr = c"strait: see err";
    buffer.fill_text(length, TEXT.to_bytes());
    TEXT.as_ptr()
}
