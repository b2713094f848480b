//! Receives that come before their messages, from ranks on other nodes, and ask for them by an RTR.
//!
//! The buffer is registered and the RTR says where it lies. If the sender uses that, the message is in the buffer when its RTR-ACK
//! comes, or when *written* does: nothing is left to do. If the receive meets another message, the RTR is void
//! ([`crate::rndv`]), so the registration goes at once. And if the receive is to be cancelled, the RTR is retracted: the answer
//! keeps the order of the messages, so when it comes, either the message has, or none will use the RTR.
//!
//! Source: `[SpecRndv09]` §3.1.2, receiver first.

use super::{Channel, Halt, NONSENSE};
use crate::hca::{Access, Region, Remote};
use crate::matching::{Envelope, Pattern};
use crate::memory::Memory;
use crate::progress::receive::outcome;
use crate::progress::request::Request;
use crate::progress::speculation::Asked;
use crate::progress::{Cursor, Engine, Fault, Part, Sign, StillClaimed};
use crate::rndv::Turn;
use crate::wire::{self, Key, StreamHead};

/// A receive whose sender may write its message.
#[derive(Clone, Copy, Debug)]
pub(in crate::progress) struct Invited {
    pub(in crate::progress) peer: u32,
    pub(in crate::progress) key: Key,
    turn: Turn,
    pub(in crate::progress) part: Part,
    /// Whether its RTR was sent, or never will be: then nothing is registered.
    told: bool,
    region: Option<Region>,
    /// The answer to a retraction is to come.
    retracting: bool,
    /// The length of its message, which is being written.
    total: Option<usize>,
    /// `None` when the receive is over, or met another message.
    request: Option<u32>,
}

