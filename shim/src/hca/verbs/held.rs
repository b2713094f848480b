//! Requests that this process holds back until reads are done, in place of the device.
//!
//! On iWARP nothing may overtake a read: the kernel's soft iWARP would report it as done before the read, and so the read as done.
//! Its own fence is no help (`orq_fence`, in `siw_qp.c`, `siw_qp_tx.c` and `siw_qp_rx.c`):
//!
//! - What waits behind the fence has the one place from which anything is sent, the answers to the peer's reads included. Two ends
//!   that each have a request behind a read wait for each other for ever.
//! - When the socket has room again, what is in that place is sent, fence or not. The read's answer then finds nothing behind the
//!   fence, and ends the connection.
//!
//! More reads than the ends have agreed upon go the same way. So the device gets a request only when it can begin at once.

use core::ptr;
use std::collections::VecDeque;

use rdma_mummy_sys as ibv;
use rdma_mummy_sys::ibv_send_flags as flag;
use rdma_mummy_sys::ibv_wr_opcode as code;

use super::request::Pieces;
use super::torn;

/// The requests of one connection that wait, and the reads that they wait for.
pub(super) struct Held {
    waiting: VecDeque<Waiting>,
    /// Reads under way: the number of each, and how many the device has for it.
    reads: VecDeque<(u32, usize)>,
    /// Reads that the device may have under way.
    limit: usize,
}

/// One request.
struct Waiting {
    raw: ibv::ibv_send_wr,
    pieces: Pieces,
    /// What was taken at once of one that goes inline.
    data: Vec<u8>,
}

impl Held {
    /// For a connection with so many reads at a time.
    pub(super) fn new(limit: u8) -> Self {
        Self { waiting: VecDeque::new(), reads: VecDeque::new(), limit: limit.into() }
    }

    /// Whether requests wait that the device knows nothing of.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands a request to the device, or keeps it until it may begin. The library's code.
    ///
    /// # Safety
    ///
    /// The pieces of a request that goes inline can be read.
    pub(super) unsafe fn post(
        &mut self,
        raw: ibv::ibv_send_wr,
        pieces: Pieces,
        hand: impl FnMut(&mut ibv::ibv_send_wr) -> i32,
    ) -> i32 {
        if !self.is_waiting() && self.may_begin(&raw, &pieces) {
            return self.begin(raw, pieces, hand);
        }
        let mut data = Vec::new();
        if raw.send_flags & flag::IBV_SEND_INLINE.0 != 0 {
            // SAFETY: by the contract.
            data = unsafe { pieces.copied() };
        }
        self.waiting.push_back(Waiting { raw, pieces, data });
        0
    }

    /// Request `number` is done, and with it all before it: hands over what has waited for them. The library's code.
    pub(super) fn completed(
        &mut self,
        number: u32,
        mut hand: impl FnMut(&mut ibv::ibv_send_wr) -> i32,
    ) -> i32 {
        while self.reads.front().is_some_and(|(read, _)| number.wrapping_sub(*read) < 1 << 31) {
            self.reads.pop_front();
        }
        while let Some(Waiting { raw, pieces, .. }) = self.waiting.front()
            && self.may_begin(raw, pieces)
        {
            let Some(Waiting { raw, mut pieces, data }) = self.waiting.pop_front() else { break };
            if !data.is_empty() {
                pieces.take_from(&data);
            }
            let code = self.begin(raw, pieces, &mut hand);
            if code != 0 {
                return code;
            }
        }
        0
    }

    /// Forgets what waits: the connection is no more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// A read waits where there are too many, or it is fenced; all others wait for all reads.
    fn may_begin(&self, raw: &ibv::ibv_send_wr, pieces: &Pieces) -> bool {
        let waits = !is_read(raw) || raw.send_flags & flag::IBV_SEND_FENCE.0 != 0;
        let under_way: usize = self.reads.iter().map(|(_, count)| count).sum();
        under_way == 0 || !waits && under_way + pieces.count() <= self.limit
    }

    fn begin(
        &mut self,
        mut raw: ibv::ibv_send_wr,
        mut pieces: Pieces,
        mut hand: impl FnMut(&mut ibv::ibv_send_wr) -> i32,
    ) -> i32 {
        raw.send_flags &= !flag::IBV_SEND_FENCE.0;
        let reads = is_read(&raw);
        if reads {
            // Others wait for it, so it has to say when it is done.
            raw.send_flags |= flag::IBV_SEND_SIGNALED.0;
        }
        pieces.lend_to(&mut raw);
        let mut rest = torn::halve(&mut raw);
        raw.next = rest.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        let code = hand(&mut raw);
        if code == 0 && reads {
            self.reads.push_back((raw.wr_id as u32, pieces.count()));
        }
        code
    }
}

fn is_read(raw: &ibv::ibv_send_wr) -> bool {
    raw.opcode == code::IBV_WR_RDMA_READ
}

