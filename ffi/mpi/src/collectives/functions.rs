//! The functions that a program calls, each with both kinds of counts.

use core::ffi::c_int;

use super::arguments::AllData;
use super::neighbours::{self, SentData};
use super::reduce::Reduced;
use super::vector::Numbers;
use super::{by_root, call, host, reduce, to_all};
use crate::abi::Handle;
use crate::front::host::{CountPtr, HandlePtr, Ints, MpiCount, Pointer};

/// The type of an argument of a function with small or large counts.
macro_rules! argument {
    ($size:ident address) => {
        Pointer
    };
    ($size:ident handle) => {
        Handle
    };
    ($size:ident addresses) => {
        CountPtr
    };
    ($size:ident handles) => {
        HandlePtr
    };
    ($size:ident rank) => {
        c_int
    };
    (small count) => {
        c_int
    };
    (large count) => {
        MpiCount
    };
    (small counts) => {
        Ints
    };
    (large counts) => {
        CountPtr
    };
}

/// An argument as the operation takes it.
macro_rules! value {
    ($size:ident count $value:ident) => {
        i64::from($value)
    };
    (small counts $value:ident) => {
        Numbers::Small($value.cast_const())
    };
    (large counts $value:ident) => {
        Numbers::Large($value.cast_const())
    };
    ($size:ident addresses $value:ident) => {
        Numbers::Large($value.cast_const())
    };
    ($size:ident $kind:ident $value:ident) => {
        $value
    };
}

/// Defines functions, which are called by `call`. The last argument of each is the communicator.
macro_rules! collectives {
    (by $call:path; $($name:ident, $large:ident = $host:ident, $host_large:ident
        ($($argument:ident: $kind:ident),*): $act:expr;)*) => {$(
        collectives!(@one $call, small $name $host ($($argument: $kind),*) $act);
        collectives!(@one $call, large $large $host_large ($($argument: $kind),*) $act);
    )*};
    (@one $call:path, $size:ident $name:ident $host:ident
        ($($argument:ident: $kind:ident),*) $act:expr) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        #[allow(clippy::useless_conversion, reason = "large counts are of this type")]
        unsafe extern "C" fn $name($($argument: argument!($size $kind),)* comm: Handle) -> c_int {
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                $call(
                    comm,
                    |members| ($act)(members, $(value!($size $kind $argument)),*),
                    || host::$host($($argument,)* comm),
                )
            }
        }
    };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Barrier(comm: Handle) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    call(comm, |members| Ok(members.group.barrier()?), || unsafe { host::Barrier(comm) })
}

