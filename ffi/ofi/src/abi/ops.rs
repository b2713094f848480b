//! Tables of functions. A slot of type [`Absent`] is a function that this provider does not serve:
//! it returns `-FI_ENOSYS` for any arguments.

use core::cell::Cell;
use core::ffi::{c_char, c_int, c_void};

use super::args::{
    AnswerArg, AnswersArg, AvFid, CntrFid, CqFid, DomainFid, EpFid, EqFid, FabricFid, FidArg,
    LengthArg, ListArg, MemoryArg, ObjectArg, RoomArg,
};
use super::{
    AtomicAttr, AvAttr, CntrAttr, CqAttr, ErrorEntryArg, ErrorTextArg, FabricAttr, FiAddr, FiInfo,
    FiStatus, Fid, IoVec, Ioc, MrAttr, Msg, MsgAtomic, MsgRma, MsgTagged, NAME_BYTES, Ssize, errno,
};

/// The type of a function that is not served. In the C calling conventions of Strait's platforms,
/// arguments that a caller passes to it do no harm.
pub(crate) type Absent = extern "C" fn() -> Ssize;

/// Returns `-FI_ENOSYS`.
pub(crate) extern "C" fn absent() -> Ssize {
    -(errno::ENOSYS as Ssize)
}

/// Defines a table as C sees it. Its first word is its size, and every thread may read it.
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

/// The address where the user wants a new object.
pub(crate) type NewArg<'call> = AnswerArg<'call, *mut Fid>;

pub(crate) type FabricArg<'call> = ObjectArg<'call, FabricFid>;
pub(crate) type DomainArg<'call> = ObjectArg<'call, DomainFid>;
pub(crate) type EpArg<'call> = ObjectArg<'call, EpFid>;
pub(crate) type AvArg<'call> = ObjectArg<'call, AvFid>;
pub(crate) type EqArg<'call> = ObjectArg<'call, EqFid>;
pub(crate) type CqArg<'call> = ObjectArg<'call, CqFid>;
pub(crate) type CntrArg<'call> = ObjectArg<'call, CntrFid>;

type Ctx = *mut c_void;
type Desc = *mut c_void;

