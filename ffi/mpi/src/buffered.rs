//! The end of buffered sends (MPI-5.0 §3.6).
//!
//! Each buffered send of ours has a copy of its own, so the program's buffer serves the host alone.
//! The program gets it back when no buffered send is open any more, as if it had been used.

use core::ffi::c_int;

use super::helper::inside_host;
use super::libraries::HostFunction;
use super::progress;

/// Defines functions that wait until buffered sends have gone, and pass their arguments on.
macro_rules! after_sends {
    ($($name:ident($($argument:ident),*) = $host:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: usize),*) -> c_int {
            static HOST: HostFunction = HostFunction::new($host);
            progress::end_orphans();
            // The host may wait for buffered sends of its own.
            let _helper = inside_host();
            // SAFETY: the function takes as many words, and the program has passed them.
            unsafe {
                let function: unsafe extern "C" fn($($argument: usize),*) -> c_int =
                    core::mem::transmute(HOST.address());
                function($($argument),*)
            }
        }
    )*};
}

after_sends! {
    MPI_Buffer_detach(buffer, size) = c"PMPI_Buffer_detach";
    MPI_Buffer_detach_c(buffer, size) = c"PMPI_Buffer_detach_c";
    MPI_Comm_detach_buffer(comm, buffer, size) = c"PMPI_Comm_detach_buffer";
    MPI_Comm_detach_buffer_c(comm, buffer, size) = c"PMPI_Comm_detach_buffer_c";
    MPI_Session_detach_buffer(session, buffer, size) = c"PMPI_Session_detach_buffer";
    MPI_Session_detach_buffer_c(session, buffer, size) = c"PMPI_Session_detach_buffer_c";
    MPI_Buffer_flush() = c"PMPI_Buffer_flush";
    MPI_Comm_flush_buffer(comm) = c"PMPI_Comm_flush_buffer";
    MPI_Session_flush_buffer(session) = c"PMPI_Session_flush_buffer";
}
