//! The border to C: types of parameters that carry the promises of `strait.h`.
//!
//! An exported function takes its parameters as these types. Each has the layout of the parameter
//! in C, and safe Rust has no way to make one. So each value comes from C, and the promise of
//! `strait.h` about the parameter is the invariant of its type:
//!
//! | type | promise of the caller in C |
//! |---|---|
//! | [`HandleArg`] | any number; no other thread uses the world that it leads to during the call |
//! | [`HandlePlaceArg`] | null, or the address of a [`HandleArg`] |
//! | [`OutArg`] | null, or an address where the call may write one value |
//! | [`ArrayArg`] | null, or as many values as the [`CountArg`] of the same call says |
//! | [`DataArg`], [`BufferArg`] | null, or that many bytes, which only the call reads or writes |
//! | [`PartsArg`] | null, or that many buffers, which only the call reads or writes |
//! | [`LastingArg`], [`LastingPartsArg`] | the same, until the started operation ends |
//! | [`StructInArg`], [`StructOutArg`] | null, or a structure that begins with its size |
//! | [`TypeArg`] | the type of the numbers at [`DataArg`] and [`BufferArg`] of the same call |
//!
//! Their methods check what can be checked (null, lengths, alignment, handles) and are safe.

mod collective;
mod handle;
mod memory;
mod numbers;
mod operation;
mod place;
mod structure;

pub(crate) use collective::CReduction;
pub(crate) use handle::{HandleArg, HandlePlaceArg};
pub(crate) use memory::{BufferArg, DataArg, LastingArg, LastingPartsArg, PartsArg};
pub(crate) use numbers::{ActOnIntegers, ActOnNumbers, TypeArg, Typed};
pub(crate) use operation::{OperationMemory, SendKind};
pub(crate) use place::{ArrayArg, CountArg, OutArg, no_place};
pub(crate) use structure::{StructInArg, StructOutArg, Structure, read_structure};
