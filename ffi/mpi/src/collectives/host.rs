//! Collective functions of the host, by their `PMPI_` names, each with both kinds of counts.
#![expect(non_snake_case, reason = "the functions have the names of the standard")]

use core::ffi::c_int;

use crate::abi::Handle;
use crate::front::host::{Address, Count, Counts, Handles, Ints, host_functions};
use crate::front::libraries::HostFunction;

host_functions! {
    fn Barrier(comm: Handle);
    fn Bcast(buf: Address, count: c_int, datatype: Handle, root: c_int, comm: Handle);
    fn Bcast_c(buf: Address, count: Count, datatype: Handle, root: c_int, comm: Handle);
    fn Gather(
        data: Address, count: c_int, datatype: Handle, all: Address, room: c_int, all_type: Handle,
        root: c_int, comm: Handle,
    );
    fn Gather_c(
        data: Address, count: Count, datatype: Handle, all: Address, room: Count, all_type: Handle,
        root: c_int, comm: Handle,
    );
    fn Gatherv(
        data: Address, count: c_int, datatype: Handle, all: Address, counts: Ints, offsets: Ints,
        all_type: Handle, root: c_int, comm: Handle,
    );
    fn Gatherv_c(
        data: Address, count: Count, datatype: Handle, all: Address, counts: Counts,
        offsets: Counts, all_type: Handle, root: c_int, comm: Handle,
    );
    fn Scatter(
        all: Address, count: c_int, all_type: Handle, buf: Address, room: c_int, datatype: Handle,
        root: c_int, comm: Handle,
    );
    fn Scatter_c(
        all: Address, count: Count, all_type: Handle, buf: Address, room: Count, datatype: Handle,
        root: c_int, comm: Handle,
    );
    fn Scatterv(
        all: Address, counts: Ints, offsets: Ints, all_type: Handle, buf: Address, room: c_int,
        datatype: Handle, root: c_int, comm: Handle,
    );
    fn Scatterv_c(
        all: Address, counts: Counts, offsets: Counts, all_type: Handle, buf: Address, room: Count,
        datatype: Handle, root: c_int, comm: Handle,
    );
    fn Allgather(
        data: Address, count: c_int, datatype: Handle, all: Address, room: c_int, all_type: Handle,
        comm: Handle,
    );
    fn Allgather_c(
        data: Address, count: Count, datatype: Handle, all: Address, room: Count, all_type: Handle,
        comm: Handle,
    );
    fn Allgatherv(
        data: Address, count: c_int, datatype: Handle, all: Address, counts: Ints, offsets: Ints,
        all_type: Handle, comm: Handle,
    );
    fn Allgatherv_c(
        data: Address, count: Count, datatype: Handle, all: Address, counts: Counts,
        offsets: Counts, all_type: Handle, comm: Handle,
    );
    fn Alltoall(
        data: Address, count: c_int, datatype: Handle, all: Address, room: c_int, all_type: Handle,
        comm: Handle,
    );
    fn Alltoall_c(
        data: Address, count: Count, datatype: Handle, all: Address, room: Count, all_type: Handle,
        comm: Handle,
    );
    fn Alltoallv(
        data: Address, counts: Ints, offsets: Ints, datatype: Handle, all: Address, rooms: Ints,
        places: Ints, all_type: Handle, comm: Handle,
    );
    fn Alltoallv_c(
        data: Address, counts: Counts, offsets: Counts, datatype: Handle, all: Address,
        rooms: Counts, places: Counts, all_type: Handle, comm: Handle,
    );
    fn Alltoallw(
        data: Address, counts: Ints, offsets: Ints, datatypes: Handles, all: Address, rooms: Ints,
        places: Ints, all_types: Handles, comm: Handle,
    );
    fn Alltoallw_c(
        data: Address, counts: Counts, offsets: Counts, datatypes: Handles, all: Address,
        rooms: Counts, places: Counts, all_types: Handles, comm: Handle,
    );
    fn Reduce(
        data: Address, result: Address, count: c_int, datatype: Handle, op: Handle, root: c_int,
        comm: Handle,
    );
    fn Reduce_c(
        data: Address, result: Address, count: Count, datatype: Handle, op: Handle, root: c_int,
        comm: Handle,
    );
    fn Allreduce(
        data: Address, result: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Allreduce_c(
        data: Address, result: Address, count: Count, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Scan(
        data: Address, result: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Scan_c(
        data: Address, result: Address, count: Count, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Exscan(
        data: Address, result: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Exscan_c(
        data: Address, result: Address, count: Count, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter_block(
        data: Address, result: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter_block_c(
        data: Address, result: Address, count: Count, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter(
        data: Address, result: Address, counts: Ints, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter_c(
        data: Address, result: Address, counts: Counts, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_local(data: Address, result: Address, count: c_int, datatype: Handle, op: Handle);
}
