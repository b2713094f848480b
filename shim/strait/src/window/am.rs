//! Accumulates that the target's handler carries out, on the origin's side (`[OneSided04]` §3.3.2).
//! The operands travel once, and only an acknowledgement comes back.

use strait_core::layout::{Call, Wait};
use strait_core::rma::{ActiveMessage, AmOperation};
use strait_core::sync::{Step, reached};

use super::Window;
use super::options::AtomicityDomain;
use super::part::{RemoteMember, WindowPart};
use crate::buffer::{part_of, part_of_mut};
use crate::{Error, Number, WindowError};

impl Window<'_> {
    /// Makes the target's handler carry out internode accumulates of more than `bytes` bytes of
    /// consecutive numbers. Each run of a shape counts by itself. The origin carries out shorter
    /// ones under a lock, and at any limit these: [`Window::fetch_and_op`],
    /// [`Window::compare_and_swap`], and a [`Window::accumulate`] of one number.
    ///
    /// So 0 passes all other accumulates to the handler, and [`usize::MAX`] none. Members need not
    /// agree on the limit. It has no effect where a member's device has no atomics, since handlers
    /// carry out all accumulates there.
    ///
    /// An accumulate by the handler completes when the target is inside the library or has a
    /// [progress thread](crate::World::start_progress_thread): see [`Window::needs_target`].
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// window.hand_over_above(usize::MAX); // The targets of this program compute for long.
    /// window.free()
    /// # }).unwrap();
    /// ```
    pub fn hand_over_above(&self, bytes: usize) {
        self.own_up_to.set(bytes);
    }

    /// Returns whether the target's handler combines an accumulate of `bytes` bytes.
    pub(super) fn uses_active_message(&self, part: &WindowPart, bytes: usize) -> bool {
        let suits = self.uses_active_messages() && bytes > self.own_up_to.get();
        self.is_only_handled(part) || (suits && part.rank != self.world.rank())
    }

    /// Returns whether only the target's handler can access the part atomically: the target is on
    /// another node, and some device has no atomics.
    pub(super) const fn is_only_handled(&self, part: &WindowPart) -> bool {
        self.handled && part.block.is_none()
    }

    /// Returns whether handlers carry out accumulates of this window by choice, not by necessity.
    pub(super) fn uses_active_messages(&self) -> bool {
        let serves = self.own.beyond.is_some() && self.own.attachments.is_none() && !self.handled;
        serves && matches!(self.domain, AtomicityDomain::Locks)
    }

    /// Sends an active message for one number, and returns the number's previous value.
    pub(super) fn send_one_active_message<T: Number>(
        &self,
        part: &WindowPart,
        offset: usize,
        operands: &[T],
        operation: AmOperation,
    ) -> Result<T, Error> {
        let mut before = [T::zeroed()];
        self.send_active_messages(part, offset, operands, Some(&mut before), operation)?;
        Ok(before[0])
    }

    /// Sends an active message for consecutive numbers, which lie in one stripe. Waits for a free
    /// operand buffer. With `results`, which has an element for each number, it also waits for the
    /// handler.
    pub(super) fn send_active_messages<T: Number>(
        &self,
        part: &WindowPart,
        offset: usize,
        operands: &[T],
        results: Option<&mut [T]>,
        operation: AmOperation,
    ) -> Result<(), Error> {
        let Some((remote, beyond)) = part.remote.as_ref().zip(self.own.beyond.as_ref()) else {
            return Err(WindowError::OtherNode { rank: part.rank }.into());
        };
        self.carry_out_gathered(part)?;
        let mut active_messages = part.am_sender.get();
        let done = self.block.acknowledgements(remote.place);
        self.await_handler(remote, || active_messages.have_room(done))?;
        self.ask(remote, |lane, _| Ok(active_messages.have_image(lane)?.then_some(())))?;
        let count = if operation == AmOperation::Swap { 1 } else { operands.len() };
        let within = remote.within.get();
        let active_message = ActiveMessage {
            within,
            ..ActiveMessage::new::<T>(operation, offset, count, results.is_some())
        };
        let (operand_buffers, operands) = (
            beyond.operand_buffers_for(self.world, remote)?,
            part_of(bytemuck::must_cast_slice(operands)),
        );
        // SAFETY: there are room and an image, and only this code accesses images. The operands
        // fit, since they lie in one stripe.
        unsafe { active_messages.fill(&operand_buffers, &active_message, operands) };
        self.ask(remote, |lane, device| {
            // SAFETY: the images are registered for the lifetime of the lane.
            let sent =
                unsafe { active_messages.send(lane, device, &operand_buffers, operands.length) }?;
            Ok(sent.then_some(()))
        })?;
        part.am_sender.set(active_messages);
        reached(Step::AmSent);
        let Some(results) = results else { return Ok(()) };
        self.await_handler(remote, || active_messages.are_done(done))?;
        // SAFETY: `results` has an element for each number.
        unsafe {
            let results = part_of_mut(bytemuck::must_cast_slice_mut(results));
            active_messages.take(&operand_buffers, results);
        }
        Ok(())
    }

    /// Carries out the gathered accumulates, and waits until the target has carried out all active
    /// messages. Every later accumulate of this member comes after them.
    pub(super) fn await_active_messages(&self, part: &WindowPart) -> Result<(), Error> {
        self.carry_out_gathered(part)?;
        let active_messages = part.am_sender.get();
        let Some(remote) = part.remote.as_ref().filter(|_| !active_messages.is_none()) else {
            return Ok(());
        };
        let done = self.block.acknowledgements(remote.place);
        self.await_handler(remote, || active_messages.are_done(done))
    }

    /// Waits until the target has carried out enough active messages.
    fn await_handler(
        &self,
        remote: &RemoteMember,
        is_enough: impl Fn() -> bool,
    ) -> Result<(), Error> {
        if is_enough() {
            return Ok(());
        }
        let waited = self.world.wait_until(
            || Wait { peer: Some(remote.rank), ..self.wait_in(Call::WindowFlush) },
            || {
                // The order matters: the target's last acknowledgement comes before its end.
                let lost = self.loss_of_handler(remote);
                if is_enough() { Some(Ok(())) } else { lost.map(Err) }
            },
        );
        waited.and_then(|waited| waited)
    }

    /// Returns why a member will carry out nothing more, if that is so.
    fn loss_of_handler(&self, remote: &RemoteMember) -> Option<Error> {
        let gone = self.world.lock_progress().gone(remote.rank);
        let broken = self.world.with_network(|network| {
            network.poll();
            network.on_lane(remote.lane, |lane, _| lane.check())
        });
        match (gone, broken) {
            (Some(how), _) => Some(how.fault(remote.rank).into()),
            (None, Some(Err(error))) => Some(self.world.lane_failure(remote.rank, error)),
            (None, _) => None,
        }
    }
}
