//! Sends that complete at delivery.
//!
//! The receiver reports a delivery in one of two ways. Without a message, the credit of its fastbox
//! covers the [`Mark`] of the send. Otherwise a message has the number of the send.

use std::collections::{HashMap, VecDeque};

use strait_core::engine::{FailureCause, Fault, Mark};

use super::{SendOp, Traffic};

/// The sends without a report of their delivery yet.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// The number of sends with a mark.
    marked: usize,
    /// The last poll of the marks found no delivery, and no send has been added since.
    looked: bool,
    /// The sends with a mark, by destination, each queue in the order of sending.
    queues: Vec<(u32, VecDeque<(Mark, SendOp)>)>,
    /// The sends with a number, by destination and number.
    numbered: HashMap<(u32, u64), SendOp>,
}

impl Deliveries {
    /// Returns whether no send with a mark waits.
    #[inline(always)]
    pub(super) const fn has_no_mark(&self) -> bool {
        self.marked == 0
    }

    /// Adds a send to `rank` that the receiver's credit reports.
    pub(super) fn push_marked(&mut self, rank: u32, mark: Mark, op: SendOp) {
        self.marked += 1;
        self.looked = false;
        match self.queues.iter_mut().find(|(destination, _)| *destination == rank) {
            Some((_, queue)) => queue.push_back((mark, op)),
            None => self.queues.push((rank, VecDeque::from([(mark, op)]))),
        }
    }

    /// Adds a send to `rank` that a message with this number reports.
    pub(super) fn push_numbered(&mut self, rank: u32, number: u32, op: SendOp) {
        self.numbered.insert((rank, number.into()), op);
    }

    /// Removes the send to `rank` with this number.
    pub(super) fn take_numbered(&mut self, rank: u32, number: u64) -> Option<SendOp> {
        self.numbered.remove(&(rank, number))
    }

    /// Removes the oldest send with a mark to some destination, if `is_over` returns true for it.
    fn pop_marked(&mut self, is_over: impl Fn(u32, Mark) -> bool) -> Option<(u32, SendOp)> {
        let popped = self.queues.iter_mut().find_map(|(rank, queue)| {
            let (_, op) = queue.pop_front_if(|(mark, _)| is_over(*rank, *mark))?;
            Some((*rank, op))
        })?;
        self.marked -= 1;
        Some(popped)
    }
}

impl Traffic {
    /// Completes the sends that the receivers' credit reports.
    #[inline(never)]
    pub(super) fn see_taken(&mut self) {
        while let Some((rank, op)) =
            self.deliveries.pop_marked(|rank, mark| self.port.is_taken(rank, mark))
        {
            self.sent(rank, &op, None);
        }
    }

    /// Polls the marks in the second of two polls that find nothing, not in the first.
    ///
    /// An answer often arrives soon, and then one read of the completion queue reports both. MPICH
    /// yields the processor after each read.
    #[inline(never)]
    pub(super) fn see_taken_late(&mut self) {
        if self.deliveries.looked {
            self.see_taken();
        }
        self.deliveries.looked = true;
    }

    /// Fails the sends to peers that are gone.
    pub(super) fn reap_deliveries(&mut self) {
        self.see_taken();
        let Self { port, deliveries, .. } = self;
        let is_gone = |rank| port.gone(rank).is_some();
        let next = || deliveries.pop_marked(|rank, _| is_gone(rank));
        let mut lost: Vec<_> = core::iter::from_fn(next).collect();
        let numbered = deliveries.numbered.extract_if(|(rank, _), _| is_gone(*rank));
        lost.extend(numbered.map(|((rank, _), op)| (rank, op)));
        for (rank, op) in lost {
            self.sent(rank, &op, Some(Fault::PeerFailed { rank, sign: FailureCause::Ended }));
        }
    }
}
