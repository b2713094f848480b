//! Accumulates that the target's handler carries out, as their origin sees them (`[OneSided04]` §3.3.2): the operands go there once,
//! and nothing comes back but word that it is done.

use strait_core::layout::{Call, Wait};
use strait_core::rma::{Deed, Errand};
use strait_core::sync::{Step, reached};

use super::far::{Far, failed};
use super::part::Part;
use super::{AtomicityDomain, Window, WindowError};
use crate::endpoint::{part_of, part_of_mut};
use crate::{Error, Number};

impl Window<'_> {
    /// Has the target's handler carry out accumulates between nodes of more than `bytes` bytes; 0: all of more than one number. Those of
    /// fewer bytes the origin carries out by itself, under a lock. Members need not agree on it. Where a member's device has no atomics
    /// it makes no difference: handlers carry out everything then.
    ///
    /// What a handler carries out ends when the target is inside the library, or has a
    /// [progress thread](crate::World::start_progress_thread): see [`Window::needs_target`].
    pub fn hand_over_above(&self, bytes: usize) {
        self.own_up_to.set(bytes);
    }

    /// Whether the target's handler is to combine so many bytes.
    pub(super) fn is_handed_over(&self, part: &Part, bytes: usize) -> bool {
        let suits = self.hands_over() && bytes > self.own_up_to.get();
        self.is_only_handled(part) || (suits && part.rank != self.world.rank())
    }

    /// Whether nobody but the target's handler can do something atomically here: the target is on another node, and a device has no
    /// atomics.
    pub(super) const fn is_only_handled(&self, part: &Part) -> bool {
        self.handled && part.block.is_none()
    }

    /// Whether handlers have a part in this window's accumulates that is theirs by choice.
    pub(super) fn hands_over(&self) -> bool {
        let serves = self.own.beyond.is_some() && self.own.attachments.is_none() && !self.handled;
        serves && matches!(self.domain, AtomicityDomain::Locks)
    }

    /// Has the target's handler do something to one number, and gives what was there.
    pub(super) fn hand_over_one<T: Number>(
        &self,
        part: &Part,
        offset: usize,
        operands: &[T],
        deed: Deed,
    ) -> Result<T, Error> {
        let mut before = [T::zeroed()];
        self.hand_over(part, offset, operands, Some(&mut before), deed)?;
        Ok(before[0])
    }

    /// Hands something to do to consecutive numbers, which lie in one stripe, over to the target's handler. Waits for a free tray; and
    /// with `results`, one for each number, for the handler.
    pub(super) fn hand_over<T: Number>(
        &self,
        part: &Part,
        offset: usize,
        operands: &[T],
        results: Option<&mut [T]>,
        deed: Deed,
    ) -> Result<(), Error> {
        let Some((far, beyond)) = part.far.as_ref().zip(self.own.beyond.as_ref()) else {
            return Err(WindowError::OtherNode { rank: part.rank }.into());
        };
        let mut errands = part.errands.get();
        let done = self.block.acknowledgements(far.place);
        self.await_handler(far, || errands.have_room(done))?;
        self.ask(far, |lane, _| Ok(errands.have_image(lane)?.then_some(())))?;
        let count = if deed == Deed::Swap { 1 } else { operands.len() };
        let within = far.within.get();
        let errand = Errand { within, ..Errand::new::<T>(deed, offset, count, results.is_some()) };
        let (trays, operands) =
            (beyond.trays_for(far), part_of(bytemuck::must_cast_slice(operands)));
        // SAFETY: there are room and image, and images are reached here alone. The operands fit, since they lie in one stripe.
        unsafe { errands.fill(&trays, &errand, operands) };
        self.ask(far, |lane, device| {
            // SAFETY: the images are registered as long as the lane is there.
            let sent = unsafe { errands.send(lane, device, &trays, operands.length) }?;
            Ok(sent.then_some(()))
        })?;
        part.errands.set(errands);
        reached(Step::ErrandSent);
        let Some(results) = results else { return Ok(()) };
        self.await_handler(far, || errands.are_done(done))?;
        // SAFETY: there is a result for each number.
        unsafe { errands.take(&trays, part_of_mut(bytemuck::must_cast_slice_mut(results))) };
        Ok(())
    }

    /// Waits until the target has carried out all errands.
    pub(super) fn await_all_errands(&self, part: &Part) -> Result<(), Error> {
        let errands = part.errands.get();
        let Some(far) = part.far.as_ref().filter(|_| !errands.is_none()) else { return Ok(()) };
        let done = self.block.acknowledgements(far.place);
        self.await_handler(far, || errands.are_done(done))
    }

    /// Waits until the target has carried out enough.
    fn await_handler(&self, far: &Far, is_enough: impl Fn() -> bool) -> Result<(), Error> {
        if is_enough() {
            return Ok(());
        }
        let waited = self.world.wait_until(
            || Wait::on(Call::WindowFlush, far.rank),
            || {
                // In this order: what the target did comes before its end.
                let lost = self.loss_of_handler(far);
                if is_enough() { Some(Ok(())) } else { lost.map(Err) }
            },
        );
        waited.and_then(|waited| waited)
    }

    /// Why a member will carry out nothing more, if so.
    fn loss_of_handler(&self, far: &Far) -> Option<Error> {
        let gone = self.world.turn().gone(far.rank);
        let broken = self.world.with_network(|network| {
            network.poll();
            network.on_lane(far.lane, |lane, _| lane.check())
        });
        match (gone, broken) {
            (Some(how), _) => Some(how.fault(far.rank).into()),
            (None, Some(Err(error))) => Some(failed(self.world, far.rank, error)),
            (None, _) => None,
        }
    }
}
