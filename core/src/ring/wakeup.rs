//! Wake-ups: how a sleeping rank learns of its peer's writes.
//!
//! A write causes no event at its destination. A rank that is about to sleep therefore *requests* a
//! wake-up: it writes a new number into the link's memory at its peer. A rank that has written to a
//! peer polls that number. If the number is new, the rank sends an empty message behind its writes.
//! The message completes a receive of the sleeper, which is an event. While both ranks are awake,
//! this costs a fence and a read of a cached line, and no traffic.
//!
//! Writes that the peer made before it saw the number cause no event, and may still be in flight
//! when the number arrives. Before each poll, the peer therefore records in its own memory how much
//! it has written so far. The sleeper reads that record after it has written its number. Either the
//! peer finds the number, or the sleeper finds the record of the writes ([`WakeupWords`]).
//!
//! The sleeper waits until those writes have arrived; from then on, every write comes with a
//! wake-up. The peer's processor takes no part, so a peer that computes keeps no other rank awake.
//!
//! An unanswered number stays valid: a rank that wakes for another reason need not request again.

use super::config::{NEWS, TOLD, WAKEUP_WORDS};
use super::error::Cause;
use super::landing::Counter;
use super::poster::Poster;
use crate::hca::{Hca, PostError};
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::{AtomicU64, dma, fence, order};

/// How much one side has written to the other, as a value for each word. The design defines the
/// words.
pub type WriteCounts = [u64; 4];

/// The words of a link in which the peer requests a wake-up, and reads how much was written to it.
///
/// | offset | size | field   | written by        | read by           |
/// |-------:|-----:|---------|-------------------|-------------------|
/// |      0 |    8 | `asked` | the peer's device | the owner         |
/// |      8 |   32 | `told`  | the owner         | the peer's device |
///
/// The writer is the owner, with one thread. The sleeper is the peer, by its device: first it
/// writes `asked`, then it reads `told`. On one connection, the read finds the memory as it is when
/// the write is visible.
#[derive(Debug)]
#[repr(C)]
pub struct WakeupWords {
    asked: AtomicU64,
    told: [AtomicU64; 4],
}

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    const_assert_eq!(size_of::<WakeupWords>(), 40);
    const_assert_eq!(offset_of!(WakeupWords, told), TOLD - WAKEUP_WORDS);
};

impl WakeupWords {
    /// Creates words without a request, for models and tests. Zeroed memory has no request.
    #[must_use]
    pub fn empty() -> Self {
        Self { asked: AtomicU64::new(0), told: Default::default() }
    }

    /// Records how much was written, and then returns the number of the peer's latest request.
    #[inline]
    #[must_use]
    pub fn look(&self, told: &WriteCounts) -> u64 {
        for (word, value) in self.told.iter().zip(told) {
            // ORDER wakeup/1: Relaxed. wakeup/2 orders it before the poll of `asked`.
            word.store(*value, order("wakeup/1", Relaxed));
        }
        // ORDER wakeup/2: SeqCst, pairs with the peer's device, which reads after its write: we
        // find the number, or the device finds how much we wrote.
        fence(order("wakeup/2", SeqCst));
        dma::store_before_look();
        // ORDER wakeup/3: Relaxed. The number publishes no other data.
        self.asked.load(order("wakeup/3", Relaxed))
    }

    /// Returns the number, for the model of a device that writes it.
    #[must_use]
    pub const fn asked(&self) -> &AtomicU64 {
        &self.asked
    }

    /// Returns how much was written, for the model of a device that reads it.
    #[must_use]
    pub const fn told(&self) -> &[AtomicU64; 4] {
        &self.told
    }
}

/// Both directions of the wake-ups on one link.
#[derive(Debug, Default)]
pub(super) struct Wakeups {
    /// The record that the peer can read.
    told: WriteCounts,
    /// The number of the peer's latest request, and of the one that was answered.
    wanted: u64,
    answered: u64,
    /// The number of our latest request, and its progress.
    asked: u64,
    stage: WakeupStage,
    /// True if a receive is posted for the wake-up.
    lent: bool,
    /// The last request that read the peer's record.
    read: u64,
}

