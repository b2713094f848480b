//! The network: the device of this rank, and a link of the RDMA channel to each rank on another node that it talks to.
//!
//! Made where a job spans nodes, while it starts, and where a process meets one of another universe. The links are made later, each at its
//! first message ([`others`]). The engine puts and gets through [`Channel`]; here completions are brought to their links and links
//! to their ends.
//!
//! Nothing here knows which device it is but [`means`].

mod door;
mod error;
pub(crate) mod greeting;
mod handlers;
mod kept;
mod lanes;
mod means;
mod others;
mod transfers;

pub(crate) use door::Door;
pub use error::NetworkError;
pub(crate) use handlers::{Guest, HandlerId};
pub(crate) use lanes::LaneId;
pub(crate) use means::{JobDevice, JobNetwork, Means, lone};
pub(crate) use others::Others;
pub(crate) use transfers::{Transfer, TransferId};

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use strait_core::hca::{
    Access, Atomics, Completion, Connection, Done, Hca, HcaError, Readiness, Region,
};
use strait_core::progress::{Begun, Broken, Channel, Direct, Part, Sign, Taken};
use strait_core::ring::{Card, Config, Design, Lent, Link, LinkError, Vigil};
use strait_core::wire::StreamHead;

use handlers::Handlers;
use lanes::Lanes;
use transfers::Transfers;

use crate::hca::cq::{EventDriven, Events};
use crate::segment::{Heap, Mapping};
use crate::{Nodes, Rank};

/// Chunks of each direction of a link.
const SLOTS: u32 = 16;

/// Bytes of a chunk: a message of the default `STRAIT_STREAM_MAX`, and its head.
const CHUNK: u32 = 16 * 1024 + StreamHead::LENGTH as u32;

/// Parts of at least this many bytes are moved straight between users' buffers, where the design can.
const LARGE: u32 = 32 * 1024;

// The last head in a stream is not to wait for its reader, who closes.
const _: () = assert!(LARGE as usize > StreamHead::LENGTH);

/// Completions that are taken at a time.
const COMPLETIONS: usize = 32;

/// What links of `design` are made of.
pub(crate) const fn config(design: Design) -> Config {
    Config { design, chunk: CHUNK, slots: SLOTS, large: LARGE }
}

/// Bytes from the memory of one link to that of the next.
const fn stride(config: &Config) -> usize {
    config.bytes().next_multiple_of(4096)
}

/// The ranks on other nodes than `me`'s.
fn peers(me: Rank, nodes: &Nodes) -> impl Iterator<Item = Rank> {
    (0..nodes.ranks()).filter(move |rank| nodes.node_of(*rank) != nodes.node_of(me))
}

/// The ways from one rank to those on other nodes.
#[derive(Debug)]
pub(crate) struct Network<H: Hca> {
    /// By rank.
    lines: Vec<Option<Line>>,
    /// Of windows.
    lanes: Lanes,
    handlers: Handlers,
    transfers: Transfers,
    /// Whose each connection is.
    owners: Vec<Option<Owner>>,
    /// Links to peers that have left: what came last from them may not be acknowledged yet, and they wait for that. Each ends when
    /// the peer's end is closed, which [`Network::probe`] finds.
    parted: Vec<Link>,
    others: Others,
    device: H,
    /// Number of links made so far.
    made: usize,
    /// Registered memory of the links; the device is gone before it.
    loans: Vec<Loan>,
}

/// The memory that one link works in.
#[derive(Debug)]
struct Loan {
    connection: Connection,
    region: Region,
    _memory: Mapping,
}

/// Whose a connection is.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// The line's to this peer.
    Line(Rank),
    /// A link's to a peer that has left.
    Parted,
    Lane(LaneId),
}

/// One link, and how far it is.
#[derive(Debug)]
struct Line {
    link: Link,
    state: State,
    /// The peer's end is connected to ours, or waits for it.
    expected: bool,
}

#[derive(Debug)]
enum State {
    /// The peer's card has not come.
    Opened,
    /// Not connected yet.
    Waiting(Card),
    /// Nothing is known of the peer's end.
    Connected,
    Ready,
}

impl<H: Hca> Network<H> {
    /// A network that leads nowhere yet.
    pub(crate) fn new(device: H, others: Others) -> Self {
        Self {
            lines: Vec::new(),
            lanes: Lanes::default(),
            handlers: Handlers::default(),
            transfers: Transfers::default(),
            owners: Vec::new(),
            parted: Vec::new(),
            others,
            device,
            made: 0,
            loans: Vec::new(),
        }
    }