/// Hands a request to the device. The library's code.
///
/// # Safety
///
/// The pair is live; the memory that the pieces mean is valid as [`Hca::post`](strait_core::hca::Hca::post) wants it.
pub(super) unsafe fn send(pair: *mut ibv::ibv_qp, raw: &mut ibv::ibv_send_wr) -> i32 {
    let mut refused = ptr::null_mut();
    // SAFETY: by the contract; the request and its list of pieces are read before the call returns.
    unsafe { ibv::ibv_post_send(pair, raw, &raw mut refused) }
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;

    use strait_core::hca::{Atomics, Capabilities, Operation, Piece, Remote, WorkRequest};

    use super::super::request;
    use super::*;

    const DEVICE: Capabilities = Capabilities {
        inline: 64,
        pieces: 4,
        read_pieces: 1,
        reads: 2,
        depth: 64,
        receives: 1,
        message: 1 << 30,
        atomics: Atomics::None,
        immediate: false,
        acknowledged: false,
        ordered_bytes: false,
    };

    /// A connection with two reads at a time, and what its device has got: numbers, and the first byte of what went inline.
    struct Wire {
        held: Held,
        got: Vec<(u32, Option<u8>)>,
        next: u32,
    }

    impl Wire {
        fn new() -> Self {
            // The numbers wrap in the middle.
            Self { held: Held::new(2), got: Vec::new(), next: u32::MAX - 1 }
        }

        fn post(&mut self, bytes: &mut [u8], reads: bool, inline: bool, fenced: bool) {
            let base = NonNull::new(bytes.as_mut_ptr()).unwrap();
            let piece = [Piece { base, length: bytes.len() as u32, key: 1 }];
            let far = Remote { address: 0, key: 2 };
            let operation = match reads {
                true => Operation::Read { into: &piece, from: far },
                false => Operation::Write { from: &piece, to: far },
            };
            let wanted = WorkRequest { id: 0, operation, signaled: false, inline, fenced };
            let pieces = Pieces::new(&wanted, &DEVICE).unwrap();
            let raw = request::form(&wanted, self.next.into());
            self.next = self.next.wrapping_add(1);
            let got = &mut self.got;
            // SAFETY: the piece is of a slice.
            assert_eq!(unsafe { self.held.post(raw, pieces, |raw| take(got, raw)) }, 0);
        }

        fn completed(&mut self, number: u32) {
            let got = &mut self.got;
            assert_eq!(self.held.completed(number, |raw| take(got, raw)), 0);
        }

        fn numbers(&mut self) -> Vec<u32> {
            self.got.drain(..).map(|(number, _)| number).collect()
        }
    }

    fn take(got: &mut Vec<(u32, Option<u8>)>, raw: &mut ibv::ibv_send_wr) -> i32 {
        assert_eq!(raw.send_flags & flag::IBV_SEND_FENCE.0, 0, "the device's fence is used");
        assert!(!is_read(raw) || raw.send_flags & flag::IBV_SEND_SIGNALED.0 != 0, "a silent read");
        let is_inline = raw.send_flags & flag::IBV_SEND_INLINE.0 != 0;
        // SAFETY: one piece, of memory that the request has with it.
        let first = is_inline
            .then(|| unsafe { *ptr::with_exposed_provenance::<u8>((*raw.sg_list).addr as usize) });
        got.push((raw.wr_id as u32, first));
        0
    }

    #[test]
    fn reads_go_at_once_as_many_as_may_and_all_else_waits_for_them() {
        let (mut wire, mut bytes) = (Wire::new(), [0; 100]);
        let (first, last) = (wire.next, wire.next.wrapping_add(6));
        for reads in [false, true, true, true, false, true, false] {
            wire.post(&mut bytes, reads, false, false);
        }
        let number = |at: u32| first.wrapping_add(at);
        assert_eq!(wire.numbers(), [number(0), number(1), number(2)]);
        wire.completed(number(0));
        assert_eq!(wire.numbers(), [], "a write frees no read");
        wire.completed(number(1));
        assert_eq!(wire.numbers(), [number(3)]);
        wire.completed(number(2));
        assert_eq!(wire.numbers(), [], "one is under way");
        // The read behind the write may begin with it, and no earlier.
        wire.completed(number(3));
        assert_eq!(wire.numbers(), [number(4), number(5)]);
        wire.completed(number(5));
        assert_eq!(wire.numbers(), [last]);
        assert!(!wire.held.is_waiting());
    }

    #[test]
    fn a_fenced_read_waits_for_the_others() {
        let (mut wire, mut bytes) = (Wire::new(), [0; 100]);
        let first = wire.next;
        wire.post(&mut bytes, true, false, false);
        wire.post(&mut bytes, true, false, true);
        assert_eq!(wire.numbers(), [first]);
        wire.completed(first);
        assert_eq!(wire.numbers(), [first.wrapping_add(1)]);
    }

    #[test]
    fn what_waits_and_goes_inline_was_taken_at_once() {
        let (mut wire, mut bytes) = (Wire::new(), [7; 8]);
        let first = wire.next;
        wire.post(&mut [0; 100], true, false, false);
        wire.post(&mut bytes, false, true, false);
        bytes.fill(8);
        wire.got.clear();
        wire.completed(first);
        assert_eq!(wire.got, [(first.wrapping_add(1), Some(7))]);
    }

    #[test]
    fn nothing_waits_on_a_connection_that_is_gone() {
        let (mut wire, mut bytes) = (Wire::new(), [0; 100]);
        let first = wire.next;
        wire.post(&mut bytes, true, false, false);
        wire.post(&mut bytes, false, false, false);
        wire.held.clear();
        assert!(!wire.held.is_waiting());
        wire.got.clear();
        wire.completed(first);
        assert_eq!(wire.numbers(), []);
    }
}
