//! Receives that are posted before their messages arrive from ranks on other nodes, and ask for
//! them by an RTR.
//!
//! The buffer is registered, and the RTR gives its address. If the sender uses the RTR, the message
//! is in the buffer when its RTR-ACK comes, or when *written* does. Nothing is left to do then.
//!
//! If the receive meets another message, the RTR is void ([`crate::rndv`]), so the registration
//! ends at once. If the receive is to be cancelled, the RTR is retracted. The answer keeps the
//! order of the messages. When it comes, either the message has come, or none will use the RTR.
//!
//! Source: `[SpecRndv09]` §3.1.2, receiver first.

use super::invitation::Invited;
use super::{Channel, Halt, NONSENSE};
use crate::buffer::Cursor;
use crate::engine::request::RequestState;
use crate::engine::rtrs::PostedRtr;
use crate::engine::started::outcome;
use crate::engine::{Engine, FailureCause, Fault, StillClaimed};
use crate::hca::{Access, RemoteAddress};
use crate::matching::{Envelope, Pattern};
use crate::memory::Memory;
use crate::wire::{self, Key, StreamHead, Turn};

impl<M: Memory + Clone> Engine<M> {
    /// Makes the receive `id`, which is being posted, ask a rank on another node for its message.
    /// The RTR leaves with the next [`Engine::poll_network`]. Returns `None` if the receive does
    /// not ask.
    pub(in crate::engine) fn invite(
        &mut self,
        id: u32,
        pattern: &Pattern,
        buffer: Cursor,
        turn: Turn,
    ) -> Option<PostedRtr> {
        let Pattern { context, source: peer, tag } = *pattern;
        let invited = Invited {
            peer,
            key: Key::new(context, tag),
            turn,
            part: buffer.in_one_part()?,
            told: false,
            region: None,
            retracting: false,
            total: None,
            request: Some(id),
        };
        let number = self.network.invited.insert(invited).ok()?;
        Some(PostedRtr { turn, peer, number })
    }

    /// Sends the RTRs of receives that ask `peer`, and ends the registrations of those that do not
    /// ask any more. Returns whether any RTR was sent.
    pub(super) fn invite_on(&mut self, peer: u32, channel: &mut impl Channel) -> bool {
        let (mut moved, mut from) = (false, 0);
        while let Some((number, invited)) = self.network.invited.next_from(from) {
            from = number + 1;
            if invited.peer != peer {
                continue;
            }
            if invited.request.is_none() {
                self.withdraw(number, channel);
            } else if !invited.told && !invited.retracting {
                moved |= self.tell(number, invited, channel);
            }
        }
        moved
    }

    /// Sends an RTR. Returns false if it cannot be sent now, or never because the memory is not
    /// registered.
    fn tell(&mut self, number: u32, invited: Invited, channel: &mut impl Channel) -> bool {
        let Ok(word) = self.reserve_word() else { return false };
        let access = Access { remote_write: true, ..Access::LOCAL };
        let Invited { peer, key, part, .. } = invited;
        // SAFETY: the buffer is claimed (contract of `irecv`) until its request is over. The
        // registration is released in the call of `poll_network` in which that happens.
        let region = unsafe { channel.register(part, access) };
        if let Some(invited) = self.network.invited.get_mut(number) {
            (invited.told, invited.region) = (true, region);
        }
        let Some(region) = region else {
            self.network.controls.give_back(word);
            return false;
        };
        // The region may be that of a longer part, which was registered before.
        let to = RemoteAddress { address: part.base.addr().get() as u64, key: region.remote_key };
        let (capacity, asked) = (part.length, invited.asked(number));
        self.say(peer, word, StreamHead::Rtr { key, capacity, to, asked });
        self.negotiation.count_sent(peer, key);
        true
    }

    /// Ends the registration of a receive to which the peer does not write any more. A receive that
    /// waits for an answer stays, without memory, until the answer comes.
    fn withdraw(&mut self, number: u32, channel: &mut impl Channel) {
        let Some(invited) = self.network.invited.get_mut(number) else { return };
        if let Some(region) = invited.region.take() {
            channel.release(region);
        }
        if !invited.retracting {
            self.network.invited.remove(number);
        }
    }

    /// Notes that the receive does not need its RTR any more.
    pub(in crate::engine) fn uninvite(&mut self, number: u32) {
        if let Some(invited) = self.network.invited.get_mut(number) {
            invited.request = None;
        }
    }

