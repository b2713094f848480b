//! The provider's offer: `fi_getinfo`.
//!
//! libfabric releases the result with `free`, so all of it comes from `calloc` and `strdup`. Each
//! structure has spare bytes behind it, since newer libraries read further.

use core::ffi::{CStr, c_char};
use core::ptr;

use crate::abi::{
    API_VERSION, AnswerArg, AttrArg, DomainAttr, EpAttr, FabricAttr, FiInfo, FiStatus, RxAttr,
    TxAttr, errno, flag,
};
use crate::wire::{INJECT_MAX, IOV_MAX, ProviderName};

/// The name of the provider, its fabric and its domain.
pub(crate) const NAME: &CStr = c"strait";

/// Number of bytes behind each structure for fields of later versions.
const SPARE: usize = 256;

const EP_RDM: u32 = 3;
const AV_TABLE: u32 = 2;
const PROGRESS_MANUAL: u32 = 2;
const RM_ENABLED: u32 = 2;
const MR_BASIC: i32 = 1;
const MR_VIRT_ADDR: i32 = 1 << 4;
const MR_ALLOCATED: i32 = 1 << 5;
const MR_PROV_KEY: i32 = 1 << 6;

/// A value of [`DomainAttr::threading`]: the caller guarantees one thread at a time in a domain.
pub(crate) const THREAD_DOMAIN: u32 = 3;

const CAPS: u64 = flag::MSG
    | flag::TAGGED
    | flag::RMA
    | flag::ATOMIC
    | flag::READ
    | flag::WRITE
    | flag::RECV
    | flag::SEND
    | flag::REMOTE_READ
    | flag::REMOTE_WRITE
    | flag::MULTI_RECV
    | flag::LOCAL_COMM
    | flag::REMOTE_COMM
    | flag::SOURCE
    | flag::DIRECTED_RECV;

/// The capabilities that require virtual addresses for remote memory.
const REMOTE_MEMORY: u64 =
    flag::RMA | flag::ATOMIC | flag::READ | flag::WRITE | flag::REMOTE_READ | flag::REMOTE_WRITE;

/// `FI_ORDER_SAS`: messages of a pair keep their order.
const ORDER_SAS: u64 = 1 << 8;

/// Reads, writes and atomics of a pair keep their order, and messages do not overtake earlier ones:
/// `RAR RAW WAR WAW SAR SAW`, and the forms of RMA alone and of atomics alone.
const ORDER_RMA: u64 = 0b1101_1011 | 0xff << 32;

/// Answers `fi_getinfo`.
pub(crate) extern "C" fn getinfo(
    _version: u32,
    _node: *const c_char,
    _service: *const c_char,
    flags: u64,
    hints: Option<&FiInfo>,
    info: AnswerArg<'_, *mut FiInfo>,
) -> FiStatus {
    let hints = hints.map_or_else(Hints::default, Hints::read);
    let Some(caps) = hints.caps() else { return -errno::ENODATA };
    let offer = if flags & flag::PROV_ATTR_ONLY != 0 {
        InfoBuilder::new(CAPS, Hints::default())
    } else {
        InfoBuilder::new(caps, hints)
    };
    match offer.fill() {
        Some(offer) => {
            info.write(offer);
            0
        }
        None => -errno::ENOMEM,
    }
}

/// The part of the caller's hints that matters.
#[derive(Clone, Copy, Debug, Default)]
struct Hints {
    caps: u64,
    mr_mode: Option<i32>,
    ep_kind: u32,
    threading: u32,
    tx_flags: u64,
    rx_flags: u64,
    msg_order: u64,
    comp_order: u64,
    max_msg_size: usize,
    inject_size: usize,
    tag_format: u64,
}

