//! Puts and gets that are complete at the origin when their call returns (MPI-4.1 §12.3).

use std::io::{IoSlice, IoSliceMut};

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::buffer::{Cursor, Direction, Part as Buffer};
use strait_core::rma::Shape;
use strait_core::sync::{Step, reached};

use super::Window;
use crate::Error;
use crate::buffer::{part_of, part_of_mut};

impl Window<'_> {
    /// Writes `data` to the target's part. The caller may change `data` again when this returns. On
    /// another node, more than 4096 bytes have arrived by then, and fewer arrive by the next
    /// synchronisation.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// if world.rank() == 0 {
    ///     window.put(&[1.5_f64, 2.5], 1, 3)?;
    /// }
    /// window.fence(Assert::NONE)?;
    /// if world.rank() == 1 {
    ///     assert_eq!(window.local().load::<f64>(24)?, 1.5);
    /// }
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Window`] when the target does not exist, the bytes do not all lie in its part, or
    /// the kernel refuses; [`Error::Fault`] when the target died.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.1, `MPI_PUT`.
    #[inline]
    pub fn put<T: NoUninit>(
        &self,
        data: &[T],
        target: u32,
        displacement: usize,
    ) -> Result<(), Error> {
        let Buffer { base, length } = part_of(bytemuck::must_cast_slice(data));
        let (part, offset) = self.locate(target, displacement, length)?;
        // SAFETY: `locate` has checked that the bytes lie in the part; `data` is borrowed.
        unsafe { self.copy(part, offset, Direction::Write, base, length) }?;
        reached(Step::WindowPut);
        Ok(())
    }

    /// Reads from the target's part into `buffer`.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// window.local().store(0, world.rank())?;
    /// window.fence(Assert::NONE)?;
    /// let mut found = [9_u32];
    /// window.get(&mut found, 1 - world.rank(), 0)?;
    /// assert_eq!(found, [1 - world.rank()]);
    /// window.fence(Assert::NONE)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::put`] does.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.2, `MPI_GET`.
    #[inline]
    pub fn get<T: NoUninit + AnyBitPattern>(
        &self,
        buffer: &mut [T],
        target: u32,
        displacement: usize,
    ) -> Result<(), Error> {
        let Buffer { base, length } = part_of_mut(bytemuck::must_cast_slice_mut(buffer));
        let (part, offset) = self.locate(target, displacement, length)?;
        // SAFETY: `locate` has checked that the bytes lie in the part. `buffer` is borrowed, and
        // any bytes are valid for its type.
        unsafe { self.copy(part, offset, Direction::Read, base, length) }
    }

    /// Writes the concatenation of `data` to the bytes of `shape`, which starts at a displacement.
    ///
    /// ```
    /// # use std::io::IoSlice;
    /// # use strait::{Assert, Window, ByteRun, Shape};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// // Two blocks of 2 bytes, 8 bytes apart.
    /// let blocks = [ByteRun { offset: 0, length: 2 }, ByteRun { offset: 8, length: 2 }];
    /// window.put_vectored(&[IoSlice::new(b"abcd")], 0, 0, Shape::Runs(&blocks))?;
    /// let mut found = [0_u8; 10];
    /// window.get(&mut found, 0, 0)?;
    /// assert_eq!((&found[..2], &found[8..]), (&b"ab"[..], &b"cd"[..]));
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::put`] does; [`crate::WindowError::Lengths`] when `data` and `shape` have
    /// different lengths.
    pub fn put_vectored(
        &self,
        data: &[IoSlice<'_>],
        target: u32,
        displacement: usize,
        shape: Shape<'_>,
    ) -> Result<(), Error> {
        let buffers: Vec<_> = data.iter().map(|part| part_of(part)).collect();
        // SAFETY: `data` is borrowed for the whole call.
        let origin = unsafe { Cursor::parts(&buffers) };
        let (part, offset) = self.locate_shape(target, displacement, &shape, origin.remaining())?;
        // SAFETY: `locate_shape` has checked that the shape lies in the part and is as long as
        // `data`.
        unsafe { self.copy_shape(part, offset, Direction::Write, origin, &shape) }
    }

    /// Reads the bytes of `shape`, which starts at a displacement, into `buffers`, in order.
    ///
    /// ```
    /// # use std::io::IoSliceMut;
    /// # use strait::{Assert, Window, Shape};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// window.put(b"abcdefgh", 0, 0)?;
    /// let (mut one, mut two) = ([0_u8; 2], [0_u8; 2]);
    /// let buffers = &mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
    /// window.get_vectored(buffers, 0, 4, Shape::Contiguous { length: 4 })?;
    /// assert_eq!((&one, &two), (b"ef", b"gh"));
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::put_vectored`] does.
    pub fn get_vectored(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        target: u32,
        displacement: usize,
        shape: Shape<'_>,
    ) -> Result<(), Error> {
        let buffers: Vec<_> = buffers.iter_mut().map(|part| part_of_mut(part)).collect();
        // SAFETY: the buffers are borrowed for the whole call.
        let origin = unsafe { Cursor::parts(&buffers) };
        let (part, offset) = self.locate_shape(target, displacement, &shape, origin.remaining())?;
        // SAFETY: `locate_shape` has checked that the shape lies in the part and is as long as the
        // buffers.
        unsafe { self.copy_shape(part, offset, Direction::Read, origin, &shape) }
    }
}
