//! The basic type of a datatype: the predefined one that it is made of.

use core::ffi::c_int;

use super::contents::{contents, free};
use crate::abi::{self, Handle};

/// A predefined type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    pub(crate) handle: Handle,
    /// How MPI makes it: it has a name, or the parameters of a Fortran kind.
    pub(crate) combiner: c_int,
}

/// Returns the first predefined type in the type map. An accumulate's types have no other
/// (MPI-5.0 §12.3.4).
///
/// # Errors
///
/// The code of the host's function that failed, which has called the error handler.
pub(crate) fn leaf(datatype: Handle) -> Result<Leaf, c_int> {
    let contents = contents(datatype)?;
    match contents.combiner {
        combiner @ (abi::COMBINER_NAMED
        | abi::COMBINER_F90_REAL
        | abi::COMBINER_F90_COMPLEX
        | abi::COMBINER_F90_INTEGER) => Ok(Leaf { handle: datatype, combiner }),
        _ => {
            let found = contents.types.first().map_or(Err(abi::ERR_INTERN), |first| leaf(*first));
            contents.types.iter().for_each(|datatype| free(*datatype));
            found
        }
    }
}
