//! The order of requests and of their completions on iWARP, which this process ensures in place of
//! the driver.
//!
//! The kernel's soft iWARP may report a write or a message behind a read as done before the read,
//! and thereby the read as done. Its fence, which would hold them back, cannot be used
//! (`orq_fence`, in `siw_qp.c`, `siw_qp_tx.c` and `siw_qp_rx.c`):
//!
//! - A request that waits behind the fence occupies the only slot from which anything is sent, also
//!   the answers to the peer's reads. Two ends that each have a request behind a read wait for each
//!   other for ever.
//! - When the socket has room again, the request in that slot is sent, fence or not. The read's
//!   answer then finds nothing behind the fence, and ends the connection.
//!
//! So no request is fenced. A request that completes before an earlier read is reported with that
//! read.
//!
//! Two kinds of request would use the driver's fence: a request that is to wait for reads, and a
//! read beyond the number that the ends have agreed upon. They are passed on when they can start at
//! once, which is in a later call. That is why no other request waits here.

use core::ptr;
use std::collections::VecDeque;

use rdma_mummy_sys as ibv;
use rdma_mummy_sys::ibv_send_flags as flag;
use rdma_mummy_sys::ibv_wr_opcode as code;

use super::request::Pieces;
use super::torn;

/// The requests of one connection that are in flight, as far as their order matters.
pub(super) struct RequestOrder {
    /// Reads in flight: the number of each, and how many reads the device makes of it.
    reads: VecDeque<(u32, usize)>,
    /// Completions that came before that of an earlier read, or are about to be reported.
    early: VecDeque<ibv::ibv_wc>,
    /// Requests that the device has not received.
    waiting: VecDeque<DeferredRequest>,
    /// Number of reads that the device may have in flight.
    limit: usize,
    /// Whether a request has failed. No request posted after it is carried out.
    failed: bool,
}

/// A request that may not start yet.
struct DeferredRequest {
    raw: ibv::ibv_send_wr,
    pieces: Pieces,
    /// A copy of the data of an inline request, taken when it was posted.
    data: Vec<u8>,
}

impl RequestOrder {
    /// Creates the state of a connection with `limit` reads at a time.
    pub(super) fn new(limit: u8) -> Self {
        Self {
            reads: VecDeque::new(),
            early: VecDeque::new(),
            waiting: VecDeque::new(),
            limit: limit.into(),
            failed: false,
        }
    }

    /// Returns whether requests or completions are kept here that the device does not report again.
    #[cfg(test)]
    pub(super) fn keeps_any(&self) -> bool {
        !self.waiting.is_empty() || !self.early.is_empty()
    }

    /// Discards everything: the connection is gone.
    pub(super) fn clear(&mut self) {
        self.reads.clear();
        self.early.clear();
        self.waiting.clear();
    }

    /// Records a completion that the device has reported.
    pub(super) fn reported(&mut self, completion: ibv::ibv_wc) {
        let number = completion.wr_id as u32;
        if self.reads.front().is_some_and(|(read, _)| *read == number) {
            // All early completions belong to requests behind this read.
            self.reads.pop_front();
            self.early.push_front(completion);
        } else {
            self.early.push_back(completion);
        }
    }

    /// Returns the next completion that can be reported.
    pub(super) fn next(&mut self) -> Option<ibv::ibv_wc> {
        let number = self.early.front()?.wr_id as u32;
        let is_before = |read: u32| number.wrapping_sub(read) < 1 << 31;
        if self.reads.front().is_some_and(|(read, _)| is_before(*read)) {
            return None;
        }
        let mut completion = self.early.pop_front()?;
        if self.failed {
            completion.status = ibv::ibv_wc_status::IBV_WC_WR_FLUSH_ERR;
        }
        self.failed = completion.status != ibv::ibv_wc_status::IBV_WC_SUCCESS;
        Some(completion)
    }

