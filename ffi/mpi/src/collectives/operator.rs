//! The operations of reductions: Strait's own on the numbers that it knows, and the host's on all
//! other types, also those of the program.

use core::cell::Cell;
use core::ffi::c_int;

use strait::bytemuck::{cast_slice, cast_slice_mut};
use strait::raw::{Operator, TypedOperator};
use strait::{Number, Op};

use super::{CollectiveRefusal, host};
use crate::abi::Handle;
use crate::front::flat::FlatType;
use crate::front::shared::Shared;
use crate::front::state::Front;
use crate::front::windows::{Kind, PredefinedOp, by_kind, operation, without_lock};

/// Most elements of one call of the host.
const CALL_MAX: usize = 1 << 24;

/// Alignment of vectors of numbers that Strait combines.
pub(super) const ALIGN: usize = align_of::<u64>();

/// Calls `act` with the operation on elements of a type.
pub(super) fn with_operator(
    front: &Front,
    (op, datatype): (Handle, Handle),
    mut act: impl FnMut(&dyn Operator) -> Result<(), CollectiveRefusal>,
) -> Result<(), CollectiveRefusal> {
    let basic =
        front.windows.basics.find(front, datatype).map_err(|_| CollectiveRefusal::Argument)?;
    if let Some(PredefinedOp::Known(known)) = operation(op)
        && basic.handle == datatype
        && let Some(done) = by_kind!(basic.kind, by_number(known, &mut act), None)
    {
        return done;
    }
    let flat = front.types.find(datatype).map_err(CollectiveRefusal::Reported)?;
    let operator = HostOperator { op, datatype, flat, code: Cell::new(0) };
    act(&operator)?;
    match operator.code.get() {
        0 => Ok(()),
        code => Err(CollectiveRefusal::Reported(code)),
    }
}

/// Calls `act` with an operation on numbers. The host reports one that is not defined for them.
fn by_number<T: Number>(
    op: Op,
    act: &mut dyn FnMut(&dyn Operator) -> Result<(), CollectiveRefusal>,
) -> Option<Result<(), CollectiveRefusal>> {
    Some(match TypedOperator::<T, Op>::new(op) {
        Ok(operator) => act(&operator),
        Err(_) => Err(CollectiveRefusal::Argument),
    })
}

/// An operation that the host carries out.
struct HostOperator {
    op: Handle,
    datatype: Handle,
    flat: Shared<FlatType>,
    /// The first code of a call that failed.
    code: Cell<c_int>,
}

/// Elements as the host has them.
struct Spread {
    memory: Vec<u128>,
    /// Bytes from the start of `memory` to the address of the first element.
    first: usize,
}

impl HostOperator {
    /// Sets `right = left op right`.
    fn combine(&self, left: &mut [u8], right: &mut [u8]) {
        let (size, whole) = (self.flat.size.max(1), CALL_MAX * self.flat.size.max(1));
        for (left, right) in left.chunks_mut(whole).zip(right.chunks_mut(whole)) {
            let count = (right.len() / size) as c_int;
            if self.flat.is_contiguous() {
                self.call(left.as_mut_ptr(), right.as_mut_ptr(), count);
            } else {
                let mut own = self.spread(left, count as usize);
                let mut result = self.spread(right, count as usize);
                self.call(own.first_element(), result.first_element(), count);
                self.gather(&result, right, count as usize);
            }
        }
    }

    fn call(&self, left: *mut u8, right: *mut u8, count: c_int) {
        // The program's function may call MPI.
        let code = without_lock(|| {
            // SAFETY: both have as many elements as the host's type describes.
            unsafe { host::Reduce_local(left.cast(), right.cast(), count, self.datatype, self.op) }
        });
        if self.code.get() == 0 {
            self.code.set(code);
        }
    }

    /// Returns the places of the bytes of elements behind each other.
    fn places(&self, first: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
        self.flat.addresses(first, count)
    }

    /// Returns elements as the host has them, from their bytes in a row.
    fn spread(&self, mut bytes: &[u8], count: usize) -> Spread {
        // Some extents and offsets are negative.
        let middle = isize::MAX as usize;
        let low = self.places(middle, count).map(|(at, _)| at).min().unwrap_or(middle);
        let high = self.places(middle, count).map(|(at, length)| at + length).max();
        let low = low.min(middle) & !(align_of::<u128>() - 1);
        let length = high.unwrap_or(low).max(middle) - low;
        let mut memory = vec![0_u128; length.div_ceil(size_of::<u128>()) + 1];
        let first = (middle - low).next_multiple_of(align_of::<u128>());
        let all: &mut [u8] = cast_slice_mut(&mut memory);
        for (at, length) in self.places(first, count) {
            let (piece, behind) = bytes.split_at(length);
            all[at..at + length].copy_from_slice(piece);
            bytes = behind;
        }
        Spread { memory, first }
    }

    /// Puts the bytes of elements in a row again.
    fn gather(&self, from: &Spread, mut bytes: &mut [u8], count: usize) {
        let all: &[u8] = cast_slice(&from.memory);
        for (at, length) in self.places(from.first, count) {
            let (piece, behind) = bytes.split_at_mut(length);
            piece.copy_from_slice(&all[at..at + length]);
            bytes = behind;
        }
    }
}

impl Spread {
    fn first_element(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast::<u8>().wrapping_add(self.first)
    }
}

impl Operator for HostOperator {
    fn element(&self) -> usize {
        self.flat.size.max(1)
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn with_higher(&self, mine: &mut [u8], theirs: &mut [u8]) {
        self.combine(mine, theirs);
        mine.copy_from_slice(theirs);
    }

    fn with_lower(&self, mine: &mut [u8], theirs: &mut [u8]) {
        self.combine(theirs, mine);
    }
}