impl Invited {
    const fn asked(&self, place: u32) -> wire::Asked {
        wire::Asked { place, turn: self.turn }
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Has the receive `id`, which is being posted, ask a rank on another node for its message. The RTR leaves with the next
    /// [`Engine::poll_network`]. `None`: it does not ask.
    pub(in crate::progress) fn invite(
        &mut self,
        id: u32,
        pattern: &Pattern,
        buffer: Cursor,
        turn: Turn,
    ) -> Option<Asked> {
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
        let number = self.invited.insert(invited).ok()?;
        Some(Asked { turn, peer, number })
    }

    /// Sends the RTRs of receives that ask `peer`, and gives back what is registered for those that do not any more. Says whether
    /// any was sent.
    pub(super) fn invite_on(&mut self, peer: u32, channel: &mut impl Channel) -> bool {
        let (mut moved, mut from) = (false, 0);
        while let Some((number, invited)) = self.invited.next_from(from) {
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

    /// Sends an RTR. False: not now, or never, since the memory is not registered.
    fn tell(&mut self, number: u32, invited: Invited, channel: &mut impl Channel) -> bool {
        let Ok(word) = self.reserve_word() else { return false };
        let access = Access { remote_write: true, ..Access::LOCAL };
        let Invited { peer, key, part, .. } = invited;
        // SAFETY: the buffer is claimed (contract of `irecv`) until its request is over, and the registration is released in the
        // call of `poll_network` in which that happens.
        let region = unsafe { channel.register(part, access) };
        if let Some(invited) = self.invited.get_mut(number) {
            (invited.told, invited.region) = (true, region);
        }
        let Some(region) = region else {
            self.words.remove(word);
            return false;
        };
        // The region may be that of a longer part, which was registered before.
        let to = Remote { address: part.base.addr().get() as u64, key: region.remote_key };
        let (capacity, asked) = (part.length, invited.asked(number));
        self.say(peer, word, StreamHead::Rtr { key, capacity, to, asked });
        self.rtrs.sent += 1;
        true
    }

    /// Nobody writes there any more. What waits for an answer is kept, without memory, until that comes.
    fn withdraw(&mut self, number: u32, channel: &mut impl Channel) {
        let Some(invited) = self.invited.get_mut(number) else { return };
        if let Some(region) = invited.region.take() {
            channel.release(region);
        }
        if !invited.retracting {
            self.invited.remove(number);
        }
    }

    /// The receive needs its RTR no more.
    pub(in crate::progress) fn uninvite(&mut self, number: u32) {
        if let Some(invited) = self.invited.get_mut(number) {
            invited.request = None;
        }
    }

    /// Asks the peer not to use the RTR of a posted receive. Until it has answered, the claim stands.
    pub(in crate::progress) fn take_back(
        &mut self,
        Asked { peer, number, .. }: Asked,
    ) -> StillClaimed {
        let Some(invited) = self.invited.get(number).filter(|invited| !invited.retracting) else {
            return StillClaimed::Moving { peer };
        };
        let (key, asked) = (invited.key, invited.asked(number));
        match self.reserve_word() {
            Ok(word) => self.say(peer, word, StreamHead::RetractRtr { key, asked }),
            Err(error) => return StillClaimed::OutOfMemory(error),
        }
        if let Some(invited) = self.invited.get_mut(number) {
            invited.retracting = true;
        }
        // Those that asked after it are void, too.
        self.asking.mispredicted(peer, key);
        StillClaimed::Moving { peer }
    }

    /// A message that uses an RTR meets its receive, which is the one that sent the RTR.
    pub(super) fn meet_invited(
        &mut self,
        envelope: &Envelope,
        total: usize,
        (asked, whole): (wire::Asked, bool),
    ) -> Result<(), Halt> {
        let Envelope { context, source, tag } = *envelope;
        let id = self.posted.take(envelope).ok_or(NONSENSE)?;
        let invited = self.find_invited(source, asked)?;
        if invited.request != Some(id) || invited.region.is_none() {
            self.fail(id, Fault::PeerFailed { rank: source, sign: Sign::Nonsense });
            return Err(NONSENSE);
        }
        invited.total = Some(total);
        self.asking.rtr_ack(source, Key::new(context, tag), asked.turn);
        if let Some(request) = self.request_mut(id) {
            *request = Request::Written { invited: asked.place };
        }
        if whole { self.end_written(source, asked) } else { Ok(()) }
    }

    /// Nobody but the sender knows when its device writes: the claim of the receive stands until it has said so.
    pub(in crate::progress) fn still_written(&self, number: u32) -> StillClaimed {
        StillClaimed::Moving { peer: self.invited.get(number).map_or(self.rank, |i| i.peer) }
    }

    /// All of a message that uses an RTR is there.
    pub(super) fn end_written(&mut self, source: u32, asked: wire::Asked) -> Result<(), Halt> {
        let invited = self.find_invited(source, asked)?;
        let total = invited.total.take().ok_or(NONSENSE)?;
        let (tag, capacity, request) =
            (invited.key.tag(), invited.part.length, invited.request.take());
        if let Some(request) = request.and_then(|id| self.request_mut(id)) {
            *request = Request::Done(outcome(source, tag, total, capacity));
        }
        Ok(())
    }

    /// The answer to a retraction: a receive that is still posted meets nothing that uses its RTR.
    pub(super) fn take_rtr_retracted(
        &mut self,
        source: u32,
        asked: wire::Asked,
    ) -> Result<(), Halt> {
        let invited = self.find_invited(source, asked)?;
        if !core::mem::take(&mut invited.retracting) {
            return Err(NONSENSE);
        }
        if let Some(id) = invited.request
            && let Some(Request::Posted { handle, .. }) = self.request(id)
        {
            self.posted.cancel(handle);
            self.fail(id, Fault::Cancelled);
            self.uninvite(asked.place);
            self.rtrs.retracted += 1;
        }
        Ok(())
    }

    fn find_invited(&mut self, peer: u32, asked: wire::Asked) -> Result<&mut Invited, Halt> {
        let invited = self.invited.get_mut(asked.place).ok_or(NONSENSE)?;
        let is_it = (invited.peer, invited.turn) == (peer, asked.turn);
        if is_it { Ok(invited) } else { Err(NONSENSE) }
    }

    /// Gives back what `peer` might have written, and fails what it was writing. Its streams are closed.
    pub(super) fn uninvite_all(&mut self, peer: u32, fault: Fault, channel: &mut impl Channel) {
        let mut from = 0;
        while let Some((number, invited)) = self.invited.next_from(from) {
            from = number + 1;
            if invited.peer != peer {
                continue;
            }
            self.invited.remove(number);
            invited.region.into_iter().for_each(|region| channel.release(region));
            // What is posted still fails with all that is.
            if let Some(id) = invited.request.filter(|_| invited.total.is_some()) {
                self.fail(id, fault);
            }
        }
    }

    /// True when no answer to a retraction is to come.
    pub(super) fn has_answers(&self) -> bool {
        self.invited.iter().all(|(_, invited)| !invited.retracting)
    }
}
