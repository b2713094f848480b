//! Functions of the host for windows, by their `PMPI_` names.
#![expect(non_snake_case, reason = "the functions have the names of the standard")]

use core::ffi::{c_char, c_int};

use crate::abi::Handle;
use crate::front::host::{Address, Count, Counts, Handles, Ints, host_functions};
use crate::front::libraries::HostFunction;

host_functions! {
    fn Win_create(
        base: Address, size: Count, unit: c_int, info: Handle, comm: Handle, win: Handles,
    );
    fn Win_create_c(
        base: Address, size: Count, unit: Count, info: Handle, comm: Handle, win: Handles,
    );
    fn Win_allocate(
        size: Count, unit: c_int, info: Handle, comm: Handle, base: Address, win: Handles,
    );
    fn Win_allocate_c(
        size: Count, unit: Count, info: Handle, comm: Handle, base: Address, win: Handles,
    );
    fn Win_allocate_shared(
        size: Count, unit: c_int, info: Handle, comm: Handle, base: Address, win: Handles,
    );
    fn Win_allocate_shared_c(
        size: Count, unit: Count, info: Handle, comm: Handle, base: Address, win: Handles,
    );
    fn Win_create_dynamic(info: Handle, comm: Handle, win: Handles);
    fn Win_free(win: Handles);
    fn Win_attach(win: Handle, base: Address, size: Count);
    fn Win_detach(win: Handle, base: Address);
    fn Win_get_attr(win: Handle, keyval: c_int, value: Address, flag: Ints);
    fn Win_shared_query(win: Handle, rank: c_int, size: Counts, unit: Ints, base: Address);
    fn Win_shared_query_c(win: Handle, rank: c_int, size: Counts, unit: Counts, base: Address);
    fn Win_call_errhandler(win: Handle, code: c_int);
    fn Win_get_group(win: Handle, group: Handles);
    fn Group_size(group: Handle, size: Ints);
    fn Type_get_name(datatype: Handle, name: *mut c_char, length: Ints);
    fn Reduce_local(data: Address, result: Address, count: c_int, datatype: Handle, op: Handle);

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
        data: Address, count: c_int, datatype: Handle, rank: c_int, at: Count,
        there: c_int, type_there: Handle, win: Handle,
    );
    fn Put_c(
        data: Address, count: Count, datatype: Handle, rank: c_int, at: Count,
        there: Count, type_there: Handle, win: Handle,
    );
    fn Get(
        data: Address, count: c_int, datatype: Handle, rank: c_int, at: Count,
        there: c_int, type_there: Handle, win: Handle,
    );
    fn Get_c(
        data: Address, count: Count, datatype: Handle, rank: c_int, at: Count,
        there: Count, type_there: Handle, win: Handle,
    );
    fn Rput(
        data: Address, count: c_int, datatype: Handle, rank: c_int, at: Count,
        there: c_int, type_there: Handle, win: Handle, request: Handles,
    );
    fn Rput_c(
        data: Address, count: Count, datatype: Handle, rank: c_int, at: Count,
        there: Count, type_there: Handle, win: Handle, request: Handles,
    );
    fn Rget(
        data: Address, count: c_int, datatype: Handle, rank: c_int, at: Count,
        there: c_int, type_there: Handle, win: Handle, request: Handles,
    );
    fn Rget_c(
        data: Address, count: Count, datatype: Handle, rank: c_int, at: Count,
        there: Count, type_there: Handle, win: Handle, request: Handles,
    );
    fn Accumulate(
        data: Address, count: c_int, datatype: Handle, rank: c_int, at: Count,
        there: c_int, type_there: Handle, op: Handle, win: Handle,
    );
    fn Accumulate_c(
        data: Address, count: Count, datatype: Handle, rank: c_int, at: Count,
        there: Count, type_there: Handle, op: Handle, win: Handle,
    );
    fn Raccumulate(
        data: Address, count: c_int, datatype: Handle, rank: c_int, at: Count,
        there: c_int, type_there: Handle, op: Handle, win: Handle, request: Handles,
    );
    fn Raccumulate_c(
        data: Address, count: Count, datatype: Handle, rank: c_int, at: Count,
        there: Count, type_there: Handle, op: Handle, win: Handle, request: Handles,
    );
    fn Get_accumulate(
        data: Address, count: c_int, datatype: Handle,
        result: Address, results: c_int, result_type: Handle, rank: c_int, at: Count,
        there: c_int, type_there: Handle, op: Handle, win: Handle,
    );
    fn Get_accumulate_c(
        data: Address, count: Count, datatype: Handle,
        result: Address, results: Count, result_type: Handle, rank: c_int, at: Count,
        there: Count, type_there: Handle, op: Handle, win: Handle,
    );
    fn Rget_accumulate(
        data: Address, count: c_int, datatype: Handle,
        result: Address, results: c_int, result_type: Handle, rank: c_int, at: Count,
        there: c_int, type_there: Handle, op: Handle, win: Handle, request: Handles,
    );
    fn Rget_accumulate_c(
        data: Address, count: Count, datatype: Handle,
        result: Address, results: Count, result_type: Handle, rank: c_int, at: Count,
        there: Count, type_there: Handle, op: Handle, win: Handle, request: Handles,
    );
    fn Fetch_and_op(
        data: Address, result: Address, datatype: Handle, rank: c_int, at: Count, op: Handle,
        win: Handle,
    );
    fn Compare_and_swap(
        data: Address, compare: Address, result: Address, datatype: Handle, rank: c_int, at: Count,
        win: Handle,
    );
}
