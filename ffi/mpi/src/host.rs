//! Functions of the host, by their `PMPI_` names (MPI-5.0 §15.2). `has` asks for one.
#![expect(non_snake_case, reason = "the functions have the names of the standard")]

use core::ffi::{c_char, c_int, c_void};

use super::libraries::HostFunction;
use crate::abi::Handle;

/// An address of data, of a status or of a result.
pub(crate) type Pointer = *mut c_void;

/// An array of handles, or the place of one.
pub(crate) type HandlePtr = *mut Handle;

/// An array of numbers, or the place of one.
pub(crate) type Ints = *mut c_int;

/// `MPI_Count` and `MPI_Aint`.
pub(crate) type MpiCount = i64;

/// An array of [`MpiCount`], or the place of one.
pub(crate) type CountPtr = *mut MpiCount;

/// Defines functions that call the host's, and an entry for each.
macro_rules! host {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        pub(super) mod entry {
            #![expect(non_upper_case_globals, reason = "as above")]
            use super::HostFunction;
            $(pub(crate) static $name: HostFunction = HostFunction::new(
                // SAFETY: the text ends with its only null byte.
                unsafe {
                    core::ffi::CStr::from_bytes_with_nul_unchecked(
                        concat!("PMPI_", stringify!($name), "\0").as_bytes(),
                    )
                },
            );)*
        }
        $(
            /// # Safety
            ///
            /// The caller guarantees the contract of the function in the standard.
            #[inline]
            #[allow(clippy::too_many_arguments, reason = "the standard's")]
            pub(crate) unsafe fn $name($($argument: $type),*) -> c_int {
                type Function = unsafe extern "C" fn($($type),*) -> c_int;
                // SAFETY: the symbol has this type in every host of this binary interface.
                let function: Function = unsafe { core::mem::transmute(entry::$name.address()) };
                // SAFETY: the caller guarantees the same (contract of this function).
                unsafe { function($($argument),*) }
            }
        )*
    };
}

/// Returns whether the host has a function.
macro_rules! has {
    ($name:ident) => {
        !crate::front::host::entry::$name.find_if_any().is_null()
    };
}
pub(crate) use has;
pub(crate) use host as host_functions;

