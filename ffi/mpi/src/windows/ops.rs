//! The predefined operations.

use std::sync::OnceLock;

use strait::Op;

use crate::abi::{Handle, windows as abi};

/// What an accumulate does to a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    /// An operation that Strait has for integers, and partly for other numbers.
    Known(Op),
    /// The larger or the smaller number of a pair, with its place.
    Location,
}

/// The order of `abi::windows::ops`.
const ORDER: [Operation; 14] = [
    Operation::Known(Op::Max),
    Operation::Known(Op::Min),
    Operation::Known(Op::Sum),
    Operation::Known(Op::Prod),
    Operation::Known(Op::And),
    Operation::Known(Op::BitAnd),
    Operation::Known(Op::Or),
    Operation::Known(Op::BitOr),
    Operation::Known(Op::Xor),
    Operation::Known(Op::BitXor),
    Operation::Location,
    Operation::Location,
    Operation::Known(Op::Replace),
    Operation::Known(Op::NoOp),
];

/// Returns the operation of a handle, if it is predefined.
#[inline]
pub(crate) fn operation(op: Handle) -> Option<Operation> {
    static HANDLES: OnceLock<[Handle; 14]> = OnceLock::new();
    let handles = HANDLES.get_or_init(abi::ops);
    let number = handles.iter().position(|known| *known == op)?;
    Some(ORDER[number])
}
