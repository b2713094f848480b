//! Rendezvous by RDMA write: the sender writes large parts directly into the buffer of the
//! receiver's user (`[RdmaChannel04]` §6).
//!
//! The paper compares its zero-copy design with this one. The sender announces the length of a
//! part. When its user's buffer is there, the receiver grants a place for some of the bytes. The
//! sender writes them and then reports that in a slot, which arrives after the bytes. The remaining
//! bytes are announced again. A grant has a place of its own, so it does not wait behind slots.

use super::announcement::{ANNOUNCEMENT, Announcement};
use super::config::{GRANT, GRANTED, LinkConfig};
use super::error::Cause;
use super::landing::LandingHead;
use super::large::{RegisteredPart, announce, cursor, put_small};
use super::pipeline;
use super::poster::Poster;
use super::slot::{LandedSlot, SlotKind, SlotLocation, Slots, corrupt};
use super::wakeup::WriteCounts;
use crate::buffer::{Cursor, Part};
use crate::hca::{Access, Hca, HcaError};
use crate::sync::CACHE_LINE;

/// The place of outgoing grants.
const PLACE: SlotLocation = SlotLocation { near: GRANTED, far: GRANT, length: CACHE_LINE };
const LANDED: SlotLocation = SlotLocation { near: GRANT, far: GRANTED, length: CACHE_LINE };

/// Both streams of a link.
#[derive(Debug)]
pub(super) struct RendezvousWrite {
    slots: Slots,
    large: usize,
    outgoing: Option<OutgoingPart>,
    incoming: Option<GrantedBuffer>,
    /// Number of announcements made. Each has its grant.
    asked: u64,
    /// Number of grants given.
    given: u64,
    /// The last request of the last grant. Once it is done, the grant's image may be filled again.
    grant_request: u64,
}

/// A large part that is being sent.
#[derive(Clone, Copy, Debug)]
struct OutgoingPart {
    held: RegisteredPart,
    /// Number of bytes granted, and the request that writes them.
    writing: Option<(usize, u64)>,
    /// True once the peer is told that the bytes are written.
    told: bool,
}

/// A granted place.
#[derive(Clone, Copy, Debug)]
struct GrantedBuffer {
    held: RegisteredPart,
    /// `sent`: the device has taken the grant. `half`: it has taken everything but the flag.
    sent: bool,
    half: bool,
}

impl RendezvousWrite {
    pub(super) const fn new(config: &LinkConfig) -> Self {
        Self {
            slots: Slots::new(config),
            large: config.large as usize,
            outgoing: None,
            incoming: None,
            asked: 0,
            given: 0,
            grant_request: 0,
        }
    }

    pub(super) const fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(super) const fn holds_put(&self) -> bool {
        self.outgoing.is_some()
    }

    pub(super) const fn holds_get(&self) -> bool {
        self.incoming.is_some()
    }