host! {
    fn Init(argc: Ints, argv: Pointer);
    fn Init_thread(argc: Ints, argv: Pointer, required: c_int, provided: Ints);
    fn Query_thread(provided: Ints);
    fn Abort(comm: Handle, code: c_int);
    fn Get_library_version(text: *mut c_char, length: Ints);

    fn Allgather(
        data: Pointer, count: c_int, datatype: Handle,
        buffer: Pointer, room: c_int, buffer_type: Handle, comm: Handle,
    );
    fn Allgatherv(
        data: Pointer, count: c_int, datatype: Handle,
        buffer: Pointer, counts: Ints, offsets: Ints, buffer_type: Handle, comm: Handle,
    );
    fn Allreduce(
        data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );
    fn Reduce_local(data: Pointer, result: Pointer, count: c_int, datatype: Handle, op: Handle);

    fn Comm_get_name(comm: Handle, name: *mut c_char, length: Ints);
    fn Comm_set_name(comm: Handle, name: *mut c_char);
    fn Comm_rank(comm: Handle, rank: Ints);
    fn Comm_size(comm: Handle, size: Ints);
    fn Comm_group(comm: Handle, group: HandlePtr);
    fn Comm_test_inter(comm: Handle, flag: Ints);
    fn Comm_free(comm: HandlePtr);
    fn Comm_disconnect(comm: HandlePtr);
    fn Comm_dup(comm: Handle, new: HandlePtr);
    fn Comm_dup_with_info(comm: Handle, info: Handle, new: HandlePtr);
    fn Comm_split(comm: Handle, color: c_int, key: c_int, new: HandlePtr);
    fn Comm_split_type(comm: Handle, kind: c_int, key: c_int, info: Handle, new: HandlePtr);
    fn Comm_create(comm: Handle, group: Handle, new: HandlePtr);
    fn Comm_create_group(comm: Handle, group: Handle, tag: c_int, new: HandlePtr);
    fn Comm_create_from_group(
        group: Handle, tag: *mut c_char, info: Handle, errhandler: Handle, new: HandlePtr,
    );
    fn Intercomm_merge(comm: Handle, high: c_int, new: HandlePtr);
    fn Cart_create(
        comm: Handle, n: c_int, dims: Ints, periods: Ints, reorder: c_int, new: HandlePtr,
    );
    fn Cart_sub(comm: Handle, remain: Ints, new: HandlePtr);
    fn Graph_create(
        comm: Handle, n: c_int, index: Ints, edges: Ints, reorder: c_int, new: HandlePtr,
    );
    fn Dist_graph_create(
        comm: Handle, n: c_int, sources: Ints, degrees: Ints, destinations: Ints, weights: Ints,
        info: Handle, reorder: c_int, new: HandlePtr,
    );
    fn Dist_graph_create_adjacent(
        comm: Handle, indegree: c_int, sources: Ints, sourceweights: Ints, outdegree: c_int,
        destinations: Ints, destweights: Ints, info: Handle, reorder: c_int, new: HandlePtr,
    );
    fn Topo_test(comm: Handle, kind: Ints);
    fn Cartdim_get(comm: Handle, dimensions: Ints);
    fn Cart_shift(comm: Handle, dimension: c_int, by: c_int, source: Ints, destination: Ints);
    fn Graph_neighbors_count(comm: Handle, rank: c_int, count: Ints);
    fn Graph_neighbors(comm: Handle, rank: c_int, room: c_int, neighbours: Ints);
    fn Dist_graph_neighbors_count(comm: Handle, sources: Ints, destinations: Ints, weighted: Ints);
    fn Dist_graph_neighbors(
        comm: Handle, room: c_int, sources: Ints, source_weights: Ints,
        room_out: c_int, destinations: Ints, destination_weights: Ints,
    );
    fn Comm_create_keyval(copy: Pointer, delete: Pointer, keyval: Ints, extra: Pointer);
    fn Comm_set_attr(comm: Handle, keyval: c_int, value: Pointer);
    fn Comm_free_keyval(keyval: Ints);
    fn Comm_call_errhandler(comm: Handle, code: c_int);
    fn Comm_set_errhandler(comm: Handle, handler: Handle);
    fn Comm_get_errhandler(comm: Handle, handler: HandlePtr);
    fn Errhandler_free(handler: HandlePtr);
    fn Add_error_code(class: c_int, code: Ints);
    fn Add_error_string(code: c_int, text: *mut c_char);
    fn Group_translate_ranks(from: Handle, n: c_int, ranks: Ints, to: Handle, result: Ints);
    fn Group_free(group: HandlePtr);

    fn Type_size_c(datatype: Handle, bytes: CountPtr);
    fn Type_size_x(datatype: Handle, bytes: CountPtr);
    fn Type_get_extent(datatype: Handle, lower: CountPtr, extent: CountPtr);
    fn Type_get_extent_c(datatype: Handle, lower: CountPtr, extent: CountPtr);
    fn Type_get_envelope(datatype: Handle, ints: Ints, aints: Ints, types: Ints, combiner: Ints);
    fn Type_get_envelope_c(
        datatype: Handle, ints: CountPtr, aints: CountPtr, counts: CountPtr, types: CountPtr,
        combiner: Ints,
    );
    fn Type_get_contents(
        datatype: Handle, max_ints: c_int, max_aints: c_int, max_types: c_int,
        ints: Ints, aints: CountPtr, types: HandlePtr,
    );
    fn Type_get_contents_c(
        datatype: Handle, max_ints: MpiCount, max_aints: MpiCount, max_counts: MpiCount,
        max_types: MpiCount,
        ints: Ints, aints: CountPtr, counts: CountPtr, types: HandlePtr,
    );
    fn Type_free(datatype: HandlePtr);
    fn Type_create_keyval(copy: Pointer, delete: Pointer, keyval: Ints, extra: Pointer);
    fn Type_set_attr(datatype: Handle, keyval: c_int, value: Pointer);

    fn Send(buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Send_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
    );
    fn Isend(
        buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Isend_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Ssend(buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Ssend_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
    );
    fn Issend(
        buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Issend_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Bsend(buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Bsend_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
    );
    fn Ibsend(
        buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Ibsend_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Rsend(buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Rsend_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
    );
    fn Irsend(
        buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Irsend_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Alloc_mem(size: isize, info: Handle, baseptr: Pointer);
    fn Free_mem(base: Pointer);
    fn Recv(
        buf: Pointer, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        status: Pointer,
    );
    fn Recv_c(
        buf: Pointer, count: MpiCount, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        status: Pointer,
    );
    fn Irecv(
        buf: Pointer, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Irecv_c(
        buf: Pointer, count: MpiCount, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Send_init(
        buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Send_init_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Ssend_init(
        buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Ssend_init_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Bsend_init(
        buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Bsend_init_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Rsend_init(
        buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Rsend_init_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Recv_init(
        buf: Pointer, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Recv_init_c(
        buf: Pointer, count: MpiCount, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        request: HandlePtr,
    );
    fn Start(request: HandlePtr);
    fn Startall(n: c_int, requests: HandlePtr);
    fn Sendrecv(
        data: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int,
        buf: Pointer, room: c_int, buf_type: Handle, source: c_int, recv_tag: c_int,
        comm: Handle, status: Pointer,
    );
    fn Sendrecv_c(
        data: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int,
        buf: Pointer, room: MpiCount, buf_type: Handle, source: c_int, recv_tag: c_int,
        comm: Handle, status: Pointer,
    );
    fn Sendrecv_replace(
        buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, source: c_int,
        recv_tag: c_int, comm: Handle, status: Pointer,
    );
    fn Sendrecv_replace_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, source: c_int,
        recv_tag: c_int, comm: Handle, status: Pointer,
    );
    fn Isendrecv(
        data: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int,
        buf: Pointer, room: c_int, buf_type: Handle, source: c_int, recv_tag: c_int,
        comm: Handle, request: HandlePtr,
    );
    fn Isendrecv_c(
        data: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int,
        buf: Pointer, room: MpiCount, buf_type: Handle, source: c_int, recv_tag: c_int,
        comm: Handle, request: HandlePtr,
    );
    fn Isendrecv_replace(
        buf: Pointer, count: c_int, datatype: Handle, dest: c_int, tag: c_int, source: c_int,
        recv_tag: c_int, comm: Handle, request: HandlePtr,
    );
    fn Isendrecv_replace_c(
        buf: Pointer, count: MpiCount, datatype: Handle, dest: c_int, tag: c_int, source: c_int,
        recv_tag: c_int, comm: Handle, request: HandlePtr,
    );
    fn Probe(source: c_int, tag: c_int, comm: Handle, status: Pointer);
    fn Iprobe(source: c_int, tag: c_int, comm: Handle, flag: Ints, status: Pointer);
    fn Mprobe(source: c_int, tag: c_int, comm: Handle, message: HandlePtr, status: Pointer);
    fn Improbe(
        source: c_int, tag: c_int, comm: Handle, flag: Ints, message: HandlePtr, status: Pointer,
    );
    fn Mrecv(buf: Pointer, count: c_int, datatype: Handle, message: HandlePtr, status: Pointer);
    fn Mrecv_c(
        buf: Pointer, count: MpiCount, datatype: Handle, message: HandlePtr, status: Pointer,
    );
    fn Imrecv(buf: Pointer, count: c_int, datatype: Handle, message: HandlePtr, request: HandlePtr);
    fn Imrecv_c(
        buf: Pointer, count: MpiCount, datatype: Handle, message: HandlePtr, request: HandlePtr,
    );
    fn Wait(request: HandlePtr, status: Pointer);
    fn Test(request: HandlePtr, flag: Ints, status: Pointer);
    fn Waitany(n: c_int, requests: HandlePtr, index: Ints, status: Pointer);
    fn Testany(n: c_int, requests: HandlePtr, index: Ints, flag: Ints, status: Pointer);
    fn Waitall(n: c_int, requests: HandlePtr, statuses: Pointer);
    fn Testall(n: c_int, requests: HandlePtr, flag: Ints, statuses: Pointer);
    fn Waitsome(n: c_int, requests: HandlePtr, done: Ints, indices: Ints, statuses: Pointer);
    fn Testsome(n: c_int, requests: HandlePtr, done: Ints, indices: Ints, statuses: Pointer);
    fn Request_get_status(request: Handle, flag: Ints, status: Pointer);
    fn Request_free(request: HandlePtr);
    fn Cancel(request: HandlePtr);
}
