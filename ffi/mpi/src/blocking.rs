//! Functions of the host's that wait for peers, and that start what goes on.
//!
//! Operations of ours make progress while the program waits in the first kind ([`inside_host`]).
//! Every rank calls the same function of the host's, whatever it has open, so that they match.

use core::ffi::c_int;

use super::complete::count_host_start;
use super::helper::inside_host;
use super::libraries::HostFunction;

/// Defines functions that pass their arguments on, as many as there are words.
///
/// Each argument of these functions is a number or an address, which has a register or a word of
/// the stack of its own. So the types of the arguments need not be known.
macro_rules! pass_on {
    ($($how:ident ($($argument:ident)*): $($name:ident = $host:literal),* $(,)?;)*) => {
        $(pass_on!(@each $how ($($argument)*) $($name = $host),*);)*
    };
    (@each $how:ident $arguments:tt $($name:ident = $host:literal),*) => {
        $(pass_on!(@one $how $arguments $name $host);)*
    };
    (@one $how:ident ($($argument:ident)*) $name:ident $host:literal) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        unsafe extern "C" fn $name($($argument: usize),*) -> c_int {
            static HOST: HostFunction = HostFunction::new($host);
            // SAFETY: the function takes as many words, and the program has passed them.
            unsafe {
                let function: unsafe extern "C" fn($($argument: usize),*) -> c_int =
                    core::mem::transmute(HOST.address());
                $how(|| function($($argument),*))
            }
        }
    };
}

/// Calls a function that waits for peers.
fn wait(call: impl FnOnce() -> c_int) -> c_int {
    let _helper = inside_host();
    call()
}

/// Calls a function that starts an operation.
fn start(call: impl FnOnce() -> c_int) -> c_int {
    count_host_start(1);
    call()
}

pass_on! {
    wait (a): MPI_File_close = c"PMPI_File_close";
    wait (a b): MPI_File_sync = c"PMPI_File_sync", MPI_File_set_size = c"PMPI_File_set_size",
        MPI_File_preallocate = c"PMPI_File_preallocate";
    wait (a b c d e): MPI_File_open = c"PMPI_File_open", MPI_Comm_accept = c"PMPI_Comm_accept",
        MPI_Comm_connect = c"PMPI_Comm_connect",
        MPI_File_write_all = c"PMPI_File_write_all", MPI_File_read_all = c"PMPI_File_read_all";
    wait (a b c d e f): MPI_Intercomm_create = c"PMPI_Intercomm_create",
        MPI_File_set_view = c"PMPI_File_set_view",
        MPI_File_write_at_all = c"PMPI_File_write_at_all",
        MPI_File_read_at_all = c"PMPI_File_read_at_all";
    wait (a b c d e f g h): MPI_Comm_spawn = c"PMPI_Comm_spawn";
    wait (a b c d e f g h i): MPI_Comm_spawn_multiple = c"PMPI_Comm_spawn_multiple";

    start (a b): MPI_Ibarrier = c"PMPI_Ibarrier";
    start (a b c): MPI_Comm_idup = c"PMPI_Comm_idup";
    start (a b c d): MPI_Comm_idup_with_info = c"PMPI_Comm_idup_with_info";
    start (a b c d e f): MPI_Ibcast = c"PMPI_Ibcast", MPI_Ibcast_c = c"PMPI_Ibcast_c";
    start (a b c d e f g): MPI_Iallreduce = c"PMPI_Iallreduce",
        MPI_Iallreduce_c = c"PMPI_Iallreduce_c", MPI_Iscan = c"PMPI_Iscan",
        MPI_Iscan_c = c"PMPI_Iscan_c", MPI_Iexscan = c"PMPI_Iexscan",
        MPI_Iexscan_c = c"PMPI_Iexscan_c", MPI_Ireduce_scatter = c"PMPI_Ireduce_scatter",
        MPI_Ireduce_scatter_c = c"PMPI_Ireduce_scatter_c",
        MPI_Ireduce_scatter_block = c"PMPI_Ireduce_scatter_block",
        MPI_Ireduce_scatter_block_c = c"PMPI_Ireduce_scatter_block_c";
    start (a b c d e f g h): MPI_Ireduce = c"PMPI_Ireduce", MPI_Ireduce_c = c"PMPI_Ireduce_c",
        MPI_Iallgather = c"PMPI_Iallgather", MPI_Iallgather_c = c"PMPI_Iallgather_c",
        MPI_Ialltoall = c"PMPI_Ialltoall", MPI_Ialltoall_c = c"PMPI_Ialltoall_c",
        MPI_Ineighbor_allgather = c"PMPI_Ineighbor_allgather",
        MPI_Ineighbor_alltoall = c"PMPI_Ineighbor_alltoall";
    start (a b c d e f g h i): MPI_Igather = c"PMPI_Igather", MPI_Igather_c = c"PMPI_Igather_c",
        MPI_Iscatter = c"PMPI_Iscatter", MPI_Iscatter_c = c"PMPI_Iscatter_c",
        MPI_Iallgatherv = c"PMPI_Iallgatherv", MPI_Iallgatherv_c = c"PMPI_Iallgatherv_c",
        MPI_Ineighbor_allgatherv = c"PMPI_Ineighbor_allgatherv";
    start (a b c d e f g h i j): MPI_Igatherv = c"PMPI_Igatherv",
        MPI_Igatherv_c = c"PMPI_Igatherv_c", MPI_Iscatterv = c"PMPI_Iscatterv",
        MPI_Iscatterv_c = c"PMPI_Iscatterv_c", MPI_Ialltoallv = c"PMPI_Ialltoallv",
        MPI_Ialltoallv_c = c"PMPI_Ialltoallv_c", MPI_Ialltoallw = c"PMPI_Ialltoallw",
        MPI_Ialltoallw_c = c"PMPI_Ialltoallw_c",
        MPI_Ineighbor_alltoallv = c"PMPI_Ineighbor_alltoallv",
        MPI_Ineighbor_alltoallw = c"PMPI_Ineighbor_alltoallw";
}
