//! Progress: takes the messages that have arrived, and makes that of Strait's operations.

use core::iter;

use strait::ANY_TAG;
use strait::raw::ANY_SOURCE;
use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Bypass, Outcome, Received, Want};
use strait_core::matching::{MaskedPattern, Pattern};

use super::class::MessageClass;
use super::{LINE, OperationPurpose, Traffic};
use crate::cause::ErrorCause;
use crate::wire::{DATA, HEADS};

/// Number of heads taken from one source before the other sources are polled.
const AT_ONCE: u32 = 64;

/// Number of calls that took messages between two polls of everything else.
const BUSY: u32 = 8;

/// Number of calls of Strait's progress between two searches for operations on peers that are gone.
const REAP: u32 = 128;

/// A pattern that matches every head.
const WANT: Want = Want::new(HEADS, ANY_TAG);

impl Traffic {
    /// Makes progress.
    #[inline(always)]
    pub(crate) fn progress(&mut self) {
        let (mut took, mut stuck) = (false, self.draining.is_some());
        let mut place = 0;
        while !stuck && let Some(source) = self.port.inbox(place) {
            place += 1;
            if self.port.has_next(source) {
                stuck = self.take_from(source);
                took = true;
            }
        }
        // While messages arrive, everything else is polled now and then, so that it advances as
        // well.
        self.busy = if took { self.busy.wrapping_add(1) } else { 0 };
        let mute = !stuck && self.pending.is_empty() && self.cancels.is_empty();
        if took {
            // The next message may arrive soon.
            self.backoff.moved();
        }
        if mute && !self.busy.is_multiple_of(BUSY) {
            return;
        }
        if !mute || self.port.has_work() {
            self.work();
        } else if !took {
            self.rest();
        }
    }

    /// Takes the messages of `source` from the short paths. Returns whether a message is left that
    /// needs Strait's own progress.
    #[inline(never)]
    pub(super) fn take_from(&mut self, source: u32) -> bool {
        if !self.deliveries.has_no_mark() {
            self.see_taken();
        }
        let mut line = [0; LINE];
        for _ in 0..AT_ONCE {
            match self.port.take_next_short(source, WANT, &mut line) {
                Bypass::Received(status) => {
                    self.arrive(source, status.tag, &line[..status.bytes]);
                }
                Bypass::Nothing => return false,
                Bypass::Closed if self.take_longer(source) => {}
                Bypass::Closed => return true,
            }
        }
        false
    }

    /// Takes the next message of `source`, which is not a head in one line. Returns false if it
    /// needs Strait's own progress.
    #[inline(never)]
    fn take_longer(&mut self, source: u32) -> bool {
        let mut bounce = core::mem::take(&mut self.bounce);
        let found = self.port.take_next_medium(source, WANT, &mut bounce);
        if let Bypass::Received(status) = found {
            self.arrive(source, status.tag, &bounce[..status.bytes]);
        }
        self.bounce = bounce;
        match found {
            Bypass::Received(_) => true,
            Bypass::Nothing => false,
            // Strait's progress meets and reports the same failure again.
            Bypass::Closed => self.port.serve_context(source, DATA).unwrap_or(false),
        }
    }

    /// Makes Strait's progress, and handles the results.
    #[inline(never)]
    fn work(&mut self) {
        // A lack of memory is temporary. Damage shows in operations that do not end, and in the
        // deaths of peers.
        let _ = self.port.poll_in_wait(|| self.waits());
        self.drain();
        if !self.deliveries.has_no_mark() {
            self.see_taken();
        }
        self.finish_pending();
        self.finish_cancels();
        self.push_far();
        self.works = self.works.wrapping_add(1);
        if self.works.is_multiple_of(REAP) {
            self.reap();
        }
    }

    #[inline]
    fn rest(&mut self) {
        if !self.deliveries.has_no_mark() {
            self.see_taken_late();
        }
        if self.backoff.missed() {
            self.work();
            self.backoff.pause(|| self.port.is_crowded());
        }
    }

    /// Takes heads out of Strait's queue of unexpected messages.
    pub(super) fn drain(&mut self) {
        let any = Pattern { context: HEADS, source: ANY_SOURCE, tag: ANY_TAG };
        loop {
            if let Some(id) = self.draining {
                let Some(outcome) = self.port.test(id) else { return };
                self.draining = None;
                self.take_drained(outcome);
                continue;
            }
            if !matches!(self.port.iprobe(any), Ok(Some(_))) {
                return;
            }
            let base = core::ptr::NonNull::from(&mut *self.bounce).cast();
            let part = Part { base, length: self.bounce.len() };
            // SAFETY: `bounce` is not accessed while `draining` says that Strait uses it, and it
            // lives until then.
            match unsafe { self.port.irecv(any, Cursor::contiguous(part)) } {
                Ok(Received::Done(outcome)) => self.take_drained(outcome),
                Ok(Received::Pending(id)) => self.draining = Some(id),
                Err(_) => return,
            }
        }
    }

    fn take_drained(&mut self, outcome: Outcome) {
        // A message that is longer than any head is invalid. A head from a dead source is not
        // needed.
        let Ok(status) = outcome else { return };
        let bounce = core::mem::take(&mut self.bounce);
        self.arrive(status.source, status.tag, &bounce[..status.bytes]);
        self.bounce = bounce;
    }

    fn finish_pending(&mut self) {
        let mut place = 0;
        while let Some((id, _)) = self.pending.get(place) {
            match self.port.test(*id) {
                None => place += 1,
                Some(outcome) => {
                    let (_, pending) = self.pending.remove(place);
                    self.finish(pending, outcome);
                }
            }
        }
    }

    fn finish(&mut self, pending: OperationPurpose, outcome: Outcome) {
        match pending {
            OperationPurpose::Whole(rank, op, _) | OperationPurpose::Data(Some((rank, op)), _) => {
                self.sent(rank, &op, outcome.err().map(ErrorCause::from));
            }
            OperationPurpose::Receive(receipt, _) => {
                self.received(receipt, outcome.err().map(ErrorCause::from));
            }
            OperationPurpose::Data(None, _) | OperationPurpose::Drop => {}
        }
    }

    /// Fails the operations that wait for peers that are gone.
    #[cold]
    fn reap(&mut self) {
        for lane in [MessageClass::Msg, MessageClass::Tagged] {
            let (port, queue) = (&self.port, &mut self.lanes[lane as usize]);
            let is_gone = |MaskedPattern { source, .. }: &MaskedPattern, _| {
                if *source == ANY_SOURCE {
                    return false;
                }
                // A peer that has sent nothing yet is connected, or its end would stay unknown.
                port.call(*source);
                port.gone(*source).is_some()
            };
            let orphans: Vec<_> = iter::from_fn(|| queue.withdraw(is_gone)).collect();
            for (pattern, mut receive) in orphans {
                self.dismiss(receive.asked.take());
                let cause = self.cause_of_end(pattern.source);
                self.give_up(lane, &receive, cause);
            }
        }
        self.reap_atomics();
        self.reap_deliveries();
    }
}