tables! {
    /// `struct fi_ops`.
    Ops {
        close: extern "C" fn(FidArg<'_>) -> FiStatus,
        bind: extern "C" fn(FidArg<'_>, Option<FidArg<'_>>, u64) -> FiStatus,
        control: extern "C" fn(FidArg<'_>, c_int, *mut c_void) -> FiStatus,
        ops_open: Absent,
        tostr: Absent,
        ops_set: Absent,
    }
    /// `struct fi_ops_fabric`.
    OpsFabric {
        domain: extern "C" fn(FabricArg<'_>, Option<&FiInfo>, NewArg<'_>, Ctx) -> FiStatus,
        passive_ep: Absent,
        eq_open: extern "C" fn(FabricArg<'_>, *mut c_void, NewArg<'_>, Ctx) -> FiStatus,
        wait_open: Absent,
        trywait: Absent,
        domain2: Absent,
    }
    /// `struct fi_ops_domain`.
    OpsDomain {
        av_open: extern "C" fn(DomainArg<'_>, Option<&Cell<AvAttr>>, NewArg<'_>, Ctx) -> FiStatus,
        cq_open: extern "C" fn(DomainArg<'_>, Option<&CqAttr>, NewArg<'_>, Ctx) -> FiStatus,
        endpoint: extern "C" fn(DomainArg<'_>, Option<&FiInfo>, NewArg<'_>, Ctx) -> FiStatus,
        scalable_ep: Absent,
        cntr_open: extern "C" fn(DomainArg<'_>, *const CntrAttr, NewArg<'_>, Ctx) -> FiStatus,
        poll_open: Absent,
        stx_ctx: Absent,
        srx_ctx: Absent,
        query_atomic: extern "C" fn(
            DomainArg<'_>, u32, u32, AnswerArg<'_, AtomicAttr>, u64,
        ) -> FiStatus,
        query_collective: Absent,
        endpoint2: Absent,
    }
    /// `struct fi_ops_mr`.
    OpsMr {
        reg: extern "C" fn(
            DomainArg<'_>, *const c_void, usize, u64, u64, u64, u64, NewArg<'_>, Ctx,
        ) -> FiStatus,
        regv: extern "C" fn(
            DomainArg<'_>, ListArg<'_, IoVec>, LengthArg, u64, u64, u64, u64, NewArg<'_>, Ctx,
        ) -> FiStatus,
        regattr: extern "C" fn(DomainArg<'_>, Option<&MrAttr<'_>>, u64, NewArg<'_>) -> FiStatus,
    }
    /// `struct fi_ops_av`.
    OpsAv {
        insert: extern "C" fn(
            AvArg<'_>, ListArg<'_, [u8; NAME_BYTES]>, LengthArg, AnswersArg<'_, FiAddr>, u64, Ctx,
        ) -> FiStatus,
        insertsvc: Absent,
        insertsym: Absent,
        remove: extern "C" fn(AvArg<'_>, ListArg<'_, FiAddr>, LengthArg, u64) -> FiStatus,
        lookup: extern "C" fn(AvArg<'_>, FiAddr, MemoryArg, RoomArg<'_>) -> FiStatus,
        straddr: extern "C" fn(
            AvArg<'_>, Option<&[u8; NAME_BYTES]>, MemoryArg, RoomArg<'_>,
        ) -> *const c_char,
        av_set: Absent,
    }
    /// `struct fi_ops_cq`.
    OpsCq {
        read: extern "C" fn(CqArg<'_>, MemoryArg, LengthArg) -> Ssize,
        readfrom: extern "C" fn(CqArg<'_>, MemoryArg, LengthArg, AnswersArg<'_, FiAddr>) -> Ssize,
        readerr: extern "C" fn(CqArg<'_>, ErrorEntryArg<'_>, u64) -> Ssize,
        sread: extern "C" fn(CqArg<'_>, MemoryArg, LengthArg, *const c_void, c_int) -> Ssize,
        sreadfrom: extern "C" fn(
            CqArg<'_>, MemoryArg, LengthArg, AnswersArg<'_, FiAddr>, *const c_void, c_int,
        ) -> Ssize,
        signal: Absent,
        strerror: extern "C" fn(
            CqArg<'_>, c_int, ErrorTextArg<'_>, MemoryArg, LengthArg,
        ) -> *const c_char,
    }
    /// `struct fi_ops_cntr`.
    OpsCntr {
        read: extern "C" fn(CntrArg<'_>) -> u64,
        readerr: extern "C" fn(CntrArg<'_>) -> u64,
        add: extern "C" fn(CntrArg<'_>, u64) -> FiStatus,
        set: extern "C" fn(CntrArg<'_>, u64) -> FiStatus,
        wait: extern "C" fn(CntrArg<'_>, u64, c_int) -> FiStatus,
        adderr: extern "C" fn(CntrArg<'_>, u64) -> FiStatus,
        seterr: extern "C" fn(CntrArg<'_>, u64) -> FiStatus,
    }
    /// `struct fi_ops_eq`.
    OpsEq {
        read: extern "C" fn(EqArg<'_>, *mut u32, *mut c_void, usize, u64) -> Ssize,
        readerr: extern "C" fn(EqArg<'_>, *mut c_void, u64) -> Ssize,
        write: Absent,
        sread: extern "C" fn(EqArg<'_>, *mut u32, *mut c_void, usize, c_int, u64) -> Ssize,
        strerror: extern "C" fn(
            EqArg<'_>, c_int, *const c_void, MemoryArg, LengthArg,
        ) -> *const c_char,
    }
    /// `struct fi_ops_ep`.
    OpsEp {
        cancel: extern "C" fn(EpArg<'_>, Ctx) -> Ssize,
        getopt: extern "C" fn(EpArg<'_>, c_int, c_int, MemoryArg, RoomArg<'_>) -> FiStatus,
        setopt: extern "C" fn(EpArg<'_>, c_int, c_int, MemoryArg, LengthArg) -> FiStatus,
        tx_ctx: Absent,
        rx_ctx: Absent,
        rx_size_left: Absent,
        tx_size_left: Absent,
    }
    /// `struct fi_ops_cm`.
    OpsCm {
        setname: Absent,
        getname: extern "C" fn(EpArg<'_>, MemoryArg, RoomArg<'_>) -> FiStatus,
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
        recv: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, Desc, FiAddr, Ctx) -> Ssize,
        recvv: extern "C" fn(
            EpArg<'_>, ListArg<'_, IoVec>, *mut Desc, LengthArg, FiAddr, Ctx,
        ) -> Ssize,
        recvmsg: extern "C" fn(EpArg<'_>, &Msg<'_>, u64) -> Ssize,
        send: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, Desc, FiAddr, Ctx) -> Ssize,
        sendv: extern "C" fn(
            EpArg<'_>, ListArg<'_, IoVec>, *mut Desc, LengthArg, FiAddr, Ctx,
        ) -> Ssize,
        sendmsg: extern "C" fn(EpArg<'_>, &Msg<'_>, u64) -> Ssize,
        inject: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, FiAddr) -> Ssize,
        senddata: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, Desc, u64, FiAddr, Ctx) -> Ssize,
        injectdata: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, u64, FiAddr) -> Ssize,
    }
    /// `struct fi_ops_tagged`.
    OpsTagged {
        recv: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, Desc, FiAddr, u64, u64, Ctx) -> Ssize,
        recvv: extern "C" fn(
            EpArg<'_>, ListArg<'_, IoVec>, *mut Desc, LengthArg, FiAddr, u64, u64, Ctx,
        ) -> Ssize,
        recvmsg: extern "C" fn(EpArg<'_>, &MsgTagged<'_>, u64) -> Ssize,
        send: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, Desc, FiAddr, u64, Ctx) -> Ssize,
        sendv: extern "C" fn(
            EpArg<'_>, ListArg<'_, IoVec>, *mut Desc, LengthArg, FiAddr, u64, Ctx,
        ) -> Ssize,
        sendmsg: extern "C" fn(EpArg<'_>, &MsgTagged<'_>, u64) -> Ssize,
        inject: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, FiAddr, u64) -> Ssize,
        senddata: extern "C" fn(
            EpArg<'_>, MemoryArg, LengthArg, Desc, u64, FiAddr, u64, Ctx,
        ) -> Ssize,
        injectdata: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, u64, FiAddr, u64) -> Ssize,
    }
    /// `struct fi_ops_rma`.
    OpsRma {
        read: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, Desc, FiAddr, u64, u64, Ctx) -> Ssize,
        readv: extern "C" fn(
            EpArg<'_>, ListArg<'_, IoVec>, *mut Desc, LengthArg, FiAddr, u64, u64, Ctx,
        ) -> Ssize,
        readmsg: extern "C" fn(EpArg<'_>, &MsgRma<'_>, u64) -> Ssize,
        write: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, Desc, FiAddr, u64, u64, Ctx) -> Ssize,
        writev: extern "C" fn(
            EpArg<'_>, ListArg<'_, IoVec>, *mut Desc, LengthArg, FiAddr, u64, u64, Ctx,
        ) -> Ssize,
        writemsg: extern "C" fn(EpArg<'_>, &MsgRma<'_>, u64) -> Ssize,
        inject: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, FiAddr, u64, u64) -> Ssize,
        writedata: extern "C" fn(
            EpArg<'_>, MemoryArg, LengthArg, Desc, u64, FiAddr, u64, u64, Ctx,
        ) -> Ssize,
        injectdata: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, u64, FiAddr, u64, u64) -> Ssize,
    }
    /// `struct fi_ops_atomic`.
    OpsAtomic {
        write: extern "C" fn(
            EpArg<'_>, MemoryArg, LengthArg, Desc, FiAddr, u64, u64, u32, u32, Ctx,
        ) -> Ssize,
        writev: extern "C" fn(
            EpArg<'_>, ListArg<'_, Ioc>, *mut Desc, LengthArg, FiAddr, u64, u64, u32, u32, Ctx,
        ) -> Ssize,
        writemsg: extern "C" fn(EpArg<'_>, &MsgAtomic<'_>, u64) -> Ssize,
        inject: extern "C" fn(EpArg<'_>, MemoryArg, LengthArg, FiAddr, u64, u64, u32, u32) -> Ssize,
        readwrite: extern "C" fn(
            EpArg<'_>, MemoryArg, LengthArg, Desc, MemoryArg, Desc, FiAddr, u64, u64, u32, u32, Ctx,
        ) -> Ssize,
        readwritev: Absent,
        readwritemsg: extern "C" fn(
            EpArg<'_>, &MsgAtomic<'_>, ListArg<'_, Ioc>, *mut Desc, LengthArg, u64,
        ) -> Ssize,
        compwrite: extern "C" fn(
            EpArg<'_>, MemoryArg, LengthArg, Desc, MemoryArg, Desc, MemoryArg, Desc, FiAddr, u64,
            u64, u32, u32, Ctx,
        ) -> Ssize,
        compwritev: Absent,
        compwritemsg: extern "C" fn(
            EpArg<'_>, &MsgAtomic<'_>, ListArg<'_, Ioc>, *mut Desc, LengthArg, ListArg<'_, Ioc>,
            *mut Desc, LengthArg, u64,
        ) -> Ssize,
        writevalid: extern "C" fn(EpArg<'_>, u32, u32, AnswerArg<'_, usize>) -> FiStatus,
        readwritevalid: extern "C" fn(EpArg<'_>, u32, u32, AnswerArg<'_, usize>) -> FiStatus,
        compwritevalid: extern "C" fn(EpArg<'_>, u32, u32, AnswerArg<'_, usize>) -> FiStatus,
    }
}

/// `struct fi_provider`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Provider {
    /// The provider's own version.
    pub(crate) version: u32,
    /// The newest interface that the provider knows.
    pub(crate) fi_version: u32,
    /// Memory for libfabric's own use.
    pub(crate) context: [*mut c_void; 4],
    /// The provider's name.
    pub(crate) name: *const c_char,
    /// Describes what the provider offers.
    pub(crate) getinfo: extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        Option<&FiInfo>,
        AnswerArg<'_, *mut FiInfo>,
    ) -> FiStatus,
    /// Opens the provider's fabric.
    pub(crate) fabric: extern "C" fn(Option<&FabricAttr>, NewArg<'_>, Ctx) -> FiStatus,
    /// Ends the provider.
    pub(crate) cleanup: extern "C" fn(),
}