impl Hints {
    fn read(hints: &FiInfo) -> Self {
        let mut found = Self { caps: hints.caps, ..Self::default() };
        if let Some(domain) = hints.domain_attr.get() {
            found.mr_mode = Some(domain.mr_mode);
            found.threading = domain.threading;
        }
        if let Some(ep) = hints.ep_attr.get() {
            found.ep_kind = ep.kind;
            found.max_msg_size = ep.max_msg_size;
            found.tag_format = ep.mem_tag_format;
        }
        if let Some(tx) = hints.tx_attr.get() {
            found.caps |= tx.caps;
            found.tx_flags = tx.op_flags;
            found.msg_order |= tx.msg_order;
            found.comp_order |= tx.comp_order;
            found.inject_size = tx.inject_size;
        }
        if let Some(rx) = hints.rx_attr.get() {
            found.caps |= rx.caps;
            found.rx_flags = rx.op_flags;
            found.msg_order |= rx.msg_order;
        }
        found
    }

    /// Returns the capabilities to offer, or `None` when the hints cannot be satisfied.
    fn caps(&self) -> Option<u64> {
        let virt = self.mr_mode.is_none_or(|mode| mode == MR_BASIC || mode & MR_VIRT_ADDR != 0);
        let possible = if virt { CAPS } else { CAPS & !REMOTE_MEMORY };
        let suits = matches!(self.ep_kind, 0 | EP_RDM)
            && self.caps & !possible == 0
            && self.msg_order & !(ORDER_SAS | ORDER_RMA) == 0
            && self.comp_order == 0
            && self.max_msg_size <= MAX_MESSAGE
            && self.inject_size <= INJECT_MAX;
        let asked = if self.caps == 0 { possible } else { self.caps };
        suits.then_some(with_directions(asked) & possible)
    }

    /// Returns the duties of the caller in memory registration.
    fn mr_mode(&self) -> i32 {
        match self.mr_mode {
            Some(MR_BASIC) => MR_BASIC,
            Some(mode) => mode & (MR_VIRT_ADDR | MR_ALLOCATED | MR_PROV_KEY),
            None => MR_VIRT_ADDR | MR_ALLOCATED | MR_PROV_KEY,
        }
    }
}

/// Maximum size of a message in bytes.
const MAX_MESSAGE: usize = isize::MAX as usize;

/// Adds the directions: a kind of communication without directions means all of them
/// (`fi_getinfo(3)`).
const fn with_directions(mut caps: u64) -> u64 {
    let messages = flag::SEND | flag::RECV;
    let memory = flag::READ | flag::WRITE | flag::REMOTE_READ | flag::REMOTE_WRITE;
    if caps & (flag::MSG | flag::TAGGED) != 0 && caps & messages == 0 {
        caps |= messages;
    }
    if caps & (flag::RMA | flag::ATOMIC) != 0 && caps & memory == 0 {
        caps |= memory;
    }
    caps | flag::LOCAL_COMM | flag::REMOTE_COMM
}

/// The structures of one `fi_info`.
struct InfoBuilder {
    caps: u64,
    hints: Hints,
    info: *mut FiInfo,
    tx: *mut TxAttr,
    rx: *mut RxAttr,
    ep: *mut EpAttr,
    domain: *mut DomainAttr,
    fabric: *mut FabricAttr,
    names: [*mut c_char; 2],
}

impl InfoBuilder {
    fn new(caps: u64, hints: Hints) -> Self {
        // SAFETY: the name is a C string.
        let name = || unsafe { libc::strdup(NAME.as_ptr()) };
        Self {
            caps,
            hints,
            info: allocate(),
            tx: allocate(),
            rx: allocate(),
            ep: allocate(),
            domain: allocate(),
            fabric: allocate(),
            names: [name(), name()],
        }
    }

