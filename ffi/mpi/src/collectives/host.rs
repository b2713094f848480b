//! Collective functions of the host, by their `PMPI_` names, each with both kinds of counts.
#![expect(non_snake_case, reason = "the functions have the names of the standard")]

use core::ffi::c_int;

use crate::abi::Handle;
use crate::front::host::{CountPtr, HandlePtr, Ints, MpiCount, Pointer, host_functions};
use crate::front::libraries::HostFunction;

pub(crate) use crate::front::host::{Allgather, Allgatherv, Allreduce};

host_functions! {
    fn Barrier(comm: Handle);
    fn Bcast(buf: Pointer, count: c_int, datatype: Handle, root: c_int, comm: Handle);
    fn Bcast_c(buf: Pointer, count: MpiCount, datatype: Handle, root: c_int, comm: Handle);
    fn Gather(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, room: c_int, all_type: Handle,
        root: c_int, comm: Handle,
    );
    fn Gather_c(
        data: Pointer, count: MpiCount, datatype: Handle, all: Pointer, room: MpiCount,
        all_type: Handle,
        root: c_int, comm: Handle,
    );
    fn Gatherv(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, counts: Ints, offsets: Ints,
        all_type: Handle, root: c_int, comm: Handle,
    );
    fn Gatherv_c(
        data: Pointer, count: MpiCount, datatype: Handle, all: Pointer, counts: CountPtr,
        offsets: CountPtr, all_type: Handle, root: c_int, comm: Handle,
    );
    fn Scatter(
        all: Pointer, count: c_int, all_type: Handle, buf: Pointer, room: c_int, datatype: Handle,
        root: c_int, comm: Handle,
    );
    fn Scatter_c(
        all: Pointer, count: MpiCount, all_type: Handle, buf: Pointer, room: MpiCount,
        datatype: Handle,
        root: c_int, comm: Handle,
    );
    fn Scatterv(
        all: Pointer, counts: Ints, offsets: Ints, all_type: Handle, buf: Pointer, room: c_int,
        datatype: Handle, root: c_int, comm: Handle,
    );
    fn Scatterv_c(
        all: Pointer, counts: CountPtr, offsets: CountPtr, all_type: Handle, buf: Pointer,
        room: MpiCount,
        datatype: Handle, root: c_int, comm: Handle,
    );
    fn Allgather_c(
        data: Pointer, count: MpiCount, datatype: Handle, all: Pointer, room: MpiCount,
        all_type: Handle,
        comm: Handle,
    );
    fn Allgatherv_c(
        data: Pointer, count: MpiCount, datatype: Handle, all: Pointer, counts: CountPtr,
        offsets: CountPtr, all_type: Handle, comm: Handle,
    );
    fn Alltoall(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, room: c_int, all_type: Handle,
        comm: Handle,
    );
    fn Alltoall_c(
        data: Pointer, count: MpiCount, datatype: Handle, all: Pointer, room: MpiCount,
        all_type: Handle,
        comm: Handle,
    );
    fn Alltoallv(
        data: Pointer, counts: Ints, offsets: Ints, datatype: Handle, all: Pointer, rooms: Ints,
        places: Ints, all_type: Handle, comm: Handle,
    );
    fn Alltoallv_c(
        data: Pointer, counts: CountPtr, offsets: CountPtr, datatype: Handle, all: Pointer,
        rooms: CountPtr, places: CountPtr, all_type: Handle, comm: Handle,
    );
    fn Alltoallw(
        data: Pointer, counts: Ints, offsets: Ints, datatypes: HandlePtr, all: Pointer, rooms: Ints,
        places: Ints, all_types: HandlePtr, comm: Handle,
    );
    fn Alltoallw_c(
        data: Pointer, counts: CountPtr, offsets: CountPtr, datatypes: HandlePtr, all: Pointer,
        rooms: CountPtr, places: CountPtr, all_types: HandlePtr, comm: Handle,
    );
    fn Reduce(
        data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle, root: c_int,
        comm: Handle,
    );
    fn Reduce_c(
        data: Pointer, result: Pointer, count: MpiCount, datatype: Handle, op: Handle, root: c_int,
        comm: Handle,
    );
    fn Allreduce_c(
        data: Pointer, result: Pointer, count: MpiCount, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Scan(
        data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Scan_c(
        data: Pointer, result: Pointer, count: MpiCount, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Exscan(
        data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Exscan_c(
        data: Pointer, result: Pointer, count: MpiCount, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter_block(
        data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter_block_c(
        data: Pointer, result: Pointer, count: MpiCount, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter(
        data: Pointer, result: Pointer, counts: Ints, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_scatter_c(
        data: Pointer, result: Pointer, counts: CountPtr, datatype: Handle, op: Handle,
        comm: Handle,
    );
    fn Neighbor_allgather(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, room: c_int, all_type: Handle,
        comm: Handle,
    );
    fn Neighbor_allgatherv(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, counts: Ints, offsets: Ints,
        all_type: Handle, comm: Handle,
    );
    fn Neighbor_alltoall(
        data: Pointer, count: c_int, datatype: Handle, all: Pointer, room: c_int, all_type: Handle,
        comm: Handle,
    );
    fn Neighbor_alltoallv(
        data: Pointer, counts: Ints, offsets: Ints, datatype: Handle, all: Pointer, rooms: Ints,
        places: Ints, all_type: Handle, comm: Handle,
    );
    fn Neighbor_alltoallw(
        data: Pointer, counts: Ints, offsets: CountPtr, datatypes: HandlePtr, all: Pointer,
        rooms: Ints, places: CountPtr, all_types: HandlePtr, comm: Handle,
    );
    fn Neighbor_allgather_c(
        data: Pointer, count: MpiCount, datatype: Handle, all: Pointer, room: MpiCount,
        all_type: Handle,
        comm: Handle,
    );
    fn Neighbor_allgatherv_c(
        data: Pointer, count: MpiCount, datatype: Handle, all: Pointer, counts: CountPtr,
        offsets: CountPtr,
        all_type: Handle, comm: Handle,
    );
    fn Neighbor_alltoall_c(
        data: Pointer, count: MpiCount, datatype: Handle, all: Pointer, room: MpiCount,
        all_type: Handle,
        comm: Handle,
    );
    fn Neighbor_alltoallv_c(
        data: Pointer, counts: CountPtr, offsets: CountPtr, datatype: Handle, all: Pointer,
        rooms: CountPtr,
        places: CountPtr, all_type: Handle, comm: Handle,
    );
    fn Neighbor_alltoallw_c(
        data: Pointer, counts: CountPtr, offsets: CountPtr, datatypes: HandlePtr, all: Pointer,
        rooms: CountPtr, places: CountPtr, all_types: HandlePtr, comm: Handle,
    );
}
