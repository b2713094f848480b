//! One connection of the channel.

use super::basic::Basic;
use super::card::Card;
use super::config::{Config, Design, Lent};
use super::error::{Cause, LinkError};
use super::knock::{Knocks, Told, Vigil};
use super::poster::{Operations, Poster};
use super::rendezvous_write::RendezvousWrite;
use super::slot::Slots;
use super::zero_copy::ZeroCopy;
use super::{piggyback, pipeline};
use crate::hca::{Completion, Connection, Done, Hca, Readiness, Remote, WorkError};
use crate::progress::{Begun, Cursor, Direct, Part};

/// A pipe of bytes to one peer, and one back.
///
/// The device's completions are the embedder's to poll; those of [`Link::connection`] go to [`Link::handle`]. Once a
/// link has failed, every call says why.
#[derive(Debug)]
pub struct Link {
    peer: u32,
    config: Config,
    lent: Lent,
    connection: Connection,
    /// From the time that the connection is ready.
    ends: Option<(Poster, Ends)>,
    knocks: Knocks,
    broken: Option<Cause>,
}

/// Both ends of a link's streams, in its design.
#[derive(Debug)]
enum Ends {
    Basic(Basic),
    Piggyback(Slots),
    Pipeline(Slots),
    ZeroCopy(ZeroCopy),
    RendezvousWrite(RendezvousWrite),
}

impl Ends {
    /// How much was written to the peer.
    const fn told(&self) -> Told {
        match self {
            Self::Basic(basic) => basic.told(),
            Self::Piggyback(slots) | Self::Pipeline(slots) => slots.told(),
            Self::ZeroCopy(zero_copy) => zero_copy.told(),
            Self::RendezvousWrite(rendezvous) => rendezvous.told(),
        }
    }

    /// Whether so much of the peer's has landed.
    fn have_landed(&mut self, poster: &Poster, told: &Told) -> Result<bool, Cause> {
        match self {
            Self::Basic(_) => Ok(Basic::has_landed(poster, told)),
            Self::Piggyback(slots) | Self::Pipeline(slots) => slots.has_landed(poster, told),
            Self::ZeroCopy(zero_copy) => zero_copy.has_landed(poster, told),
            Self::RendezvousWrite(rendezvous) => rendezvous.has_landed(poster, told),
        }
    }
}

impl Link {
    /// Makes this side's end of a link to `peer`. The card is for the peer, whose own comes back to [`Link::connect`].
    ///
    /// # Safety
    ///
    /// The memory lent has [`Config::bytes`] bytes, which are valid, zero, aligned to a cache line, registered for
    /// everything, and used by nothing else until the link is finalized. It is touched when bytes travel, not before.
    ///
    /// # Errors
    ///
    /// [`Cause::Config`] for a shape that cannot be, [`Cause::Device`] when the device has no connection left.
    ///
    /// # Source
    ///
    /// `[RdmaChannel04]` §3.2, §4.2.
    pub unsafe fn init<H: Hca>(
        hca: &mut H,
        peer: u32,
        config: Config,
        lent: Lent,
    ) -> Result<(Self, Card), LinkError> {
        let fault = |cause| LinkError { peer, cause };
        if !config.is_valid() {
            return Err(fault(Cause::Config(config)));
        }
        let (connection, address) = hca.open(peer).map_err(|error| fault(Cause::Device(error)))?;
        let card = Card::new(&address, &config, &lent);
        Ok((
            Self {
                peer,
                config,
                lent,
                connection,
                ends: None,
                knocks: Knocks::default(),
                broken: None,
            },
            card,
        ))
    }

    /// Connects to the peer's end. Called again until it is [`Readiness::Ready`].
    ///
    /// # Errors
    ///
    /// [`Cause::Mismatch`] when the peer's end has another shape, [`Cause::Device`] when it cannot be reached.
    pub fn connect<H: Hca>(&mut self, hca: &mut H, card: &Card) -> Result<Readiness, LinkError> {
        let Some(far) = card.memory(&self.config) else {
            return Err(self.failed(Cause::Mismatch));
        };
        if self.ends.is_some() {
            return Ok(Readiness::Ready);
        }
        let readiness = hca
            .connect(self.connection, &card.address())
            .map_err(|error| self.failed(Cause::Device(error)))?;
        if readiness == Readiness::Ready {
            self.ends = Some(self.begin(hca, far));
        }
        Ok(readiness)
    }

