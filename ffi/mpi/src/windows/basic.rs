//! The kinds of numbers that accumulates change.

use core::cell::Cell;
use core::cell::RefCell;
use core::ffi::c_int;
use std::collections::HashMap;

use strait::Op;

use super::host;
use super::refusal::WindowRefusal;
use crate::abi::{self, Handle};
use crate::front::state::Front;
use crate::front::types::basic::{Leaf, leaf};

/// A kind of number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Kind {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// No number that Strait knows: the host combines it under a lock.
    #[default]
    Other,
}

/// The predefined operations that reductions have for a type (MPI-5.0 §6.9.2).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Reductions {
    /// As many as Strait has for the kind of number.
    #[default]
    OfKind,
    /// All but the logical ones: integers of Fortran.
    NotLogical,
    Bitwise,
    None,
}

impl Reductions {
    /// Returns whether an operation is among them, if Strait has it for the kind of number.
    pub(crate) const fn has(self, op: Op) -> bool {
        match self {
            Self::OfKind => true,
            Self::NotLogical => !matches!(op, Op::And | Op::Or | Op::Xor),
            Self::Bitwise => matches!(op, Op::BitAnd | Op::BitOr | Op::BitXor),
            Self::None => false,
        }
    }
}

/// A predefined type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BasicType {
    pub(crate) handle: Handle,
    pub(crate) kind: Kind,
    pub(crate) reductions: Reductions,
    /// Whether the type may be compared and swapped (MPI-5.0 §12.3.4).
    pub(crate) may_swap: bool,
    /// Bytes of data of an element.
    pub(crate) size: usize,
}

/// Number of places of the small table: a power of two.
const PLACES: usize = 32;

/// Predefined types that were used before.
pub(crate) struct BasicCache {
    places: [Cell<BasicType>; PLACES],
    all: RefCell<HashMap<Handle, BasicType>>,
}

impl Default for BasicCache {
    fn default() -> Self {
        Self { places: core::array::from_fn(|_| Cell::default()), all: RefCell::default() }
    }
}

#[allow(clippy::unnecessary_cast, reason = "a handle is a number of another width in MPICH")]
#[inline(always)]
const fn place(handle: Handle) -> usize {
    let bits = handle as usize;
    (bits ^ bits >> 6 ^ bits >> 12) % PLACES
}

impl BasicCache {
    /// Returns the basic type of a datatype that the small table has.
    #[inline(always)]
    pub(crate) fn known(&self, datatype: Handle) -> Option<BasicType> {
        let found = self.places[place(datatype)].get();
        (found.handle == datatype && found.size > 0).then_some(found)
    }

    /// Returns the basic type of a datatype.
    #[inline(always)]
    pub(crate) fn find(&self, front: &Front, datatype: Handle) -> Result<BasicType, WindowRefusal> {
        match self.known(datatype) {
            Some(found) => Ok(found),
            None => self.find_elsewhere(front, datatype),
        }
    }

    #[inline(never)]
    fn find_elsewhere(&self, front: &Front, datatype: Handle) -> Result<BasicType, WindowRefusal> {
        is_typed(datatype)?;
        if let Some(found) = self.all.borrow().get(&datatype) {
            self.places[place(datatype)].set(*found);
            return Ok(*found);
        }
        let Leaf { handle, combiner } = leaf(datatype).map_err(WindowRefusal::Reported)?;
        if handle != datatype
            && let Some(found) = self.all.borrow().get(&handle)
        {
            return Ok(*found);
        }
        let size = front.types.find(handle)?.size;
        let name = name(handle);
        let (kind, reductions) = (kind(&name, combiner, size), reductions(&name));
        let may_swap = may_swap(&name, combiner, kind);
        let found = BasicType { handle, kind, reductions, may_swap, size };
        self.all.borrow_mut().insert(handle, found);
        Ok(found)
    }
}

/// Returns whether the program passes a buffer of no type.
pub(super) fn is_typed(datatype: Handle) -> Result<(), WindowRefusal> {
    let is_none = datatype == abi::datatype_null();
    if is_none { Err(WindowRefusal::Class(abi::ERR_TYPE)) } else { Ok(()) }
}

/// Returns the kind of a predefined type.
fn kind(name: &str, combiner: c_int, size: usize) -> Kind {
    match combiner {
        abi::COMBINER_F90_INTEGER => signed(size),
        abi::COMBINER_F90_REAL => float(size),
        abi::COMBINER_F90_COMPLEX => Kind::Other,
        _ => of_name(name, size),
    }
}

