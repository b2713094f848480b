//! Conversion of work requests into the library's form, and of its completions into Strait's.

use core::mem::{self, MaybeUninit};
use core::ptr;
use core::slice;

use rdma_mummy_sys as ibv;
use rdma_mummy_sys::ibv_send_flags as flag;
use rdma_mummy_sys::ibv_wc_opcode as done;
use rdma_mummy_sys::ibv_wr_opcode as code;
use strait_core::hca::{Capabilities, Done, Operation, PostError, RemoteAddress, Sge, WorkRequest};

/// Largest number of pieces in one request, even if the device supports more.
pub(super) const PIECES: usize = 4;

/// A request's pieces, as the library takes them.
#[derive(Clone, Copy)]
pub(super) struct Pieces {
    list: [MaybeUninit<ibv::ibv_sge>; PIECES],
    count: usize,
}

impl Pieces {
    /// Converts the pieces of `request`, if the device supports their number and length.
    pub(super) fn new(request: &WorkRequest<'_>, device: &Capabilities) -> Result<Self, PostError> {
        if !device.has(&request.operation) {
            return Err(PostError::Unsupported);
        }
        let pieces = match &request.operation {
            Operation::Write { from, .. }
            | Operation::WriteImmediate { from, .. }
            | Operation::Send { from } => *from,
            Operation::Read { into, .. } => *into,
            Operation::CompareAndSwap { result, .. } | Operation::FetchAndAdd { result, .. } => {
                core::slice::from_ref(result)
            }
        };
        let limit = match request.operation {
            Operation::Read { .. } => device.read_pieces,
            _ => device.pieces,
        };
        if pieces.len() > (limit as usize).min(PIECES) {
            return Err(PostError::Pieces { found: pieces.len(), limit });
        }
        let length = pieces.iter().map(|piece| u64::from(piece.length)).sum();
        let limit = if goes_inline(request) { device.inline.into() } else { device.message };
        if length > limit {
            return Err(PostError::Length { found: length, limit });
        }
        let mut list = [MaybeUninit::uninit(); PIECES];
        // The kernel's soft iWARP stops at an empty piece among others.
        let counts = |piece: &&Sge| pieces.len() == 1 || piece.length > 0;
        let mut count = 0;
        for (place, piece) in list.iter_mut().zip(pieces.iter().filter(counts)) {
            place.write(element(piece));
            count += 1;
        }
        Ok(Self { list, count })
    }

    /// Returns the piece of a request that has exactly one.
    pub(super) fn only(&self) -> Option<ibv::ibv_sge> {
        // SAFETY: the first `count` entries are written.
        (self.count == 1).then(|| unsafe { self.list[0].assume_init() })
    }

    /// Makes two pieces of `only`; the first has `length` bytes.
    pub(super) fn cut(&mut self, only: ibv::ibv_sge, length: u32) {
        let (addr, rest) = (only.addr + u64::from(length), only.length - length);
        self.list[0].write(ibv::ibv_sge { length, ..only });
        self.list[1].write(ibv::ibv_sge { addr, length: rest, ..only });
        self.count = 2;
    }

    /// Returns the number of pieces.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Sets the pieces of `raw` to these. `raw` refers to `self` from now on.
    pub(super) fn lend_to(&mut self, raw: &mut ibv::ibv_send_wr) {
        raw.sg_list = self.list.as_mut_ptr().cast();
        raw.num_sge = self.count as i32;
    }

    /// Returns a copy of the bytes of all pieces, in order.
    ///
    /// # Safety
    ///
    /// The memory of the pieces can be read.
    pub(super) unsafe fn copied(&self) -> Vec<u8> {
        let mut data = Vec::new();
        for element in &self.list[..self.count] {
            // SAFETY: the first `count` entries are written.
            let ibv::ibv_sge { addr, length, .. } = unsafe { element.assume_init() };
            let from = ptr::with_exposed_provenance(addr as usize);
            // SAFETY: the caller guarantees that the memory can be read (contract of `copied`). The
            // pointer of a piece is not null.
            data.extend_from_slice(unsafe { slice::from_raw_parts(from, length as usize) });
        }
        data
    }

