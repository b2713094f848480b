//! Short payloads that lie on two pages, which the kernel's soft iWARP tears.
//!
//! A payload of one piece and at most 32 bytes it copies behind its header (`siw_try_1seg` in `siw_qp_tx.c`). If that is on two
//! pages, it takes as many bytes from the first as there are on the second, and the other way round. Only what goes out in the
//! call that posts it is copied as it should be: no answer to a read does, nor what waits for a read.
//!
//! So what is read is cut where the peer's page ends, and asked for in two requests; what is written or sent becomes two pieces.

use core::ptr;

use rdma_mummy_sys as ibv;
use rdma_mummy_sys::ibv_send_flags as flag;
use rdma_mummy_sys::ibv_wr_opcode as code;

use strait_core::hca::Operation;

use super::request::Pieces;

/// What is longer has a way of its own.
const SHORT: u32 = 32;
/// The smallest page of any peer. Larger ones end where one of these does.
const PAGE: u64 = 4096;

impl Pieces {
    /// Makes two pieces of the only one, if it would be torn.
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

/// Makes two reads of one that was mended: the first, which says nothing when it is done, stays in `raw`. The other is to be
/// posted behind it.
pub(super) fn halve(raw: &mut ibv::ibv_send_wr) -> Option<ibv::ibv_send_wr> {
    if raw.opcode != code::IBV_WR_RDMA_READ || raw.num_sge != 2 {
        return None;
    }
    // SAFETY: integers and pointers that own nothing.
    let mut rest = unsafe { ptr::read(raw) };
    (raw.num_sge, rest.num_sge) = (1, 1);
    raw.send_flags &= !flag::IBV_SEND_SIGNALED.0;
    // SAFETY: there are two pieces.
    let first = unsafe { *raw.sg_list };
    // SAFETY: as above.
    rest.sg_list = unsafe { raw.sg_list.add(1) };
    // SAFETY: a read has this part of the union.
    unsafe { rest.wr.rdma.remote_addr += u64::from(first.length) };
    Some(rest)
}

/// How much of a short payload is on the first of its two pages. `None`: it is not torn.
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
