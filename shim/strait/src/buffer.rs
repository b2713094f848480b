//! The memory of a message: one run of bytes, or several.

use core::ptr::NonNull;
use std::io::{IoSlice, IoSliceMut};

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::buffer::{Cursor, Part};

use crate::SharedMemory;
use sealed::{Readable, Writable};

/// Data that a message can be sent from: slices, arrays, vectors, [`SharedMemory`], and
/// [`Vectored`] for data in several places.
///
/// The values are of any type without padding that [`bytemuck`] knows ([`NoUninit`]).
///
/// ```
/// use strait::Vectored;
/// use std::io::IoSlice;
///
/// # strait::World::run_in_process(2, |world| {
/// # let endpoint = world.endpoint();
/// if world.rank() == 0 {
///     endpoint.send(&[1.5_f64, 2.5], 1, 0)?;
///     endpoint.send(&vec![1_u32, 2, 3], 1, 0)?;
///     endpoint.send(&world.alloc::<u8>(100)?, 1, 0)?;
///     endpoint.send(Vectored::new(&[IoSlice::new(b"head"), IoSlice::new(b"body")]), 1, 0)?;
/// } else {
///     let mut bytes = [0_u8; 100];
///     for expected in [16, 12, 100, 8] {
///         assert_eq!(endpoint.recv(&mut bytes, 0, 0)?.bytes, expected);
///     }
/// }
/// # Ok(()) }).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "a message cannot be sent from `{Self}`",
    note = "a slice of numbers can be sent, such as `&data[..]`, and any slice of `NoUninit` values"
)]
pub trait SendBuffer: Readable {}

/// Memory that a message can be received into: slices, arrays, vectors, [`SharedMemory`], and
/// [`Vectored`] for several places.
///
/// A message may be shorter than the memory. A vector keeps its length.
#[diagnostic::on_unimplemented(
    message = "a message cannot be received into `{Self}`",
    note = "a slice of numbers can be filled, such as `&mut data[..]`, and any slice of `NoUninit` \
            and `AnyBitPattern` values"
)]
pub trait RecvBuffer: Writable {}

impl<B: Readable + ?Sized> SendBuffer for B {}
impl<B: Writable + ?Sized> RecvBuffer for B {}

/// The parts of a message that lies in several places, one after the other.
///
/// ```
/// use std::io::{IoSlice, IoSliceMut};
/// use strait::Vectored;
///
/// # strait::World::run_in_process(2, |world| {
/// # let endpoint = world.endpoint();
/// if world.rank() == 0 {
///     endpoint.send(Vectored::new(&[IoSlice::new(b"head"), IoSlice::new(b"body")]), 1, 0)?;
/// } else {
///     let (mut head, mut body) = ([0_u8; 4], [0_u8; 4]);
///     let parts = &mut [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)];
///     endpoint.recv(Vectored::new_mut(parts), 0, 0)?;
///     assert_eq!((&head, &body), (b"head", b"body"));
/// }
/// # Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct Vectored<S>([S]);

impl<S> Vectored<S> {
    /// Returns `parts` as one message.
    #[must_use]
    pub const fn new(parts: &[S]) -> &Self {
        // SAFETY: the type is a transparent wrapper of the slice.
        unsafe { &*(core::ptr::from_ref(parts) as *const Self) }
    }

    /// Returns `parts` as the memory of one message.
    pub const fn new_mut(parts: &mut [S]) -> &mut Self {
        // SAFETY: the type is a transparent wrapper of the slice.
        unsafe { &mut *(core::ptr::from_mut(parts) as *mut Self) }
    }
}

pub(crate) mod sealed {
    use strait_core::buffer::Part;

    /// Bytes to read.
    #[derive(Clone, Copy, Debug)]
    pub enum Bytes<'a> {
        One(&'a [u8]),
        Several(&'a [Part]),
    }

    /// Bytes to write.
    #[derive(Debug)]
    pub enum BytesMut<'a> {
        One(&'a mut [u8]),
        Several(&'a [Part]),
    }

    pub trait Readable {
        fn bytes(&self) -> Bytes<'_>;
    }

    pub trait Writable {
        fn bytes_mut(&mut self) -> BytesMut<'_>;
    }
}

pub(crate) use sealed::{Bytes, BytesMut};

impl Bytes<'_> {
    /// Returns a cursor over the bytes.
    ///
    /// # Safety
    ///
    /// The bytes, and the list of parts, stay borrowed while the cursor is in use.
    pub(crate) unsafe fn cursor(self) -> Cursor {
        match self {
            // SAFETY: the caller guarantees the same (contract of `cursor`).
            Self::One(bytes) => unsafe { Cursor::contiguous(part_of(bytes)) },
            // SAFETY: the caller guarantees the same (contract of `cursor`).
            Self::Several(parts) => unsafe { Cursor::parts(parts) },
        }
    }
}

impl BytesMut<'_> {
    /// Returns a cursor over the bytes.
    ///
    /// # Safety
    ///
    /// The bytes, and the list of parts, stay borrowed while the cursor is in use.
    pub(crate) unsafe fn cursor(self) -> Cursor {
        match self {
            // SAFETY: the caller guarantees the same (contract of `cursor`).
            Self::One(bytes) => unsafe { Cursor::contiguous(part_of_mut(bytes)) },
            // SAFETY: the caller guarantees the same (contract of `cursor`).
            Self::Several(parts) => unsafe { Cursor::parts(parts) },
        }
    }
}

