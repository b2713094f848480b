//! The messages that a leaving rank will never receive.

use core::ptr::NonNull;

use super::message::{MatchState, UnexpectedData};
use super::{Engine, Owner, StartError};
use crate::buffer::{Cursor, Part};
use crate::matching::Envelope;
use crate::memory::Memory;

impl<M: Memory + Clone> Engine<M> {
    /// Discards the messages that wait for a receive and lie in the memory of their senders, except
    /// those for which `is_served` returns true. For a rank that leaves and receives no more.
    ///
    /// A sender that leaves waits until such a message is taken. After a death, two ranks may have
    /// given up a collective operation in which each had sent to the other. Without this function,
    /// each waits for the other's receive for ever.
    ///
    /// # Errors
    ///
    /// [`StartError::OutOfMemory`]: call again.
    pub fn discard_kept(
        &mut self,
        is_served: impl Fn(&Envelope) -> bool,
    ) -> Result<(), StartError> {
        let mut from = 0;
        while let Some((number, message)) = self.messages.next_from(from) {
            from = number + 1;
            if let (UnexpectedData::There(_), MatchState::Queued(handle)) =
                (message.body, message.standing)
                && !is_served(&message.envelope)
            {
                self.discard(number, handle)?;
            }
        }
        Ok(())
    }

    /// Receives a message into no memory at all. No call asks for the outcome of that receive.
    fn discard(&mut self, number: u32, handle: u32) -> Result<(), StartError> {
        self.take_out(number, handle);
        let nothing = Part { base: NonNull::dangling(), length: 0 };
        // SAFETY: there is no byte to keep valid.
        let nothing = unsafe { Cursor::contiguous(nothing) };
        self.receive_unexpected(number, nothing, Owner::BLOCKING).map(drop)
    }
}
