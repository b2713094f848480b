//! One connection of the channel.

use super::address::LinkAddress;
use super::basic::Basic;
use super::config::{Design, LinkConfig, LinkMemory};
use super::error::{Cause, LinkError};
use super::poster::{Operations, Poster};
use super::rendezvous_write::RendezvousWrite;
use super::slot::Slots;
use super::wakeup::{WakeupSource, Wakeups, WriteCounts};
use super::zero_copy::ZeroCopy;
use super::{piggyback, pipeline};
use crate::buffer::{Cursor, Part};
use crate::engine::{Begun, Direct};
use crate::hca::{Completion, Connection, Done, Hca, Readiness, RemoteAddress, WorkError};

/// A pipe of bytes to one peer, and one back.
///
/// The embedder polls the device's completions and passes those of [`Link::connection`] to
/// [`Link::handle`]. Once a link has failed, every call returns the cause.
#[derive(Debug)]
pub struct Link {
    peer: u32,
    config: LinkConfig,
    lent: LinkMemory,
    connection: Connection,
    /// `Some` once the connection is ready.
    ends: Option<(Poster, Ends)>,
    wakeups: Wakeups,
    broken: Option<Cause>,
}

/// Both ends of a link's streams, for each design.
#[derive(Debug)]
enum Ends {
    Basic(Basic),
    Piggyback(Slots),
    Pipeline(Slots),
    ZeroCopy(ZeroCopy),
    RendezvousWrite(RendezvousWrite),
}

impl Ends {
    /// Returns how much was written to the peer.
    const fn told(&self) -> WriteCounts {
        match self {
            Self::Basic(basic) => basic.told(),
            Self::Piggyback(slots) | Self::Pipeline(slots) => slots.told(),
            Self::ZeroCopy(zero_copy) => zero_copy.told(),
            Self::RendezvousWrite(rendezvous) => rendezvous.told(),
        }
    }

    /// Returns true if this much of the peer's writes has arrived.
    fn have_landed(&mut self, poster: &Poster, told: &WriteCounts) -> Result<bool, Cause> {
        match self {
            Self::Basic(_) => Ok(Basic::has_landed(poster, told)),
            Self::Piggyback(slots) | Self::Pipeline(slots) => slots.has_landed(poster, told),
            Self::ZeroCopy(zero_copy) => zero_copy.has_landed(poster, told),
            Self::RendezvousWrite(rendezvous) => rendezvous.has_landed(poster, told),
        }
    }
}

impl Link {
    /// Creates this side's end of a link to `peer`. The embedder delivers the card to the peer, and
    /// passes the peer's card to [`Link::connect`].
    ///
    /// # Safety
    ///
    /// The lent memory has [`LinkConfig::bytes`] bytes, which are valid, zero, aligned to a cache
    /// line and registered with [`Access::ALL`](crate::hca::Access::ALL). Nothing else uses it
    /// until the link is finalized. The link first accesses it when bytes are transferred.
    ///
    /// # Errors
    ///
    /// [`Cause::Config`] for an invalid configuration; [`Cause::Device`] if the device has no
    /// connection left.
    ///
    /// # Source
    ///
    /// `[RdmaChannel04]` §3.2, §4.2.
    pub unsafe fn init<H: Hca>(
        hca: &mut H,
        peer: u32,
        config: LinkConfig,
        lent: LinkMemory,
    ) -> Result<(Self, LinkAddress), LinkError> {
        let fault = |cause| LinkError { peer, cause };
        if !config.is_valid() {
            return Err(fault(Cause::Config(config)));
        }
        let (connection, address) = hca.open(peer).map_err(|error| fault(Cause::Device(error)))?;
        let card = LinkAddress::new(&address, &config, &lent);
        Ok((
            Self {
                peer,
                config,
                lent,
                connection,
                ends: None,
                wakeups: Wakeups::default(),
                broken: None,
            },
            card,
        ))
    }

    /// Connects to the peer's end. The caller repeats the call until the result is
    /// [`Readiness::Ready`].
    ///
    /// # Errors
    ///
    /// [`Cause::Mismatch`] if the peer's end has another configuration; [`Cause::Device`] if the
    /// device cannot reach it.
    pub fn connect<H: Hca>(
        &mut self,
        hca: &mut H,
        address: &LinkAddress,
    ) -> Result<Readiness, LinkError> {
        let Some(far) = address.memory(&self.config) else {
            return Err(self.failed(Cause::Mismatch));
        };
        if self.ends.is_some() {
            return Ok(Readiness::Ready);
        }
        let readiness = hca
            .connect(self.connection, &address.address())
            .map_err(|error| self.failed(Cause::Device(error)))?;
        if readiness == Readiness::Ready {
            self.ends = Some(self.begin(hca, far));
        }
        Ok(readiness)
    }

