//! The operations of reductions: Strait's own on the numbers that it knows, and the host's on all
//! other types, also those of the program.

use core::cell::Cell;
use core::ffi::c_int;

use strait::raw::{Operator, TypedOperator, in_pieces};
use strait::{Number, Op};

use super::CollectiveRefusal;
use crate::abi::{self, Handle};
use crate::front::combine_packed::combine_packed;
use crate::front::flat::FlatType;
use crate::front::shared::Shared;
use crate::front::state::Front;
use crate::front::windows::{Kind, PredefinedOp, by_kind, operation, without_lock};

/// Alignment of vectors of numbers that Strait combines.
pub(super) const ALIGN: usize = align_of::<u64>();

/// Calls `act` with the operation on elements of a type.
pub(super) fn with_operator(
    front: &Front,
    (op, datatype): (Handle, Handle),
    mut act: impl FnMut(&dyn Operator) -> Result<(), CollectiveRefusal>,
) -> Result<(), CollectiveRefusal> {
    if op == abi::op_null() {
        return Err(CollectiveRefusal::Argument);
    }
    let basic =
        front.windows.basics.find(front, datatype).map_err(|_| CollectiveRefusal::Argument)?;
    if let Some(PredefinedOp::Known(known)) = operation(op)
        && basic.handle == datatype
    {
        if !basic.reductions.has(known) {
            return Err(CollectiveRefusal::Argument);
        }
        if let Some(done) = by_kind!(basic.kind, by_number(known, &mut act), None) {
            return done;
        }
    }
    let flat = front.types.find(datatype)?;
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

impl HostOperator {
    /// Sets `right = left op right`.
    fn combine(&self, left: &mut [u8], right: &mut [u8]) {
        // The program's function may call MPI.
        let code = without_lock(|| combine_packed(&self.flat, self.datatype, self.op, left, right));
        if self.code.get() == 0 {
            self.code.set(code);
        }
    }
}

impl Operator for HostOperator {
    fn element(&self) -> usize {
        self.flat.size.max(1)
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn with_higher(&self, mine: &mut [u8], theirs: &[u8]) {
        in_pieces(self.element(), mine, theirs, |mine, copy| {
            self.combine(mine, copy);
            mine.copy_from_slice(copy);
        });
    }

    fn with_lower(&self, mine: &mut [u8], theirs: &[u8]) {
        // The program's function may change its left operand, which may be the program's vector.
        in_pieces(self.element(), mine, theirs, |mine, copy| self.combine(copy, mine));
    }
}