/// The progress of a rank's request for a wake-up.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum WakeupStage {
    /// There is no number for the peer to answer.
    #[default]
    Awake,
    /// The number is written. The peer's record at that time is not read yet.
    Asked,
    /// The record is being read.
    Reading,
    /// The peer has written this much. Not all of it has arrived yet.
    Told(WriteCounts),
    /// Every further write comes with a wake-up.
    Asleep,
}

/// What ensures that a sleeping rank misses no write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WakeupSource {
    /// The peer: it sends a wake-up when it writes.
    Kept,
    /// The device: it reports a request of this rank; then the caller must ask the link again.
    Pending,
    /// Nothing yet: poll again soon.
    Open,
}

impl Wakeups {
    /// Sends a wake-up if the peer has requested one and something was written to it since.
    #[inline]
    pub(super) fn answer<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        told: WriteCounts,
    ) -> Result<(), Cause> {
        if told != self.told {
            self.told = told;
            // SAFETY: the words are in the lent memory, aligned, and consist of atomics.
            self.wanted =
                unsafe { poster.at(WAKEUP_WORDS).cast::<WakeupWords>().as_ref() }.look(&told);
        }
        if self.wanted != self.answered && poster.send_wakeup(hca)? {
            self.answered = self.wanted;
        }
        Ok(())
    }

    /// Notes that a wake-up from the peer has arrived.
    pub(super) const fn hear(&mut self) {
        self.stage = WakeupStage::Awake;
        self.lent = false;
    }

    /// Continues a request for a wake-up. `has_landed` says whether this much of the peer's writes
    /// has arrived.
    pub(super) fn ask<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        has_landed: impl FnOnce(&Poster, &WriteCounts) -> Result<bool, Cause>,
    ) -> Result<WakeupSource, Cause> {
        if self.stage == WakeupStage::Awake
            && poster.is_done(self.read)
            && self.lend(poster, hca)?
        {
            let number = self.asked + 1;
            if poster.write_word(hca, number, WAKEUP_WORDS)? {
                (self.asked, self.stage) = (number, WakeupStage::Asked);
            }
        }
        if self.stage == WakeupStage::Asked
            && let Some(request) = poster.read_line(hca, size_of::<WriteCounts>(), (NEWS, TOLD))?
        {
            (self.read, self.stage) = (request, WakeupStage::Reading);
        }
        if self.stage == WakeupStage::Reading && poster.is_done(self.read) {
            // SAFETY: the words are in the lent memory, aligned, and no read into them is in
            // flight.
            let found = unsafe { poster.at(NEWS).cast::<[Counter; 4]>().as_ref() };
            self.stage = WakeupStage::Told(core::array::from_fn(|word| found[word].read()));
        }
        if let WakeupStage::Told(told) = self.stage
            && has_landed(poster, &told)?
        {
            self.stage = WakeupStage::Asleep;
        }
        Ok(match self.stage {
            _ if poster.is_refused() => WakeupSource::Open,
            WakeupStage::Asleep => WakeupSource::Kept,
            WakeupStage::Reading => WakeupSource::Pending,
            WakeupStage::Awake | WakeupStage::Asked | WakeupStage::Told(_) => WakeupSource::Open,
        })
    }

    /// Ensures that a receive is posted for the wake-up. Returns false if that is not possible now.
    fn lend<H: Hca>(&mut self, poster: &Poster, hca: &mut H) -> Result<bool, Cause> {
        if !self.lent {
            let nothing = poster.piece(NEWS, 0);
            // SAFETY: an empty piece has no bytes that must stay valid.
            self.lent = match unsafe { hca.post_receive(0, nothing) } {
                Ok(()) => true,
                Err(PostError::Full) => false,
                Err(error) => return Err(Cause::Refused(error)),
            };
        }
        Ok(self.lent)
    }
}
