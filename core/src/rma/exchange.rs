//! A change of one word of a part by atomics of the device.
//!
//! One atomic is enough for some changes. The others repeat a compare-and-swap until no other
//! change comes in between.

use super::{AtomicOp, Lane, LaneError, StepResult};
use crate::hca::{Hca, RemoteAddress};

/// An exchange in progress.
#[derive(Debug)]
pub struct FetchUpdate<F> {
    there: RemoteAddress,
    how: UpdateMethod<F>,
    asked: Option<u64>,
}

#[derive(Debug)]
enum UpdateMethod<F> {
    Once(AtomicOp),
    /// The function that gives the new value; the value found last, and the new value for it.
    Until(F, Option<(u64, u64)>),
}

impl FetchUpdate<fn(u64) -> u64> {
    /// Creates an exchange by one atomic.
    #[must_use]
    pub const fn once(there: RemoteAddress, change: AtomicOp) -> Self {
        Self { there, how: UpdateMethod::Once(change), asked: None }
    }
}

impl<F: FnMut(u64) -> u64> FetchUpdate<F> {
    /// Creates an exchange that replaces a value by `function` of it.
    #[must_use]
    pub const fn by(there: RemoteAddress, function: F) -> Self {
        Self { there, how: UpdateMethod::Until(function, None), asked: None }
    }

    /// Performs the next step. Returns [`StepResult::Done`] with the old value at the end, and
    /// `None` if no step is possible now.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`].
    pub fn step<H: Hca>(
        &mut self,
        lane: &mut Lane,
        hca: &mut H,
    ) -> Result<Option<StepResult<u64>>, LaneError> {
        let Some(number) = self.asked else {
            self.asked = lane.change(hca, self.change(), self.there)?;
            return Ok(self.asked.map(|_| StepResult::On));
        };
        if !lane.is_done(number)? {
            return Ok(None);
        }
        self.asked = None;
        Ok(Some(self.take(lane.found(number))))
    }

    const fn change(&self) -> AtomicOp {
        match self.how {
            UpdateMethod::Once(change) => change,
            UpdateMethod::Until(_, None) => AtomicOp::Add(0),
            UpdateMethod::Until(_, Some((expected, desired))) => {
                AtomicOp::Swap { expected, desired }
            }
        }
    }

    fn take(&mut self, found: u64) -> StepResult<u64> {
        let UpdateMethod::Until(function, last) = &mut self.how else {
            return StepResult::Done(found);
        };
        if last.is_some_and(|(expected, _)| expected == found) {
            return StepResult::Done(found);
        }
        let desired = function(found);
        *last = Some((found, desired));
        if desired == found { StepResult::Done(found) } else { StepResult::On }
    }
}
