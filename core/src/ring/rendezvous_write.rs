//! Rendezvous by RDMA write: the sender writes large parts straight into the receiver's user's buffer
//! (`[RdmaChannel04]` §6).
//!
//! What the paper compares zero copy with. The sender announces how much it has; the receiver, when its user's buffer
//! is there, grants a place for some of it; the sender writes, and says so in a slot, which lands after the bytes. What
//! was not granted is announced again. A grant waits behind no slot: it has a place of its own.

use super::config::{Config, GRANT, GRANTED};
use super::error::Cause;
use super::knock::Told;
use super::landing::Head;
use super::large::{Held, announce, cursor, put_small};
use super::pipeline;
use super::poster::Poster;
use super::slot::{ANNOUNCEMENT, Announcement, Front, Kind, Place, Slots, corrupt};
use crate::hca::{Access, Hca, HcaError};
use crate::progress::{Cursor, Part};
use crate::sync::CACHE_LINE;

/// Where grants land.
const PLACE: Place = Place { near: GRANTED, far: GRANT, length: CACHE_LINE };
const LANDED: Place = Place { near: GRANT, far: GRANTED, length: CACHE_LINE };

/// One link's two streams.
#[derive(Debug)]
pub(super) struct RendezvousWrite {
    slots: Slots,
    large: usize,
    outgoing: Option<Outgoing>,
    incoming: Option<Incoming>,
    /// Announcements made, each of which has its grant.
    asked: u64,
    /// Grants given.
    given: u64,
    /// The last request of the last grant, whose image may be filled again when it is done.
    grant_request: u64,
}

/// A part on its way out.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    held: Held,
    /// Bytes granted, and the request that writes them.
    writing: Option<(usize, u64)>,
    /// Whether the peer is told that they are there.
    told: bool,
}

/// A place that was granted.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    held: Held,
    /// Whether the grant is handed to the device, and whether all of it but the flag is.
    sent: bool,
    half: bool,
}

impl RendezvousWrite {
    pub(super) const fn new(config: &Config) -> Self {
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

    /// Takes small parts as far as there is room, and of a large one what the peer granted, when it is written.
    pub(super) fn put<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        from: &[Part],
    ) -> Result<usize, Cause> {
        self.progress(poster, hca)?;
        if let Some(Outgoing { held, .. }) = self.outgoing {
            held.check(from.iter().find(|part| part.length > 0).copied())?;
            return Ok(self.settle(poster, hca)?.unwrap_or(0));
        }
        let (mut taken, large) = put_small(&mut self.slots, poster, hca, from, self.large)?;
        if let Some(part) = large
            && !self.ask(poster, hca, part)?
        {
            // The system registers no more: through the slots, like a small one.
            // SAFETY: the part is valid while `Link::put` runs.
            let part = unsafe { Cursor::contiguous(part) };
            taken += pipeline::put(&mut self.slots, poster, hca, part)?;
        }
        Ok(taken)
    }

    /// Counts what is written of the part on its way out.
    pub(super) fn settle<H: Hca>(
        &mut self,
        poster: &Poster,
        hca: &mut H,
    ) -> Result<Option<usize>, Cause> {
        match self.outgoing {
            Some(Outgoing { held, writing: Some((bytes, request)), told: true })
                if poster.is_done(request) =>
            {
                held.release(hca)?;
                self.outgoing = None;
                Ok(Some(bytes))
            }
            _ => Ok(None),
        }
    }

    /// Announces a large part, if there is room. False: its memory cannot be registered.
    fn ask<H: Hca>(&mut self, poster: &mut Poster, hca: &mut H, part: Part) -> Result<bool, Cause> {
        if self.slots.room(poster)? == 0 {
            return Ok(true);
        }
        // SAFETY: the part is valid until it is counted (contract of `Link::put`), and released then or in `finalize`.
        let held = unsafe { Held::new(hca, part, poster.longest(), Access::LOCAL_READ) }?;
        let Some(held) = held else { return Ok(false) };
        let length = held.part.length as u64;
        announce(&mut self.slots, poster, hca, &Announcement { address: 0, length, key: 0 });
        self.asked += 1;
        self.outgoing = Some(Outgoing { held, writing: None, told: false });
        self.slots.progress(poster, hca)?;
        Ok(true)
    }