    /// Returns the whole, or nothing when there was no memory for a part.
    fn fill(self) -> Option<*mut FiInfo> {
        let parts = [
            self.info.cast(),
            self.tx.cast(),
            self.rx.cast(),
            self.ep.cast(),
            self.domain.cast(),
            self.fabric.cast(),
            self.names[0].cast(),
            self.names[1].cast(),
        ];
        if parts.iter().any(|part: &*mut libc::c_void| part.is_null()) {
            // SAFETY: each is null, or comes from the allocator of C and is used nowhere else.
            parts.into_iter().for_each(|part| unsafe { libc::free(part) });
            return None;
        }
        // SAFETY: `new` has made each part and zeroed it, and none is null.
        unsafe {
            Self::fill_contexts((self.caps, self.hints), &mut *self.tx, &mut *self.rx);
            Self::fill_ep(&mut *self.ep);
            Self::fill_domain(&self.hints, self.names[0], &mut *self.domain);
            let fabric = &mut *self.fabric;
            fabric.name = self.names[1];
            fabric.prov_version = 1 << 16;
            fabric.api_version = API_VERSION;
            let info = &mut *self.info;
            info.next = ptr::null_mut();
            info.caps = self.caps;
            info.src_addrlen = ProviderName::BYTES;
            info.dest_addrlen = ProviderName::BYTES;
            info.tx_attr = AttrArg::new(self.tx);
            info.rx_attr = AttrArg::new(self.rx);
            info.ep_attr = AttrArg::new(self.ep);
            info.domain_attr = AttrArg::new(self.domain);
            info.fabric_attr = self.fabric;
        }
        Some(self.info)
    }

    fn fill_contexts((caps, hints): (u64, Hints), tx: &mut TxAttr, rx: &mut RxAttr) {
        let receiving = flag::RECV | flag::REMOTE_READ | flag::REMOTE_WRITE | flag::MULTI_RECV;
        let both = flag::MSG | flag::TAGGED | flag::RMA | flag::ATOMIC;
        let sending = flag::SEND | flag::READ | flag::WRITE;
        let directed = flag::DIRECTED_RECV | flag::SOURCE;
        tx.caps = caps & (both | sending);
        tx.op_flags = hints.tx_flags;
        tx.msg_order = ORDER_SAS | ORDER_RMA;
        tx.inject_size = INJECT_MAX;
        tx.size = QUEUE;
        tx.iov_limit = IOV_MAX;
        tx.rma_iov_limit = 1;
        rx.caps = caps & (both | receiving | directed);
        rx.op_flags = hints.rx_flags;
        rx.msg_order = ORDER_SAS | ORDER_RMA;
        rx.size = QUEUE;
        rx.iov_limit = IOV_MAX;
    }

    fn fill_ep(ep: &mut EpAttr) {
        ep.kind = EP_RDM;
        ep.protocol = PROTOCOL;
        ep.protocol_version = 1;
        ep.max_msg_size = MAX_MESSAGE;
        ep.max_order_raw_size = MAX_MESSAGE;
        ep.max_order_war_size = MAX_MESSAGE;
        ep.max_order_waw_size = MAX_MESSAGE;
        ep.mem_tag_format = u64::MAX >> 1;
        ep.tx_ctx_cnt = 1;
        ep.rx_ctx_cnt = 1;
    }

    fn fill_domain(hints: &Hints, name: *mut c_char, domain: &mut DomainAttr) {
        domain.name = name;
        domain.threading = if hints.threading == 0 { THREAD_DOMAIN } else { hints.threading };
        domain.control_progress = PROGRESS_MANUAL;
        domain.data_progress = PROGRESS_MANUAL;
        domain.resource_mgmt = RM_ENABLED;
        domain.av_type = AV_TABLE;
        domain.mr_mode = hints.mr_mode();
        domain.mr_key_size = size_of::<u64>();
        domain.cq_data_size = size_of::<u64>();
        domain.caps = flag::LOCAL_COMM | flag::REMOTE_COMM;
        domain.tx_ctx_cnt = COUNT;
        domain.rx_ctx_cnt = COUNT;
        domain.cq_cnt = COUNT;
        domain.ep_cnt = COUNT;
        domain.cntr_cnt = COUNT;
        domain.mr_cnt = COUNT;
        domain.max_ep_tx_ctx = 1;
        domain.max_ep_rx_ctx = 1;
        domain.mr_iov_limit = 1;
    }
}

/// Number of pending operations that always fit. In fact any number does.
const QUEUE: usize = 1 << 16;

/// Number of objects of each kind in a domain.
const COUNT: usize = 256;

/// `FI_PROV_SPECIFIC`, and a number that no other provider uses.
const PROTOCOL: u32 = 1 << 31 | 0x5354;

fn allocate<T>() -> *mut T {
    // SAFETY: `calloc` accepts any size.
    unsafe { libc::calloc(1, size_of::<T>() + SPARE) }.cast()
}
