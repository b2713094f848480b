//! Completes sends when their receiver reports the delivery.

use super::Traffic;

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
        if self.deliveries.look_again() {
            self.see_taken();
        }
    }

    /// Fails the sends to peers that are gone.
    pub(super) fn reap_deliveries(&mut self) {
        self.see_taken();
        let Self { port, deliveries, .. } = self;
        let is_gone = |rank| port.gone(rank).is_some();
        let next = || deliveries.pop_marked(|rank, _| is_gone(rank));
        let mut lost: Vec<_> = core::iter::from_fn(next).collect();
        lost.extend(deliveries.take_lost(is_gone));
        for (rank, op) in lost {
            let cause = self.cause_of_end(rank);
            self.sent(rank, &op, Some(cause));
        }
    }
}