    /// Opens this side's end of a link to `peer`, in memory of its own: the card of the end.
    fn open_line(&mut self, peer: Rank) -> Result<Card, NetworkError> {
        let config = *self.others.config();
        let memory = Mapping::private(stride(&config)).map_err(NetworkError::Memory)?;
        // SAFETY: the memory stays mapped until the device, which is dropped first, is gone, or has
        // retired it. The link alone uses it.
        let region = unsafe { self.device.register(memory.base, memory.length, Access::ALL) };
        let region = region.map_err(NetworkError::Device)?;
        let (local_key, remote_key) = (region.local_key, region.remote_key);
        let lent = Lent { base: memory.base, local_key, remote_key };
        // SAFETY: the memory is page-aligned, zero, registered for everything, long enough, and this
        // link's. It stays until the link is finalized.
        let (link, card) = match unsafe { Link::init(&mut self.device, peer, config, lent) } {
            Ok(opened) => opened,
            Err(error) => {
                self.device.retire(region).map_err(NetworkError::Device)?;
                return Err(error.into());
            }
        };
        let connection = link.connection();
        own(&mut self.owners, connection, Owner::Line(peer));
        self.loans.push(Loan { connection, region, _memory: memory });
        self.made += 1;
        let place = peer as usize;
        self.lines.resize_with(self.lines.len().max(place + 1), || None);
        self.lines[place] = Some(Line { link, state: State::Opened, expected: false });
        Ok(card)
    }

    /// Brings completions to their links, and attends to those who call.
    pub(crate) fn poll(&mut self) {
        self.attend();
        let nothing = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut completions = [nothing; COMPLETIONS];
        // A device that fails has nothing more to say: what it refuses from now on breaks its links.
        while let Ok(count @ 1..) = self.device.poll(&mut completions) {
            for completion in &completions[..count] {
                match self.owners.get(completion.connection.0 as usize).copied().flatten() {
                    Some(Owner::Line(peer)) => {
                        if let Some(line) = &mut self.lines[peer as usize] {
                            line.link.handle(completion);
                        }
                    }
                    Some(Owner::Parted) => {
                        let is_its = |link: &&mut Link| link.connection() == completion.connection;
                        if let Some(link) = self.parted.iter_mut().find(is_its) {
                            link.handle(completion);
                        }
                    }
                    Some(Owner::Lane(id)) => match completion.result {
                        Ok(Done::Receive { .. }) => self.errand_came(id),
                        _ => self.lanes.handle(id, completion, &mut self.device),
                    },
                    None => {}
                }
            }
            if count < COMPLETIONS {
                break;
            }
        }
    }

    /// What atomics the device has.
    pub(crate) fn atomics(&self) -> Atomics {
        self.device.capabilities().atomics
    }

    /// Whether a request that is done is at its target.
    pub(crate) fn acknowledges(&self) -> bool {
        self.device.capabilities().acknowledged
    }

    /// True when everything that was put has reached the memory of its destination, or never will.
    pub(crate) fn drain(&mut self) -> bool {
        let device = &mut self.device;
        let lines = self.lines.iter_mut().flatten();
        let busy =
            lines.filter_map(|line| (!line.link.drain(device).unwrap_or(true)).then_some(()));
        busy.count() == 0
    }

