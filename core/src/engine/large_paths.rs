//! The paths of large messages between this rank and a peer on its node: which of them are worth an
//! attempt, and which is the fastest.

use super::copy_ring::{Emptying, Filling, Outlet};
use crate::layout::{RingPart, Segment};
use crate::lmt::{Chosen, Transfer, TransferChoice, UNMEASURED, WITHOUT_RING};
use crate::memory::{Memory, OnFirstUse, OutOfMemory};

/// Number of messages after which this rank stops looking for RTRs of the peer before it sends. The
/// next RTR comes by progress.
const UNASKED: u8 = 16;

/// Number of messages between two lines that are timed.
const UNTIMED: u8 = 3;

/// Bytes that go to a peer by one copy of the kernel before the granules of the ring get memory. By
/// then the ring would have saved about the half millisecond that its memory costs.
const DEFERRED: usize = 16 << 20;

/// The same before the parcels of longer messages get memory. They cost less, and save more.
const PARCELS_DEFERRED: usize = 8 << 20;

/// What a message counts in [`DEFERRED`] beside its bytes: a short one gains more by the ring.
const DEFERRED_EACH: usize = 16 << 10;

/// The state of the paths to and from one peer.
#[derive(Debug)]
pub(super) struct LargePaths {
    /// Whether an attempt to move data from the peer's memory is worthwhile.
    may_read: bool,
    /// Whether an attempt to move data to the peer's memory is worthwhile.
    may_write: bool,
    /// This rank's end of the copy ring to the peer.
    outlet: Outlet,
    /// This rank's end of the copy ring from the peer, opened when the peer announces its first
    /// message.
    inlet: Option<Emptying>,
    /// The choice of the transfer for messages to the peer. It is made for the first one that has a
    /// choice: it takes as much memory as all the rest of the state about a peer, and most pairs of
    /// a large job exchange short messages alone.
    choice: OnFirstUse<TransferChoice>,
    /// Messages announced to the peer since its last RTR, counted up to [`UNASKED`].
    unasked: u8,
    /// Messages until a line is timed again.
    untimed: u8,
}

impl Default for LargePaths {
    fn default() -> Self {
        Self {
            may_read: true,
            may_write: true,
            outlet: Outlet::Unopened,
            inlet: None,
            choice: OnFirstUse::default(),
            unasked: 0,
            untimed: 0,
        }
    }
}

impl LargePaths {
    pub(super) const fn may_read(&self) -> bool {
        self.may_read
    }

    pub(super) const fn may_write(&self) -> bool {
        self.may_write
    }

    /// Notes that the system refused to read the peer's memory. It will refuse again.
    pub(super) const fn read_refused(&mut self) {
        self.may_read = false;
    }

    /// Notes that the system refused to write the peer's memory. It will refuse again.
    pub(super) const fn write_refused(&mut self) {
        self.may_write = false;
    }

    /// Returns the part of the copy ring to the peer that wants memory now. `is_one_copy` returns
    /// whether the message that is about to be sent can go without the ring.
    #[inline]
    pub(super) fn wants_ring(&self, is_one_copy: impl FnOnce() -> bool) -> Option<RingPart> {
        match self.outlet {
            Outlet::Unopened => Some(RingPart::Heads),
            Outlet::Heads { deferred } if deferred.unwrap_or(0) == 0 || !is_one_copy() => {
                Some(RingPart::Granules)
            }
            Outlet::Heads { .. } | Outlet::Open(_) | Outlet::Refused | Outlet::Absent => None,
        }
    }

    /// Returns whether no part of the copy ring to the peer has been asked for.
    pub(super) const fn is_ring_unopened(&self) -> bool {
        matches!(self.outlet, Outlet::Unopened)
    }

    /// Makes the choice of the transfer before the first message needs it.
    pub(super) fn make_choice(&mut self, memory: &impl Memory) -> Result<(), OutOfMemory> {
        self.choice.get_or_make(memory).map(drop)
    }

    /// Takes the answer about the memory of a part of the copy ring. `open` opens it.
    ///
    /// A message that is under way may ask again after a refusal.
    pub(super) fn ring_backed(
        &mut self,
        part: RingPart,
        backed: bool,
        open: impl FnOnce() -> Outlet,
    ) {
        self.outlet = match (core::mem::replace(&mut self.outlet, Outlet::Refused), part) {
            (kept @ (Outlet::Open(_) | Outlet::Absent), _) => kept,
            (Outlet::Unopened, RingPart::Heads) if backed => Outlet::Heads { deferred: None },
            (Outlet::Heads { .. } | Outlet::Refused, RingPart::Granules) if backed => open(),
            (kept @ Outlet::Heads { .. }, RingPart::Heads) => kept,
            _ => Outlet::Refused,
        };
    }

    /// Lets the next messages go by one copy, before the granules of the ring have memory.
    pub(super) const fn defer_granules(&mut self) {
        if let Outlet::Heads { deferred } = &mut self.outlet {
            *deferred = Some(DEFERRED);
        }
    }

