//! The network: the device of this rank, and a link of the RDMA channel to each remote rank that it
//! talks to.
//!
//! A job that spans nodes creates it at the start. A process also creates it when it meets a
//! process of another universe. Each link is made with its first message ([`remote_peers`]). The
//! engine puts and gets through [`Channel`]. This module passes completions to their links, and
//! closes links.
//!
//! Only [`resources`] knows the kind of the device.

mod address_book;
mod am_handlers;
mod calls;
mod config;
mod device_kinds;
pub(crate) mod handshake;
pub(crate) mod job;
mod lanes;
mod listener;
mod mailboxes;
mod memory_events;
mod near_groups;
mod owners;
mod peer_table;
mod remote_peers;
pub(crate) mod resources;
mod transfers;
mod window_tables;

pub(crate) use config::{config, stride};
pub(crate) use listener::ConnectionListener;
pub(crate) use mailboxes::{MAIL_MEMBERS, MailboxAddress, ReceivedMail};
pub(crate) use remote_peers::RemotePeers;
pub(crate) use window_tables::{
    HandlerId, LaneId, LaneOrigin, MailboxId, RegisteredMemory, TransferId, WindowTransfer,
};

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use strait_core::buffer::Part;
use strait_core::engine::{Begun, Broken, Channel, ChannelProgress, Direct, FailureCause};
use strait_core::hca::{
    Access, Atomics, Completion, Connection, Done, Hca, HcaError, Readiness, Region,
};
use strait_core::ring::{Link, LinkAddress, LinkError, LinkMemory, WakeupSource};
use strait_hca::cq::{EventDriven, Events};
use strait_platform::Rank;
use strait_platform::segment::Mapping;

use crate::NetworkError;
use mailboxes::MailboxTable;
use owners::{ConnectionOwner, ConnectionOwners};
use peer_table::PeerTable;
use window_tables::{AmHandlers, NameTable, OpenLane};

/// Largest number of completions that one poll of the device returns.
const COMPLETIONS: usize = 32;

/// The links and lanes of one rank to ranks on other nodes.
#[derive(Debug)]
pub(crate) struct Network<H: Hca> {
    /// The links, by peer.
    lines: PeerTable<Box<PeerLink>>,
    handlers: AmHandlers,
    transfers: NameTable<WindowTransfer>,
    owners: ConnectionOwners,
    /// Links to peers that have left. A peer may still wait for the acknowledgement of its last
    /// data. Each link ends when the peer closes its end, which [`Network::probe`] detects.
    parted: Vec<Link>,
    others: RemotePeers,
    device: H,
    /// Number of links made so far.
    made: usize,
    /// The moment from which [`Channel::now`] counts.
    begin: Instant,
    /// The registered memory of the links. The device is dropped before it.
    loans: Vec<Loan>,
    /// The lanes of windows. They own registered memory, too.
    lanes: NameTable<OpenLane>,
    /// The mailboxes of leaders. They own registered memory, too.
    mailboxes: MailboxTable,
}

/// The memory of one link.
#[derive(Debug)]
struct Loan {
    connection: Connection,
    region: Region,
    _memory: Mapping,
}

/// A link, and its state.
#[derive(Debug)]
struct PeerLink {
    link: Link,
    /// The address of this side's end.
    address: LinkAddress,
    state: LinkState,
    /// The peer's end is connected to this end, or waits for it.
    expected: bool,
}

#[derive(Debug)]
enum LinkState {
    /// The peer's link address has not arrived.
    Opened,
    /// The ends are not connected yet.
    Waiting(LinkAddress),
    /// This end is connected. The state of the peer's end is unknown.
    Connected,
    Ready,
}

impl<H: Hca> Network<H> {
    /// Creates a network without links.
    pub(crate) fn new(device: H, others: RemotePeers) -> Self {
        Self {
            lines: PeerTable::default(),
            lanes: NameTable::default(),
            handlers: AmHandlers::default(),
            transfers: NameTable::default(),
            owners: ConnectionOwners::default(),
            parted: Vec::new(),
            others,
            device,
            made: 0,
            begin: Instant::now(),
            loans: Vec::new(),
            mailboxes: MailboxTable::default(),
        }
    }

    /// Opens this side's end of a link to `peer`, in its own memory. Returns the address of the
    /// end.
    fn open_line(&mut self, peer: Rank) -> Result<LinkAddress, NetworkError> {
        let config = *self.others.config();
        let memory = Mapping::private(stride(&config)).map_err(NetworkError::Memory)?;
        // SAFETY: the memory stays mapped until the device has retired it or is dropped, and the
        // device is dropped first. Only the link uses it.
        let region = unsafe { self.device.register(memory.base(), memory.length(), Access::ALL) };
        let region = region.map_err(NetworkError::Device)?;
        let (local_key, remote_key) = (region.local_key, region.remote_key);
        let lent = LinkMemory { base: memory.base(), local_key, remote_key };
        // SAFETY: the memory is page-aligned, zeroed, registered for all access, long enough, and
        // used by this link alone. It stays until the link is finalized.
        let (link, address) = match unsafe { Link::init(&mut self.device, peer, config, lent) } {
            Ok(opened) => opened,
            Err(error) => {
                self.device.retire(region).map_err(NetworkError::Device)?;
                return Err(error.into());
            }
        };
        let connection = link.connection();
        self.owners.set(connection, ConnectionOwner::Line(peer));
        self.loans.push(Loan { connection, region, _memory: memory });
        self.made += 1;
        let line = PeerLink { link, address, state: LinkState::Opened, expected: false };
        self.lines.set(peer, Box::new(line));
        Ok(address)
    }