collectives! {
    by call;
    MPI_Bcast, MPI_Bcast_c = Bcast, Bcast_c
        (data: address, count: count, datatype: handle, root: rank):
        |members, data, count, datatype, root| {
            by_root::broadcast(members, (data, count, datatype), root)
        };
    MPI_Gather, MPI_Gather_c = Gather, Gather_c
        (data: address, count: count, datatype: handle, all: address, room: count,
            all_type: handle, root: rank):
        |members, data, count, datatype, all, room, all_type, root| {
            let all = AllData::Equal((all, room, all_type));
            by_root::gather(members, (data, count, datatype), all, root)
        };
    MPI_Gatherv, MPI_Gatherv_c = Gatherv, Gatherv_c
        (data: address, count: count, datatype: handle, all: address, counts: counts,
            offsets: counts, all_type: handle, root: rank):
        |members, data, count, datatype, all, counts, offsets, all_type, root| {
            let all = AllData::Blocks(all, (counts, offsets), all_type);
            by_root::gather(members, (data, count, datatype), all, root)
        };
    MPI_Scatter, MPI_Scatter_c = Scatter, Scatter_c
        (all: address, count: count, all_type: handle, data: address, room: count,
            datatype: handle, root: rank):
        |members, all, count, all_type, data, room, datatype, root| {
            let all = AllData::Equal((all, count, all_type));
            by_root::scatter(members, all, (data, room, datatype), root)
        };
    MPI_Scatterv, MPI_Scatterv_c = Scatterv, Scatterv_c
        (all: address, counts: counts, offsets: counts, all_type: handle, data: address,
            room: count, datatype: handle, root: rank):
        |members, all, counts, offsets, all_type, data, room, datatype, root| {
            let all = AllData::Blocks(all, (counts, offsets), all_type);
            by_root::scatter(members, all, (data, room, datatype), root)
        };
    MPI_Allgather, MPI_Allgather_c = Allgather, Allgather_c
        (data: address, count: count, datatype: handle, all: address, room: count,
            all_type: handle):
        |members, data, count, datatype, all, room, all_type| {
            let all = AllData::Equal((all, room, all_type));
            to_all::allgather(members, (data, count, datatype), all)
        };
    MPI_Allgatherv, MPI_Allgatherv_c = Allgatherv, Allgatherv_c
        (data: address, count: count, datatype: handle, all: address, counts: counts,
            offsets: counts, all_type: handle):
        |members, data, count, datatype, all, counts, offsets, all_type| {
            let all = AllData::Blocks(all, (counts, offsets), all_type);
            to_all::allgather(members, (data, count, datatype), all)
        };
    MPI_Alltoall, MPI_Alltoall_c = Alltoall, Alltoall_c
        (data: address, count: count, datatype: handle, all: address, room: count,
            all_type: handle):
        |members, data, count, datatype, all, room, all_type| {
            let out = AllData::Equal((data, count, datatype));
            to_all::alltoall(members, out, AllData::Equal((all, room, all_type)))
        };
    MPI_Alltoallv, MPI_Alltoallv_c = Alltoallv, Alltoallv_c
        (data: address, counts: counts, offsets: counts, datatype: handle, all: address,
            rooms: counts, places: counts, all_type: handle):
        |members, data, counts, offsets, datatype, all, rooms, places, all_type| {
            let out = AllData::Blocks(data, (counts, offsets), datatype);
            to_all::alltoall(members, out, AllData::Blocks(all, (rooms, places), all_type))
        };
    MPI_Alltoallw, MPI_Alltoallw_c = Alltoallw, Alltoallw_c
        (data: address, counts: counts, offsets: counts, datatypes: handles, all: address,
            rooms: counts, places: counts, all_types: handles):
        |members, data, counts, offsets, datatypes, all, rooms, places, all_types| {
            let out = AllData::Typed(data, (counts, offsets), datatypes);
            to_all::alltoall(members, out, AllData::Typed(all, (rooms, places), all_types))
        };
    MPI_Reduce, MPI_Reduce_c = Reduce, Reduce_c
        (data: address, result: address, count: count, datatype: handle, op: handle, root: rank):
        |members, data, result, count, datatype, op, root| {
            reduce::reduce(members, Reduced { data, result, datatype, op }, count, root)
        };
    MPI_Allreduce, MPI_Allreduce_c = Allreduce, Allreduce_c
        (data: address, result: address, count: count, datatype: handle, op: handle):
        |members, data, result, count, datatype, op| {
            reduce::allreduce(members, Reduced { data, result, datatype, op }, count)
        };
    MPI_Scan, MPI_Scan_c = Scan, Scan_c
        (data: address, result: address, count: count, datatype: handle, op: handle):
        |members, data, result, count, datatype, op| {
            reduce::scan(members, Reduced { data, result, datatype, op }, count)
        };
    MPI_Exscan, MPI_Exscan_c = Exscan, Exscan_c
        (data: address, result: address, count: count, datatype: handle, op: handle):
        |members, data, result, count, datatype, op| {
            reduce::exscan(members, Reduced { data, result, datatype, op }, count)
        };
    MPI_Reduce_scatter_block, MPI_Reduce_scatter_block_c
        = Reduce_scatter_block, Reduce_scatter_block_c
        (data: address, result: address, count: count, datatype: handle, op: handle):
        |members, data, result, count, datatype, op| {
            reduce::reduce_scatter(members, Reduced { data, result, datatype, op }, count)
        };
    MPI_Reduce_scatter, MPI_Reduce_scatter_c = Reduce_scatter, Reduce_scatter_c
        (data: address, result: address, counts: counts, datatype: handle, op: handle):
        |members, data, result, counts, datatype, op| {
            reduce::reduce_scatter_blocks(members, Reduced { data, result, datatype, op }, counts)
        };
}

collectives! {
    by neighbours::call;
    MPI_Neighbor_allgather, MPI_Neighbor_allgather_c = Neighbor_allgather, Neighbor_allgather_c
        (data: address, count: count, datatype: handle, all: address, room: count,
            all_type: handle):
        |members, data, count, datatype, all, room, all_type| {
            let out = SentData::SameToAll((data, count, datatype));
            neighbours::messages(members, out, AllData::Equal((all, room, all_type)))
        };
    MPI_Neighbor_allgatherv, MPI_Neighbor_allgatherv_c = Neighbor_allgatherv, Neighbor_allgatherv_c
        (data: address, count: count, datatype: handle, all: address, counts: counts,
            offsets: counts, all_type: handle):
        |members, data, count, datatype, all, counts, offsets, all_type| {
            let out = SentData::SameToAll((data, count, datatype));
            neighbours::messages(members, out, AllData::Blocks(all, (counts, offsets), all_type))
        };
    MPI_Neighbor_alltoall, MPI_Neighbor_alltoall_c = Neighbor_alltoall, Neighbor_alltoall_c
        (data: address, count: count, datatype: handle, all: address, room: count,
            all_type: handle):
        |members, data, count, datatype, all, room, all_type| {
            let out = SentData::Blocks(AllData::Equal((data, count, datatype)));
            neighbours::messages(members, out, AllData::Equal((all, room, all_type)))
        };
    MPI_Neighbor_alltoallv, MPI_Neighbor_alltoallv_c = Neighbor_alltoallv, Neighbor_alltoallv_c
        (data: address, counts: counts, offsets: counts, datatype: handle, all: address,
            rooms: counts, places: counts, all_type: handle):
        |members, data, counts, offsets, datatype, all, rooms, places, all_type| {
            let out = SentData::Blocks(AllData::Blocks(data, (counts, offsets), datatype));
            neighbours::messages(members, out, AllData::Blocks(all, (rooms, places), all_type))
        };
    MPI_Neighbor_alltoallw, MPI_Neighbor_alltoallw_c = Neighbor_alltoallw, Neighbor_alltoallw_c
        (data: address, counts: counts, offsets: addresses, datatypes: handles, all: address,
            rooms: counts, places: addresses, all_types: handles):
        |members, data, counts, offsets, datatypes, all, rooms, places, all_types| {
            let out = SentData::Blocks(AllData::Typed(data, (counts, offsets), datatypes));
            neighbours::messages(members, out, AllData::Typed(all, (rooms, places), all_types))
        };
}