    /// Returns whether messages that are too long for the first parcels go by one copy for now,
    /// before the pair has earned further parcels.
    pub(super) const fn defers_parcels(&self) -> bool {
        const LEFT: usize = DEFERRED - PARCELS_DEFERRED;
        matches!(self.outlet, Outlet::Heads { deferred: Some(left) } if left > LEFT)
    }

    /// Leaves this rank without a copy ring to the peer.
    pub(super) fn refuse_ring(&mut self) {
        self.outlet = Outlet::Absent;
    }

    /// Returns whether a message may be announced to the peer: there is a copy ring, or the message
    /// goes without. `is_one_copy` returns whether it can.
    pub(super) fn may_announce(&self, is_one_copy: impl FnOnce() -> bool) -> bool {
        match self.outlet {
            Outlet::Open(_) => true,
            Outlet::Heads { deferred } => deferred.is_some() && is_one_copy(),
            Outlet::Unopened | Outlet::Refused | Outlet::Absent => false,
        }
    }

    /// Returns the copy ring to the peer.
    pub(super) const fn ring_out(&mut self) -> Option<&mut Filling> {
        match &mut self.outlet {
            Outlet::Open(ring) => Some(ring),
            Outlet::Unopened | Outlet::Heads { .. } | Outlet::Refused | Outlet::Absent => None,
        }
    }

    /// Opens the copy ring from `peer` to `rank`, unless it is open. The peer has backed its heads.
    pub(super) fn open_ring_in(&mut self, segment: &Segment, (rank, peer): (u32, u32)) {
        if self.inlet.is_none() {
            self.inlet = Emptying::open(segment, peer, rank);
        }
    }

    /// Returns whether the peer has announced a message.
    pub(super) const fn has_announced(&self) -> bool {
        self.inlet.is_some()
    }

    /// Returns the copy ring from the peer.
    pub(super) const fn ring_in(&mut self) -> Option<&mut Emptying> {
        self.inlet.as_mut()
    }

    /// Chooses the transfer of a message of `length` bytes, which one copy can move. Without memory
    /// for what is measured, nothing is.
    pub(super) fn choose(
        &mut self,
        memory: &impl Memory,
        length: usize,
    ) -> (Transfer, Option<Chosen>) {
        let deferred = match &mut self.outlet {
            Outlet::Heads { deferred: Some(deferred) } => {
                *deferred = deferred.saturating_sub(length.saturating_add(DEFERRED_EACH));
                true
            }
            _ => false,
        };
        let Ok(choice) = self.choice.get_or_make(memory) else {
            return (if deferred { WITHOUT_RING } else { UNMEASURED }, None);
        };
        let (transfer, chosen) =
            if deferred { choice.choose_one_copy(length) } else { choice.choose(length) };
        (transfer, Some(chosen))
    }

    /// Releases the memory of the choice.
    ///
    /// # Safety
    ///
    /// `memory` is that of all calls of [`LargePaths::choose`].
    pub(super) unsafe fn release(&mut self, memory: &impl Memory) {
        // SAFETY: the caller guarantees the same (contract of `release`).
        unsafe { self.choice.release(memory) };
    }

    /// Returns the end of the ring to the peer if a line from the peer's core is to be timed now.
    /// Messages that take another way leave the line as it is, and pay for no clock.
    pub(super) fn line_to_time(&mut self) -> Option<&mut Filling> {
        match &mut self.outlet {
            Outlet::Open(ring) if self.untimed == 0 && ring.has_unseen() => {
                let is_known = self.choice.get().is_some_and(TransferChoice::is_place_known);
                self.untimed = if is_known { UNTIMED } else { 0 };
                Some(ring)
            }
            _ => {
                self.untimed = self.untimed.saturating_sub(1);
                None
            }
        }
    }

    /// Notes the time that a line took from the peer's core to this one.
    pub(super) fn line_timed(
        &mut self,
        memory: &impl Memory,
        nanoseconds: u32,
        kernel_first: bool,
    ) {
        // Without memory the next line is timed.
        if let Ok(choice) = self.choice.get_or_make(memory) {
            choice.line_timed(nanoseconds, kernel_first);
        }
    }

    /// Returns the transfer through the ring of a message of `length` bytes.
    pub(super) fn by_ring(&self, length: usize) -> Transfer {
        self.choice.get().map_or(UNMEASURED, |choice| choice.ring(length))
    }

    /// Records the time that a chosen transfer took for `bytes` bytes. Zero bytes mean that it was
    /// not measured.
    pub(super) fn transfer_ended(&mut self, chosen: Chosen, bytes: usize, met: u64, now: u64) {
        if let Some(choice) = self.choice.get_mut() {
            choice.ended(chosen, bytes, met, now);
        }
    }

    /// Counts a message that was announced without an RTR of the peer.
    pub(super) fn count_unasked(&mut self) {
        self.unasked = (self.unasked + 1).min(UNASKED);
    }

