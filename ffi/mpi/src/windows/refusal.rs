//! The reason why a call of a window did nothing, or failed.

use core::ffi::c_int;

use strait::{Error, WindowError};

use crate::front::pack::ElementsRefused;

/// The reason why a call did nothing, or failed.
#[derive(Debug)]
pub(crate) enum WindowRefusal {
    /// An error of this class.
    Class(c_int),
    /// A function of the host failed, and has reported it.
    Reported(c_int),
    Failed(Error),
}

impl From<Error> for WindowRefusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<WindowError> for WindowRefusal {
    fn from(error: WindowError) -> Self {
        Self::Failed(error.into())
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
