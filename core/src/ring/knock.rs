//! Knocking: how a rank that sleeps hears of what its peer writes.
//!
//! A write makes no event where it lands. So a rank that is about to sleep *asks* for a knock: it writes a new number into the
//! link's memory at its peer. Who has written to a peer looks at that number, and if it is new sends an empty message behind
//! what it wrote. That completes a receive of the sleeper's, and is an event. While both are awake this costs a fence and a look
//! at a line that is in the cache, and nothing goes over the wire.
//!
//! What the peer wrote before it saw the number makes no event, and may still be under way when the number arrives. So, before
//! each look, it says in its own memory how much it has written so far, and the sleeper reads that behind its number: either the
//! peer finds the number, or the sleeper finds what was written ([`Porch`]). It waits until that has landed, and then nothing
//! comes without a knock. The peer's processor takes no part, so a peer that computes keeps nobody awake.
//!
//! A number that was not answered stays good: who wakes for another reason need not ask again.

use super::config::{NEWS, PORCH, TOLD};
use super::error::Cause;
use super::landing::Counter;
use super::poster::Poster;
use crate::hca::{Hca, PostError};
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::{AtomicU64, dma, fence, order};

/// How much one side has written to the other, by the words that say so there. What each means is the design's affair.
pub type Told = [u64; 4];

/// Where a peer asks for a knock, and reads how much was written to it.
///
/// | offset | size | field   | written by, read by |
/// |-------:|-----:|---------|---------------------|
/// |      0 |    8 | `asked` | the peer's device, the owner |
/// |      8 |   32 | `told`  | the owner, the peer's device |
///
/// Writer: the owner, one thread. Sleeper: the peer, by its device: first a write of `asked`, then a read of `told`, which on
/// one connection finds the memory as it is when the write can be seen.
#[derive(Debug)]
#[repr(C)]
pub struct Porch {
    asked: AtomicU64,
    told: [AtomicU64; 4],
}

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    const_assert_eq!(size_of::<Porch>(), 40);
    const_assert_eq!(offset_of!(Porch, told), TOLD - PORCH);
};

impl Porch {
    /// One where nobody has asked, for models and tests: zeroed memory is already one.
    #[must_use]
    pub fn empty() -> Self {
        Self { asked: AtomicU64::new(0), told: Default::default() }
    }

    /// Says how much was written, and then looks which number the peer has asked for a knock with.
    #[inline]
    #[must_use]
    pub fn look(&self, told: &Told) -> u64 {
        for (word, value) in self.told.iter().zip(told) {
            // ORDER knock/1: Relaxed. knock/2 puts it before the look.
            word.store(*value, order("knock/1", Relaxed));
        }
        // ORDER knock/2: SeqCst, pairs with the peer's device, whose read comes after its write: either we find the number, or
        //   it finds how much we wrote.
        fence(order("knock/2", SeqCst));
        dma::store_before_look();
        // ORDER knock/3: Relaxed. It carries nothing.
        self.asked.load(order("knock/3", Relaxed))
    }

    /// The number, for the model of a device that writes it.
    #[must_use]
    pub const fn asked(&self) -> &AtomicU64 {
        &self.asked
    }

    /// How much was written, for the model of a device that reads it.
    #[must_use]
    pub const fn told(&self) -> &[AtomicU64; 4] {
        &self.told
    }
}

/// Both sides of knocking on one link.
#[derive(Debug, Default)]
pub(super) struct Knocks {
    /// As the peer can read it.
    told: Told,
    /// The peer's number, as last seen, and the one it was knocked for.
    wanted: u64,
    answered: u64,
    /// Our number, and how far we are with it.
    asked: u64,
    stage: Stage,
    /// Whether a receive is there for the knock.
    lent: bool,
    /// The last read of what was told.
    read: u64,
}

/// How far a rank is that asks for a knock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Stage {
    /// There is no number that the peer would answer.
    #[default]
    Awake,
    /// There is a number. What the peer had written when it came is not read yet.
    Asked,
    /// It is being read.
    Reading,
    /// So much was written. Not all of it has landed yet.
    Told(Told),
    /// Whatever comes now comes with a knock.
    Asleep,
}

/// Who sees to it that a rank which sleeps does not miss anything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Vigil {
    /// The peer: it knocks when it writes.
    Kept,
    /// The device: it reports a request of this rank's, and then the link is to be asked again.
    Pending,
    /// Nobody yet: look again soon.
    Open,
}

impl Knocks {
    /// Knocks if the peer has asked for it and something was written to it since.
    #[inline]
    pub(super) fn answer<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        told: Told,
    ) -> Result<(), Cause> {
        if told != self.told {
            self.told = told;
            // SAFETY: the porch lies in the memory lent, aligned, and is atomics alone.
            self.wanted = unsafe { poster.at(PORCH).cast::<Porch>().as_ref() }.look(&told);
        }
        if self.wanted != self.answered && poster.knock(hca)? {
            self.answered = self.wanted;
        }
        Ok(())
    }

    /// The peer has knocked.
    pub(super) const fn hear(&mut self) {
        self.stage = Stage::Awake;
        self.lent = false;
    }

    /// Goes on asking for a knock. `has_landed` says whether so much of the peer's has.
    pub(super) fn ask<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        has_landed: impl FnOnce(&Poster, &Told) -> Result<bool, Cause>,
    ) -> Result<Vigil, Cause> {
        if self.stage == Stage::Awake && poster.is_done(self.read) && self.lend(poster, hca)? {
            let number = self.asked + 1;
            if poster.write_word(hca, number, PORCH)? {
                (self.asked, self.stage) = (number, Stage::Asked);
            }
        }
        if self.stage == Stage::Asked
            && let Some(request) = poster.read_line(hca, size_of::<Told>(), (NEWS, TOLD))?
        {
            (self.read, self.stage) = (request, Stage::Reading);
        }
        if self.stage == Stage::Reading && poster.is_done(self.read) {
            // SAFETY: the words lie in the memory lent, aligned, and no read of them is under way.
            let found = unsafe { poster.at(NEWS).cast::<[Counter; 4]>().as_ref() };
            self.stage = Stage::Told(core::array::from_fn(|word| found[word].read()));
        }
        if let Stage::Told(told) = self.stage
            && has_landed(poster, &told)?
        {
            self.stage = Stage::Asleep;
        }
        Ok(match self.stage {
            _ if poster.is_refused() => Vigil::Open,
            Stage::Asleep => Vigil::Kept,
            Stage::Reading => Vigil::Pending,
            Stage::Awake | Stage::Asked | Stage::Told(_) => Vigil::Open,
        })
    }

    /// Sees to it that there is a receive for the knock. False: not now.
    fn lend<H: Hca>(&mut self, poster: &Poster, hca: &mut H) -> Result<bool, Cause> {
        if !self.lent {
            let nothing = poster.piece(NEWS, 0);
            // SAFETY: there is nothing to keep valid.
            self.lent = match unsafe { hca.post_receive(0, nothing) } {
                Ok(()) => true,
                Err(PostError::Full) => false,
                Err(error) => return Err(Cause::Refused(error)),
            };
        }
        Ok(self.lent)
    }
}