impl<T: NoUninit> Readable for [T] {
    #[inline(always)]
    fn bytes(&self) -> Bytes<'_> {
        Bytes::One(bytemuck::must_cast_slice(self))
    }
}

impl<T: NoUninit + AnyBitPattern> Writable for [T] {
    #[inline(always)]
    fn bytes_mut(&mut self) -> BytesMut<'_> {
        BytesMut::One(bytemuck::must_cast_slice_mut(self))
    }
}

/// Implements both traits for types that are slices behind a conversion.
macro_rules! like_a_slice {
    ($([$($parameter:tt)*] $type:ty),* $(,)?) => {
        $(impl<T: NoUninit, $($parameter)*> Readable for $type {
            #[inline(always)]
            fn bytes(&self) -> Bytes<'_> {
                <[T]>::bytes(self)
            }
        }

        impl<T: NoUninit + AnyBitPattern, $($parameter)*> Writable for $type {
            #[inline(always)]
            fn bytes_mut(&mut self) -> BytesMut<'_> {
                <[T]>::bytes_mut(self)
            }
        })*
    };
}

like_a_slice!([const N: usize] [T; N], [] Vec<T>, [] Box<[T]>, [] SharedMemory<T>);

impl<B: Readable + ?Sized> Readable for &B {
    #[inline(always)]
    fn bytes(&self) -> Bytes<'_> {
        (**self).bytes()
    }
}

impl<B: Readable + ?Sized> Readable for &mut B {
    #[inline(always)]
    fn bytes(&self) -> Bytes<'_> {
        (**self).bytes()
    }
}

impl<B: Writable + ?Sized> Writable for &mut B {
    #[inline(always)]
    fn bytes_mut(&mut self) -> BytesMut<'_> {
        (**self).bytes_mut()
    }
}

impl Readable for IoSlice<'_> {
    #[inline(always)]
    fn bytes(&self) -> Bytes<'_> {
        Bytes::One(self)
    }
}

impl Writable for IoSliceMut<'_> {
    #[inline(always)]
    fn bytes_mut(&mut self) -> BytesMut<'_> {
        BytesMut::One(self)
    }
}

impl Readable for Vectored<IoSlice<'_>> {
    #[inline]
    fn bytes(&self) -> Bytes<'_> {
        // SAFETY: `IoSlice` is ABI-compatible with `iovec`, as `Part` is.
        Bytes::Several(unsafe { parts_of(&self.0) })
    }
}

impl Writable for Vectored<IoSliceMut<'_>> {
    #[inline]
    fn bytes_mut(&mut self) -> BytesMut<'_> {
        // SAFETY: `IoSliceMut` is ABI-compatible with `iovec`, as `Part` is.
        BytesMut::Several(unsafe { parts_of(&self.0) })
    }
}

/// Returns a list of `IoSlice` or `IoSliceMut` as a list of [`Part`]s.
///
/// # Safety
///
/// `S` has the layout of POSIX `struct iovec`.
const unsafe fn parts_of<S>(parts: &[S]) -> &[Part] {
    const { assert!(size_of::<S>() == size_of::<Part>() && align_of::<S>() == align_of::<Part>()) };
    // SAFETY: the caller guarantees that each element is a non-null base and a length, which is the
    // layout of `Part` (contract of `parts_of`).
    unsafe { core::slice::from_raw_parts(parts.as_ptr().cast(), parts.len()) }
}

/// Returns a readable buffer as a [`Part`] for the engine.
pub(crate) fn part_of(bytes: &[u8]) -> Part {
    Part { base: NonNull::from(bytes).cast(), length: bytes.len() }
}

/// Returns a writable buffer as a [`Part`] for the engine.
pub(crate) fn part_of_mut(bytes: &mut [u8]) -> Part {
    Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() }
}
