//! Collective functions of the host, by their `PMPI_` names, each with both kinds of counts.
#![expect(non_snake_case, reason = "the functions have the names of the standard")]

use core::ffi::c_int;

use crate::abi::Handle;
use crate::front::host::{HandleArray, Ints, LargeCount, LargeCounts, Pointer, host_functions};
use crate::front::libraries::HostFunction;

host_functions! {
    fn Barrier(comm: Handle);
    fn Bcast(buf: Pointer, count: c_int, datatype: Handle, root: c_int, comm: Handle);
    fn Bcast_c(buf: Pointer, count: LargeCount, datatype: Handle, root: c_int, comm: Handle);
    fn Gather(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, room: c_int, all_type: Handle,
        root: c_int, comm: Handle,
    );
    fn Gather_c(
        data: Pointer, count: LargeCount, datatype: Handle, all: Pointer, room: LargeCount, all_type: Handle,
        root: c_int, comm: Handle,
    );
    fn Gatherv(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, counts: Ints, offsets: Ints,
        all_type: Handle, root: c_int, comm: Handle,
    );
    fn Gatherv_c(
        data: Pointer, count: LargeCount, datatype: Handle, all: Pointer, counts: LargeCounts,
        offsets: LargeCounts, all_type: Handle, root: c_int, comm: Handle,
    );
    fn Scatter(
        all: Pointer, count: c_int, all_type: Handle, buf: Pointer, room: c_int, datatype: Handle,
        root: c_int, comm: Handle,
    );
    fn Scatter_c(
        all: Pointer, count: LargeCount, all_type: Handle, buf: Pointer, room: LargeCount, datatype: Handle,
        root: c_int, comm: Handle,
    );
    fn Scatterv(
        all: Pointer, counts: Ints, offsets: Ints, all_type: Handle, buf: Pointer, room: c_int,
        datatype: Handle, root: c_int, comm: Handle,
    );
    fn Scatterv_c(
        all: Pointer, counts: LargeCounts, offsets: LargeCounts, all_type: Handle, buf: Pointer, room: LargeCount,
        datatype: Handle, root: c_int, comm: Handle,
    );
    fn Allgather(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, room: c_int, all_type: Handle,
        comm: Handle,
    );
    fn Allgather_c(
        data: Pointer, count: LargeCount, datatype: Handle, all: Pointer, room: LargeCount, all_type: Handle,
        comm: Handle,
    );
    fn Allgatherv(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, counts: Ints, offsets: Ints,
        all_type: Handle, comm: Handle,
    );
    fn Allgatherv_c(
        data: Pointer, count: LargeCount, datatype: Handle, all: Pointer, counts: LargeCounts,
        offsets: LargeCounts, all_type: Handle, comm: Handle,
    );
    fn Alltoall(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, room: c_int, all_type: Handle,
        comm: Handle,
    );
    fn Alltoall_c(
        data: Pointer, count: LargeCount, datatype: Handle, all: Pointer, room: LargeCount, all_type: Handle,
        comm: Handle,
    );
    fn Alltoallv(
        data: Pointer, counts: Ints, offsets: Ints, datatype: Handle, all: Pointer, rooms: Ints,
        places: Ints, all_type: Handle, comm: Handle,
    );
    fn Alltoallv_c(
        data: Pointer, counts: LargeCounts, offsets: LargeCounts, datatype: Handle, all: Pointer,
        rooms: LargeCounts, places: LargeCounts, all_type: Handle, comm: Handle,
    );
    fn Alltoallw(
        data: Pointer, counts: Ints, offsets: Ints, datatypes: HandleArray, all: Pointer, rooms: Ints,
        places: Ints, all_types: HandleArray, comm: Handle,
    );
    fn Alltoallw_c(
        data: Pointer, counts: LargeCounts, offsets: LargeCounts, datatypes: HandleArray, all: Pointer,
        rooms: LargeCounts, places: LargeCounts, all_types: HandleArray, comm: Handle,
    );
    fn Reduce(
        data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle, root: c_int,
        comm: Handle,
    );
    fn Reduce_c(
        data: Pointer, result: Pointer, count: LargeCount, datatype: Handle, op: Handle, root: c_int,
        comm: Handle,
    );
    fn Allreduce(
        data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Allreduce_c(
        data: Pointer, result: Pointer, count: LargeCount, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Scan(
        data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Scan_c(
        data: Pointer, result: Pointer, count: LargeCount, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Exscan(
        data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Exscan_c(
        data: Pointer, result: Pointer, count: LargeCount, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter_block(
        data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter_block_c(
        data: Pointer, result: Pointer, count: LargeCount, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter(
        data: Pointer, result: Pointer, counts: Ints, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter_c(
        data: Pointer, result: Pointer, counts: LargeCounts, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_local(data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle);
}