    fn begin<H: Hca>(&self, hca: &H, far: RemoteAddress) -> (Poster, Ends) {
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

    /// Puts bytes into the pipe, in order, as many as it takes now. Returns how many. The caller
    /// puts the rest again later, starting with the same part.
    ///
    /// # Safety
    ///
    /// The parts are valid for reads and do not overlap the lent memory. A large part stays valid
    /// after the call, until a call counts it in its result or the link is finalized.
    ///
    /// # Errors
    ///
    /// [`LinkError`] if the link has failed and everything that the peer has is counted. Also if
    /// the call does not continue where the last one ended. A full pipe is not an error: it takes 0
    /// bytes.
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
        // SAFETY: the caller guarantees that the parts are valid for reads during this call
        // (contract of `put`).
        let cursor = unsafe { Cursor::parts(from) };
        self.with(hca, |poster, ends, hca| match ends {
            Ends::Basic(basic) => basic.put(poster, hca, cursor),
            Ends::Piggyback(slots) => piggyback::put(slots, poster, hca, cursor),
            Ends::Pipeline(slots) => pipeline::put(slots, poster, hca, cursor),
            Ends::ZeroCopy(zero_copy) => zero_copy.put(poster, hca, from),
            Ends::RendezvousWrite(rendezvous) => rendezvous.put(poster, hca, from),
        })
    }

    /// Counts a large part that the peer received, although the link has failed since.
    fn settle<H: Hca>(&mut self, hca: &mut H) -> Option<usize> {
        let settled = match &mut self.ends {
            Some((poster, Ends::ZeroCopy(zero_copy))) => zero_copy.settle(poster, hca),
            Some((poster, Ends::RendezvousWrite(rendezvous))) => rendezvous.settle(poster, hca),
            _ => Ok(None),
        };
        settled.ok().flatten()
    }

    /// Gets bytes out of the pipe: as many as have arrived and the parts hold. Returns how many.
    /// The next call starts with the part where these bytes end.
    ///
    /// # Safety
    ///
    /// The parts are valid for writes and do not overlap the lent memory. A part that receives
    /// large bytes stays valid after the call, until a call counts the bytes in its result or the
    /// link is finalized. Until then nothing else accesses it.
    ///
    /// # Errors
    ///
    /// [`LinkError`] if the link has failed and everything that had arrived is delivered. An empty
    /// pipe is not an error: it delivers 0 bytes.
    ///
    /// # Source
    ///
    /// `[RdmaChannel04]` §3.2, `get`.
    pub unsafe fn get<H: Hca>(&mut self, hca: &mut H, into: &[Part]) -> Result<usize, LinkError> {
        // SAFETY: the caller guarantees that the parts are valid for writes during this call
        // (contract of `get`).
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
        // Bytes that have arrived are delivered, even if no more will arrive.
        let progress = self.progress(hca);
        match got {
            Ok(0) => progress.map(|()| 0),
            Ok(bytes) => Ok(bytes),
            Err(cause) => Err(self.breaks(cause)),
        }
    }

    /// Returns true if the device may be using the part with which the next [`Link::put`] starts.
    #[must_use]
    pub const fn holds_put(&self) -> bool {
        match &self.ends {
            Some((_, Ends::ZeroCopy(zero_copy))) => zero_copy.holds_put(),
            Some((_, Ends::RendezvousWrite(rendezvous))) => rendezvous.holds_put(),
            _ => false,
        }
    }

    /// Returns true if either device may be using the part with which the next [`Link::get`]
    /// starts.
    #[must_use]
    pub const fn holds_get(&self) -> bool {
        match &self.ends {
            Some((_, Ends::ZeroCopy(zero_copy))) => zero_copy.holds_get(),
            Some((_, Ends::RendezvousWrite(rendezvous))) => rendezvous.holds_get(),
            _ => false,
        }
    }

    /// Starts a transfer between registered memory of this rank and of the peer, beside the stream.
    /// It covers all of the bytes, or as many as fit in one request. Returns `None` if that is not
    /// possible now.
    ///
    /// The device starts the transfer after everything that was put before. A write arrives before
    /// everything that is put after it.
    ///
    /// # Safety
    ///
    /// The memory is registered, and valid for the device until [`Link::is_done`] returns true or
    /// the link is finalized.
    ///
    /// # Errors
    ///
    /// [`LinkError`] if the link has failed.
    pub unsafe fn transfer<H: Hca>(
        &mut self,
        hca: &mut H,
        direct: &Direct,
    ) -> Result<Option<Begun>, LinkError> {
        // SAFETY: the caller guarantees that the memory is registered and stays valid (contract of
        // `transfer`).
        self.with(hca, |poster, _, hca| unsafe { poster.begin(hca, direct) })
    }

    /// Returns true if the transfer `number` and all before it are done. It also applies to a link
    /// that has failed since.
    #[must_use]
    pub fn is_done(&self, number: u64) -> bool {
        self.ends.as_ref().is_some_and(|(poster, _)| poster.is_done(number))
    }

    /// Posts what the device refused before. The caller repeats it while a peer may wait for the
    /// data, even if this rank has nothing to put or get.
    ///
    /// # Errors
    ///
    /// [`LinkError`] if the link has failed.
    pub fn progress<H: Hca>(&mut self, hca: &mut H) -> Result<(), LinkError> {
        self.with(hca, |poster, ends, hca| match ends {
            Ends::Basic(basic) => basic.progress(poster, hca),
            Ends::Piggyback(slots) | Ends::Pipeline(slots) => slots.progress(poster, hca),
            Ends::ZeroCopy(zero_copy) => zero_copy.progress(poster, hca),
            Ends::RendezvousWrite(rendezvous) => rendezvous.progress(poster, hca),
        })
    }

