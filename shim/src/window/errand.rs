//! Accumulates that the target's handler carries out, as their origin sees them (`[OneSided04]` §3.3.2): the operands go there once,
//! and nothing comes back but word that it is done.

use core::ptr::NonNull;

use strait_core::hca::{Hca, Piece};
use strait_core::progress::Way;
use strait_core::rma::{Deed, Errand, Lane, TRAY, TRAYS};
use strait_core::sync::{Step, reached};

use super::far::{Far, failed};
use super::part::Part;
use super::{AtomicityDomain, Window, WindowError};
use crate::network::JobDevice;
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
        let number = part.errands.get() + 1;
        self.await_errands(part, number.saturating_sub(TRAYS as u64))?;
        let slot = part.errands.get() as usize % TRAYS * TRAY;
        let (images, key) = beyond.images(far.place as usize);
        // SAFETY: there are so many trays.
        let (image, there) = (unsafe { images.add(slot) }, far.trays.after(slot));
        let count = if deed == Deed::Swap { 1 } else { operands.len() };
        let within = far.within.get();
        let errand = Errand { within, ..Errand::new::<T>(deed, offset, count, results.is_some()) };
        let length = size_of_val(operands);
        // SAFETY: nobody reaches this image before the errand is sent: the one before is acknowledged. The operands fit, since they lie in
        // one stripe.
        unsafe {
            errand.write(image);
            let from = NonNull::from(operands).cast::<u8>();
            from.copy_to_nonoverlapping(Errand::operands(image), length);
        }
        let piece = Piece { base: image, length: Errand::filled(length) as u32, key };
        self.ask(far, |lane, device: &mut JobDevice| {
            // SAFETY: registered, and left alone until the errand is acknowledged.
            let asked = unsafe { lane.transfer(device, Way::Write, piece, there) }?;
            if asked.is_some() {
                device.copied(length);
            }
            Ok(asked)
        })?;
        part.errands.set(number);
        self.ask(far, Lane::wake)?;
        reached(Step::ErrandSent);
        let Some(results) = results else { return Ok(()) };
        self.await_errands(part, number)?;
        // SAFETY: the target has written what was there to the image before it acknowledged, and the two are as long.
        unsafe {
            let length = size_of_val(results);
            let into = NonNull::from(results).cast::<u8>();
            Errand::operands(image).copy_to_nonoverlapping(into, length);
        }
        Ok(())
    }

    /// Waits until the target has carried out all errands.
    pub(super) fn await_all_errands(&self, part: &Part) -> Result<(), Error> {
        self.await_errands(part, part.errands.get())
    }

    /// Waits until the target has carried out the first `number` errands.
    fn await_errands(&self, part: &Part, number: u64) -> Result<(), Error> {
        let Some(far) = part.far.as_ref().filter(|_| number > 0) else { return Ok(()) };
        let done = self.block.acknowledgements(far.place);
        if done.has_reached(number) {
            return Ok(());
        }
        let waited = self.world.wait_until(|| {
            // In this order: what the target did comes before its end.
            let lost = self.loss_of_handler(far);
            if done.has_reached(number) { Some(Ok(())) } else { lost.map(Err) }
        });
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