    fn begin<H: Hca>(&self, hca: &H, far: Remote) -> (Poster, Ends) {
        let config = &self.config;
        let (ends, marks) = match config.design {
            Design::Basic => (Ends::Basic(Basic::new(config)), config.ring_bytes() as u64),
            Design::Piggyback => (Ends::Piggyback(Slots::new(config)), config.slots.into()),
            Design::Pipeline => (Ends::Pipeline(Slots::new(config)), config.slots.into()),
            Design::ZeroCopy => (Ends::ZeroCopy(ZeroCopy::new(config)), config.slots.into()),
            Design::RendezvousWrite => {
                (Ends::RendezvousWrite(RendezvousWrite::new(config)), config.slots.into())
            }
        };
        (Poster::new(self.connection, self.lent, far, &hca.capabilities(), marks), ends)
    }

    /// Puts bytes into the pipe: as many as it takes now, in their order. Returns how many; the rest is put again
    /// later, and begins with the same part.
    ///
    /// # Safety
    ///
    /// The parts are valid for reads and lie outside the memory lent. A large part stays so after the call, until it is
    /// counted in what a call returns or the link is finalized.
    ///
    /// # Errors
    ///
    /// [`LinkError`] when the link has failed and what the peer has is counted, or the call does not go on where the last one ended. A full pipe is
    /// none: it takes 0 bytes.
    ///
    /// # Source
    ///
    /// `[RdmaChannel04]` §3.2, `put`.
    pub unsafe fn put<H: Hca>(&mut self, hca: &mut H, from: &[Part]) -> Result<usize, LinkError> {
        if self.broken.is_some()
            && let Some(bytes) = self.settle(hca)
        {
            return Ok(bytes);
        }
        // SAFETY: by the contract, for as long as this call takes.
        let cursor = unsafe { Cursor::parts(from) };
        self.with(hca, |poster, ends, hca| match ends {
            Ends::Basic(basic) => basic.put(poster, hca, cursor),
            Ends::Piggyback(slots) => piggyback::put(slots, poster, hca, cursor),
            Ends::Pipeline(slots) => pipeline::put(slots, poster, hca, cursor),
            Ends::ZeroCopy(zero_copy) => zero_copy.put(poster, hca, from),
            Ends::RendezvousWrite(rendezvous) => rendezvous.put(poster, hca, from),
        })
    }

    /// Counts a large part that the peer has although the link has failed since.
    fn settle<H: Hca>(&mut self, hca: &mut H) -> Option<usize> {
        let settled = match &mut self.ends {
            Some((poster, Ends::ZeroCopy(zero_copy))) => zero_copy.settle(poster, hca),
            Some((poster, Ends::RendezvousWrite(rendezvous))) => rendezvous.settle(poster, hca),
            _ => Ok(None),
        };
        settled.ok().flatten()
    }

    /// Gets bytes out of the pipe: as many as have arrived and the parts hold. Returns how many; what a next call names
    /// begins with the part where they end.
    ///
    /// # Safety
    ///
    /// The parts are valid for writes and lie outside the memory lent. A part into which large bytes are on their way
    /// stays so after the call, and nobody else touches it, until they are counted in what a call returns or the link
    /// is finalized.
    ///
    /// # Errors
    ///
    /// [`LinkError`] when the link has failed and all that had arrived is delivered. An empty pipe is none: it gives 0
    /// bytes.
    ///
    /// # Source
    ///
    /// `[RdmaChannel04]` §3.2, `get`.
    pub unsafe fn get<H: Hca>(&mut self, hca: &mut H, into: &[Part]) -> Result<usize, LinkError> {
        // SAFETY: by the contract, for as long as this call takes.
        let mut into = unsafe { Cursor::parts(into) };
        let Some((poster, ends)) = &mut self.ends else {
            return Err(self.failed(self.broken.unwrap_or(Cause::NotConnected)));
        };
        let got = match ends {
            Ends::Basic(basic) => basic.get(poster, hca, into),
            Ends::Piggyback(slots) | Ends::Pipeline(slots) => slots.get(poster, hca, &mut into),
            Ends::ZeroCopy(zero_copy) => zero_copy.get(poster, hca, into),
            Ends::RendezvousWrite(rendezvous) => rendezvous.get(poster, hca, into),
        };
        // What has arrived is delivered, even if nothing more will.
        let progress = self.progress(hca);
        match got {
            Ok(0) => progress.map(|()| 0),
            Ok(bytes) => Ok(bytes),
            Err(cause) => Err(self.breaks(cause)),
        }
    }

