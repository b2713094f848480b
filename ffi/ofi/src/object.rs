//! What all objects have in common: a fid at their beginning, and an end.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::abi::{Fid, Ops, Ssize, Status, absent, errno};

/// An object that the user knows by its [`Fid`].
///
/// # Safety
///
/// The type is `repr(C)`, begins with a [`Fid`] and, but for fabric and memory regions, whatever libfabric has behind that.
pub(crate) unsafe trait Object: Sized {
    /// The class in its fid.
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
    const BIND: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> Status = bind_nothing;

    /// `fi_control`.
    const CONTROL: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> Status = control_nothing;

    /// The object of a fid.
    ///
    /// # Safety
    ///
    /// `fid` was handed out as one of this type and has not been closed.
    #[inline(always)]
    unsafe fn of<'a>(fid: *mut Fid) -> &'a Self {
        // SAFETY: by the contract.
        unsafe { &*fid.cast::<Self>() }
    }

    /// Where the functions lie.
    fn ops() -> *const Ops {
        const { &Self::OPS }
    }
}

/// The beginning of a new object.
pub(crate) fn fid<T: Object>(context: *mut c_void) -> Fid {
    Fid { fclass: T::CLASS, context, ops: T::ops() }
}

/// Gives a new object to the user, whose it is until it is closed.
///
/// # Safety
///
/// `to` may be written.
pub(crate) unsafe fn hand_out<T: Object>(object: T, to: *mut *mut Fid) -> Status {
    // SAFETY: by the contract.
    unsafe { to.write(Box::into_raw(Box::new(object)).cast()) };
    0
}

unsafe extern "C" fn close<T: Object>(fid: *mut Fid) -> Status {
    // SAFETY: `hand_out` made the object, and the user closes it once.
    drop(unsafe { Box::from_raw(fid.cast::<T>()) });
    0
}

/// Binds what needs no binding: an address vector to an event queue.
pub(crate) unsafe extern "C" fn bind_nothing(_: *mut Fid, _: *mut Fid, _: u64) -> Status {
    0
}

unsafe extern "C" fn control_nothing(_: *mut Fid, _: c_int, _: *mut c_void) -> Status {
    -errno::ENOSYS
}

/// Calls what the common case does not. All of it stands apart, so that the common case puts nothing in order for it.
#[cold]
#[inline(never)]
pub(crate) fn aside(act: impl FnOnce() -> Ssize) -> Ssize {
    act()
}

/// The object of a fid that may be null or of another class.
///
/// # Safety
///
/// `fid` is null or was handed out by this provider.
pub(crate) unsafe fn as_class<'a, T: Object>(fid: *mut Fid) -> Option<&'a T> {
    // SAFETY: by the contract.
    let found = unsafe { fid.as_ref() }?;
    // SAFETY: its class says that it is one.
    (found.fclass == T::CLASS).then(|| unsafe { T::of(ptr::from_ref(found).cast_mut()) })
}
