//! Handles of our requests and messages as numbers, for Fortran (MPI-5.0 §19.3.4) and other
//! languages (§20.4).

use core::ffi::c_int;

use super::libraries::HostFunction;
use crate::abi::{self, Handle};

/// Returns the slot of a number, if the request is ours.
fn slot(number: c_int) -> Option<u32> {
    let slot = u32::try_from(number.checked_sub(abi::FORTRAN_BASE)?).ok()?;
    (slot < abi::REQUESTS).then_some(slot)
}

/// Defines functions that convert between handles and numbers.
macro_rules! conversions {
    ($($to:ident = $to_host:literal, $from:ident = $from_host:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $to(handle: Handle) -> c_int {
            static HOST: HostFunction = HostFunction::new($to_host);
            if let Some(slot) = abi::request_slot(handle) {
                return abi::FORTRAN_BASE + slot as c_int;
            }
            // SAFETY: the host's function has this type.
            unsafe {
                let function: unsafe extern "C" fn(Handle) -> c_int =
                    core::mem::transmute(HOST.address());
                function(handle)
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $from(number: c_int) -> Handle {
            static HOST: HostFunction = HostFunction::new($from_host);
            if let Some(slot) = slot(number) {
                return abi::request_handle(slot);
            }
            // SAFETY: the host's function has this type.
            unsafe {
                let function: unsafe extern "C" fn(c_int) -> Handle =
                    core::mem::transmute(HOST.address());
                function(number)
            }
        }
    )*};
}

conversions! {
    MPI_Request_c2f = c"PMPI_Request_c2f", MPI_Request_f2c = c"PMPI_Request_f2c";
    MPI_Message_c2f = c"PMPI_Message_c2f", MPI_Message_f2c = c"PMPI_Message_f2c";
    MPI_Request_toint = c"PMPI_Request_toint", MPI_Request_fromint = c"PMPI_Request_fromint";
    MPI_Message_toint = c"PMPI_Message_toint", MPI_Message_fromint = c"PMPI_Message_fromint";
}
