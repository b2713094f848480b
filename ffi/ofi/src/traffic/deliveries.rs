//! Sends that complete at delivery.
//!
//! The receiver reports a delivery in one of two ways. Without a message, the credit of its fastbox
//! covers the [`Mark`] of the send. Otherwise a message has the number of the send.

use std::collections::{HashMap, VecDeque};

use strait_core::engine::Mark;

use super::send_op::SendOp;

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

    /// Returns all sends with their destinations, in no order.
    pub(super) fn sends(&self) -> impl Iterator<Item = (u32, &SendOp)> {
        let marked = self
            .queues
            .iter()
            .flat_map(|(rank, queue)| queue.iter().map(move |(_, op)| (*rank, op)));
        marked.chain(self.numbered.iter().map(|((rank, _), op)| (*rank, op)))
    }

    /// Removes the send to `rank` with this number.
    pub(super) fn take_numbered(&mut self, rank: u32, number: u64) -> Option<SendOp> {
        self.numbered.remove(&(rank, number))
    }

    /// Removes the oldest send with a mark to some destination, if `is_over` returns true for it.
    pub(super) fn pop_marked(
        &mut self,
        is_over: impl Fn(u32, Mark) -> bool,
    ) -> Option<(u32, SendOp)> {
        let popped = self.queues.iter_mut().find_map(|(rank, queue)| {
            queue.front().filter(|(mark, _)| is_over(*rank, *mark))?;
            let (_, op) = queue.pop_front()?;
            Some((*rank, op))
        })?;
        self.marked -= 1;
        Some(popped)
    }

    /// Returns whether the last poll of the marks found no delivery. From now on it did.
    pub(super) const fn look_again(&mut self) -> bool {
        core::mem::replace(&mut self.looked, true)
    }

    /// Removes the sends with a number to ranks for which `is_gone` returns true.
    pub(super) fn take_lost(&mut self, is_gone: impl Fn(u32) -> bool) -> Vec<(u32, SendOp)> {
        let lost = self.numbered.extract_if(|(rank, _), _| is_gone(*rank));
        lost.map(|((rank, _), op)| (rank, op)).collect()
    }
}