    /// Asks the peer not to use the RTR of a posted receive. Until it has answered, the claim
    /// stays.
    pub(in crate::engine) fn take_back(
        &mut self,
        PostedRtr { peer, number, .. }: PostedRtr,
    ) -> StillClaimed {
        let Some(invited) = self.network.invited.get(number).filter(|invited| !invited.retracting)
        else {
            return StillClaimed::Moving { peer };
        };
        let (key, asked) = (invited.key, invited.asked(number));
        match self.reserve_word() {
            Ok(word) => self.say(peer, word, StreamHead::RetractRtr { key, asked }),
            Err(error) => return StillClaimed::OutOfMemory(error),
        }
        if let Some(invited) = self.network.invited.get_mut(number) {
            invited.retracting = true;
        }
        // The RTRs after it are void, too.
        self.negotiation.mispredicted(peer, key);
        StillClaimed::Moving { peer }
    }

    /// Matches a message that uses an RTR with its receive, which is the one that sent the RTR.
    pub(super) fn meet_invited(
        &mut self,
        envelope: &Envelope,
        total: usize,
        (asked, whole): (wire::RtrId, bool),
    ) -> Result<(), Halt> {
        let Envelope { context, source, tag } = *envelope;
        let id = self.posted.take(envelope).ok_or(NONSENSE)?;
        let invited = self.find_invited(source, asked)?;
        if invited.request != Some(id) || invited.region.is_none() {
            self.fail(id, Fault::PeerFailed { rank: source, sign: FailureCause::Nonsense });
            return Err(NONSENSE);
        }
        invited.total = Some(total);
        self.negotiation.take_rtr_ack(source, Key::new(context, tag), asked.turn);
        self.requests.set(id, RequestState::Written { invited: asked.place });
        if whole { self.end_written(source, asked) } else { Ok(()) }
    }

    /// Returns the error for a receive that is being written. Only the sender knows when its device
    /// writes, so the claim stays until it reports the end.
    pub(in crate::engine) fn still_written(&self, number: u32) -> StillClaimed {
        StillClaimed::Moving {
            peer: self.network.invited.get(number).map_or(self.rank, |i| i.peer),
        }
    }

    /// Ends a receive: all of a message that uses an RTR is in its buffer.
    pub(super) fn end_written(&mut self, source: u32, asked: wire::RtrId) -> Result<(), Halt> {
        let invited = self.find_invited(source, asked)?;
        let total = invited.total.take().ok_or(NONSENSE)?;
        let (tag, capacity, request) =
            (invited.key.tag(), invited.part.length, invited.request.take());
        if let Some(id) = request {
            let (place, from) = ((&self.segment, self.rank), (source, tag));
            self.requests.finish(id, outcome(place, from, total, capacity));
        }
        Ok(())
    }

    /// Handles the answer to a retraction: a receive that is still posted meets no message that
    /// uses its RTR.
    pub(super) fn take_rtr_retracted(
        &mut self,
        source: u32,
        asked: wire::RtrId,
    ) -> Result<(), Halt> {
        let invited = self.find_invited(source, asked)?;
        if !core::mem::take(&mut invited.retracting) {
            return Err(NONSENSE);
        }
        if let Some(id) = invited.request
            && let Some(RequestState::Posted { handle, .. }) = self.requests.get(id)
        {
            self.posted.cancel(handle);
            self.fail(id, Fault::Cancelled);
            self.uninvite(asked.place);
            self.negotiation.count_retracted();
        }
        Ok(())
    }

    fn find_invited(&mut self, peer: u32, asked: wire::RtrId) -> Result<&mut Invited, Halt> {
        let invited = self.network.invited.get_mut(asked.place).ok_or(NONSENSE)?;
        let is_it = (invited.peer, invited.turn) == (peer, asked.turn);
        if is_it { Ok(invited) } else { Err(NONSENSE) }
    }

    /// Ends the registrations to which `peer` might have written, and fails the receives that it
    /// was writing. Its streams are closed.
    pub(super) fn uninvite_all(&mut self, peer: u32, fault: Fault, channel: &mut impl Channel) {
        let mut from = 0;
        while let Some((number, invited)) = self.network.invited.next_from(from) {
            from = number + 1;
            if invited.peer != peer {
                continue;
            }
            self.network.invited.remove(number);
            invited.region.into_iter().for_each(|region| channel.release(region));
            // A receive that is still posted fails with all posted receives.
            if let Some(id) = invited.request.filter(|_| invited.total.is_some()) {
                self.fail(id, fault);
            }
        }
    }

    /// Returns whether no answer to a retraction is to come.
    pub(super) fn has_answers(&self) -> bool {
        self.network.invited.iter().all(|(_, invited)| !invited.retracting)
    }
}