    /// Passes completions to their links, and handles connections in progress.
    pub(crate) fn poll(&mut self) {
        self.attend();
        let nothing = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut completions = [nothing; COMPLETIONS];
        // A device that fails reports no more completions. Its later refusals break its links.
        while let Ok(count @ 1..) = self.device.poll(&mut completions) {
            for completion in &completions[..count] {
                match self.owners.of(completion.connection) {
                    Some(ConnectionOwner::Line(peer)) => {
                        if let Some(line) = self.lines.get_mut(peer) {
                            line.link.handle(completion);
                        }
                    }
                    Some(ConnectionOwner::Parted) => {
                        let is_its = |link: &&mut Link| link.connection() == completion.connection;
                        if let Some(link) = self.parted.iter_mut().find(is_its) {
                            link.handle(completion);
                        }
                    }
                    Some(ConnectionOwner::Lane(id)) => match completion.result {
                        Ok(Done::Receive { .. }) => self.active_message_came(id),
                        _ => self.lane_completed(id, completion),
                    },
                    Some(ConnectionOwner::Mailboxes(id)) => self.mail_completed(id, completion),
                    None => {}
                }
            }
            if count < COMPLETIONS {
                break;
            }
        }
        self.end_mailboxes();
    }

    /// Returns the atomics of the device.
    pub(crate) fn atomics(&self) -> Atomics {
        self.device.capabilities().atomics
    }

    /// Returns whether a completed request has reached its target.
    pub(crate) fn acknowledges(&self) -> bool {
        self.device.capabilities().acknowledged
    }

    /// Returns true when all put data have reached the memory of their destination, or never will.
    pub(crate) fn drain(&mut self) -> bool {
        let device = &mut self.device;
        let lines = self.lines.values_mut();
        let busy =
            lines.filter_map(|line| (!line.link.drain(device).unwrap_or(true)).then_some(()));
        busy.count() == 0 && self.mailboxes.is_drained()
    }

    /// Sends a request to the device of every peer, so that links to dead peers break.
    pub(crate) fn probe(&mut self) {
        for line in self.lines.values_mut() {
            if matches!(line.state, LinkState::Ready) {
                // The next get reports a link that broke.
                let _ = line.link.probe(&mut self.device);
            }
        }
        let mut place = 0;
        while let Some(link) = self.parted.get_mut(place) {
            if link.probe(&mut self.device).is_ok() {
                place += 1;
            } else {
                let link = self.parted.swap_remove(place);
                self.finalize(link);
            }
        }
    }

    /// Ends a link for good, and releases its memory and its connection.
    fn finalize(&mut self, link: Link) {
        let connection = link.connection();
        self.owners.clear(connection);
        let is_its = |loan: &Loan| loan.connection == connection;
        let loan = self.loans.iter().position(is_its);
        // A device that cannot close the link may still access the memory, so the memory stays.
        if link.finalize(&mut self.device).is_ok()
            && let Some(place) = loan
            && self.device.retire(self.loans[place].region).is_ok()
        {
            self.loans.swap_remove(place);
        }
    }

    /// Arranges that all later data make an event of the device, for a rank that is about to sleep.
    /// That rank checks everything once more, and then waits for [`Network::events`]. Returns false
    /// when that is not possible yet.
    pub(crate) fn arm_wakeups(&mut self) -> bool {
        self.poll_listener();
        // A software device may complete the requests at once.
        self.ask();
        self.poll();
        let is_armed = self.device.arm().is_ok();
        // A message that came before the arming makes no event. It may be a wake-up, after which
        // its peer has to be asked again.
        self.poll();
        is_armed && self.ask() && self.has_rung()
    }

    /// Asks the peers for wake-ups when they write. Returns false when a link ensures no wake-up
    /// yet, and has to be polled again soon.
    fn ask(&mut self) -> bool {
        let device = &mut self.device;
        let open = self.lines.values_mut().filter_map(|line| {
            let is_open = match line.state {
                // A link that breaks reports it in the check that follows.
                LinkState::Ready => line.link.ask(device) == Ok(WakeupSource::Open),
                LinkState::Waiting(_) => true,
                // The missing data arrive at a listener, which makes an event.
                LinkState::Opened | LinkState::Connected => false,
            };
            is_open.then_some(())
        });
        open.count() == 0
    }

    /// Returns the number of links made so far.
    pub(crate) const fn links(&self) -> usize {
        self.made
    }

