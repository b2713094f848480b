//! Tables of functions. A slot of type [`Absent`] is one that this provider does not serve: what is called there answers
//! `-FI_ENOSYS`, whatever it is given.

use core::ffi::{c_char, c_int, c_void};

use super::{
    AtomicAttr, AvAttr, CntrAttr, CqAttr, CqErrEntry, FabricAttr, FiAddr, Fid, Info, IoVec, Ioc,
    MrAttr, Msg, MsgAtomic, MsgRma, MsgTagged, Ssize, Status, errno,
};

/// What stands where nothing is served. By the C calling conventions of the platforms that Strait runs on, a caller that passes
/// arguments does no harm.
pub(crate) type Absent = unsafe extern "C" fn() -> Ssize;

/// See [`Absent`].
pub(crate) unsafe extern "C" fn absent() -> Ssize {
    -(errno::ENOSYS as Ssize)
}

/// A table as C sees it: its first word is its size, and it is read by every thread.
macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident { $($slot:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        #[repr(C)]
        pub(crate) struct $name {
            pub(crate) size: usize,
            $(pub(crate) $slot: $type,)*
        }
    )*};
}

type Obj = *mut Fid;
type Ctx = *mut c_void;
type Desc = *mut c_void;

tables! {
    /// `struct fi_ops`.
    Ops {
        close: unsafe extern "C" fn(Obj) -> Status,
        bind: unsafe extern "C" fn(Obj, Obj, u64) -> Status,
        control: unsafe extern "C" fn(Obj, c_int, *mut c_void) -> Status,
        ops_open: Absent,
        tostr: Absent,
        ops_set: Absent,
    }
    /// `struct fi_ops_fabric`.
    OpsFabric {
        domain: unsafe extern "C" fn(Obj, *mut Info, *mut Obj, Ctx) -> Status,
        passive_ep: Absent,
        eq_open: unsafe extern "C" fn(Obj, *mut c_void, *mut Obj, Ctx) -> Status,
        wait_open: Absent,
        trywait: Absent,
        domain2: Absent,
    }
    /// `struct fi_ops_domain`.
    OpsDomain {
        av_open: unsafe extern "C" fn(Obj, *mut AvAttr, *mut Obj, Ctx) -> Status,
        cq_open: unsafe extern "C" fn(Obj, *mut CqAttr, *mut Obj, Ctx) -> Status,
        endpoint: unsafe extern "C" fn(Obj, *mut Info, *mut Obj, Ctx) -> Status,
        scalable_ep: Absent,
        cntr_open: unsafe extern "C" fn(Obj, *mut CntrAttr, *mut Obj, Ctx) -> Status,
        poll_open: Absent,
        stx_ctx: Absent,
        srx_ctx: Absent,
        query_atomic: unsafe extern "C" fn(Obj, u32, u32, *mut AtomicAttr, u64) -> Status,
        query_collective: Absent,
        endpoint2: Absent,
    }
    /// `struct fi_ops_mr`.
    OpsMr {
        reg: unsafe extern "C" fn(Obj, *const c_void, usize, u64, u64, u64, u64, *mut Obj, Ctx) -> Status,
        regv: unsafe extern "C" fn(Obj, *const IoVec, usize, u64, u64, u64, u64, *mut Obj, Ctx) -> Status,
        regattr: unsafe extern "C" fn(Obj, *const MrAttr, u64, *mut Obj) -> Status,
    }
    /// `struct fi_ops_av`.
    OpsAv {
        insert: unsafe extern "C" fn(Obj, *const c_void, usize, *mut FiAddr, u64, Ctx) -> Status,
        insertsvc: Absent,
        insertsym: Absent,
        remove: unsafe extern "C" fn(Obj, *mut FiAddr, usize, u64) -> Status,
        lookup: unsafe extern "C" fn(Obj, FiAddr, *mut c_void, *mut usize) -> Status,
        straddr: unsafe extern "C" fn(Obj, *const c_void, *mut c_char, *mut usize) -> *const c_char,
        av_set: Absent,
    }
    /// `struct fi_ops_cq`.
    OpsCq {
        read: unsafe extern "C" fn(Obj, *mut c_void, usize) -> Ssize,
        readfrom: unsafe extern "C" fn(Obj, *mut c_void, usize, *mut FiAddr) -> Ssize,
        readerr: unsafe extern "C" fn(Obj, *mut CqErrEntry, u64) -> Ssize,
        sread: unsafe extern "C" fn(Obj, *mut c_void, usize, *const c_void, c_int) -> Ssize,
        sreadfrom: unsafe extern "C" fn(Obj, *mut c_void, usize, *mut FiAddr, *const c_void, c_int) -> Ssize,
        signal: Absent,
        strerror: unsafe extern "C" fn(Obj, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
    }
    /// `struct fi_ops_cntr`.
    OpsCntr {
        read: unsafe extern "C" fn(Obj) -> u64,
        readerr: unsafe extern "C" fn(Obj) -> u64,
        add: unsafe extern "C" fn(Obj, u64) -> Status,
        set: unsafe extern "C" fn(Obj, u64) -> Status,
        wait: unsafe extern "C" fn(Obj, u64, c_int) -> Status,
        adderr: unsafe extern "C" fn(Obj, u64) -> Status,
        seterr: unsafe extern "C" fn(Obj, u64) -> Status,
    }
    /// `struct fi_ops_eq`.
    OpsEq {
        read: unsafe extern "C" fn(Obj, *mut u32, *mut c_void, usize, u64) -> Ssize,
        readerr: unsafe extern "C" fn(Obj, *mut c_void, u64) -> Ssize,
        write: Absent,
        sread: unsafe extern "C" fn(Obj, *mut u32, *mut c_void, usize, c_int, u64) -> Ssize,
        strerror: unsafe extern "C" fn(Obj, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
    }
    /// `struct fi_ops_ep`.
    OpsEp {
        cancel: unsafe extern "C" fn(Obj, Ctx) -> Ssize,
        getopt: unsafe extern "C" fn(Obj, c_int, c_int, *mut c_void, *mut usize) -> Status,
        setopt: unsafe extern "C" fn(Obj, c_int, c_int, *const c_void, usize) -> Status,
        tx_ctx: Absent,
        rx_ctx: Absent,
        rx_size_left: Absent,
        tx_size_left: Absent,
    }
    /// `struct fi_ops_cm`.
    OpsCm {
        setname: Absent,
        getname: unsafe extern "C" fn(Obj, *mut c_void, *mut usize) -> Status,
        getpeer: Absent,
        connect: Absent,
        listen: Absent,
        accept: Absent,
        reject: Absent,
        shutdown: Absent,
        join: Absent,
    }
    /// `struct fi_ops_msg`.
    OpsMsg {
        recv: unsafe extern "C" fn(Obj, *mut c_void, usize, Desc, FiAddr, Ctx) -> Ssize,
        recvv: unsafe extern "C" fn(Obj, *const IoVec, *mut Desc, usize, FiAddr, Ctx) -> Ssize,
        recvmsg: unsafe extern "C" fn(Obj, *const Msg, u64) -> Ssize,
        send: unsafe extern "C" fn(Obj, *const c_void, usize, Desc, FiAddr, Ctx) -> Ssize,
        sendv: unsafe extern "C" fn(Obj, *const IoVec, *mut Desc, usize, FiAddr, Ctx) -> Ssize,
        sendmsg: unsafe extern "C" fn(Obj, *const Msg, u64) -> Ssize,
        inject: unsafe extern "C" fn(Obj, *const c_void, usize, FiAddr) -> Ssize,
        senddata: unsafe extern "C" fn(Obj, *const c_void, usize, Desc, u64, FiAddr, Ctx) -> Ssize,
        injectdata: unsafe extern "C" fn(Obj, *const c_void, usize, u64, FiAddr) -> Ssize,
    }
    /// `struct fi_ops_tagged`.
    OpsTagged {
        recv: unsafe extern "C" fn(Obj, *mut c_void, usize, Desc, FiAddr, u64, u64, Ctx) -> Ssize,
        recvv: unsafe extern "C" fn(Obj, *const IoVec, *mut Desc, usize, FiAddr, u64, u64, Ctx) -> Ssize,
        recvmsg: unsafe extern "C" fn(Obj, *const MsgTagged, u64) -> Ssize,
        send: unsafe extern "C" fn(Obj, *const c_void, usize, Desc, FiAddr, u64, Ctx) -> Ssize,
        sendv: unsafe extern "C" fn(Obj, *const IoVec, *mut Desc, usize, FiAddr, u64, Ctx) -> Ssize,
        sendmsg: unsafe extern "C" fn(Obj, *const MsgTagged, u64) -> Ssize,
        inject: unsafe extern "C" fn(Obj, *const c_void, usize, FiAddr, u64) -> Ssize,
        senddata: unsafe extern "C" fn(Obj, *const c_void, usize, Desc, u64, FiAddr, u64, Ctx) -> Ssize,
        injectdata: unsafe extern "C" fn(Obj, *const c_void, usize, u64, FiAddr, u64) -> Ssize,
    }
    /// `struct fi_ops_rma`.
    OpsRma {
        read: unsafe extern "C" fn(Obj, *mut c_void, usize, Desc, FiAddr, u64, u64, Ctx) -> Ssize,
        readv: unsafe extern "C" fn(Obj, *const IoVec, *mut Desc, usize, FiAddr, u64, u64, Ctx) -> Ssize,
        readmsg: unsafe extern "C" fn(Obj, *const MsgRma, u64) -> Ssize,
        write: unsafe extern "C" fn(Obj, *const c_void, usize, Desc, FiAddr, u64, u64, Ctx) -> Ssize,
        writev: unsafe extern "C" fn(Obj, *const IoVec, *mut Desc, usize, FiAddr, u64, u64, Ctx) -> Ssize,
        writemsg: unsafe extern "C" fn(Obj, *const MsgRma, u64) -> Ssize,
        inject: unsafe extern "C" fn(Obj, *const c_void, usize, FiAddr, u64, u64) -> Ssize,
        writedata: unsafe extern "C" fn(Obj, *const c_void, usize, Desc, u64, FiAddr, u64, u64, Ctx) -> Ssize,
        injectdata: unsafe extern "C" fn(Obj, *const c_void, usize, u64, FiAddr, u64, u64) -> Ssize,
    }
    /// `struct fi_ops_atomic`.
    OpsAtomic {
        write: unsafe extern "C" fn(Obj, *const c_void, usize, Desc, FiAddr, u64, u64, u32, u32, Ctx) -> Ssize,
        writev: unsafe extern "C" fn(Obj, *const Ioc, *mut Desc, usize, FiAddr, u64, u64, u32, u32, Ctx) -> Ssize,
        writemsg: unsafe extern "C" fn(Obj, *const MsgAtomic, u64) -> Ssize,
        inject: unsafe extern "C" fn(Obj, *const c_void, usize, FiAddr, u64, u64, u32, u32) -> Ssize,
        readwrite: unsafe extern "C" fn(Obj, *const c_void, usize, Desc, *mut c_void, Desc, FiAddr, u64, u64, u32, u32, Ctx) -> Ssize,
        readwritev: Absent,
        readwritemsg: unsafe extern "C" fn(Obj, *const MsgAtomic, *mut Ioc, *mut Desc, usize, u64) -> Ssize,
        compwrite: unsafe extern "C" fn(Obj, *const c_void, usize, Desc, *const c_void, Desc, *mut c_void, Desc, FiAddr, u64, u64, u32, u32, Ctx) -> Ssize,
        compwritev: Absent,
        compwritemsg: unsafe extern "C" fn(Obj, *const MsgAtomic, *const Ioc, *mut Desc, usize, *mut Ioc, *mut Desc, usize, u64) -> Ssize,
        writevalid: unsafe extern "C" fn(Obj, u32, u32, *mut usize) -> Status,
        readwritevalid: unsafe extern "C" fn(Obj, u32, u32, *mut usize) -> Status,
        compwritevalid: unsafe extern "C" fn(Obj, u32, u32, *mut usize) -> Status,
    }
}

/// `struct fi_provider`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Provider {
    /// The provider's own version.
    pub(crate) version: u32,
    /// The newest interface it knows.
    pub(crate) fi_version: u32,
    /// libfabric's.
    pub(crate) context: [*mut c_void; 4],
    /// Its name.
    pub(crate) name: *const c_char,
    /// What it offers.
    pub(crate) getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const Info,
        *mut *mut Info,
    ) -> Status,
    /// Opens its fabric.
    pub(crate) fabric: unsafe extern "C" fn(*mut FabricAttr, *mut Obj, Ctx) -> Status,
    /// Ends it.
    pub(crate) cleanup: unsafe extern "C" fn(),
}