    /// Passes a request to the device, or keeps it until it may start. Returns the library's code.
    ///
    /// # Safety
    ///
    /// The pieces of an inline request can be read.
    pub(super) unsafe fn post(
        &mut self,
        mut raw: ibv::ibv_send_wr,
        pieces: Pieces,
        submit: impl FnMut(&mut ibv::ibv_send_wr) -> i32,
    ) -> i32 {
        if self.waiting.is_empty() && self.may_begin(&raw, &pieces) {
            return self.begin(&mut raw, pieces, submit);
        }
        let mut data = Vec::new();
        if raw.send_flags & flag::IBV_SEND_INLINE.0 != 0 {
            // SAFETY: the caller guarantees that the pieces of an inline request can be read
            // (contract of `post`).
            data = unsafe { pieces.copied() };
        }
        self.waiting.push_back(DeferredRequest { raw, pieces, data });
        0
    }

    /// Passes on the requests that may start now; none after a failure. Returns the library's code.
    pub(super) fn go_on(&mut self, mut submit: impl FnMut(&mut ibv::ibv_send_wr) -> i32) -> i32 {
        while let Some(DeferredRequest { raw, pieces, .. }) = self.waiting.front()
            && !self.failed
            && self.may_begin(raw, pieces)
            && let Some(mut first) = self.waiting.pop_front()
        {
            if !first.data.is_empty() {
                first.pieces.take_from(&first.data);
            }
            let code = self.begin(&mut first.raw, first.pieces, &mut submit);
            if code != 0 {
                // The request was posted, so it stays here until it is completed as flushed.
                self.waiting.push_front(first);
                return code;
            }
        }
        0
    }

    fn may_begin(&self, raw: &ibv::ibv_send_wr, pieces: &Pieces) -> bool {
        let under_way: usize = self.reads.iter().map(|(_, count)| count).sum();
        let is_fenced = raw.send_flags & flag::IBV_SEND_FENCE.0 != 0;
        let is_one_too_many = is_read(raw) && under_way + pieces.count() > self.limit;
        under_way == 0 || !is_fenced && !is_one_too_many
    }

    fn begin(
        &mut self,
        raw: &mut ibv::ibv_send_wr,
        mut pieces: Pieces,
        mut submit: impl FnMut(&mut ibv::ibv_send_wr) -> i32,
    ) -> i32 {
        raw.send_flags &= !flag::IBV_SEND_FENCE.0;
        let reads = is_read(raw);
        if reads {
            // Other requests are reported after it, so its completion is needed.
            raw.send_flags |= flag::IBV_SEND_SIGNALED.0;
        }
        pieces.lend_to(raw);
        let mut rest = torn::halve(raw);
        raw.next = rest.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        let code = submit(raw);
        if code == 0 && reads {
            self.reads.push_back((raw.wr_id as u32, pieces.count()));
        }
        code
    }
}

fn is_read(raw: &ibv::ibv_send_wr) -> bool {
    raw.opcode == code::IBV_WR_RDMA_READ
}