    /// Replaces the pieces by one, which refers to `data`.
    pub(super) fn take_from(&mut self, data: &[u8]) {
        let addr = data.as_ptr().expose_provenance() as u64;
        self.list[0].write(ibv::ibv_sge { addr, length: data.len() as u32, lkey: 0 });
        self.count = 1;
    }
}

/// Converts `request` into the library's form, with `number` for its completion, and without
/// pieces.
pub(super) fn form(request: &WorkRequest<'_>, number: u64) -> ibv::ibv_send_wr {
    // SAFETY: the structure consists of integers and pointers, for which zero is a valid value.
    let mut raw: ibv::ibv_send_wr = unsafe { mem::zeroed() };
    raw.wr_id = number;
    raw.send_flags = flags(request);
    let plain = |to: RemoteAddress| ibv::rdma_t { remote_addr: to.address, rkey: to.key };
    let atomic = |to: RemoteAddress, compare_add, swap| ibv::atomic_t {
        remote_addr: to.address,
        compare_add,
        swap,
        rkey: to.key,
    };
    raw.opcode = match request.operation {
        Operation::Write { to, .. } => {
            raw.wr.rdma = plain(to);
            code::IBV_WR_RDMA_WRITE
        }
        Operation::WriteImmediate { to, immediate, .. } => {
            raw.wr.rdma = plain(to);
            raw.imm_data_invalidated_rkey_union.imm_data = immediate.to_be();
            code::IBV_WR_RDMA_WRITE_WITH_IMM
        }
        Operation::Read { from, .. } => {
            raw.wr.rdma = plain(from);
            code::IBV_WR_RDMA_READ
        }
        Operation::Send { .. } => code::IBV_WR_SEND,
        Operation::CompareAndSwap { target, expected, desired, .. } => {
            raw.wr.atomic = atomic(target, expected, desired);
            code::IBV_WR_ATOMIC_CMP_AND_SWP
        }
        Operation::FetchAndAdd { target, addend, .. } => {
            raw.wr.atomic = atomic(target, addend, 0);
            code::IBV_WR_ATOMIC_FETCH_AND_ADD
        }
    };
    raw
}

/// Converts one piece into the library's form.
pub(super) fn element(piece: &Sge) -> ibv::ibv_sge {
    let addr = piece.base.as_ptr().expose_provenance() as u64;
    ibv::ibv_sge { addr, length: piece.length, lkey: piece.key }
}

/// Returns whether the data is copied when the request is posted. Only outgoing data can be.
fn goes_inline(request: &WorkRequest<'_>) -> bool {
    let leads_away = matches!(
        request.operation,
        Operation::Write { .. } | Operation::WriteImmediate { .. } | Operation::Send { .. }
    );
    request.inline && leads_away
}

fn flags(request: &WorkRequest<'_>) -> u32 {
    let wanted = [
        (request.signaled, flag::IBV_SEND_SIGNALED),
        (goes_inline(request), flag::IBV_SEND_INLINE),
        (request.fenced, flag::IBV_SEND_FENCE),
    ];
    wanted.into_iter().filter(|(set, _)| *set).fold(0, |flags, (_, one)| flags | one.0)
}

/// Returns the result of a request or receive that succeeded. Returns `None` for an operation that
/// is never posted.
pub(super) fn done(completion: &ibv::ibv_wc) -> Option<Done> {
    let length = completion.byte_len;
    Some(match completion.opcode {
        done::IBV_WC_RDMA_WRITE => Done::Write,
        done::IBV_WC_RDMA_READ => Done::Read,
        done::IBV_WC_SEND => Done::Send,
        done::IBV_WC_COMP_SWAP | done::IBV_WC_FETCH_ADD => Done::Atomic,
        done::IBV_WC_RECV => Done::Receive { length },
        done::IBV_WC_RECV_RDMA_WITH_IMM => {
            // SAFETY: both fields of the union are 32-bit integers, for which any value is valid.
            let immediate = unsafe { completion.imm_data_invalidated_rkey_union.imm_data };
            Done::Immediate { immediate: u32::from_be(immediate), length }
        }
        _ => return None,
    })
}
