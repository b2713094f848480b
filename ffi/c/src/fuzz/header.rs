//! The functions that a fuzzer calls, as `strait.h` declares them.

use core::ffi::{c_int, c_void};

use crate::border::CReduction;
use crate::handle::Handle;
use crate::requests::CStatus;
use crate::windows::CMembers;
use crate::windows::transfer::CRun;

pub(super) type Void = *mut c_void;
pub(super) type Handles = *mut Handle;

unsafe extern "C" {
    pub(super) fn strait_init_in_process(abi: u32, ranks: u32, worlds: Handles) -> c_int;
    pub(super) fn strait_finalize(world: Handle) -> c_int;
    pub(super) fn strait_rank(world: Handle, rank: *mut u32) -> c_int;
    pub(super) fn strait_node_of(world: Handle, rank: u32, node: *mut u32) -> c_int;
    pub(super) fn strait_progress(world: Handle) -> c_int;
    pub(super) fn strait_barrier(world: Handle, context: u32) -> c_int;
    pub(super) fn strait_send(
        w: Handle,
        context: u32,
        data: Void,
        n: usize,
        to: u32,
        tag: u32,
    ) -> c_int;
    pub(super) fn strait_recv(
        w: Handle,
        c: u32,
        b: Void,
        n: usize,
        from: u32,
        tag: u32,
        s: *mut CStatus,
    ) -> c_int;
    pub(super) fn strait_isend(
        w: Handle,
        c: u32,
        b: Void,
        n: usize,
        to: u32,
        tag: u32,
        r: Handles,
    ) -> c_int;
    pub(super) fn strait_irecv(
        w: Handle,
        c: u32,
        b: Void,
        n: usize,
        from: u32,
        tag: u32,
        r: Handles,
    ) -> c_int;
    pub(super) fn strait_probe(w: Handle, c: u32, from: u32, tag: u32, s: *mut CStatus) -> c_int;
    pub(super) fn strait_iprobe(
        w: Handle,
        c: u32,
        from: u32,
        tag: u32,
        found: *mut c_int,
        s: *mut CStatus,
    ) -> c_int;
    pub(super) fn strait_improbe(
        w: Handle,
        c: u32,
        from: u32,
        tag: u32,
        found: *mut c_int,
        m: Handles,
        s: *mut CStatus,
    ) -> c_int;
    pub(super) fn strait_mrecv(
        message: Handles,
        buffer: Void,
        n: usize,
        status: *mut CStatus,
    ) -> c_int;
    pub(super) fn strait_imrecv(
        message: Handles,
        buffer: Void,
        n: usize,
        request: Handles,
    ) -> c_int;
    pub(super) fn strait_message_free(message: Handles) -> c_int;
    pub(super) fn strait_test(request: Handles, done: *mut c_int, status: *mut CStatus) -> c_int;
    pub(super) fn strait_wait(request: Handles, status: *mut CStatus) -> c_int;
    pub(super) fn strait_cancel(request: Handle, cancelled: *mut c_int) -> c_int;
    pub(super) fn strait_request_free(request: Handles) -> c_int;
    pub(super) fn strait_test_all(
        n: usize,
        r: Handles,
        done: *mut c_int,
        s: *mut CStatus,
        c: *mut c_int,
    ) -> c_int;
    pub(super) fn strait_test_any(
        n: usize,
        r: Handles,
        done: *mut c_int,
        i: *mut usize,
        s: *mut CStatus,
    ) -> c_int;
    pub(super) fn strait_test_some(
        n: usize,
        r: Handles,
        o: *mut usize,
        i: *mut usize,
        s: *mut CStatus,
        c: *mut c_int,
    ) -> c_int;
    pub(super) fn strait_window_allocate(
        w: Handle,
        m: *const CMembers,
        n: usize,
        unit: usize,
        window: Handles,
    ) -> c_int;
    pub(super) fn strait_window_create(
        w: Handle,
        m: *const CMembers,
        b: Void,
        n: usize,
        unit: usize,
        window: Handles,
    ) -> c_int;
    pub(super) fn strait_window_create_dynamic(
        w: Handle,
        m: *const CMembers,
        window: Handles,
    ) -> c_int;
    pub(super) fn strait_window_attach(
        window: Handle,
        base: Void,
        bytes: usize,
        displacement: *mut usize,
    ) -> c_int;
    pub(super) fn strait_window_detach(window: Handle, displacement: usize) -> c_int;
    pub(super) fn strait_window_free(window: Handles) -> c_int;
    pub(super) fn strait_window_fence(window: Handle, promises: c_int) -> c_int;
    pub(super) fn strait_window_complete(window: Handle) -> c_int;
    pub(super) fn strait_window_test(window: Handle, done: *mut c_int) -> c_int;
    pub(super) fn strait_window_lock(
        window: Handle,
        of: c_int,
        target: u32,
        promises: c_int,
    ) -> c_int;
    pub(super) fn strait_window_unlock(window: Handle, target: u32) -> c_int;
    pub(super) fn strait_window_lock_all(window: Handle, promises: c_int) -> c_int;
    pub(super) fn strait_window_unlock_all(window: Handle) -> c_int;
    pub(super) fn strait_window_flush(window: Handle, target: u32) -> c_int;
    pub(super) fn strait_put(window: Handle, data: Void, n: usize, target: u32, at: usize)
    -> c_int;
    pub(super) fn strait_get(
        window: Handle,
        buffer: Void,
        n: usize,
        target: u32,
        at: usize,
    ) -> c_int;
    pub(super) fn strait_rput(
        w: Handle,
        data: Void,
        n: usize,
        target: u32,
        at: usize,
        r: Handles,
    ) -> c_int;
    pub(super) fn strait_rget(
        w: Handle,
        data: Void,
        n: usize,
        target: u32,
        at: usize,
        r: Handles,
    ) -> c_int;
    pub(super) fn strait_fetch_and_op(
        w: Handle,
        operand: Void,
        result: Void,
        of: c_int,
        target: u32,
        at: usize,
        op: c_int,
    ) -> c_int;
    pub(super) fn strait_compare_and_swap(
        w: Handle,
        compare: Void,
        new: Void,
        result: Void,
        of: c_int,
        target: u32,
        at: usize,
    ) -> c_int;
    pub(super) fn strait_group_create(
        world: Handle,
        context: u32,
        ranks: *const u32,
        count: u32,
        group: Handles,
    ) -> c_int;
    pub(super) fn strait_group_split(group: Handle, colour: i64, key: i64, part: Handles) -> c_int;
    pub(super) fn strait_group_free(group: Handles) -> c_int;
    pub(super) fn strait_group_rank(group: Handle, place: u32, rank: *mut u32) -> c_int;
    pub(super) fn strait_group_barrier(group: Handle) -> c_int;
    pub(super) fn strait_broadcast(group: Handle, data: Void, bytes: usize, root: u32) -> c_int;
    pub(super) fn strait_gather(g: Handle, own: Void, n: usize, all: Void, root: u32) -> c_int;
    pub(super) fn strait_scatterv(
        group: Handle,
        all: Void,
        blocks: *const CRun,
        own: Void,
        bytes: usize,
        root: u32,
    ) -> c_int;
    pub(super) fn strait_allgatherv(
        group: Handle,
        own: Void,
        bytes: usize,
        all: Void,
        blocks: *const CRun,
    ) -> c_int;
    pub(super) fn strait_alltoallv(
        group: Handle,
        out: Void,
        from: *const CRun,
        into: Void,
        to: *const CRun,
    ) -> c_int;
    pub(super) fn strait_allreduce(
        group: Handle,
        own: Void,
        result: Void,
        count: usize,
        reduction: *const CReduction,
    ) -> c_int;
    pub(super) fn strait_reduce_scatter(
        group: Handle,
        own: Void,
        result: Void,
        counts: *const usize,
        reduction: *const CReduction,
    ) -> c_int;
    pub(super) fn strait_exscan(
        group: Handle,
        own: Void,
        result: Void,
        count: usize,
        reduction: *const CReduction,
    ) -> c_int;
    pub(super) fn strait_memory_allocate(world: Handle, bytes: usize, base: *mut Void) -> c_int;
    pub(super) fn strait_memory_free(world: Handle, base: Void) -> c_int;
}
