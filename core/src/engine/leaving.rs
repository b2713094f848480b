//! The messages that a leaving rank will never receive.

use core::ptr::NonNull;

use super::message::{DeferredSend, MatchState, UnexpectedData};
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
    /// [`StartError::OutOfMemory`]: the messages that are not discarded wait as before. Call again.
    pub fn discard_kept(
        &mut self,
        is_served: impl Fn(&Envelope) -> bool,
    ) -> Result<(), StartError> {
        let mut from = 0;
        while let Some((number, message)) = self.unexpected.next_from(from) {
            from = number + 1;
            if let (UnexpectedData::There(kept), MatchState::Queued(_)) =
                (message.body, message.standing)
                && !is_served(&message.envelope)
            {
                self.discard(number, kept)?;
            }
        }
        Ok(())
    }

    /// Receives a message into no memory at all. No call asks for the outcome of that receive.
    fn discard(&mut self, number: u32, kept: DeferredSend) -> Result<(), StartError> {
        // Fallible work comes first: a message that was taken out of matching would be lost.
        self.requests.reserve()?;
        self.reserve_for(kept)?;
        self.unexpected.take_out(number);
        let nothing = Part { base: NonNull::dangling(), length: 0 };
        // SAFETY: there is no byte to keep valid.
        let nothing = unsafe { Cursor::contiguous(nothing) };
        self.receive_unexpected(number, nothing, Owner::BLOCKING).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::with_segment;
    use crate::engine::{Sent, Tuning};
    use crate::matching::Pattern;
    use crate::memory::counted::Counted;
    use crate::wire::Key;

    #[test]
    fn a_message_that_could_not_be_discarded_for_lack_of_memory_is_discarded_later() {
        with_segment(2, |segment| {
            let memories = [(); 2].map(|()| Counted::default());
            let [mut sender, mut leaver] = [0, 1].map(|rank: u32| {
                let memory = memories[rank as usize].clone();
                let offers_all = Tuning { unexpected_max: 0, ..Tuning::default() };
                Engine::new(memory, *segment, rank, offers_all).unwrap()
            });
            let key = Key::new(0, 7);
            let byte = 1;
            let data = Part { base: NonNull::from(&byte), length: 1 };
            // SAFETY: the byte outlives the engine.
            let sent = unsafe { sender.isend(1, key, Cursor::contiguous(data), Owner::BLOCKING) };
            let Ok(Sent::Pending(send)) = sent else { panic!("it waits for a receive: {sent:?}") };
            leaver.progress().unwrap();

            memories[1].refuse(true);
            assert!(matches!(leaver.discard_kept(|_| false), Err(StartError::OutOfMemory(_))));
            let pattern = Pattern { context: 0, source: 0, tag: 7 };
            assert!(leaver.iprobe(pattern).unwrap().is_some(), "the message waits as before");
            memories[1].refuse(false);
            leaver.discard_kept(|_| true).unwrap();
            assert!(leaver.iprobe(pattern).unwrap().is_some(), "it is served");
            leaver.discard_kept(|_| false).unwrap();
            assert!(leaver.iprobe(pattern).unwrap().is_none());

            sender.progress().unwrap();
            leaver.progress().unwrap();
            assert!(matches!(sender.test(send), Some(Ok(_))));
            assert!(sender.is_flushed() && leaver.is_flushed());
        });
    }
}
