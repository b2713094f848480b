//! The operations of reductions, on elements of a type and on bytes.

use core::marker::PhantomData;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::reduce::{self, Op};

use super::scratch::ALIGN;
use crate::CollectiveError;

/// The numbers that can be reduced and accumulated: integers of 8 to 64 bits, `f32`, `f64`.
pub trait Number: NoUninit + AnyBitPattern + reduce::Reducible {}

impl<T: NoUninit + AnyBitPattern + reduce::Reducible> Number for T {}

/// An operation of a reduction on elements of type `T`: an [`Op`], or a function of the program.
///
/// A function must be associative, and need not be commutative: the element of the lower place is
/// always on the left (MPI-5.0 §6.9.5, `MPI_Op_create` with `commute = false`).
///
/// ```
/// # strait::World::run_in_process(3, |world| {
/// let group = world.endpoint().everyone();
/// // The composition of the maps x -> a x + b, which is not commutative.
/// let mut map = [[2_i64, world.rank().into()]];
/// group.allreduce(&mut map, |f: [i64; 2], g: [i64; 2]| [f[0] * g[0], f[1] * g[0] + g[1]])?;
/// assert_eq!(map, [[8, (0 * 2 + 1) * 2 + 2]]);
/// # Ok(()) }).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operation on `{T}`",
    note = "an operation is an `Op` on numbers, or a function `Fn(T, T) -> T`"
)]
pub trait Reduction<T> {
    /// Checks that the operation is defined for the type.
    ///
    /// # Errors
    ///
    /// [`CollectiveError::Operation`] when it is not.
    fn check(&self) -> Result<(), CollectiveError> {
        Ok(())
    }

    /// Replaces each element of `left` by the result of the operation on it and the element of
    /// `right` in the same place.
    fn combine(&self, left: &mut [T], right: &[T]);

    /// Returns true if neither the order of the operands nor their grouping changes a bit of the
    /// result. A group on several nodes may then combine on each node first.
    fn is_exact(&self) -> bool {
        false
    }

    /// Returns true if the order of two operands does not matter. Only the bits of a result that is
    /// not a number may differ.
    fn commutes(&self) -> bool {
        self.is_exact()
    }
}

impl<T: Number> Reduction<T> for Op {
    fn check(&self) -> Result<(), CollectiveError> {
        let defined = T::function(*self).is_some() && !self.is_of_accumulates();
        if defined { Ok(()) } else { Err(CollectiveError::Operation { op: *self, of: T::NAME }) }
    }

    #[inline]
    fn combine(&self, left: &mut [T], right: &[T]) {
        // `check` has excluded an operation that is not defined.
        let _ = T::combine(*self, left, right);
    }

    fn is_exact(&self) -> bool {
        const { T::NAME.as_bytes()[0] != b'f' }
    }

    fn commutes(&self) -> bool {
        Reduction::<T>::is_exact(self) || matches!(self, Self::Sum | Self::Prod)
    }
}

impl<T: Copy, F: Fn(T, T) -> T> Reduction<T> for F {
    #[inline]
    fn combine(&self, left: &mut [T], right: &[T]) {
        for (left, right) in left.iter_mut().zip(right) {
            *left = self(*left, *right);
        }
    }
}

/// An operation on vectors of bytes.
///
/// The vectors have whole elements. They begin at 64-byte boundaries, or at an element of a vector
/// that the caller of the operation gave.
pub trait Operator {
    /// Returns the bytes of one element, at least 1.
    fn element(&self) -> usize;

    /// Returns true if neither order nor grouping changes a bit of the result.
    fn is_exact(&self) -> bool;

    /// Sets `mine = mine op theirs`. [`in_pieces`] helps operations that change the right operand.
    fn with_higher(&self, mine: &mut [u8], theirs: &[u8]);

    /// Sets `mine = theirs op mine`.
    fn with_lower(&self, mine: &mut [u8], theirs: &[u8]);
}

/// Longest piece of a vector, in bytes, that is combined through a copy. Piece and copy stay in the
/// nearest cache.
const PIECE: usize = 4096;

/// Longest vector, in bytes, for which a copy of so many bytes is made. Most reductions are of a
/// few numbers, and a longer copy takes longer to set up than they do.
const SHORT: usize = 64;

/// Memory for a copy.
#[repr(C, align(64))]
struct Copied<const BYTES: usize>([u8; BYTES]);

/// Calls `combine` with the pieces of `mine` and copies of those of `theirs`, which it may change.
/// The pieces have whole elements of `element` bytes.
pub fn in_pieces(
    element: usize,
    mine: &mut [u8],
    theirs: &[u8],
    combine: impl Fn(&mut [u8], &mut [u8]),
) {
    if mine.len() <= SHORT && element <= SHORT {
        through(&mut Copied([0; SHORT]).0, element, (mine, theirs), combine);
    } else if element <= PIECE {
        through(&mut Copied([0; PIECE]).0, element, (mine, theirs), combine);
    } else {
        let mut copy = vec![0_u128; element.div_ceil(size_of::<u128>())];
        through(bytemuck::cast_slice_mut(&mut copy), element, (mine, theirs), combine);
    }
}

