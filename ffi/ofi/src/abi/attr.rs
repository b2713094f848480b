//! Attributes and entries: the structures that calls pass by pointer.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_void};
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use super::args::{AttrArg, LengthArg, ListArg, MemoryArg};
use super::{FiAddr, Fid, IoVec};

/// `struct fi_info`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct FiInfo {
    pub(crate) next: *mut FiInfo,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: usize,
    pub(crate) dest_addrlen: usize,
    pub(crate) src_addr: *mut c_void,
    pub(crate) dest_addr: *mut c_void,
    pub(crate) handle: *mut Fid,
    pub(crate) tx_attr: AttrArg<TxAttr>,
    pub(crate) rx_attr: AttrArg<RxAttr>,
    pub(crate) ep_attr: AttrArg<EpAttr>,
    pub(crate) domain_attr: AttrArg<DomainAttr>,
    pub(crate) fabric_attr: *mut FabricAttr,
    pub(crate) nic: *mut c_void,
}

/// `struct fi_tx_attr`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct TxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
    pub(crate) rma_iov_limit: usize,
    pub(crate) tclass: u32,
}

/// `struct fi_rx_attr`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) total_buffered_recv: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
}

/// `struct fi_ep_attr`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EpAttr {
    pub(crate) kind: u32,
    pub(crate) protocol: u32,
    pub(crate) protocol_version: u32,
    pub(crate) max_msg_size: usize,
    pub(crate) msg_prefix_size: usize,
    pub(crate) max_order_raw_size: usize,
    pub(crate) max_order_war_size: usize,
    pub(crate) max_order_waw_size: usize,
    pub(crate) mem_tag_format: u64,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) auth_key_size: usize,
    pub(crate) auth_key: *mut u8,
}

/// `struct fi_domain_attr`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct DomainAttr {
    pub(crate) domain: *mut c_void,
    pub(crate) name: *mut c_char,
    pub(crate) threading: u32,
    pub(crate) control_progress: u32,
    pub(crate) data_progress: u32,
    pub(crate) resource_mgmt: u32,
    pub(crate) av_type: u32,
    pub(crate) mr_mode: i32,
    pub(crate) mr_key_size: usize,
    pub(crate) cq_data_size: usize,
    pub(crate) cq_cnt: usize,
    pub(crate) ep_cnt: usize,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) max_ep_tx_ctx: usize,
    pub(crate) max_ep_rx_ctx: usize,
    pub(crate) max_ep_stx_ctx: usize,
    pub(crate) max_ep_srx_ctx: usize,
    pub(crate) cntr_cnt: usize,
    pub(crate) mr_iov_limit: usize,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) auth_key: *mut u8,
    pub(crate) auth_key_size: usize,
    pub(crate) max_err_data: usize,
    pub(crate) mr_cnt: usize,
    pub(crate) tclass: u32,
}

/// `struct fi_fabric_attr`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct FabricAttr {
    pub(crate) fabric: *mut c_void,
    pub(crate) name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
    pub(crate) prov_version: u32,
    pub(crate) api_version: u32,
}

/// `struct fi_av_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AvAttr {
    pub(crate) kind: u32,
    pub(crate) rx_ctx_bits: i32,
    pub(crate) count: usize,
    pub(crate) ep_per_node: usize,
    pub(crate) name: *const c_char,
    pub(crate) map_addr: *mut c_void,
    pub(crate) flags: u64,
}

/// `struct fi_cq_attr`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CqAttr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: u32,
    pub(crate) wait_obj: u32,
    pub(crate) signaling_vector: i32,
    pub(crate) wait_cond: u32,
    pub(crate) wait_set: *mut c_void,
}

/// `struct fi_cntr_attr`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CntrAttr {
    pub(crate) events: u32,
    pub(crate) wait_obj: u32,
    pub(crate) wait_set: *mut c_void,
    pub(crate) flags: u64,
}

/// `struct fi_mr_attr`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MrAttr<'call> {
    pub(crate) mr_iov: ListArg<'call, IoVec>,
    pub(crate) iov_count: LengthArg,
    pub(crate) access: u64,
    pub(crate) offset: u64,
    pub(crate) requested_key: u64,
    pub(crate) context: *mut c_void,
    pub(crate) auth_key_size: usize,
    pub(crate) auth_key: *mut u8,
    pub(crate) iface: u32,
    pub(crate) device: u64,
}

/// `struct fi_cq_tagged_entry`. The entries of the other formats are prefixes of it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CqEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
}

/// `struct fi_cq_err_entry`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CqErrEntry {
    pub(crate) entry: CqEntry,
    pub(crate) olen: usize,
    pub(crate) err: i32,
    pub(crate) prov_errno: i32,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: usize,
}