    /// Whether the device may be at work on the part with which the next [`Link::put`] begins.
    #[must_use]
    pub const fn holds_put(&self) -> bool {
        match &self.ends {
            Some((_, Ends::ZeroCopy(zero_copy))) => zero_copy.holds_put(),
            Some((_, Ends::RendezvousWrite(rendezvous))) => rendezvous.holds_put(),
            _ => false,
        }
    }

    /// Whether the device, or the peer's, may be at work on the part with which the next [`Link::get`] begins.
    #[must_use]
    pub const fn holds_get(&self) -> bool {
        match &self.ends {
            Some((_, Ends::ZeroCopy(zero_copy))) => zero_copy.holds_get(),
            Some((_, Ends::RendezvousWrite(rendezvous))) => rendezvous.holds_get(),
            _ => false,
        }
    }

    /// Begins to move bytes between registered memory of this rank and of the peer, beside the stream: all of them, or as many as
    /// go in one request. `None`: not now. The device takes it up after what has been put before, and a write is at the peer before what
    /// is put after it.
    ///
    /// # Safety
    ///
    /// The memory is registered, and valid for the device until [`Link::is_done`] says so or the link is finalized.
    ///
    /// # Errors
    ///
    /// [`LinkError`] when the link has failed.
    pub unsafe fn transfer<H: Hca>(
        &mut self,
        hca: &mut H,
        direct: &Direct,
    ) -> Result<Option<Begun>, LinkError> {
        // SAFETY: by the contract.
        self.with(hca, |poster, _, hca| unsafe { poster.begin(hca, direct) })
    }

    /// Whether the transfer `number`, and all before it, are done. Also of a link that has failed since.
    #[must_use]
    pub fn is_done(&self, number: u64) -> bool {
        self.ends.as_ref().is_some_and(|(poster, _)| poster.is_done(number))
    }

    /// Hands to the device what it refused before. To be called while a peer may wait for it, even if this rank has
    /// nothing to put or get.
    ///
    /// # Errors
    ///
    /// [`LinkError`] when the link has failed.
    pub fn progress<H: Hca>(&mut self, hca: &mut H) -> Result<(), LinkError> {
        self.with(hca, |poster, ends, hca| match ends {
            Ends::Basic(basic) => basic.progress(poster, hca),
            Ends::Piggyback(slots) | Ends::Pipeline(slots) => slots.progress(poster, hca),
            Ends::ZeroCopy(zero_copy) => zero_copy.progress(poster, hca),
            Ends::RendezvousWrite(rendezvous) => rendezvous.progress(poster, hca),
        })
    }

    /// Takes in a completion of this link's connection.
    pub fn handle(&mut self, completion: &Completion) {
        if let Ok(Done::Receive { .. } | Done::Immediate { .. }) = completion.result {
            self.knocks.hear();
        } else if let Some((poster, _)) = &mut self.ends
            && let Err(cause) = poster.handle(completion)
        {
            self.broken.get_or_insert(cause);
        }
    }

    /// Ends the link because the embedder knows that the peer is gone.
    pub fn fail(&mut self, why: WorkError) {
        self.broken.get_or_insert(Cause::Failed(why));
    }

    /// Writes to the peer a word that it has already: if the peer is not there any more, the link fails. For an embedder that
    /// only waits for the peer, and would not hear of its end.
    ///
    /// # Errors
    ///
    /// [`LinkError`] when the link has failed.
    pub fn probe<H: Hca>(&mut self, hca: &mut H) -> Result<(), LinkError> {
        self.with(hca, |poster, ends, hca| match ends {
            Ends::Basic(basic) => basic.probe(poster, hca),
            Ends::Piggyback(slots) | Ends::Pipeline(slots) => slots.probe(poster, hca),
            Ends::ZeroCopy(zero_copy) => zero_copy.slots().probe(poster, hca),
            Ends::RendezvousWrite(rendezvous) => rendezvous.slots().probe(poster, hca),
        })
    }

