//! The predefined operations.

use std::sync::OnceLock;

use strait::Op;

use crate::abi::{Handle, windows as abi};

/// What an accumulate does to a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PredefinedOp {
    /// An operation that Strait has for integers, and partly for other numbers.
    Known(Op),
    /// The larger or the smaller number of a pair, with its place.
    Location,
}

/// The order of `abi::windows::ops`.
const ORDER: [PredefinedOp; 14] = [
    PredefinedOp::Known(Op::Max),
    PredefinedOp::Known(Op::Min),
    PredefinedOp::Known(Op::Sum),
    PredefinedOp::Known(Op::Prod),
    PredefinedOp::Known(Op::And),
    PredefinedOp::Known(Op::BitAnd),
    PredefinedOp::Known(Op::Or),
    PredefinedOp::Known(Op::BitOr),
    PredefinedOp::Known(Op::Xor),
    PredefinedOp::Known(Op::BitXor),
    PredefinedOp::Location,
    PredefinedOp::Location,
    PredefinedOp::Known(Op::Replace),
    PredefinedOp::Known(Op::NoOp),
];

/// Returns the operation of a handle, if it is predefined.
#[inline]
pub(crate) fn operation(op: Handle) -> Option<PredefinedOp> {
    static HANDLES: OnceLock<[Handle; 14]> = OnceLock::new();
    let handles = HANDLES.get_or_init(abi::ops);
    let number = handles.iter().position(|known| *known == op)?;
    Some(ORDER[number])
}