/// An error entry that the call fills. It may be null. From version 1.5 of libfabric on, the user
/// has set its buffer for details.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct ErrorEntryArg<'call>(Option<&'call Cell<MaybeUninit<CqErrEntry>>>);

impl<'call> ErrorEntryArg<'call> {
    #[cfg(test)]
    pub(crate) const fn at(place: &'call Cell<MaybeUninit<CqErrEntry>>) -> Self {
        Self(Some(place))
    }

    /// Fills the entry. If it `has_buffer` for details, as much of `details` as fits goes there.
    pub(crate) fn write(self, entry: CqErrEntry, details: &CStr, has_buffer: bool) {
        let Some(place) = self.0 else { return };
        let mut entry = entry;
        if has_buffer {
            let given = place.as_ptr().cast::<CqErrEntry>();
            // SAFETY: the user has set the two fields (invariant).
            let (buffer, room) = unsafe { ((*given).err_data, (*given).err_data_size) };
            if room > 0 && !buffer.is_null() {
                let details = details.to_bytes_with_nul();
                let (buffer, length) = (buffer.cast::<u8>(), details.len().min(room));
                // SAFETY: the call may write `room` bytes (invariant), which do not belong to this
                // library.
                unsafe {
                    buffer.copy_from_nonoverlapping(details.as_ptr(), length);
                    buffer.add(length - 1).write(0);
                }
                (entry.err_data, entry.err_data_size) = (buffer.cast(), length);
            }
        }
        place.set(MaybeUninit::new(entry));
    }
}

/// The details of an error entry that this provider has filled: a text. It may be null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct ErrorTextArg<'call> {
    text: *const c_char,
    call: PhantomData<&'call CStr>,
}

impl<'call> ErrorTextArg<'call> {
    pub(crate) const fn text(self) -> Option<&'call CStr> {
        if self.text.is_null() {
            return None;
        }
        // SAFETY: `ErrorEntryArg::write` ends the text with a zero.
        Some(unsafe { CStr::from_ptr(self.text) })
    }
}

/// `struct fi_msg`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Msg<'call> {
    pub(crate) msg_iov: ListArg<'call, IoVec>,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: LengthArg,
    pub(crate) addr: FiAddr,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

/// `struct fi_msg_tagged`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MsgTagged<'call> {
    pub(crate) msg_iov: ListArg<'call, IoVec>,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: LengthArg,
    pub(crate) addr: FiAddr,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

/// `struct fi_rma_iov`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RmaIov {
    pub(crate) addr: u64,
    pub(crate) len: usize,
    pub(crate) key: u64,
}

/// `struct fi_msg_rma`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MsgRma<'call> {
    pub(crate) msg_iov: ListArg<'call, IoVec>,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: LengthArg,
    pub(crate) addr: FiAddr,
    pub(crate) rma_iov: ListArg<'call, RmaIov>,
    pub(crate) rma_iov_count: LengthArg,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

/// `struct fi_ioc`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Ioc {
    pub(crate) addr: MemoryArg,
    pub(crate) count: LengthArg,
}

impl Ioc {
    /// Returns the size in bytes of the elements, which have `size` bytes each.
    pub(crate) const fn bytes(&self, size: usize) -> usize {
        self.count.get().saturating_mul(size)
    }

    /// Copies the elements, of `size` bytes each, to the beginning of `to`, and returns the rest.
    /// What does not fit is left out.
    pub(crate) fn copy_to<'a>(&self, size: usize, to: &'a mut [u8]) -> &'a mut [u8] {
        let from = self.addr.as_ptr();
        let length = if from.is_null() { 0 } else { self.bytes(size).min(to.len()) };
        let (front, rest) = to.split_at_mut(length);
        // SAFETY: the elements may be read (invariant of `MemoryArg`), and do not overlap this
        // library's memory.
        unsafe { front.as_mut_ptr().copy_from_nonoverlapping(from.cast(), length) };
        rest
    }
}

/// `struct fi_rma_ioc`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RmaIoc {
    pub(crate) addr: u64,
    pub(crate) count: usize,
    pub(crate) key: u64,
}

/// `struct fi_msg_atomic`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MsgAtomic<'call> {
    pub(crate) msg_iov: ListArg<'call, Ioc>,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: LengthArg,
    pub(crate) addr: FiAddr,
    pub(crate) rma_iov: ListArg<'call, RmaIoc>,
    pub(crate) rma_iov_count: LengthArg,
    pub(crate) datatype: u32,
    pub(crate) op: u32,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

/// `struct fi_atomic_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AtomicAttr {
    pub(crate) count: usize,
    pub(crate) size: usize,
}
