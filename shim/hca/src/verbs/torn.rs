//! Short payloads that cross a page boundary, which the kernel's soft iWARP corrupts.
//!
//! Soft iWARP copies a payload of one piece and at most 32 bytes behind its header (`siw_try_1seg`
//! in `siw_qp_tx.c`). If the payload lies on two pages, it takes from the first page as many bytes
//! as lie on the second, and the reverse. Only a payload that leaves in the call that posts it is
//! copied correctly. Answers to reads, and requests that wait for a read, leave later.
//!
//! So a read is cut where the peer's page ends, and becomes two requests. A write or a message
//! becomes two pieces.

use core::ptr;

use rdma_mummy_sys as ibv;
use rdma_mummy_sys::ibv_send_flags as flag;
use rdma_mummy_sys::ibv_wr_opcode as code;

use strait_core::hca::Operation;

use super::request::Pieces;

/// Longest payload that is copied in this way, in bytes.
const SHORT: u32 = 32;
/// The smallest page size of any peer, in bytes. A larger page ends where one of these ends.
const PAGE: u64 = 4096;

impl Pieces {
    /// Makes two pieces of a single piece that would be corrupted.
    pub(super) fn mend(&mut self, operation: &Operation<'_>) {
        let Some(piece) = self.only() else { return };
        let place = match operation {
            Operation::Read { from, .. } => from.address,
            _ => piece.addr,
        };
        if let Some(length) = on_first_page(place, piece.length) {
            self.cut(piece, length);
        }
    }
}

/// Splits a read of two pieces into two reads. The first, which is not signaled, stays in `raw`.
/// The caller posts the returned one behind it.
pub(super) fn halve(raw: &mut ibv::ibv_send_wr) -> Option<ibv::ibv_send_wr> {
    if raw.opcode != code::IBV_WR_RDMA_READ || raw.num_sge != 2 {
        return None;
    }
    // SAFETY: the structure consists of integers and pointers that own nothing, so a bitwise copy
    // is valid.
    let mut rest = unsafe { ptr::read(raw) };
    (raw.num_sge, rest.num_sge) = (1, 1);
    raw.send_flags &= !flag::IBV_SEND_SIGNALED.0;
    // SAFETY: `num_sge` was 2, so the list has two pieces.
    let first = unsafe { *raw.sg_list };
    // SAFETY: `num_sge` was 2, so the list has two pieces.
    rest.sg_list = unsafe { raw.sg_list.add(1) };
    // SAFETY: a read uses this field of the union.
    unsafe { rest.wr.rdma.remote_addr += u64::from(first.length) };
    Some(rest)
}

/// Returns the number of bytes of a short payload on the first of its two pages. Returns `None`
/// when it is not corrupted.
fn on_first_page(address: u64, length: u32) -> Option<u32> {
    let left = (PAGE - address % PAGE) as u32;
    (left < length && length <= SHORT).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_torn_is_short_and_on_two_pages() {
        assert_eq!(on_first_page(PAGE - 1, 2), Some(1));
        assert_eq!(on_first_page(3 * PAGE - 31, SHORT), Some(31));
        assert_eq!(on_first_page(PAGE - 1, 1), None, "up to the end");
        assert_eq!(on_first_page(PAGE, SHORT), None, "from the beginning");
        assert_eq!(on_first_page(PAGE - 1, SHORT + 1), None, "not short");
        assert_eq!(on_first_page(PAGE - 1, 0), None, "nothing");
    }
}
