//! Functions of the host for windows, by their `PMPI_` names.
#![expect(non_snake_case, reason = "the functions have the names of the standard")]

use core::ffi::{c_char, c_int};

use crate::abi::Handle;
use crate::front::host::{CountPtr, HandlePtr, Ints, MpiCount, Pointer, host_functions};
use crate::front::libraries::HostFunction;

host_functions! {
    fn Win_create(
        base: Pointer, size: MpiCount, unit: c_int, info: Handle, comm: Handle, win: HandlePtr,
    );
    fn Win_create_c(
        base: Pointer, size: MpiCount, unit: MpiCount, info: Handle, comm: Handle, win: HandlePtr,
    );
    fn Win_allocate(
        size: MpiCount, unit: c_int, info: Handle, comm: Handle, base: Pointer, win: HandlePtr,
    );
    fn Win_allocate_c(
        size: MpiCount, unit: MpiCount, info: Handle, comm: Handle, base: Pointer, win: HandlePtr,
    );
    fn Win_allocate_shared(
        size: MpiCount, unit: c_int, info: Handle, comm: Handle, base: Pointer, win: HandlePtr,
    );
    fn Win_allocate_shared_c(
        size: MpiCount, unit: MpiCount, info: Handle, comm: Handle, base: Pointer, win: HandlePtr,
    );
    fn Win_create_dynamic(info: Handle, comm: Handle, win: HandlePtr);
    fn Win_free(win: HandlePtr);
    fn Win_attach(win: Handle, base: Pointer, size: MpiCount);
    fn Win_detach(win: Handle, base: Pointer);
    fn Win_get_attr(win: Handle, keyval: c_int, value: Pointer, flag: Ints);
    fn Win_shared_query(win: Handle, rank: c_int, size: CountPtr, unit: Ints, base: Pointer);
    fn Win_shared_query_c(win: Handle, rank: c_int, size: CountPtr, unit: CountPtr, base: Pointer);
    fn Win_call_errhandler(win: Handle, code: c_int);
    fn Win_get_errhandler(win: Handle, handler: HandlePtr);
    fn Win_get_group(win: Handle, group: HandlePtr);
    fn Group_size(group: Handle, size: Ints);
    fn Type_get_name(datatype: Handle, name: *mut c_char, length: Ints);

    fn Win_fence(promise: c_int, win: Handle);
    fn Win_post(group: Handle, promise: c_int, win: Handle);
    fn Win_start(group: Handle, promise: c_int, win: Handle);
    fn Win_complete(win: Handle);
    fn Win_wait(win: Handle);
    fn Win_test(win: Handle, flag: Ints);
    fn Win_lock(kind: c_int, rank: c_int, promise: c_int, win: Handle);
    fn Win_unlock(rank: c_int, win: Handle);
    fn Win_lock_all(promise: c_int, win: Handle);
    fn Win_unlock_all(win: Handle);
    fn Win_flush(rank: c_int, win: Handle);
    fn Win_flush_all(win: Handle);
    fn Win_flush_local(rank: c_int, win: Handle);
    fn Win_flush_local_all(win: Handle);
    fn Win_sync(win: Handle);

    fn Put(
        data: Pointer, count: c_int, datatype: Handle, rank: c_int, at: MpiCount,
        there: c_int, type_there: Handle, win: Handle,
    );
    fn Put_c(
        data: Pointer, count: MpiCount, datatype: Handle, rank: c_int, at: MpiCount,
        there: MpiCount, type_there: Handle, win: Handle,
    );
    fn Get(
        data: Pointer, count: c_int, datatype: Handle, rank: c_int, at: MpiCount,
        there: c_int, type_there: Handle, win: Handle,
    );
    fn Get_c(
        data: Pointer, count: MpiCount, datatype: Handle, rank: c_int, at: MpiCount,
        there: MpiCount, type_there: Handle, win: Handle,
    );
    fn Rput(
        data: Pointer, count: c_int, datatype: Handle, rank: c_int, at: MpiCount,
        there: c_int, type_there: Handle, win: Handle, request: HandlePtr,
    );
    fn Rput_c(
        data: Pointer, count: MpiCount, datatype: Handle, rank: c_int, at: MpiCount,
        there: MpiCount, type_there: Handle, win: Handle, request: HandlePtr,
    );
    fn Rget(
        data: Pointer, count: c_int, datatype: Handle, rank: c_int, at: MpiCount,
        there: c_int, type_there: Handle, win: Handle, request: HandlePtr,
    );
    fn Rget_c(
        data: Pointer, count: MpiCount, datatype: Handle, rank: c_int, at: MpiCount,
        there: MpiCount, type_there: Handle, win: Handle, request: HandlePtr,
    );
    fn Accumulate(
        data: Pointer, count: c_int, datatype: Handle, rank: c_int, at: MpiCount,
        there: c_int, type_there: Handle, op: Handle, win: Handle,
    );
    fn Accumulate_c(
        data: Pointer, count: MpiCount, datatype: Handle, rank: c_int, at: MpiCount,
        there: MpiCount, type_there: Handle, op: Handle, win: Handle,
    );
    fn Raccumulate(
        data: Pointer, count: c_int, datatype: Handle, rank: c_int, at: MpiCount,
        there: c_int, type_there: Handle, op: Handle, win: Handle, request: HandlePtr,
    );
    fn Raccumulate_c(
        data: Pointer, count: MpiCount, datatype: Handle, rank: c_int, at: MpiCount,
        there: MpiCount, type_there: Handle, op: Handle, win: Handle, request: HandlePtr,
    );
    fn Get_accumulate(
        data: Pointer, count: c_int, datatype: Handle,
        result: Pointer, results: c_int, result_type: Handle, rank: c_int, at: MpiCount,
        there: c_int, type_there: Handle, op: Handle, win: Handle,
    );
    fn Get_accumulate_c(
        data: Pointer, count: MpiCount, datatype: Handle,
        result: Pointer, results: MpiCount, result_type: Handle, rank: c_int, at: MpiCount,
        there: MpiCount, type_there: Handle, op: Handle, win: Handle,
    );
    fn Rget_accumulate(
        data: Pointer, count: c_int, datatype: Handle,
        result: Pointer, results: c_int, result_type: Handle, rank: c_int, at: MpiCount,
        there: c_int, type_there: Handle, op: Handle, win: Handle, request: HandlePtr,
    );
    fn Rget_accumulate_c(
        data: Pointer, count: MpiCount, datatype: Handle,
        result: Pointer, results: MpiCount, result_type: Handle, rank: c_int, at: MpiCount,
        there: MpiCount, type_there: Handle, op: Handle, win: Handle, request: HandlePtr,
    );
    fn Fetch_and_op(
        data: Pointer, result: Pointer, datatype: Handle, rank: c_int, at: MpiCount, op: Handle,
        win: Handle,
    );
    fn Compare_and_swap(
        data: Pointer, compare: Pointer, result: Pointer, datatype: Handle, rank: c_int,
        at: MpiCount,
        win: Handle,
    );
}