/// Returns what reductions have for a predefined type.
fn reductions(name: &str) -> Reductions {
    match name.strip_prefix("MPI_").unwrap_or_default() {
        "BYTE" => Reductions::Bitwise,
        "PACKED" | "WCHAR" => Reductions::None,
        name if name.starts_with("INTEGER") => Reductions::NotLogical,
        _ => Reductions::OfKind,
    }
}

/// Returns whether a type is one of integers, of logical values or of bytes.
fn may_swap(name: &str, combiner: c_int, kind: Kind) -> bool {
    match kind {
        Kind::F32 | Kind::F64 => false,
        Kind::Other => {
            let is_known = |name: &str| {
                ["INTEGER", "LOGICAL"].into_iter().any(|kind| name.starts_with(kind))
                    || name.ends_with("BOOL")
            };
            combiner == abi::COMBINER_F90_INTEGER || name.strip_prefix("MPI_").is_some_and(is_known)
        }
        _ => true,
    }
}

/// Returns the name of a type. Those of predefined types are the standard's.
fn name(handle: Handle) -> String {
    let (mut name, mut length) = ([0_u8; 512], 0);
    // SAFETY: no host's names are longer, and the results have places.
    let code = unsafe { host::Type_get_name(handle, name.as_mut_ptr().cast(), &raw mut length) };
    let name = name.get(..length.max(0) as usize).filter(|_| code == 0).unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

fn of_name(name: &str, size: usize) -> Kind {
    match name.strip_prefix("MPI_").unwrap_or_default() {
        "SIGNED_CHAR" | "CHAR" | "SHORT" | "INT" | "LONG" | "LONG_LONG" | "LONG_LONG_INT"
        | "INT8_T" | "INT16_T" | "INT32_T" | "INT64_T" | "AINT" | "OFFSET" | "COUNT" | "WCHAR"
        | "CHARACTER" | "INTEGER" | "INTEGER1" | "INTEGER2" | "INTEGER4" | "INTEGER8" => {
            signed(size)
        }
        "BYTE" | "PACKED" | "UNSIGNED_CHAR" | "UNSIGNED_SHORT" | "UNSIGNED" | "UNSIGNED_INT"
        | "UNSIGNED_LONG" | "UNSIGNED_LONG_LONG" | "UINT8_T" | "UINT16_T" | "UINT32_T"
        | "UINT64_T" => unsigned(size),
        "FLOAT" | "DOUBLE" | "REAL" | "DOUBLE_PRECISION" | "REAL4" | "REAL8" => float(size),
        _ => Kind::Other,
    }
}

const fn signed(size: usize) -> Kind {
    match size {
        1 => Kind::I8,
        2 => Kind::I16,
        4 => Kind::I32,
        8 => Kind::I64,
        _ => Kind::Other,
    }
}

const fn unsigned(size: usize) -> Kind {
    match size {
        1 => Kind::U8,
        2 => Kind::U16,
        4 => Kind::U32,
        8 => Kind::U64,
        _ => Kind::Other,
    }
}

const fn float(size: usize) -> Kind {
    match size {
        4 => Kind::F32,
        8 => Kind::F64,
        _ => Kind::Other,
    }
}

/// Calls a function with the type of a kind of number, or evaluates the last argument.
macro_rules! by_kind {
    ($kind:expr, $function:ident($($argument:expr),* $(,)?), $other:expr) => {
        match $kind {
            Kind::I8 => $function::<i8>($($argument),*),
            Kind::U8 => $function::<u8>($($argument),*),
            Kind::I16 => $function::<i16>($($argument),*),
            Kind::U16 => $function::<u16>($($argument),*),
            Kind::I32 => $function::<i32>($($argument),*),
            Kind::U32 => $function::<u32>($($argument),*),
            Kind::I64 => $function::<i64>($($argument),*),
            Kind::U64 => $function::<u64>($($argument),*),
            Kind::F32 => $function::<f32>($($argument),*),
            Kind::F64 => $function::<f64>($($argument),*),
            Kind::Other => $other,
        }
    };
}
pub(crate) use by_kind;

/// Calls `$function` for a number that is added as one of this kind is, if most programs add such
/// numbers: integers of 4 and 8 bytes, with or without a sign, and `double`. `None` for others.
macro_rules! by_addend {
    ($kind:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $kind {
            Kind::I32 | Kind::U32 => $function::<u32>($($argument),*),
            Kind::I64 | Kind::U64 => $function::<u64>($($argument),*),
            Kind::F64 => $function::<f64>($($argument),*),
            _ => None,
        }
    };
}
pub(crate) use by_addend;