    /// Asks something of every peer's device, so that the links of those that are gone break.
    pub(crate) fn probe(&mut self) {
        for line in self.lines.iter_mut().flatten() {
            if matches!(line.state, State::Ready) {
                // A link that breaks says so with the next get.
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

    /// Ends a link for good, and gives its memory and its connection back.
    fn finalize(&mut self, link: Link) {
        let connection = link.connection();
        self.owners[connection.0 as usize] = None;
        let is_its = |loan: &Loan| loan.connection == connection;
        let loan = self.loans.iter().position(is_its);
        // A device that cannot close may still work on the memory, which then stays.
        if link.finalize(&mut self.device).is_ok()
            && let Some(place) = loan
            && self.device.retire(self.loans[place].region).is_ok()
        {
            self.loans.swap_remove(place);
        }
    }

    /// Sees to it that whatever comes from now on makes an event of the device, for a rank that is about to sleep: it looks at
    /// everything once more, and then waits for [`Network::events`]. False: not yet.
    pub(crate) fn keep_vigil(&mut self) -> bool {
        self.look_at_door();
        // A device in software may be done with what is asked at once.
        self.ask();
        self.poll();
        let is_armed = self.device.arm().is_ok();
        // What came before the arming makes no event, and may be a knock: whom that woke has to be asked again.
        self.poll();
        is_armed && self.ask() && self.has_rung()
    }

    /// Asks the peers to knock when they write. False: nobody keeps vigil over one of them.
    fn ask(&mut self) -> bool {
        let device = &mut self.device;
        let open = self.lines.iter_mut().flatten().filter_map(|line| {
            let is_open = match line.state {
                // A link that breaks says so when everything is looked at.
                State::Ready => line.link.ask(device) == Ok(Vigil::Open),
                State::Waiting(_) => true,
                // What is missing is said at a door.
                State::Opened | State::Connected => false,
            };
            is_open.then_some(())
        });
        open.count() == 0
    }

    /// The links that were made so far.
    pub(crate) const fn links(&self) -> usize {
        self.made
    }

    /// Whether all memory of links has been given back.
    #[cfg(test)]
    pub(crate) const fn is_without_links(&self) -> bool {
        self.loans.is_empty()
    }

    /// Ends all links: no user's memory is touched from now on.
    pub(crate) fn close_all(&mut self) {
        (0..self.lines.len()).for_each(|peer| self.close(peer as Rank));
    }

    /// The line to `peer`, if there is one.
    fn line_mut(&mut self, peer: Rank) -> Option<&mut Line> {
        self.lines.get_mut(peer as usize)?.as_mut()
    }

    /// The link to `peer`, if it can be used now, and the device.
    fn line(&mut self, peer: Rank) -> Result<Option<(&mut Line, &mut H)>, Broken> {
        let Some(line) = self.lines.get_mut(peer as usize).and_then(Option::as_mut) else {
            return if self.others.is_unmet(peer) {
                Ok(None)
            } else {
                Err(Broken(Sign::Device(HcaError::Unreachable { peer })))
            };
        };
        if !matches!(line.state, State::Ready)
            && line.connect(&mut self.device).map_err(broken)? == Readiness::Pending
        {
            return Ok(None);
        }
        Ok(Some((line, &mut self.device)))
    }
}

impl Line {
    fn connect<H: Hca>(&mut self, device: &mut H) -> Result<Readiness, LinkError> {
        if let State::Waiting(card) = &self.state
            && self.link.connect(device, card)? == Readiness::Ready
        {
            self.state = State::Connected;
        }
        if self.expected && matches!(self.state, State::Connected) {
            self.state = State::Ready;
        }
        let is_ready = matches!(self.state, State::Ready);
        Ok(if is_ready { Readiness::Ready } else { Readiness::Pending })
    }
}

impl<H: Hca> Channel for Network<H> {
    unsafe fn put(&mut self, peer: u32, from: &[Part]) -> Result<Taken, Broken> {
        self.call(peer);
        let Some((Line { link, .. }, device)) = self.line(peer)? else { return Ok(NOT_YET) };
        // SAFETY: by the contract, which is that of the link.
        let bytes = unsafe { link.put(device, from) }.map_err(broken)?;
        Ok(Taken { bytes, holds: link.holds_put() })
    }

    unsafe fn get(&mut self, peer: u32, into: &[Part]) -> Result<Taken, Broken> {
        let Some((Line { link, .. }, device)) = self.line(peer)? else { return Ok(NOT_YET) };
        // SAFETY: by the contract, which is that of the link.
        let bytes = unsafe { link.get(device, into) }.map_err(broken)?;
        Ok(Taken { bytes, holds: link.holds_get() })
    }

    unsafe fn register(&mut self, part: Part, access: Access) -> Option<Region> {
        // SAFETY: by the contract.
        unsafe { self.device.register(part.base, part.length, access) }.ok()
    }

    fn release(&mut self, region: Region) {
        // It is not used any more whatever the device says, and nobody is left to tell.
        let _ = self.device.deregister(region);
    }

    unsafe fn transfer(&mut self, peer: u32, direct: &Direct) -> Result<Option<Begun>, Broken> {
        let Some((Line { link, .. }, device)) = self.line(peer)? else { return Ok(None) };
        // SAFETY: by the contract, which is that of the link.
        unsafe { link.transfer(device, direct) }.map_err(broken)
    }

    fn is_done(&self, peer: u32, number: u64) -> bool {
        let line = self.lines.get(peer as usize).and_then(Option::as_ref);
        line.is_some_and(|line| line.link.is_done(number))
    }

    fn close(&mut self, peer: u32) {
        self.end_line(peer);
        self.forget(peer);
    }
}

impl<H: Hca> Network<H> {
    /// Takes a link down: it touches no user's memory from now on.
    fn end_line(&mut self, peer: Rank) {
        let Some(line) = self.lines.get_mut(peer as usize).and_then(Option::take) else { return };
        if line.link.is_at_rest() {
            own(&mut self.owners, line.link.connection(), Owner::Parted);
            self.parted.push(line.link);
        } else {
            self.finalize(line.link);
        }
    }
}

impl JobNetwork {
    /// The device, and what it keeps registered.
    pub(crate) const fn device(&mut self) -> &mut JobDevice {
        &mut self.device
    }

    /// Whether the devices of the job have threads of their own.
    pub(crate) fn has_threads(&self) -> bool {
        self.device.device().has_threads()
    }

    /// Has what lies in `heap` stay registered.
    pub(crate) fn keep_heap(&mut self, heap: Arc<Heap>) {
        heap.report();
        self.device.watch().heap = Some(heap);
    }
}

impl<H: EventDriven> Network<H> {
    /// Where the events of the device come in, and those of the door.
    pub(crate) fn events(&self) -> io::Result<(Events, OwnedFd)> {
        Ok((self.device.events(), self.others.door.events()?))
    }
}

/// Remembers whose a connection is.
fn own(owners: &mut Vec<Option<Owner>>, Connection(connection): Connection, owner: Owner) {
    let connection = connection as usize;
    owners.resize(owners.len().max(connection + 1), None);
    owners[connection] = Some(owner);
}

/// What the end of a link says of the peer.
fn broken(error: LinkError) -> Broken {
    Broken(error.sign())
}

/// The answer of a link that is not connected yet.
const NOT_YET: Taken = Taken { bytes: 0, holds: false };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_the_memory_that_the_documents_say() {
        for design in Design::ALL {
            assert!(stride(&config(design)) <= 532_480, "docs/decisions/network.md says so");
        }
    }
}
