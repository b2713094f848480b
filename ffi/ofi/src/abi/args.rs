//! Parameters of libfabric's calls, as types that carry libfabric's promises about them.
//!
//! A function in one of the tables takes its parameters as these types. Each has the layout of the
//! parameter in C, and safe Rust has no way to make one. So each value comes from libfabric, and
//! the promise of its manual pages about the parameter is the invariant of its type:
//!
//! | type | promise of the caller |
//! |---|---|
//! | [`ObjectArg`] | an object of one class, which this provider made and which is not closed |
//! | [`FidArg`] | the same, of any class |
//! | [`MemoryArg`] | null, or as many bytes as the [`LengthArg`] of the same call says |
//! | [`ListArg`] | null, or as many values as the [`LengthArg`] of the same call says |
//! | [`AnswerArg`] | null, or an address where the call may write one value |
//! | [`AttrArg`] | null, or a structure that lives as long as the one that leads to it |
//! | [`RoomArg`] | the size of the preceding [`MemoryArg`] in bytes, which the call overwrites |
//!
//! The memory of an operation belongs to it until its completion. If the operation injects, it
//! belongs to it until the call returns.

use core::cell::Cell;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::Fid;

/// An object of any class that the user passes.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct FidArg<'call> {
    fid: NonNull<Fid>,
    call: PhantomData<&'call Fid>,
}

impl FidArg<'_> {
    /// Returns the number of the object's class.
    pub(crate) const fn class(self) -> usize {
        // SAFETY: the object is open (invariant), and its class never changes.
        unsafe { self.fid.as_ref() }.fclass
    }

    /// Returns the address of the object.
    pub(crate) const fn fid(self) -> NonNull<Fid> {
        self.fid
    }
}

/// An object that the user passes, of the class that `C` stands for.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct ObjectArg<'call, C> {
    fid: NonNull<Fid>,
    call: PhantomData<(&'call Fid, C)>,
}

impl<C> Clone for ObjectArg<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for ObjectArg<'_, C> {}

impl<C> ObjectArg<'_, C> {
    /// Returns the address of the object.
    #[inline(always)]
    pub(crate) const fn fid(self) -> NonNull<Fid> {
        self.fid
    }
}

/// A marker type of the class of fabrics.
#[derive(Debug)]
pub(crate) enum FabricFid {}
/// A marker type of the class of domains.
#[derive(Debug)]
pub(crate) enum DomainFid {}
/// A marker type of the class of endpoints.
#[derive(Debug)]
pub(crate) enum EpFid {}
/// A marker type of the class of address vectors.
#[derive(Debug)]
pub(crate) enum AvFid {}
/// A marker type of the class of memory regions.
#[derive(Debug)]
pub(crate) enum MrFid {}
/// A marker type of the class of event queues.
#[derive(Debug)]
pub(crate) enum EqFid {}
/// A marker type of the class of completion queues.
#[derive(Debug)]
pub(crate) enum CqFid {}
/// A marker type of the class of counters.
#[derive(Debug)]
pub(crate) enum CntrFid {}

/// The number of elements behind a pointer of the same call.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct LengthArg(usize);

impl LengthArg {
    #[inline(always)]
    pub(crate) const fn get(self) -> usize {
        self.0
    }
}

/// Memory that the user passes. It may be null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct MemoryArg(*mut c_void);

impl MemoryArg {
    #[inline(always)]
    pub(crate) const fn as_ptr(self) -> *mut c_void {
        self.0
    }

    /// Copies as many of `bytes` as fit into the memory, and returns their number.
    pub(crate) fn fill(self, room: LengthArg, bytes: &[u8]) -> usize {
        if self.0.is_null() {
            return 0;
        }
        let count = bytes.len().min(room.0);
        // SAFETY: the call may write `room` bytes (invariant), which do not belong to this library.
        unsafe { self.0.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), count) };
        count
    }

    /// Copies as much of `text` as fits, followed by a zero.
    pub(crate) fn fill_text(self, room: LengthArg, text: &[u8]) {
        let mut bytes = text[..text.len().min(room.0.saturating_sub(1))].to_vec();
        bytes.push(0);
        self.fill(room, &bytes);
    }

    /// Returns the number of this type at the address, if the memory has exactly its size.
    pub(crate) fn read(self, length: LengthArg) -> Option<usize> {
        if self.0.is_null() || length.0 != size_of::<usize>() {
            return None;
        }
        // SAFETY: the call may read `length` bytes (invariant).
        Some(unsafe { self.0.cast::<usize>().read_unaligned() })
    }
}

/// The size in bytes of the preceding memory. The call writes the size that it needs.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct RoomArg<'call>(&'call Cell<usize>);

impl RoomArg<'_> {
    /// Copies as many of `bytes` as fit, and returns whether all of them did.
    pub(crate) fn fill(self, memory: MemoryArg, bytes: &[u8]) -> bool {
        let room = LengthArg(self.0.replace(bytes.len()));
        memory.fill(room, bytes);
        room.0 >= bytes.len()
    }

    /// Copies as much of `text` as fits, followed by a zero.
    pub(crate) fn fill_text(self, memory: MemoryArg, text: &str) {
        let room = LengthArg(self.0.replace(text.len() + 1));
        memory.fill_text(room, text.as_bytes());
    }

    /// Copies `bytes` if all of them fit.
    pub(crate) fn fill_whole(self, memory: MemoryArg, bytes: &[u8]) -> bool {
        self.0.get() >= bytes.len() && self.fill(memory, bytes)
    }
}

/// Values that the user passes. It may be null.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct ListArg<'call, T> {
    first: Option<NonNull<T>>,
    call: PhantomData<&'call [T]>,
}

impl<T> Clone for ListArg<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ListArg<'_, T> {}

impl<'call, T> ListArg<'call, T> {
    pub(crate) const NULL: Self = Self { first: None, call: PhantomData };

    #[inline(always)]
    pub(crate) const fn is_null(self) -> bool {
        self.first.is_none()
    }

    /// Returns the values. The slice is empty when the list is null.
    #[inline(always)]
    pub(crate) fn slice(self, count: LengthArg) -> &'call [T] {
        match self.first {
            // SAFETY: the list has this many values (invariant).
            Some(first) => unsafe { core::slice::from_raw_parts(first.as_ptr(), count.0) },
            None => &[],
        }
    }
}

/// Places for results, as many as the [`LengthArg`] of the same call says. It may be null.
pub(crate) type AnswersArg<'call, T> = ListArg<'call, Cell<MaybeUninit<T>>>;

/// An address for one result. It may be null.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct AnswerArg<'call, T: Copy>(Option<&'call Cell<MaybeUninit<T>>>);

impl<T: Copy> AnswerArg<'_, T> {
    /// Writes a result if the user wants it.
    pub(crate) fn write(self, value: T) {
        if let Some(place) = self.0 {
            place.set(MaybeUninit::new(value));
        }
    }

    pub(crate) const fn is_null(&self) -> bool {
        self.0.is_none()
    }
}

/// Attributes behind a structure that the user passes, or that this provider makes. It may be null.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct AttrArg<T>(*mut T);

impl<T> AttrArg<T> {
    /// # Safety
    ///
    /// `attr` is null, or leads to attributes that live as long as the structure.
    pub(crate) const unsafe fn new(attr: *mut T) -> Self {
        Self(attr)
    }

    pub(crate) const fn get(&self) -> Option<&T> {
        // SAFETY: null, or attributes that live as long as the structure that leads to them
        // (invariant).
        unsafe { self.0.as_ref() }
    }
}
