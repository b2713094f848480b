//! Large messages on their way in that were announced first and are written by their senders.
//!
//! When an announced message has met its receive, a *CTS* (clear to send) gives the sender the
//! address of the buffer. The sender writes the message and puts *CTS written* behind the bytes on
//! the same connection. So the message is whole when its receiver learns of it.
//!
//! Only the sender knows when its device writes. So the claim on the buffer stays from the CTS
//! until the sender reports the end, or is gone.
//!
//! Source: `[RdmaChannel04]` §6: the designs that write and those that read, and where each wins.

use super::cts::ClearToSend;
use super::{Channel, Halt, NONSENSE};
use crate::engine::request::RequestState;
use crate::engine::started::outcome;
use crate::engine::{Engine, Fault, StillClaimed};
use crate::hca::{Access, RemoteAddress};
use crate::memory::{Memory, OutOfMemory};
use crate::wire::{DeferredMessageId, StreamHead};

impl<M: Memory + Clone> Engine<M> {
    /// Makes the receive `id` ask for its message. The CTS leaves with the next
    /// [`Engine::poll_network`].
    pub(super) fn clear_to_send(&mut self, id: u32, cts: ClearToSend) -> Result<(), OutOfMemory> {
        let cts = self.network.cleared.insert(cts)?;
        self.requests.set(id, RequestState::Cleared { cts });
        Ok(())
    }

    /// Sends the CTS of each receive that wants its message from `peer`. A message with a buffer
    /// that is not registered is pulled. Returns whether anything moved.
    pub(super) fn clear_on(
        &mut self,
        peer: u32,
        channel: &mut impl Channel,
    ) -> Result<bool, OutOfMemory> {
        let (mut moved, mut from) = (false, 0);
        while let Some((number, cts)) = self.network.cleared.next_from(from) {
            from = number + 1;
            if cts.source == peer && cts.region.is_none() {
                self.pulls.reserve()?;
                self.clear(number, cts, channel)?;
                moved = true;
            }
        }
        Ok(moved)
    }

    fn clear(
        &mut self,
        number: u32,
        mut cts: ClearToSend,
        channel: &mut impl Channel,
    ) -> Result<(), OutOfMemory> {
        cts.began = cts.chosen.is_measured().then(|| channel.now());
        let access = Access { remote_write: true, ..Access::LOCAL };
        // SAFETY: the buffer is claimed (contract of `irecv`) until its request is over. The
        // registration is released in the call of `poll_network` in which that happens.
        let lent =
            cts.part().and_then(|part| Some((part, unsafe { channel.register(part, access) }?)));
        let ClearToSend { source, offer, buffer, request, word, chosen, .. } = cts;
        let Some((part, region)) = lent else {
            self.network.cleared.remove(number);
            self.network.controls.give_back(word);
            self.measure(source, chosen, (0, None), channel);
            return self.call_for(request, source, offer, buffer);
        };
        cts.region = Some(region);
        if let Some(kept) = self.network.cleared.get_mut(number) {
            *kept = cts;
        }
        // The region may be that of a longer part, which was registered before.
        let to = RemoteAddress { address: part.base.addr().get() as u64, key: region.remote_key };
        let (name, capacity) = (offer.name(), part.length);
        self.say(source, word, StreamHead::Cts { name, capacity, to });
        Ok(())
    }

    /// Ends a receive: its sender has written the message.
    pub(super) fn take_cts_written(
        &mut self,
        source: u32,
        name: DeferredMessageId,
        channel: &mut impl Channel,
    ) -> Result<(), Halt> {
        let mut all = self.network.cleared.iter();
        let found = all.find(|(_, cts)| (cts.source, cts.offer.name()) == (source, name));
        let (number, region) =
            found.and_then(|(number, cts)| Some((number, cts.region?))).ok_or(NONSENSE)?;
        drop(all);
        let cts = self.network.cleared.remove(number).ok_or(NONSENSE)?;
        channel.release(region);
        self.network.went.written += 1;
        self.measure(source, cts.chosen, (cts.wanted, cts.began), channel);
        let (place, from) = ((&self.segment, self.rank), (source, cts.tag));
        let (total, capacity) = (cts.offer.total as usize, cts.buffer.remaining());
        self.requests.finish(cts.request, outcome(place, from, total, capacity));
        Ok(())
    }

    /// Ends the claim of a receive that wants its message written, if its CTS is not sent yet.
    pub(in crate::engine) fn detach_cleared(&mut self, number: u32) -> Result<(), StillClaimed> {
        let Some(&cts) = self.network.cleared.get(number) else { return Ok(()) };
        let ClearToSend { source, offer, word, chosen, .. } = cts;
        if cts.region.is_some() {
            return Err(StillClaimed::Moving { peer: source });
        }
        self.network.cleared.remove(number);
        if let Some(stream) = self.stream_mut(source) {
            stream.choice.ended(chosen, 0, 0, 0);
        }
        // The sender need not keep a message that no receive wants.
        self.say(source, word, StreamHead::Done(offer.name()));
        Ok(())
    }

    /// Fails the receives that `peer`, which is gone, was to write. Its streams are closed.
    pub(super) fn fail_cleared_from(
        &mut self,
        peer: u32,
        fault: Fault,
        channel: &mut impl Channel,
    ) {
        let mut from = 0;
        while let Some((number, cts)) = self.network.cleared.next_from(from) {
            from = number + 1;
            if cts.source != peer {
                continue;
            }
            self.network.cleared.remove(number);
            match cts.region {
                Some(region) => channel.release(region),
                None => self.network.controls.give_back(cts.word),
            }
            self.fail(cts.request, fault);
        }
    }
}