    /// Goes on asking the peer to knock when it writes, for an embedder that is about to sleep until its device reports
    /// something. It has armed the device before; unless this is [`Vigil::Open`] it looks at everything once more, and then
    /// sleeps. A knock is a message, so the device's receives have to be as many as its links, and nobody else's.
    ///
    /// # Errors
    ///
    /// [`LinkError`] when the link has failed.
    pub fn ask<H: Hca>(&mut self, hca: &mut H) -> Result<Vigil, LinkError> {
        let asked = match (self.broken, &mut self.ends) {
            (Some(cause), _) => Err(cause),
            (None, None) => return Err(self.failed(Cause::NotConnected)),
            (None, Some((poster, ends))) => {
                self.knocks.ask(poster, hca, |poster, told| ends.have_landed(poster, told))
            }
        };
        asked.map_err(|cause| self.breaks(cause))
    }

    /// As [`Link::progress`]. True: everything that was put is in the peer's memory, and the link can be finalized
    /// without loss.
    ///
    /// # Errors
    ///
    /// [`LinkError`] when the link has failed.
    pub fn drain<H: Hca>(&mut self, hca: &mut H) -> Result<bool, LinkError> {
        self.with(hca, |poster, ends, hca| match ends {
            Ends::Basic(basic) => basic.drain(poster, hca),
            Ends::Piggyback(slots) | Ends::Pipeline(slots) => slots.drain(poster, hca),
            Ends::ZeroCopy(zero_copy) => zero_copy.drain(poster, hca),
            Ends::RendezvousWrite(rendezvous) => rendezvous.drain(poster, hca),
        })
    }

    /// Takes the link down. What was put and has not arrived is lost, so [`Link::drain`] it first. From now on the memory
    /// lent is the embedder's again.
    ///
    /// # Errors
    ///
    /// [`Cause::Device`] when the device does not close the connection.
    pub fn finalize<H: Hca>(self, hca: &mut H) -> Result<(), LinkError> {
        let peer = self.peer;
        let fault = |cause| LinkError { peer, cause };
        hca.close(self.connection).map_err(|error| fault(Cause::Device(error)))?;
        let released = match self.ends {
            Some((_, Ends::ZeroCopy(zero_copy))) => zero_copy.finalize(hca),
            Some((_, Ends::RendezvousWrite(rendezvous))) => rendezvous.finalize(hca),
            _ => Ok(()),
        };
        released.map_err(fault)
    }

    /// True of a link that works, on which the device is at work on no user's memory.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let transfers = self.ends.as_ref().is_some_and(|(poster, _)| poster.transfers());
        self.broken.is_none() && !self.holds_put() && !self.holds_get() && !transfers
    }

    /// The device's name for this end.
    #[must_use]
    pub const fn connection(&self) -> Connection {
        self.connection
    }

    /// The rank at the other side.
    #[must_use]
    pub const fn peer(&self) -> u32 {
        self.peer
    }

    /// What the link has asked of the device.
    #[must_use]
    pub fn operations(&self) -> Operations {
        self.ends.as_ref().map_or_else(Operations::default, |(poster, _)| poster.operations)
    }

    /// Does something with the ends of a link that works, knocks if that has written anything to a peer who asked for it, and
    /// remembers if it fails.
    fn with<H: Hca, R>(
        &mut self,
        hca: &mut H,
        act: impl FnOnce(&mut Poster, &mut Ends, &mut H) -> Result<R, Cause>,
    ) -> Result<R, LinkError> {
        let result = match (self.broken, &mut self.ends) {
            (Some(cause), _) => Err(cause),
            (None, None) => return Err(self.failed(Cause::NotConnected)),
            (None, Some((poster, ends))) => act(poster, ends, hca)
                .and_then(|done| self.knocks.answer(poster, hca, ends.told()).map(|()| done)),
        };
        result.map_err(|cause| self.breaks(cause))
    }

    fn breaks(&mut self, cause: Cause) -> LinkError {
        self.broken.get_or_insert(cause);
        self.failed(cause)
    }

    const fn failed(&self, cause: Cause) -> LinkError {
        LinkError { peer: self.peer, cause }
    }
}