/// Does the work of [`in_pieces`] with memory for a copy of at least one element.
fn through(
    copy: &mut [u8],
    element: usize,
    (mut mine, mut theirs): (&mut [u8], &[u8]),
    combine: impl Fn(&mut [u8], &mut [u8]),
) {
    let longest = copy.len() - copy.len() % element.max(1);
    loop {
        let bytes = longest.min(mine.len()).min(theirs.len());
        let Some(copy) = copy.get_mut(..bytes).filter(|copy| !copy.is_empty()) else { return };
        let (piece, further) = mine.split_at_mut(bytes);
        let (of_theirs, rest) = theirs.split_at(bytes);
        copy.copy_from_slice(of_theirs);
        combine(piece, copy);
        (mine, theirs) = (further, rest);
    }
}

/// A [`Reduction`] on elements of type `T` as an [`Operator`] on bytes.
#[derive(Clone, Copy, Debug)]
pub struct TypedOperator<T, R>(R, PhantomData<T>);

impl<T: NoUninit + AnyBitPattern, R: Reduction<T>> TypedOperator<T, R> {
    /// Returns the operator, for elements of type `T`.
    ///
    /// # Errors
    ///
    /// [`CollectiveError::Operation`] when the operation is not defined for the type.
    pub fn new(reduction: R) -> Result<Self, CollectiveError> {
        const { assert!(align_of::<T>() <= ALIGN && size_of::<T>() > 0) };
        reduction.check()?;
        Ok(Self(reduction, PhantomData))
    }
}

impl<T: NoUninit + AnyBitPattern, R: Reduction<T>> Operator for TypedOperator<T, R> {
    fn element(&self) -> usize {
        size_of::<T>()
    }

    fn is_exact(&self) -> bool {
        self.0.is_exact()
    }

    #[inline]
    fn with_higher(&self, mine: &mut [u8], theirs: &[u8]) {
        self.0.combine(bytemuck::cast_slice_mut(mine), bytemuck::cast_slice(theirs));
    }

    #[inline]
    fn with_lower(&self, mine: &mut [u8], theirs: &[u8]) {
        if self.0.commutes() {
            return self.with_higher(mine, theirs);
        }
        in_pieces(size_of::<T>(), mine, theirs, |mine, copy| {
            self.0.combine(bytemuck::cast_slice_mut(copy), bytemuck::cast_slice(mine));
            mine.copy_from_slice(copy);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_place_stands_on_the_left() {
        let left = TypedOperator::<f64, _>::new(|a, _| a).unwrap();
        let (mut higher, mut lower) = ([1.0], [1.0]);
        left.with_higher(bytemuck::bytes_of_mut(&mut higher), bytemuck::bytes_of(&[2.0]));
        left.with_lower(bytemuck::bytes_of_mut(&mut lower), bytemuck::bytes_of(&[2.0]));
        assert_eq!((higher, lower), ([1.0], [2.0]));
    }

    #[test]
    fn pieces_have_whole_elements_and_are_the_whole_vector() {
        for (element, elements) in [(3, 0), (3, 7), (8, 8), (64, 2), (100, 90), (5000, 3)] {
            let theirs: Vec<u8> = (0..element * elements).map(|at| at as u8).collect();
            let mut mine = vec![1; theirs.len()];
            in_pieces(element, &mut mine, &theirs, |mine, copy| {
                assert!(mine.len() == copy.len() && mine.len().is_multiple_of(element));
                mine.iter_mut().zip(&*copy).for_each(|(mine, copy)| *mine += copy / 2);
                copy.fill(0xEE);
            });
            let expected: Vec<u8> = theirs.iter().map(|byte| byte / 2 + 1).collect();
            assert_eq!(mine, expected, "{elements} of {element} bytes");
        }
    }

    #[test]
    fn bits_of_floats_are_refused() {
        let error = TypedOperator::<f32, _>::new(Op::BitOr).map(drop).unwrap_err();
        assert_eq!(error, CollectiveError::Operation { op: Op::BitOr, of: "f32" });
    }

    #[test]
    fn replace_is_refused() {
        let error = TypedOperator::<u8, _>::new(Op::Replace).map(drop).unwrap_err();
        assert_eq!(error, CollectiveError::Operation { op: Op::Replace, of: "u8" });
    }

    #[test]
    fn sums_of_floats_depend_on_their_grouping() {
        let is_exact = |op: &dyn Operator| op.is_exact();
        assert!(!is_exact(&TypedOperator::<f64, _>::new(Op::Sum).unwrap()));
        assert!(is_exact(&TypedOperator::<i64, _>::new(Op::Sum).unwrap()));
    }
}
