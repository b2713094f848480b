//! A word of a part, changed by atomics of the device: by one of them where that does it, and otherwise by compare-and-swap until
//! nobody comes in between.

use super::{Change, Lane, LaneError, Turn};
use crate::hca::{Hca, Remote};

/// An exchange under way.
#[derive(Debug)]
pub struct Exchange<F> {
    there: Remote,
    how: How<F>,
    asked: Option<u64>,
}

#[derive(Debug)]
enum How<F> {
    Once(Change),
    /// What a word becomes; what was found there last, and what it would become.
    Until(F, Option<(u64, u64)>),
}

impl Exchange<fn(u64) -> u64> {
    /// One change.
    #[must_use]
    pub const fn once(there: Remote, change: Change) -> Self {
        Self { there, how: How::Once(change), asked: None }
    }
}

impl<F: FnMut(u64) -> u64> Exchange<F> {
    /// Whatever is there becomes what `function` makes of it.
    #[must_use]
    pub const fn by(there: Remote, function: F) -> Self {
        Self { there, how: How::Until(function, None), asked: None }
    }

    /// Goes on. [`Turn::Done`] with what was there; `None`: not now.
    ///
    /// # Errors
    ///
    /// As [`Lane::write`].
    pub fn step<H: Hca>(
        &mut self,
        lane: &mut Lane,
        hca: &mut H,
    ) -> Result<Option<Turn<u64>>, LaneError> {
        let Some(number) = self.asked else {
            self.asked = lane.change(hca, self.change(), self.there)?;
            return Ok(self.asked.map(|_| Turn::On));
        };
        if !lane.is_done(number)? {
            return Ok(None);
        }
        self.asked = None;
        Ok(Some(self.take(lane.found(number))))
    }

    const fn change(&self) -> Change {
        match self.how {
            How::Once(change) => change,
            How::Until(_, None) => Change::Add(0),
            How::Until(_, Some((expected, desired))) => Change::Swap { expected, desired },
        }
    }

    fn take(&mut self, found: u64) -> Turn<u64> {
        let How::Until(function, last) = &mut self.how else { return Turn::Done(found) };
        if last.is_some_and(|(expected, _)| expected == found) {
            return Turn::Done(found);
        }
        let desired = function(found);
        *last = Some((found, desired));
        if desired == found { Turn::Done(found) } else { Turn::On }
    }
}