    /// Writes what has been granted, and says that it is there.
    fn answer<H: Hca>(&mut self, poster: &mut Poster, hca: &mut H) -> Result<(), Cause> {
        let Some(outgoing) = &mut self.outgoing else { return Ok(()) };
        if outgoing.writing.is_none()
            && let Some((head, payload)) = LANDED.look(poster, self.asked)?
        {
            let front = Front { kind: Kind::Large, length: head.length as usize, payload };
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
            // SAFETY: there is nothing to keep valid.
            self.slots.fill(poster, hca, Kind::Done, &mut unsafe { Cursor::parts(&[]) });
            outgoing.told = true;
        }
        Ok(())
    }

    /// Delivers what has arrived, and grants places for what has been announced.
    pub(super) fn get<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        mut into: Cursor,
    ) -> Result<usize, Cause> {
        let mut got = 0;
        loop {
            let first = into.first();
            if let Some(Incoming { held, .. }) = &self.incoming {
                held.check(first)?;
            }
            let Some(front) = self.slots.front(poster)? else { return Ok(got) };
            match (front.kind, self.incoming, first) {
                (Kind::Data, None, _) => {
                    let bytes = self.slots.get(poster, hca, &mut into)?;
                    got += bytes;
                    if bytes == 0 && into.first().is_none() {
                        return Ok(got);
                    }
                }
                (Kind::Large, None, Some(part)) => {
                    if !poster.is_done(self.grant_request) {
                        return Ok(got);
                    }
                    self.grant(poster, hca, part, front.announcement()?.length)?;
                }
                (Kind::Done, Some(Incoming { held, sent: true, .. }), Some(_)) => {
                    held.release(hca)?;
                    self.incoming = None;
                    self.slots.consume();
                    got += held.part.length;
                    into = into.after(held.part.length);
                }
                (Kind::Large, None, None) | (Kind::Done, Some(_), None) => return Ok(got),
                (kind, ..) => return Err(corrupt("the kind of a message", kind as u64, 1)),
            }
        }
    }

    /// Grants the beginning of `part`, up to the bytes announced.
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
        // SAFETY: the part is valid until it is counted (contract of `Link::get`), and released then or in `finalize`.
        let held = unsafe { Held::new(hca, part, most, access) }?
            .ok_or(Cause::Device(HcaError::Memory { bytes: part.length as u64 }))?;
        self.given += 1;
        let head = Head { length: ANNOUNCEMENT as u32, ..Head::default() };
        // SAFETY: the last grant's requests are done.
        unsafe { PLACE.fill(poster, head, self.given, &mut cursor(&held.announcement())) };
        self.incoming = Some(Incoming { held, sent: false, half: false });
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

    /// Hands to the device what it has not got yet.
    pub(super) fn progress<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<(), Cause> {
        self.send_grant(poster, hca)?;
        self.answer(poster, hca)?;
        self.slots.progress(poster, hca)
    }

    /// How much was written to the peer.
    pub(super) const fn told(&self) -> Told {
        let [sent, credit, ..] = self.slots.told();
        let kept = matches!(self.incoming, Some(Incoming { sent: false, .. }));
        [sent, credit, self.given - kept as u64, 0]
    }

    /// Whether so much of the peer's has landed.
    pub(super) fn has_landed(&mut self, poster: &Poster, told: &Told) -> Result<bool, Cause> {
        let granted = told[2] == 0 || LANDED.look(poster, told[2])?.is_some();
        Ok(granted && self.slots.has_landed(poster, told)?)
    }

    /// As [`RendezvousWrite::progress`]. True: the peer has all of it.
    pub(super) fn drain<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<bool, Cause> {
        self.progress(poster, hca)?;
        self.slots.drain(poster, hca)
    }

    /// Gives back what is registered; the connection is closed.
    pub(super) fn finalize<H: Hca>(self, hca: &mut H) -> Result<(), Cause> {
        let outgoing = self.outgoing.map(|outgoing| outgoing.held);
        let incoming = self.incoming.map(|incoming| incoming.held);
        outgoing.into_iter().chain(incoming).try_for_each(|held| held.release(hca))
    }
}