    /// Handles a completion of this link's connection.
    pub fn handle(&mut self, completion: &Completion) {
        if let Ok(Done::Receive { .. } | Done::Immediate { .. }) = completion.result {
            self.wakeups.hear();
        } else if let Some((poster, _)) = &mut self.ends
            && let Err(cause) = poster.handle(completion)
        {
            self.broken.get_or_insert(cause);
        }
    }

    /// Fails the link because the embedder knows that the peer has failed or finished.
    pub fn fail(&mut self, why: WorkError) {
        self.broken.get_or_insert(Cause::Failed(why));
    }

    /// Writes to the peer a word that it already has. If the peer no longer exists, the link fails.
    /// It is for an embedder that only waits for the peer and would not learn of its end.
    ///
    /// # Errors
    ///
    /// [`LinkError`] if the link has failed.
    pub fn probe<H: Hca>(&mut self, hca: &mut H) -> Result<(), LinkError> {
        self.with(hca, |poster, ends, hca| match ends {
            Ends::Basic(basic) => basic.probe(poster, hca),
            Ends::Piggyback(slots) | Ends::Pipeline(slots) => slots.probe(poster, hca),
            Ends::ZeroCopy(zero_copy) => zero_copy.slots().probe(poster, hca),
            Ends::RendezvousWrite(rendezvous) => rendezvous.slots().probe(poster, hca),
        })
    }

    /// Continues a request to the peer for a wake-up at its next write. The embedder is about to
    /// sleep until its device reports an event.
    ///
    /// The embedder has armed the device before the call. Unless the result is
    /// [`WakeupSource::Open`], it polls everything once more and then sleeps. A wake-up is a
    /// message, so the device needs as many receives as it has links, and only links may use them.
    ///
    /// # Errors
    ///
    /// [`LinkError`] if the link has failed.
    pub fn ask<H: Hca>(&mut self, hca: &mut H) -> Result<WakeupSource, LinkError> {
        let asked = match (self.broken, &mut self.ends) {
            (Some(cause), _) => Err(cause),
            (None, None) => return Err(self.failed(Cause::NotConnected)),
            (None, Some((poster, ends))) => {
                self.wakeups.ask(poster, hca, |poster, told| ends.have_landed(poster, told))
            }
        };
        asked.map_err(|cause| self.breaks(cause))
    }

    /// Calls [`Link::progress`]. Returns true once everything that was put is in the peer's memory,
    /// so that finalizing the link loses nothing.
    ///
    /// # Errors
    ///
    /// [`LinkError`] if the link has failed.
    pub fn drain<H: Hca>(&mut self, hca: &mut H) -> Result<bool, LinkError> {
        self.with(hca, |poster, ends, hca| match ends {
            Ends::Basic(basic) => basic.drain(poster, hca),
            Ends::Piggyback(slots) | Ends::Pipeline(slots) => slots.drain(poster, hca),
            Ends::ZeroCopy(zero_copy) => zero_copy.drain(poster, hca),
            Ends::RendezvousWrite(rendezvous) => rendezvous.drain(poster, hca),
        })
    }

    /// Closes the link. Bytes that were put and have not arrived are lost, so the caller first uses
    /// [`Link::drain`]. From now on the lent memory belongs to the embedder again.
    ///
    /// # Errors
    ///
    /// [`Cause::Device`] if the device does not close the connection.
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

    /// Returns true if the link works and the device uses no memory of users.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let transfers = self.ends.as_ref().is_some_and(|(poster, _)| poster.transfers());
        self.broken.is_none() && !self.holds_put() && !self.holds_get() && !transfers
    }

    /// Returns the device's index of this end.
    #[must_use]
    pub const fn connection(&self) -> Connection {
        self.connection
    }

    /// Returns the rank at the other end.
    #[must_use]
    pub const fn peer(&self) -> u32 {
        self.peer
    }

    /// Returns the number of requests that the link has posted, by kind.
    #[must_use]
    pub fn operations(&self) -> Operations {
        self.ends.as_ref().map_or_else(Operations::default, |(poster, _)| poster.operations)
    }

    /// Runs `act` on the ends of a working link. Sends a wake-up if `act` wrote to a peer that
    /// requested one, and records a failure.
    fn with<H: Hca, R>(
        &mut self,
        hca: &mut H,
        act: impl FnOnce(&mut Poster, &mut Ends, &mut H) -> Result<R, Cause>,
    ) -> Result<R, LinkError> {
        let result = match (self.broken, &mut self.ends) {
            (Some(cause), _) => Err(cause),
            (None, None) => return Err(self.failed(Cause::NotConnected)),
            (None, Some((poster, ends))) => act(poster, ends, hca)
                .and_then(|done| self.wakeups.answer(poster, hca, ends.told()).map(|()| done)),
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