    /// Returns whether all memory of links has been released.
    #[cfg(test)]
    pub(crate) const fn is_without_links(&self) -> bool {
        self.loans.is_empty()
    }

    /// Ends all links. The device accesses no user memory from now on.
    pub(crate) fn close_all(&mut self) {
        let peers: Vec<_> = self.lines.iter().map(|(peer, _)| peer).collect();
        peers.into_iter().for_each(|peer| self.close(peer));
    }

    /// Returns the link to `peer`, if it is ready, with the device.
    fn line(&mut self, peer: Rank) -> Result<Option<(&mut PeerLink, &mut H)>, Broken> {
        let Some(line) = self.lines.get_mut(peer) else {
            return if self.others.is_unmet(peer) {
                Ok(None)
            } else {
                Err(Broken(FailureCause::Device(HcaError::Unreachable { peer })))
            };
        };
        if !matches!(line.state, LinkState::Ready)
            && line.connect(&mut self.device).map_err(broken)? == Readiness::Pending
        {
            return Ok(None);
        }
        Ok(Some((line, &mut self.device)))
    }
}

impl PeerLink {
    fn connect<H: Hca>(&mut self, device: &mut H) -> Result<Readiness, LinkError> {
        if let LinkState::Waiting(address) = &self.state
            && self.link.connect(device, address)? == Readiness::Ready
        {
            self.state = LinkState::Connected;
        }
        if self.expected && matches!(self.state, LinkState::Connected) {
            self.state = LinkState::Ready;
        }
        let is_ready = matches!(self.state, LinkState::Ready);
        Ok(if is_ready { Readiness::Ready } else { Readiness::Pending })
    }
}

impl<H: Hca> Channel for Network<H> {
    unsafe fn put(&mut self, peer: u32, from: &[Part]) -> Result<ChannelProgress, Broken> {
        if !self.lines.get(peer).is_some_and(|line| matches!(line.state, LinkState::Ready)) {
            self.call(peer);
        }
        let Some((PeerLink { link, .. }, device)) = self.line(peer)? else { return Ok(NOT_YET) };
        // SAFETY: the caller guarantees the contract of `put`, which is also the contract of the
        // link.
        let bytes = unsafe { link.put(device, from) }.map_err(broken)?;
        Ok(ChannelProgress { bytes, holds: link.holds_put() })
    }

    unsafe fn get(&mut self, peer: u32, into: &[Part]) -> Result<ChannelProgress, Broken> {
        let Some((PeerLink { link, .. }, device)) = self.line(peer)? else { return Ok(NOT_YET) };
        // SAFETY: the caller guarantees the contract of `get`, which is also the contract of the
        // link.
        let bytes = unsafe { link.get(device, into) }.map_err(broken)?;
        Ok(ChannelProgress { bytes, holds: link.holds_get() })
    }

    unsafe fn register(&mut self, part: Part, access: Access) -> Option<Region> {
        // SAFETY: the caller guarantees the same (contract of `register`).
        unsafe { self.device.register(part.base, part.length, access) }.ok()
    }

    fn release(&mut self, region: Region) {
        // The engine no longer uses the region, so an error of the device has no consequence.
        let _ = self.device.deregister(region);
    }

    unsafe fn transfer(&mut self, peer: u32, direct: &Direct) -> Result<Option<Begun>, Broken> {
        let Some((PeerLink { link, .. }, device)) = self.line(peer)? else { return Ok(None) };
        // SAFETY: the caller guarantees the contract of `transfer`, which is also the contract of
        // the link.
        unsafe { link.transfer(device, direct) }.map_err(broken)
    }

    fn is_done(&self, peer: u32, number: u64) -> bool {
        self.lines.get(peer).is_some_and(|line| line.link.is_done(number))
    }

    fn is_linked(&self, peer: u32) -> bool {
        self.lines.get(peer).is_some()
    }

    fn now(&self) -> u64 {
        // 64 bits of nanoseconds last for over 500 years.
        self.begin.elapsed().as_nanos() as u64
    }

    fn close(&mut self, peer: u32) {
        self.end_line(peer);
        self.forget(peer);
    }
}

impl<H: Hca> Network<H> {
    /// Ends a link. It accesses no user memory from now on.
    fn end_line(&mut self, peer: Rank) {
        let Some(line) = self.lines.take(peer) else { return };
        if line.link.is_at_rest() {
            self.owners.set(line.link.connection(), ConnectionOwner::Parted);
            self.parted.push(line.link);
        } else {
            self.finalize(line.link);
        }
    }
}

impl<H: EventDriven> Network<H> {
    /// Returns the event sources of the device and of the listener.
    pub(crate) fn events(&self) -> io::Result<(Events, OwnedFd)> {
        Ok((self.device.events(), self.others.listener.events()?))
    }
}

/// Translates the error of a link into a statement about the peer.
fn broken(error: LinkError) -> Broken {
    Broken(error.sign())
}

/// The answer of a link that is not connected yet.
const NOT_YET: ChannelProgress = ChannelProgress { bytes: 0, holds: false };