/// Passes a request to the device. Returns the library's code.
///
/// # Safety
///
/// The pair is live. The memory of the pieces is valid as
/// [`Hca::post`](strait_core::hca::Hca::post) requires.
pub(super) unsafe fn send(pair: *mut ibv::ibv_qp, raw: &mut ibv::ibv_send_wr) -> i32 {
    let mut refused = ptr::null_mut();
    // SAFETY: the caller guarantees a live pair and valid memory (contract of `send`). The library
    // reads the request and its list of pieces before the call returns.
    unsafe { ibv::ibv_post_send(pair, raw, &raw mut refused) }
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;

    use rdma_mummy_sys::ibv_wc_status::Type as Status;
    use rdma_mummy_sys::ibv_wc_status::{IBV_WC_SUCCESS as DONE, IBV_WC_WR_FLUSH_ERR as FLUSHED};
    use strait_core::hca::{Atomics, Capabilities, Operation, RemoteAddress, Sge, WorkRequest};

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

    /// A connection with two reads at a time, and the requests that its device has received: their
    /// numbers, and the first byte of inline data.
    struct Wire {
        order: RequestOrder,
        got: Vec<(u32, Option<u8>)>,
        next: u32,
    }

    impl Wire {
        fn new() -> Self {
            // The numbers wrap in the middle.
            Self { order: RequestOrder::new(2), got: Vec::new(), next: u32::MAX - 1 }
        }

        fn post(&mut self, bytes: &mut [u8], reads: bool, inline: bool, fenced: bool) {
            let base = NonNull::new(bytes.as_mut_ptr()).unwrap();
            let piece = [Sge { base, length: bytes.len() as u32, key: 1 }];
            let far = RemoteAddress { address: 0, key: 2 };
            let operation = match reads {
                true => Operation::Read { into: &piece, from: far },
                false => Operation::Write { from: &piece, to: far },
            };
            let wanted = WorkRequest { id: 0, operation, signaled: false, inline, fenced };
            let pieces = Pieces::new(&wanted, &DEVICE).unwrap();
            let raw = request::form(&wanted, self.next.into());
            self.next = self.next.wrapping_add(1);
            let got = &mut self.got;
            // SAFETY: the piece is a slice, which can be read.
            assert_eq!(unsafe { self.order.post(raw, pieces, |raw| take(got, raw)) }, 0);
        }

        /// Reports `number` as the device does. Returns the completions that can be reported, and
        /// whether each is a success.
        fn reported(&mut self, number: u32, status: Status) -> Vec<(u32, bool)> {
            // SAFETY: the structure consists of integers, for which zero is a valid value.
            let mut completion: ibv::ibv_wc = unsafe { core::mem::zeroed() };
            (completion.wr_id, completion.status) = (number.into(), status);
            self.order.reported(completion);
            let next = || self.order.next();
            let all = core::iter::from_fn(next).map(|one| (one.wr_id as u32, one.status == DONE));
            let all = all.collect();
            let got = &mut self.got;
            assert_eq!(self.order.go_on(|raw| take(got, raw)), 0);
            all
        }

        fn numbers(&mut self) -> Vec<u32> {
            self.got.drain(..).map(|(number, _)| number).collect()
        }
    }

    fn take(got: &mut Vec<(u32, Option<u8>)>, raw: &mut ibv::ibv_send_wr) -> i32 {
        assert_eq!(raw.send_flags & flag::IBV_SEND_FENCE.0, 0, "the device's fence is used");
        assert!(!is_read(raw) || raw.send_flags & flag::IBV_SEND_SIGNALED.0 != 0, "a silent read");
        let is_inline = raw.send_flags & flag::IBV_SEND_INLINE.0 != 0;
        // SAFETY: an inline request has one piece, of memory that the request keeps alive.
        let first = is_inline
            .then(|| unsafe { *ptr::with_exposed_provenance::<u8>((*raw.sg_list).addr as usize) });
        got.push((raw.wr_id as u32, first));
        0
    }

    #[test]
    fn what_is_done_early_is_reported_after_the_reads_before_it() {
        let (mut wire, mut bytes) = (Wire::new(), [0; 100]);
        let first = wire.next;
        let number = |at: u32| first.wrapping_add(at);
        for reads in [false, true, false, true, false] {
            wire.post(&mut bytes, reads, false, false);
        }
        assert_eq!(wire.numbers(), [0, 1, 2, 3, 4].map(number), "nothing waits");
        assert_eq!(wire.reported(number(0), DONE), [(number(0), true)]);
        assert_eq!(wire.reported(number(2), DONE), []);
        assert_eq!(wire.reported(number(4), DONE), []);
        assert!(wire.order.keeps_any());
        assert_eq!(wire.reported(number(1), DONE), [(number(1), true), (number(2), true)]);
        assert_eq!(wire.reported(number(3), DONE), [(number(3), true), (number(4), true)]);
        assert!(!wire.order.keeps_any());
    }

    #[test]
    fn nothing_is_done_after_a_failure() {
        let (mut wire, mut bytes) = (Wire::new(), [0; 100]);
        let first = wire.next;
        let number = |at: u32| first.wrapping_add(at);
        for reads in [true, false, true, false] {
            wire.post(&mut bytes, reads, false, false);
        }
        wire.post(&mut bytes, false, false, true);
        assert_eq!(wire.numbers(), [0, 1, 2, 3].map(number));
        assert_eq!(wire.reported(number(1), DONE), []);
        assert_eq!(wire.reported(number(0), FLUSHED), [(number(0), false), (number(1), false)]);
        assert_eq!(wire.reported(number(2), FLUSHED), [(number(2), false)]);
        assert_eq!(wire.reported(number(3), FLUSHED), [(number(3), false)]);
        assert_eq!(wire.numbers(), [], "none has started");
        assert!(wire.order.keeps_any(), "waiting requests are still to be completed");
    }

    #[test]
    fn a_read_too_many_waits_and_what_comes_behind_it() {
        let (mut wire, mut bytes) = (Wire::new(), [0; 100]);
        let first = wire.next;
        let number = |at: u32| first.wrapping_add(at);
        for reads in [true, true, true, false] {
            wire.post(&mut bytes, reads, false, false);
        }
        assert_eq!(wire.numbers(), [0, 1].map(number));
        assert_eq!(wire.reported(number(0), DONE), [(number(0), true)]);
        assert_eq!(wire.numbers(), [2, 3].map(number));
    }

    #[test]
    fn what_is_fenced_waits_for_all_reads() {
        for reads in [true, false] {
            let (mut wire, mut bytes) = (Wire::new(), [0; 100]);
            let first = wire.next;
            let number = |at: u32| first.wrapping_add(at);
            wire.post(&mut bytes, true, false, false);
            wire.post(&mut bytes, true, false, false);
            wire.post(&mut bytes, reads, false, true);
            wire.post(&mut bytes, false, false, false);
            assert_eq!(wire.numbers(), [0, 1].map(number));
            wire.reported(number(0), DONE);
            assert_eq!(wire.numbers(), [], "a read is in flight");
            wire.reported(number(1), DONE);
            assert_eq!(wire.numbers(), [2, 3].map(number));
        }
    }

    #[test]
    fn what_waits_and_goes_inline_was_taken_at_once() {
        let (mut wire, mut bytes) = (Wire::new(), [7; 8]);
        let first = wire.next;
        wire.post(&mut [0; 100], true, false, false);
        wire.post(&mut bytes, false, true, true);
        bytes.fill(8);
        wire.got.clear();
        wire.reported(first, DONE);
        assert_eq!(wire.got, [(first.wrapping_add(1), Some(7))]);
    }

    #[test]
    fn a_request_that_the_driver_refuses_late_is_still_to_be_completed() {
        let (mut wire, mut bytes) = (Wire::new(), [7; 8]);
        let first = wire.next;
        wire.post(&mut [0; 100], true, false, false);
        wire.post(&mut bytes, false, true, true);
        // SAFETY: the structure consists of integers, for which zero is a valid value.
        let mut completion: ibv::ibv_wc = unsafe { core::mem::zeroed() };
        (completion.wr_id, completion.status) = (first.into(), DONE);
        wire.order.reported(completion);
        assert!(wire.order.next().is_some());
        let mut handed = 0;
        let refuse = |_: &mut ibv::ibv_send_wr| {
            handed += 1;
            107
        };
        assert_eq!(wire.order.go_on(refuse), 107);
        assert_eq!(handed, 1);
        assert!(wire.order.keeps_any(), "the request is lost");
    }

    #[test]
    fn nothing_is_kept_of_a_connection_that_is_gone() {
        let (mut wire, mut bytes) = (Wire::new(), [0; 100]);
        let first = wire.next;
        wire.post(&mut bytes, true, false, false);
        wire.post(&mut bytes, false, false, false);
        wire.post(&mut bytes, false, false, true);
        wire.reported(first.wrapping_add(1), DONE);
        wire.order.clear();
        assert!(!wire.order.keeps_any());
        wire.got.clear();
        assert_eq!(wire.reported(first, FLUSHED), [(first, false)]);
        assert_eq!(wire.numbers(), []);
    }
}