    /// Takes small parts as far as there is room. Of a large part, takes the granted bytes once
    /// they are written.
    pub(super) fn put<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        from: &[Part],
    ) -> Result<usize, Cause> {
        self.progress(poster, hca)?;
        if let Some(OutgoingPart { held, .. }) = self.outgoing {
            held.check(from.iter().find(|part| part.length > 0).copied())?;
            return Ok(self.settle(poster, hca)?.unwrap_or(0));
        }
        let (mut taken, large) = put_small(&mut self.slots, poster, hca, from, self.large)?;
        if let Some(part) = large
            && !self.ask(poster, hca, part)?
        {
            // The system registers no more memory, so the part goes through the slots, like a small
            // one.
            // SAFETY: the part is valid while `Link::put` runs.
            let part = unsafe { Cursor::contiguous(part) };
            taken += pipeline::put(&mut self.slots, poster, hca, part)?;
        }
        Ok(taken)
    }

    /// Counts the written bytes of the part that is being sent.
    pub(super) fn settle<H: Hca>(
        &mut self,
        poster: &Poster,
        hca: &mut H,
    ) -> Result<Option<usize>, Cause> {
        match self.outgoing {
            Some(OutgoingPart { held, writing: Some((bytes, request)), told: true })
                if poster.is_done(request) =>
            {
                held.release(hca)?;
                self.outgoing = None;
                Ok(Some(bytes))
            }
            _ => Ok(None),
        }
    }

    /// Announces a large part, if there is room. Returns false if its memory cannot be registered.
    fn ask<H: Hca>(&mut self, poster: &mut Poster, hca: &mut H, part: Part) -> Result<bool, Cause> {
        if self.slots.room(poster)? == 0 {
            return Ok(true);
        }
        // SAFETY: the part is valid until it is counted (contract of `Link::put`), and is released
        // then or in `finalize`.
        let held = unsafe { RegisteredPart::new(hca, part, poster.longest(), Access::LOCAL_READ) }?;
        let Some(held) = held else { return Ok(false) };
        let length = held.part.length as u64;
        announce(&mut self.slots, poster, hca, &Announcement { address: 0, length, key: 0 });
        self.asked += 1;
        self.outgoing = Some(OutgoingPart { held, writing: None, told: false });
        self.slots.progress(poster, hca)?;
        Ok(true)
    }

    /// Writes the granted bytes, and reports that they are written.
    fn answer<H: Hca>(&mut self, poster: &mut Poster, hca: &mut H) -> Result<(), Cause> {
        let Some(outgoing) = &mut self.outgoing else { return Ok(()) };
        if outgoing.writing.is_none()
            && let Some((head, payload)) = LANDED.look(poster, self.asked)?
        {
            let front = LandedSlot { kind: SlotKind::Large, length: head.length as usize, payload };
            let granted = front.announcement()?;
            let most = outgoing.held.part.length as u64;
            if granted.length == 0 || granted.length > most {
                return Err(corrupt("the length of a grant", granted.length, most));
            }
            let bytes = granted.length as usize;
            let mut piece = outgoing.held.piece();
            piece.length = bytes as u32;
            // SAFETY: the part is registered, and valid until it is counted.
            let posted = unsafe { poster.transfer(hca, piece, granted.remote(), false) }?;
            outgoing.writing = posted.map(|request| (bytes, request));
        }
        if outgoing.writing.is_some() && !outgoing.told && self.slots.room(poster)? > 0 {
            // SAFETY: the cursor has no parts that must stay valid.
            self.slots.fill(poster, hca, SlotKind::Done, &mut unsafe { Cursor::parts(&[]) });
            outgoing.told = true;
        }
        Ok(())
    }

    /// Delivers bytes that have arrived, and grants places for announced parts.
    pub(super) fn get<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        mut into: Cursor,
    ) -> Result<usize, Cause> {
        let mut got = 0;
        loop {
            let first = into.first();
            if let Some(GrantedBuffer { held, .. }) = &self.incoming {
                held.check(first)?;
            }
            let Some(front) = self.slots.front(poster)? else { return Ok(got) };
            match (front.kind, self.incoming, first) {
                (SlotKind::Data, None, _) => {
                    let bytes = self.slots.get(poster, hca, &mut into)?;
                    got += bytes;
                    if bytes == 0 && into.first().is_none() {
                        return Ok(got);
                    }
                }
                (SlotKind::Large, None, Some(part)) => {
                    if !poster.is_done(self.grant_request) {
                        return Ok(got);
                    }
                    self.grant(poster, hca, part, front.announcement()?.length)?;
                }
                (SlotKind::Done, Some(GrantedBuffer { held, sent: true, .. }), Some(_)) => {
                    held.release(hca)?;
                    self.incoming = None;
                    self.slots.consume();
                    got += held.part.length;
                    into = into.after(held.part.length);
                }
                (SlotKind::Large, None, None) | (SlotKind::Done, Some(_), None) => return Ok(got),
                (kind, ..) => return Err(corrupt("the kind of a message", kind as u64, 1)),
            }
        }
    }

    /// Grants the start of `part`, up to the number of bytes announced.
    fn grant<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        part: Part,
        announced: u64,
    ) -> Result<(), Cause> {
        if announced == 0 {
            return Err(corrupt("the length of an announcement", 0, u64::MAX));
        }
        let most = poster.longest().min(usize::try_from(announced).unwrap_or(usize::MAX));
        let access = Access { remote_write: true, ..Access::LOCAL };
        // SAFETY: the part is valid until it is counted (contract of `Link::get`), and is released
        // then or in `finalize`.
        let held = unsafe { RegisteredPart::new(hca, part, most, access) }?
            .ok_or(Cause::Device(HcaError::Memory { bytes: part.length as u64 }))?;
        self.given += 1;
        let head = LandingHead { length: ANNOUNCEMENT as u32, ..LandingHead::default() };
        // SAFETY: the requests of the last grant are done.
        unsafe { PLACE.fill(poster, head, self.given, &mut cursor(&held.announcement())) };
        self.incoming = Some(GrantedBuffer { held, sent: false, half: false });
        self.slots.consume();
        self.send_grant(poster, hca)
    }

    fn send_grant<H: Hca>(&mut self, poster: &mut Poster, hca: &mut H) -> Result<(), Cause> {
        if let Some(incoming) = &mut self.incoming
            && !incoming.sent
        {
            let requests = if poster.ordered_bytes() || incoming.half { 1 } else { 2 };
            self.grant_request = poster.ask(requests);
            let mark = poster.mark();
            incoming.sent = PLACE.send(poster, hca, ANNOUNCEMENT, &mut incoming.half, mark)?;
        }
        Ok(())
    }

    /// Posts everything that the device has not taken yet.
    pub(super) fn progress<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<(), Cause> {
        self.send_grant(poster, hca)?;
        self.answer(poster, hca)?;
        self.slots.progress(poster, hca)
    }

    /// Returns how much was written to the peer.
    pub(super) const fn told(&self) -> WriteCounts {
        let [sent, credit, ..] = self.slots.told();
        let kept = matches!(self.incoming, Some(GrantedBuffer { sent: false, .. }));
        [sent, credit, self.given - kept as u64, 0]
    }

    /// Returns true if this much of the peer's writes has arrived.
    pub(super) fn has_landed(
        &mut self,
        poster: &Poster,
        told: &WriteCounts,
    ) -> Result<bool, Cause> {
        let granted = told[2] == 0 || LANDED.look(poster, told[2])?.is_some();
        Ok(granted && self.slots.has_landed(poster, told)?)
    }

    /// Calls [`RendezvousWrite::progress`]. Returns true once the peer has everything.
    pub(super) fn drain<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<bool, Cause> {
        self.progress(poster, hca)?;
        self.slots.drain(poster, hca)
    }

    /// Deregisters all users' memory. The connection is closed.
    pub(super) fn finalize<H: Hca>(self, hca: &mut H) -> Result<(), Cause> {
        let outgoing = self.outgoing.map(|outgoing| outgoing.held);
        let incoming = self.incoming.map(|incoming| incoming.held);
        outgoing.into_iter().chain(incoming).try_for_each(|held| held.release(hca))
    }
}
