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
    wait (a): MPI_File_close = c"PMPI_File_close",
        MPI_Session_finalize = c"PMPI_Session_finalize";
    wait (a b): MPI_File_sync = c"PMPI_File_sync",
        MPI_File_set_size = c"PMPI_File_set_size",
        MPI_File_preallocate = c"PMPI_File_preallocate",
        MPI_File_set_atomicity = c"PMPI_File_set_atomicity",
        MPI_File_set_info = c"PMPI_File_set_info",
        MPI_Comm_set_info = c"PMPI_Comm_set_info",
        MPI_Win_set_info = c"PMPI_Win_set_info",
        MPI_Comm_join = c"PMPI_Comm_join";
    wait (a b c): MPI_File_seek_shared = c"PMPI_File_seek_shared",
        MPI_File_write_all_end = c"PMPI_File_write_all_end",
        MPI_File_read_all_end = c"PMPI_File_read_all_end",
        MPI_File_write_at_all_end = c"PMPI_File_write_at_all_end",
        MPI_File_read_at_all_end = c"PMPI_File_read_at_all_end",
        MPI_File_write_ordered_end = c"PMPI_File_write_ordered_end",
        MPI_File_read_ordered_end = c"PMPI_File_read_ordered_end",
        MPI_Barrier_init = c"PMPI_Barrier_init";
    wait (a b c d): MPI_File_write_all_begin = c"PMPI_File_write_all_begin",
        MPI_File_write_all_begin_c = c"PMPI_File_write_all_begin_c",
        MPI_File_read_all_begin = c"PMPI_File_read_all_begin",
        MPI_File_read_all_begin_c = c"PMPI_File_read_all_begin_c",
        MPI_File_write_ordered_begin = c"PMPI_File_write_ordered_begin",
        MPI_File_write_ordered_begin_c = c"PMPI_File_write_ordered_begin_c",
        MPI_File_read_ordered_begin = c"PMPI_File_read_ordered_begin",
        MPI_File_read_ordered_begin_c = c"PMPI_File_read_ordered_begin_c";
    wait (a b c d e): MPI_File_open = c"PMPI_File_open",
        MPI_Comm_accept = c"PMPI_Comm_accept",
        MPI_Comm_connect = c"PMPI_Comm_connect",
        MPI_File_write_all = c"PMPI_File_write_all",
        MPI_File_write_all_c = c"PMPI_File_write_all_c",
        MPI_File_read_all = c"PMPI_File_read_all",
        MPI_File_read_all_c = c"PMPI_File_read_all_c",
        MPI_File_write_ordered = c"PMPI_File_write_ordered",
        MPI_File_write_ordered_c = c"PMPI_File_write_ordered_c",
        MPI_File_read_ordered = c"PMPI_File_read_ordered",
        MPI_File_read_ordered_c = c"PMPI_File_read_ordered_c",
        MPI_File_write_at_all_begin = c"PMPI_File_write_at_all_begin",
        MPI_File_write_at_all_begin_c = c"PMPI_File_write_at_all_begin_c",
        MPI_File_read_at_all_begin = c"PMPI_File_read_at_all_begin",
        MPI_File_read_at_all_begin_c = c"PMPI_File_read_at_all_begin_c";
    wait (a b c d e f): MPI_Intercomm_create = c"PMPI_Intercomm_create",
        MPI_File_set_view = c"PMPI_File_set_view",
        MPI_File_write_at_all = c"PMPI_File_write_at_all",
        MPI_File_write_at_all_c = c"PMPI_File_write_at_all_c",
        MPI_File_read_at_all = c"PMPI_File_read_at_all",
        MPI_File_read_at_all_c = c"PMPI_File_read_at_all_c";
    wait (a b c d e f g): MPI_Bcast_init = c"PMPI_Bcast_init",
        MPI_Bcast_init_c = c"PMPI_Bcast_init_c";
    wait (a b c d e f g h): MPI_Comm_spawn = c"PMPI_Comm_spawn",
        MPI_Intercomm_create_from_groups = c"PMPI_Intercomm_create_from_groups",
        MPI_Allreduce_init = c"PMPI_Allreduce_init",
        MPI_Allreduce_init_c = c"PMPI_Allreduce_init_c",
        MPI_Scan_init = c"PMPI_Scan_init",
        MPI_Scan_init_c = c"PMPI_Scan_init_c",
        MPI_Exscan_init = c"PMPI_Exscan_init",
        MPI_Exscan_init_c = c"PMPI_Exscan_init_c",
        MPI_Reduce_scatter_init = c"PMPI_Reduce_scatter_init",
        MPI_Reduce_scatter_init_c = c"PMPI_Reduce_scatter_init_c",
        MPI_Reduce_scatter_block_init = c"PMPI_Reduce_scatter_block_init",
        MPI_Reduce_scatter_block_init_c = c"PMPI_Reduce_scatter_block_init_c";
    wait (a b c d e f g h i): MPI_Comm_spawn_multiple = c"PMPI_Comm_spawn_multiple",
        MPI_Reduce_init = c"PMPI_Reduce_init",
        MPI_Reduce_init_c = c"PMPI_Reduce_init_c",
        MPI_Allgather_init = c"PMPI_Allgather_init",
        MPI_Allgather_init_c = c"PMPI_Allgather_init_c",
        MPI_Alltoall_init = c"PMPI_Alltoall_init",
        MPI_Alltoall_init_c = c"PMPI_Alltoall_init_c",
        MPI_Neighbor_allgather_init = c"PMPI_Neighbor_allgather_init",
        MPI_Neighbor_allgather_init_c = c"PMPI_Neighbor_allgather_init_c",
        MPI_Neighbor_alltoall_init = c"PMPI_Neighbor_alltoall_init",
        MPI_Neighbor_alltoall_init_c = c"PMPI_Neighbor_alltoall_init_c";
    wait (a b c d e f g h i j): MPI_Gather_init = c"PMPI_Gather_init",
        MPI_Gather_init_c = c"PMPI_Gather_init_c",
        MPI_Scatter_init = c"PMPI_Scatter_init",
        MPI_Scatter_init_c = c"PMPI_Scatter_init_c",
        MPI_Allgatherv_init = c"PMPI_Allgatherv_init",
        MPI_Allgatherv_init_c = c"PMPI_Allgatherv_init_c",
        MPI_Neighbor_allgatherv_init = c"PMPI_Neighbor_allgatherv_init",
        MPI_Neighbor_allgatherv_init_c = c"PMPI_Neighbor_allgatherv_init_c";
    wait (a b c d e f g h i j k): MPI_Gatherv_init = c"PMPI_Gatherv_init",
        MPI_Gatherv_init_c = c"PMPI_Gatherv_init_c",
        MPI_Scatterv_init = c"PMPI_Scatterv_init",
        MPI_Scatterv_init_c = c"PMPI_Scatterv_init_c",
        MPI_Alltoallv_init = c"PMPI_Alltoallv_init",
        MPI_Alltoallv_init_c = c"PMPI_Alltoallv_init_c",
        MPI_Alltoallw_init = c"PMPI_Alltoallw_init",
        MPI_Alltoallw_init_c = c"PMPI_Alltoallw_init_c",
        MPI_Neighbor_alltoallv_init = c"PMPI_Neighbor_alltoallv_init",
        MPI_Neighbor_alltoallv_init_c = c"PMPI_Neighbor_alltoallv_init_c",
        MPI_Neighbor_alltoallw_init = c"PMPI_Neighbor_alltoallw_init",
        MPI_Neighbor_alltoallw_init_c = c"PMPI_Neighbor_alltoallw_init_c";

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
        MPI_Ineighbor_allgather_c = c"PMPI_Ineighbor_allgather_c",
        MPI_Ineighbor_alltoall = c"PMPI_Ineighbor_alltoall",
        MPI_Ineighbor_alltoall_c = c"PMPI_Ineighbor_alltoall_c";
    start (a b c d e f g h i): MPI_Igather = c"PMPI_Igather", MPI_Igather_c = c"PMPI_Igather_c",
        MPI_Iscatter = c"PMPI_Iscatter", MPI_Iscatter_c = c"PMPI_Iscatter_c",
        MPI_Iallgatherv = c"PMPI_Iallgatherv", MPI_Iallgatherv_c = c"PMPI_Iallgatherv_c",
        MPI_Ineighbor_allgatherv = c"PMPI_Ineighbor_allgatherv",
        MPI_Ineighbor_allgatherv_c = c"PMPI_Ineighbor_allgatherv_c";
    start (a b c d e f g h i j): MPI_Igatherv = c"PMPI_Igatherv",
        MPI_Igatherv_c = c"PMPI_Igatherv_c", MPI_Iscatterv = c"PMPI_Iscatterv",
        MPI_Iscatterv_c = c"PMPI_Iscatterv_c", MPI_Ialltoallv = c"PMPI_Ialltoallv",
        MPI_Ialltoallv_c = c"PMPI_Ialltoallv_c", MPI_Ialltoallw = c"PMPI_Ialltoallw",
        MPI_Ialltoallw_c = c"PMPI_Ialltoallw_c",
        MPI_Ineighbor_alltoallv = c"PMPI_Ineighbor_alltoallv",
        MPI_Ineighbor_alltoallv_c = c"PMPI_Ineighbor_alltoallv_c",
        MPI_Ineighbor_alltoallw = c"PMPI_Ineighbor_alltoallw",
        MPI_Ineighbor_alltoallw_c = c"PMPI_Ineighbor_alltoallw_c";
    start (a b c d e): MPI_File_iread = c"PMPI_File_iread",
        MPI_File_iread_c = c"PMPI_File_iread_c",
        MPI_File_iread_all = c"PMPI_File_iread_all",
        MPI_File_iread_all_c = c"PMPI_File_iread_all_c",
        MPI_File_iread_shared = c"PMPI_File_iread_shared",
        MPI_File_iread_shared_c = c"PMPI_File_iread_shared_c",
        MPI_File_iwrite = c"PMPI_File_iwrite",
        MPI_File_iwrite_c = c"PMPI_File_iwrite_c",
        MPI_File_iwrite_all = c"PMPI_File_iwrite_all",
        MPI_File_iwrite_all_c = c"PMPI_File_iwrite_all_c",
        MPI_File_iwrite_shared = c"PMPI_File_iwrite_shared",
        MPI_File_iwrite_shared_c = c"PMPI_File_iwrite_shared_c";
    start (a b c d e f): MPI_File_iread_at = c"PMPI_File_iread_at",
        MPI_File_iread_at_c = c"PMPI_File_iread_at_c",
        MPI_File_iread_at_all = c"PMPI_File_iread_at_all",
        MPI_File_iread_at_all_c = c"PMPI_File_iread_at_all_c",
        MPI_File_iwrite_at = c"PMPI_File_iwrite_at",
        MPI_File_iwrite_at_c = c"PMPI_File_iwrite_at_c",
        MPI_File_iwrite_at_all = c"PMPI_File_iwrite_at_all",
        MPI_File_iwrite_at_all_c = c"PMPI_File_iwrite_at_all_c";
}
