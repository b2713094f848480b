//! Sends that are over when their receivers have taken them, and of which these say so by the credit of their fastboxes.

use std::collections::VecDeque;

use strait_core::progress::{Fault, Mark, Sign};

use super::{How, Traffic};

/// Those that have not been taken so far as we know.
#[derive(Debug, Default)]
pub(super) struct Untaken {
    count: usize,
    /// There was a look in vain since the youngest of them left.
    looked: bool,
    /// By destination, those of each in order.
    queues: Vec<(u32, VecDeque<(Mark, How)>)>,
}

impl Untaken {
    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn push(&mut self, mark: Mark, how: How) {
        self.count += 1;
        self.looked = false;
        match self.queues.iter_mut().find(|(rank, _)| *rank == how.rank) {
            Some((_, queue)) => queue.push_back((mark, how)),
            None => self.queues.push((how.rank, VecDeque::from([(mark, how)]))),
        }
    }

    /// Takes the oldest to some destination that `is_over`.
    fn pop(&mut self, is_over: impl Fn(u32, Mark) -> bool) -> Option<How> {
        let mut queues = self.queues.iter_mut();
        let over = |(rank, queue): &mut (u32, VecDeque<(Mark, How)>)| {
            let (mark, _) = queue.front()?;
            if is_over(*rank, *mark) { queue.pop_front() } else { None }
        };
        let (_, how) = queues.find_map(over)?;
        self.count -= 1;
        Some(how)
    }
}

impl Traffic {
    /// Looks what has been taken.
    #[inline(never)]
    pub(super) fn see_taken(&mut self) {
        while let Some(how) = self.untaken.pop(|rank, mark| self.port.is_taken(rank, mark)) {
            self.sent(&how, None);
        }
    }

    /// After a look in vain: looks what has been taken if the look before was in vain, too. An answer often comes soon, and then one
    /// reading of the completion queue tells of both: MPICH gives the processor away after each.
    #[inline(never)]
    pub(super) fn see_taken_late(&mut self) {
        if self.untaken.looked {
            self.see_taken();
        }
        self.untaken.looked = true;
    }

    /// Ends the sends to those that are gone.
    pub(super) fn reap_untaken(&mut self) {
        self.see_taken();
        while let Some(how) = self.untaken.pop(|rank, _| self.port.gone(rank).is_some()) {
            let fault = Fault::PeerFailed { rank: how.rank, sign: Sign::Ended };
            self.sent(&how, Some(fault));
        }
    }
}
