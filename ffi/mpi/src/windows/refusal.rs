//! The reason why a call of a window did nothing, or failed.

use core::ffi::c_int;

use strait::{Error, WindowError};

use crate::abi;
use crate::front::pack::ElementsRefused;
use crate::front::types::TypeRefused;

/// The reason why a call did nothing, or failed.
#[derive(Debug)]
pub(crate) enum WindowRefusal {
    /// An error of this class.
    Class(c_int),
    /// A function of the host failed, and has reported it.
    Reported(c_int),
    /// In a box, so that results without an error are small.
    Failed(Box<Error>),
}

impl WindowRefusal {
    /// Returns whether the memory was not aligned for the operation.
    pub(super) fn is_of_alignment(&self) -> bool {
        let Self::Failed(error) = self else { return false };
        matches!(**error, Error::Window(WindowError::Alignment { .. }))
    }
}

impl From<Error> for WindowRefusal {
    #[cold]
    fn from(error: Error) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl From<TypeRefused> for WindowRefusal {
    fn from(refused: TypeRefused) -> Self {
        match refused {
            TypeRefused::Argument => Self::Class(abi::ERR_TYPE),
            TypeRefused::Reported(code) => Self::Reported(code),
        }
    }
}

impl From<WindowError> for WindowRefusal {
    fn from(error: WindowError) -> Self {
        Error::from(error).into()
    }
}

impl From<ElementsRefused> for WindowRefusal {
    fn from(refused: ElementsRefused) -> Self {
        match refused {
            ElementsRefused::Argument(class) => Self::Class(class),
            ElementsRefused::Reported(code) => Self::Reported(code),
        }
    }
}
