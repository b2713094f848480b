//! Functions of the host, by their `PMPI_` names (MPI-5.0 §15.2). `has` asks for one.
#![expect(non_snake_case, reason = "the functions have the names of the standard")]

use core::ffi::{c_char, c_int, c_void};

use super::libraries::HostFunction;
use crate::abi::Handle;

/// An address of data, of a status or of a result.
pub(crate) type Address = *mut c_void;

/// An array of handles, or the place of one.
pub(crate) type Handles = *mut Handle;

/// An array of numbers, or the place of one.
pub(crate) type Ints = *mut c_int;

/// `MPI_Count` and `MPI_Aint`.
pub(crate) type Count = i64;

/// An array of [`Count`], or the place of one.
pub(crate) type Counts = *mut Count;

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
    fn Init(argc: Ints, argv: Address);
    fn Init_thread(argc: Ints, argv: Address, required: c_int, provided: Ints);
    fn Query_thread(provided: Ints);
    fn Abort(comm: Handle, code: c_int);
    fn Get_library_version(text: *mut c_char, length: Ints);

    fn Allgather(
        data: Address, count: c_int, datatype: Handle,
        buffer: Address, room: c_int, buffer_type: Handle, comm: Handle,
    );
    fn Allgatherv(
        data: Address, count: c_int, datatype: Handle,
        buffer: Address, counts: Ints, offsets: Ints, buffer_type: Handle, comm: Handle,
    );
    fn Allreduce(
        data: Address, result: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    );

    fn Comm_rank(comm: Handle, rank: Ints);
    fn Comm_size(comm: Handle, size: Ints);
    fn Comm_group(comm: Handle, group: Handles);
    fn Comm_test_inter(comm: Handle, flag: Ints);
    fn Comm_free(comm: Handles);
    fn Comm_disconnect(comm: Handles);
    fn Comm_dup(comm: Handle, new: Handles);
    fn Comm_dup_with_info(comm: Handle, info: Handle, new: Handles);
    fn Comm_split(comm: Handle, color: c_int, key: c_int, new: Handles);
    fn Comm_split_type(comm: Handle, kind: c_int, key: c_int, info: Handle, new: Handles);
    fn Comm_create(comm: Handle, group: Handle, new: Handles);
    fn Comm_create_group(comm: Handle, group: Handle, tag: c_int, new: Handles);
    fn Comm_create_from_group(
        group: Handle, tag: *mut c_char, info: Handle, errhandler: Handle, new: Handles,
    );
    fn Intercomm_merge(comm: Handle, high: c_int, new: Handles);
    fn Cart_create(comm: Handle, n: c_int, dims: Ints, periods: Ints, reorder: c_int, new: Handles);
    fn Cart_sub(comm: Handle, remain: Ints, new: Handles);
    fn Graph_create(
        comm: Handle, n: c_int, index: Ints, edges: Ints, reorder: c_int, new: Handles,
    );
    fn Dist_graph_create(
        comm: Handle, n: c_int, sources: Ints, degrees: Ints, destinations: Ints, weights: Ints,
        info: Handle, reorder: c_int, new: Handles,
    );
    fn Dist_graph_create_adjacent(
        comm: Handle, indegree: c_int, sources: Ints, sourceweights: Ints, outdegree: c_int,
        destinations: Ints, destweights: Ints, info: Handle, reorder: c_int, new: Handles,
    );
    fn Comm_create_keyval(copy: Address, delete: Address, keyval: Ints, extra: Address);
    fn Comm_set_attr(comm: Handle, keyval: c_int, value: Address);
    fn Comm_free_keyval(keyval: Ints);
    fn Comm_call_errhandler(comm: Handle, code: c_int);
    fn Add_error_code(class: c_int, code: Ints);
    fn Add_error_string(code: c_int, text: *mut c_char);
    fn Group_translate_ranks(from: Handle, n: c_int, ranks: Ints, to: Handle, result: Ints);
    fn Group_free(group: Handles);

    fn Type_size_c(datatype: Handle, bytes: Counts);
    fn Type_size_x(datatype: Handle, bytes: Counts);
    fn Type_get_extent(datatype: Handle, lower: Counts, extent: Counts);
    fn Type_get_extent_c(datatype: Handle, lower: Counts, extent: Counts);
    fn Type_get_envelope(datatype: Handle, ints: Ints, aints: Ints, types: Ints, combiner: Ints);
    fn Type_get_envelope_c(
        datatype: Handle, ints: Counts, aints: Counts, counts: Counts, types: Counts,
        combiner: Ints,
    );
    fn Type_get_contents(
        datatype: Handle, max_ints: c_int, max_aints: c_int, max_types: c_int,
        ints: Ints, aints: Counts, types: Handles,
    );
    fn Type_get_contents_c(
        datatype: Handle, max_ints: Count, max_aints: Count, max_counts: Count, max_types: Count,
        ints: Ints, aints: Counts, counts: Counts, types: Handles,
    );
    fn Type_free(datatype: Handles);
    fn Type_create_keyval(copy: Address, delete: Address, keyval: Ints, extra: Address);
    fn Type_set_attr(datatype: Handle, keyval: c_int, value: Address);

    fn Send(buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Send_c(buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Isend(
        buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Isend_c(
        buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Ssend(buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Ssend_c(buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Issend(
        buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Issend_c(
        buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Bsend(buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Bsend_c(buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Ibsend(
        buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Ibsend_c(
        buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Rsend(buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Rsend_c(buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle);
    fn Irsend(
        buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Irsend_c(
        buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Recv(
        buf: Address, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        status: Address,
    );
    fn Recv_c(
        buf: Address, count: Count, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        status: Address,
    );
    fn Irecv(
        buf: Address, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Irecv_c(
        buf: Address, count: Count, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Send_init(
        buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Send_init_c(
        buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Ssend_init(
        buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Ssend_init_c(
        buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Bsend_init(
        buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Bsend_init_c(
        buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Rsend_init(
        buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Rsend_init_c(
        buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Recv_init(
        buf: Address, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Recv_init_c(
        buf: Address, count: Count, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
        request: Handles,
    );
    fn Start(request: Handles);
    fn Startall(n: c_int, requests: Handles);
    fn Sendrecv(
        data: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int,
        buf: Address, room: c_int, buf_type: Handle, source: c_int, recv_tag: c_int,
        comm: Handle, status: Address,
    );
    fn Sendrecv_c(
        data: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int,
        buf: Address, room: Count, buf_type: Handle, source: c_int, recv_tag: c_int,
        comm: Handle, status: Address,
    );
    fn Sendrecv_replace(
        buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, source: c_int,
        recv_tag: c_int, comm: Handle, status: Address,
    );
    fn Sendrecv_replace_c(
        buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, source: c_int,
        recv_tag: c_int, comm: Handle, status: Address,
    );
    fn Isendrecv(
        data: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int,
        buf: Address, room: c_int, buf_type: Handle, source: c_int, recv_tag: c_int,
        comm: Handle, request: Handles,
    );
    fn Isendrecv_c(
        data: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int,
        buf: Address, room: Count, buf_type: Handle, source: c_int, recv_tag: c_int,
        comm: Handle, request: Handles,
    );
    fn Isendrecv_replace(
        buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, source: c_int,
        recv_tag: c_int, comm: Handle, request: Handles,
    );
    fn Isendrecv_replace_c(
        buf: Address, count: Count, datatype: Handle, dest: c_int, tag: c_int, source: c_int,
        recv_tag: c_int, comm: Handle, request: Handles,
    );
    fn Probe(source: c_int, tag: c_int, comm: Handle, status: Address);
    fn Iprobe(source: c_int, tag: c_int, comm: Handle, flag: Ints, status: Address);
    fn Mprobe(source: c_int, tag: c_int, comm: Handle, message: Handles, status: Address);
    fn Improbe(
        source: c_int, tag: c_int, comm: Handle, flag: Ints, message: Handles, status: Address,
    );
    fn Mrecv(buf: Address, count: c_int, datatype: Handle, message: Handles, status: Address);
    fn Mrecv_c(buf: Address, count: Count, datatype: Handle, message: Handles, status: Address);
    fn Imrecv(buf: Address, count: c_int, datatype: Handle, message: Handles, request: Handles);
    fn Imrecv_c(buf: Address, count: Count, datatype: Handle, message: Handles, request: Handles);
    fn Wait(request: Handles, status: Address);
    fn Test(request: Handles, flag: Ints, status: Address);
    fn Waitany(n: c_int, requests: Handles, index: Ints, status: Address);
    fn Testany(n: c_int, requests: Handles, index: Ints, flag: Ints, status: Address);
    fn Waitall(n: c_int, requests: Handles, statuses: Address);
    fn Testall(n: c_int, requests: Handles, flag: Ints, statuses: Address);
    fn Waitsome(n: c_int, requests: Handles, done: Ints, indices: Ints, statuses: Address);
    fn Testsome(n: c_int, requests: Handles, done: Ints, indices: Ints, statuses: Address);
    fn Request_get_status(request: Handle, flag: Ints, status: Address);
    fn Request_free(request: Handles);
    fn Cancel(request: Handles);
}