    /// Notes that an RTR of the peer came.
    pub(super) const fn asked(&mut self) {
        self.unasked = 0;
    }

    /// Returns whether the peer has asked for messages lately.
    pub(super) const fn asks_lately(&self) -> bool {
        self.unasked < UNASKED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::with_segment;
    use crate::memory::counted::Counted;

    #[test]
    fn a_path_that_was_refused_is_not_tried_again_and_the_other_is() {
        let mut paths = LargePaths::default();
        assert!(paths.may_read() && paths.may_write());
        paths.read_refused();
        assert!(!paths.may_read() && paths.may_write());
        paths.write_refused();
        assert!(!paths.may_write());
    }

    /// Returns the part that a message wants memory for. It can go by one copy if `one_copy`.
    fn wanted(paths: &LargePaths, one_copy: bool) -> Option<RingPart> {
        paths.wants_ring(|| one_copy)
    }

    #[test]
    fn a_ring_is_there_when_both_parts_have_memory() {
        with_segment(2, |segment| {
            let open = || Outlet::open(segment, 0, 1);
            let mut paths = LargePaths::default();
            for part in RingPart::ALL {
                assert_eq!(wanted(&paths, true), Some(part));
                assert!(!paths.may_announce(|| true) && paths.ring_out().is_none());
                paths.ring_backed(part, true, open);
            }
            // Further answers change nothing.
            RingPart::ALL.into_iter().for_each(|part| paths.ring_backed(part, false, open));
            assert!(paths.may_announce(|| false) && paths.ring_out().is_some());
            assert_eq!(wanted(&paths, false), None);
            assert!(paths.ring_in().is_none());
            paths.open_ring_in(segment, (0, 1));
            assert!(paths.ring_in().is_some());
        });
    }

    #[test]
    fn a_ring_without_memory_is_not_asked_for_again_but_a_message_under_way_may_get_it() {
        with_segment(2, |segment| {
            let open = || Outlet::open(segment, 0, 1);
            for granted in 0..RingPart::ALL.len() {
                let mut paths = LargePaths::default();
                for (number, part) in RingPart::ALL.into_iter().enumerate().take(granted + 1) {
                    paths.ring_backed(part, number < granted, open);
                }
                assert!(wanted(&paths, false).is_none() && !paths.may_announce(|| true));
                paths.ring_backed(RingPart::Granules, true, open);
                assert!(paths.ring_out().is_some());
            }
        });
    }

    #[test]
    fn messages_go_by_one_copy_until_the_pair_has_earned_the_ring() {
        with_segment(2, |segment| {
            let (memory, mut paths) = (Counted::default(), LargePaths::default());
            memory.refuse(true);
            paths.defer_granules();
            paths.ring_backed(RingPart::Heads, true, || Outlet::Refused);
            paths.defer_granules();
            assert_eq!(wanted(&paths, false), Some(RingPart::Granules), "it has several parts");
            assert!(!paths.may_announce(|| false));
            let mut bytes = 0;
            while wanted(&paths, true).is_none() {
                assert!(paths.may_announce(|| true));
                assert_eq!(paths.defers_parcels(), bytes < PARCELS_DEFERRED);
                // The first message finds no memory for what is measured.
                let (transfer, chosen) = paths.choose(&memory, 1 << 20);
                assert_eq!((transfer, chosen.is_some()), (Transfer::CmaShared, bytes > 0));
                memory.refuse(false);
                bytes += 1 << 20;
            }
            assert!((DEFERRED / 2..=DEFERRED).contains(&bytes), "{bytes}");
            paths.ring_backed(RingPart::Granules, true, || Outlet::open(segment, 0, 1));
            assert!(paths.may_announce(|| false) && !paths.defers_parcels());
            assert_eq!(paths.choose(&memory, 1 << 20).0, Transfer::CopyRingStreamed);
            assert_eq!(memory.asked(), 2, "the memory is asked for until it is there");
            // SAFETY: the memory is that of the other calls.
            unsafe { paths.release(&memory) };
            assert_eq!(paths.by_ring(1 << 20), Transfer::CopyRingStreamed);
        });
    }

    #[test]
    fn a_peer_on_another_node_never_gets_a_ring() {
        with_segment(2, |segment| {
            let mut paths = LargePaths::default();
            paths.refuse_ring();
            RingPart::ALL
                .into_iter()
                .for_each(|part| paths.ring_backed(part, true, || Outlet::open(segment, 0, 1)));
            assert!(wanted(&paths, false).is_none() && paths.ring_out().is_none());
        });
    }

    #[test]
    fn a_peer_that_leaves_messages_unasked_for_long_does_not_ask_lately() {
        let mut paths = LargePaths::default();
        for _ in 0..UNASKED {
            assert!(paths.asks_lately());
            paths.count_unasked();
        }
        paths.count_unasked();
        assert!(!paths.asks_lately());
        paths.asked();
        assert!(paths.asks_lately());
    }
}
