//! The RDMA channel of `[RdmaChannel04]` §3.2 for an embedder: a pipe of bytes to each rank of a
//! world, on the rings of core.
//!
//! A channel has a device of its own, also in a job on one node. A link is made when both ranks use
//! their connection: each sends its link address as a message of the world, and confirms that its
//! end is connected before the other puts bytes. Nothing but [`RdmaChannel::close`] waits.
//!
//! Absent on purpose: wake-ups, since an embedder of these functions polls.

use core::fmt;
use core::mem::ManuallyDrop;
use std::collections::HashMap;

use strait_core::buffer::Part;
use strait_core::engine::Fault;
use strait_core::hca::{Access, Completion, Connection, Done, Hca, Readiness, Region};
use strait_core::layout::{Call, Wait};
use strait_core::ring::{Cause, Design, Link, LinkAddress, LinkConfig, LinkError, LinkMemory};
use strait_platform::Rank;
use strait_platform::segment::Mapping;

use crate::network::job::DEFAULT_DEVICE;
use crate::network::resources::{self, JobDevice};
use crate::network::{config, stride};
use crate::{Endpoint, Error, NetworkError, Unscoped, World, env};

/// Largest number of completions that one poll of the device returns.
const COMPLETIONS: usize = 32;

/// The messages that connect a link, in this order, both ways. The numbers are part of their tags.
const ADDRESS: u32 = 0;
const CONNECTED: u32 = 1;

/// Number of different rounds.
const ROUNDS: u32 = 1 << 16;

/// A pipe of bytes to each rank of a world, and one from each.
///
/// [`RdmaChannel::close`] ends it. A channel that is dropped without that stops the device, and
/// bytes that were put may be lost.
pub struct RdmaChannel {
    context: u32,
    round: u32,
    config: LinkConfig,
    pipes: Vec<Option<Pipe>>,
    /// The rank at the other end of a connection.
    owners: HashMap<u32, Rank>,
    /// Dropped before the memory of the links.
    device: JobDevice,
    memory: Vec<Loan>,
}

impl fmt::Debug for RdmaChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdmaChannel")
            .field("config", &self.config)
            .field("pipes", &self.pipes)
            .finish_non_exhaustive()
    }
}

/// The registered memory of a link.
#[derive(Debug)]
struct Loan {
    peer: Rank,
    region: Region,
    _memory: Mapping,
}

/// A link, the messages that connect it, and the buffers that it holds.
#[derive(Debug)]
struct Pipe {
    link: Link,
    stage: Stage,
    sent: Vec<SentMessage>,
    /// The buffer with which the next put has to begin.
    put_held: Option<Part>,
    /// The buffer with which the next read has to begin.
    read_held: Option<Part>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The address of the peer's end has not arrived.
    Opened,
    /// This end is not connected to that address yet.
    Addressed(LinkAddress),
    /// This end is connected. The peer has not said that its end is.
    Connected,
    Ready,
}

/// A message to the peer, and its bytes, which the operation uses until it is over.
#[derive(Debug)]
struct SentMessage {
    bytes: ManuallyDrop<Box<[u8]>>,
    operation: Unscoped,
}

impl SentMessage {
    fn settle(mut self, world: &World) {
        self.operation.settle(world);
        drop(ManuallyDrop::into_inner(self.bytes));
    }
}

impl RdmaChannel {
    /// Opens the channel of a world. Its messages have the context `context`, which no other code
    /// uses. `round` counts the channels that the world had before: both ranks of a pair name the
    /// same one. The design of the rings is that of the world's network, or `STRAIT_RING`.
    ///
    /// # Errors
    ///
    /// [`Error::Network`] when there is no device; [`Error::Environment`] when a variable is
    /// unusable.
    ///
    /// # Source
    ///
    /// `[RdmaChannel04]` §3.2, `MPIDI_CH3I_RDMA_init`.
    pub fn open(world: &World, context: u32, round: u32) -> Result<Self, Error> {
        let of_network = world.with_network(|network| (network.choice(), network.design())).unzip();
        let choice = env::hca()?.or(of_network.0).unwrap_or(DEFAULT_DEVICE);
        let design = env::ring_asked()?.or(of_network.1).unwrap_or(Design::ZeroCopy);
        let config = config(design, env::ring_copy_max()?);
        let device = resources::lone(choice, world.rank(), world.size(), &config)?;
        Ok(Self {
            context,
            round: round % ROUNDS,
            config,
            pipes: (0..world.size()).map(|_| None).collect(),
            owners: HashMap::new(),
            device: device.ok_or(NetworkError::None)?,
            memory: Vec::new(),
        })
    }

    /// Chooses the design of pipes that are made from now on. Both ranks of a pair choose the same.
    pub const fn set_design(&mut self, design: Design) {
        self.config.design = design;
    }

    /// Sets the longest part, in bytes, that pipes made from now on copy through their rings. The
    /// peer's limit may differ.
    pub fn set_copy_max(&mut self, bytes: u32) {
        self.config.large = bytes.saturating_add(1);
    }

    /// Puts bytes of `parts`, in order, into the pipe to `peer`, as many as it takes now. Returns
    /// how many. A design may move a long part between the two users' buffers, and counts it when
    /// the peer has it. The caller puts the rest again.
    ///
    /// # Safety
    ///
    /// The parts are valid for reads. The bytes that are not counted stay valid and unchanged until
    /// a later call counts them, or the channel is closed or dropped.
    ///
    /// # Errors
    ///
    /// [`Fault::PeerFailed`] and [`Fault::PeerFinished`] when the peer is gone or has closed its
    /// channel; [`Error::Network`] when the pipe cannot be made, or `parts` do not begin where the
    /// last call ended although the device uses the buffer.
    ///
    /// # Source
    ///
    /// `[RdmaChannel04]` §3.2, `put_datav`.
    pub unsafe fn put(
        &mut self,
        world: &World,
        peer: Rank,
        parts: &[Part],
    ) -> Result<usize, Error> {
        if !self.is_ready(world, peer)? {
            return Ok(0);
        }
        let Some(pipe) = &mut self.pipes[peer as usize] else { return Ok(0) };
        check_held(peer, pipe.put_held, parts)?;
        // SAFETY: the caller guarantees that the parts stay valid (contract of `put`), and the
        // memory of links belongs to this module.
        let put = unsafe { pipe.link.put(&mut self.device, parts) };
        match put {
            Ok(bytes) => {
                pipe.put_held = pipe.link.holds_put().then(|| next(parts, bytes)).flatten();
                if bytes == 0 {
                    self.check_peer(world, peer)?;
                }
                Ok(bytes)
            }
            Err(error) => Err(lost(world, peer, &error)),
        }
    }

    /// Moves bytes from the pipe of `peer` to `parts`, as many as have arrived and fit. Returns how
    /// many.
    ///
    /// # Safety
    ///
    /// The parts are valid for writes. The bytes that are not counted stay valid, and nothing else
    /// accesses them, until a later call counts them, or the channel is closed or dropped.
    ///
    /// # Errors
    ///
    /// Those of [`RdmaChannel::put`], when everything that has arrived is delivered.
    ///
    /// # Source
    ///
    /// `[RdmaChannel04]` §3.2, `read_datav`.
    pub unsafe fn read(
        &mut self,
        world: &World,
        peer: Rank,
        parts: &[Part],
    ) -> Result<usize, Error> {
        if !self.is_ready(world, peer)? {
            return Ok(0);
        }
        // SAFETY: the caller guarantees the same (contract of `read`).
        let read = unsafe { self.read_now(world, peer, parts) }?;
        if read > 0 {
            return Ok(read);
        }
        match self.check_peer(world, peer) {
            Ok(()) => Ok(0),
            Err(gone) => {
                // Its last bytes may have arrived between the read and the check.
                // SAFETY: the caller guarantees the same (contract of `read`).
                match unsafe { self.read_now(world, peer, parts) } {
                    Ok(bytes @ 1..) => Ok(bytes),
                    _ => Err(gone),
                }
            }
        }
    }

    /// Does one step of [`RdmaChannel::read`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`RdmaChannel::read`].
    unsafe fn read_now(
        &mut self,
        world: &World,
        peer: Rank,
        parts: &[Part],
    ) -> Result<usize, Error> {
        self.poll();
        let Some(pipe) = &mut self.pipes[peer as usize] else { return Ok(0) };
        check_held(peer, pipe.read_held, parts)?;
        // SAFETY: the caller guarantees that the parts stay valid (contract of `read`), and the
        // memory of links belongs to this module.
        let read = unsafe { pipe.link.get(&mut self.device, parts) };
        let bytes = read.map_err(|error| lost(world, peer, &error))?;
        pipe.read_held = pipe.link.holds_get().then(|| next(parts, bytes)).flatten();
        Ok(bytes)
    }

    /// Closes the channel. Bytes that were put, and that the peer has not read, stay in its memory.
    /// The device accesses no buffer of a user any more.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::OutOfMemory`] when the world can make no progress. The
    /// channel is closed nevertheless.
    ///
    /// # Source
    ///
    /// `[RdmaChannel04]` §3.2, `MPIDI_CH3I_RDMA_finalize`.
    pub fn close(mut self, world: &World) -> Result<(), Error> {
        let drained =
            world.wait_until(|| Wait::new(Call::Finalize), || self.is_drained(world).then_some(()));
        for pipe in core::mem::take(&mut self.pipes).into_iter().flatten() {
            self.end(world, pipe);
        }
        drained
    }

    /// Returns whether all bytes that were put have reached the memory of their peers, or never
    /// will.
    fn is_drained(&mut self, world: &World) -> bool {
        self.poll();
        let device = &mut self.device;
        let mut pipes = self.pipes.iter_mut().flatten();
        // A link that was never connected has nothing to deliver, and its `drain` fails.
        pipes.all(|pipe| {
            pipe.link.drain(device).unwrap_or(true)
                || world.lock_progress().gone(pipe.link.peer()).is_some()
        })
    }

    /// Ends a link, and releases its memory unless the device may still access it.
    fn end(&mut self, world: &World, pipe: Pipe) {
        let peer = pipe.link.peer();
        self.owners.remove(&pipe.link.connection().0);
        pipe.sent.into_iter().for_each(|message| message.settle(world));
        let loan = self.memory.iter().position(|loan| loan.peer == peer);
        if pipe.link.finalize(&mut self.device).is_ok()
            && let Some(place) = loan
            && self.device.retire(self.memory[place].region).is_ok()
        {
            self.memory.swap_remove(place);
        }
    }

    /// Passes completions to their links.
    fn poll(&mut self) {
        let nothing = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut completions = [nothing; COMPLETIONS];
        // A device that fails reports no more completions. Its later refusals break its links.
        while let Ok(count @ 1..) = self.device.poll(&mut completions) {
            for completion in &completions[..count] {
                let owner = self.owners.get(&completion.connection.0);
                if let Some(pipe) = owner.and_then(|peer| self.pipes[*peer as usize].as_mut()) {
                    pipe.link.handle(completion);
                }
            }
            if count < COMPLETIONS {
                break;
            }
        }
    }

    /// Makes progress, and fails if the peer is gone.
    fn check_peer(&mut self, world: &World, peer: Rank) -> Result<(), Error> {
        world.poll()?;
        let gone = world.lock_progress().gone(peer);
        gone.map_or(Ok(()), |gone| Err(gone.fault(peer).into()))
    }

    /// Takes the next steps to connect the pipe to `peer`. Returns whether it is ready.
    fn is_ready(&mut self, world: &World, peer: Rank) -> Result<bool, Error> {
        self.poll();
        if self.pipes[peer as usize].is_none() {
            self.open_pipe(world, peer)?;
        }
        let (tags, device) = (self.round << 1, &mut self.device);
        let Some(pipe) = &mut self.pipes[peer as usize] else { return Ok(false) };
        let endpoint = world.endpoint().with_context(self.context);
        loop {
            pipe.stage = match pipe.stage {
                Stage::Ready => return Ok(true),
                Stage::Opened => match take(&endpoint, peer, tags | ADDRESS)? {
                    Some(bytes) => Stage::Addressed(LinkAddress::from_bytes(bytes)),
                    None => return Ok(false),
                },
                Stage::Addressed(address) => match pipe.link.connect(device, &address) {
                    Ok(Readiness::Ready) => {
                        pipe.send(&endpoint, peer, tags | CONNECTED, &[1])?;
                        Stage::Connected
                    }
                    Ok(Readiness::Pending) => {
                        world.poll()?;
                        return Ok(false);
                    }
                    Err(error) => return Err(lost(world, peer, &error)),
                },
                Stage::Connected => match take::<1>(&endpoint, peer, tags | CONNECTED)? {
                    Some(_) => Stage::Ready,
                    None => return Ok(false),
                },
            };
        }
    }

    /// Opens this side's end of a link, in memory of its own, and sends its address to the peer.
    fn open_pipe(&mut self, world: &World, peer: Rank) -> Result<(), Error> {
        world.watch_over(peer);
        let memory = Mapping::private(stride(&self.config)).map_err(NetworkError::Memory)?;
        // SAFETY: the memory stays mapped until the device has retired it or is dropped, and the
        // device is dropped first. Only the link uses it.
        let region = unsafe { self.device.register(memory.base(), memory.length(), Access::ALL) };
        let region = region.map_err(NetworkError::Device)?;
        let (local_key, remote_key) = (region.local_key, region.remote_key);
        let lent = LinkMemory { base: memory.base(), local_key, remote_key };
        // SAFETY: the memory is page-aligned, zeroed, registered for all access, long enough, and
        // used by this link alone. It stays until the link is finalized.
        let opened = unsafe { Link::init(&mut self.device, peer, self.config, lent) };
        let (link, address) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.device.retire(region).map_err(NetworkError::Device)?;
                return Err(NetworkError::from(error).into());
            }
        };
        self.owners.insert(link.connection().0, peer);
        self.memory.push(Loan { peer, region, _memory: memory });
        let stage = Stage::Opened;
        let mut pipe = Pipe { link, stage, sent: Vec::new(), put_held: None, read_held: None };
        let endpoint = world.endpoint().with_context(self.context);
        let sent = pipe.send(&endpoint, peer, self.round << 1 | ADDRESS, &address.to_bytes());
        if let Err(error) = sent {
            self.end(world, pipe);
            return Err(error);
        }
        self.pipes[peer as usize] = Some(pipe);
        Ok(())
    }
}

impl Pipe {
    /// Starts to send a message to the peer.
    fn send(
        &mut self,
        endpoint: &Endpoint<'_>,
        peer: Rank,
        tag: u32,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let mut bytes = ManuallyDrop::new(Box::<[u8]>::from(bytes));
        let part = crate::buffer::part_of_mut(&mut bytes);
        // SAFETY: the bytes go with the operation, and are released when it is over.
        let operation = unsafe { endpoint.begin_send(part, peer, tag) }?;
        self.sent.push(SentMessage { bytes, operation });
        Ok(())
    }
}

/// Receives a message of `LENGTH` bytes from `peer`, if it has arrived.
fn take<const LENGTH: usize>(
    endpoint: &Endpoint<'_>,
    peer: Rank,
    tag: u32,
) -> Result<Option<[u8; LENGTH]>, Error> {
    let Some(matched) = endpoint.try_to_match(peer, tag)? else { return Ok(None) };
    let mut bytes = [0; LENGTH];
    let status = endpoint.world().mrecv(&matched, &mut bytes)?;
    if status.bytes == LENGTH {
        return Ok(Some(bytes));
    }
    Err(NetworkError::Link(LinkError { peer, cause: Cause::Mismatch }).into())
}

/// Fails unless a call begins with the buffer that the device still uses.
fn check_held(peer: Rank, held: Option<Part>, parts: &[Part]) -> Result<(), Error> {
    let (Some(held), Some(first)) = (held, parts.iter().find(|part| part.length > 0)) else {
        return Ok(());
    };
    if first.base == held.base && first.length >= held.length {
        return Ok(());
    }
    Err(NetworkError::AnotherBuffer { peer }.into())
}

/// Returns the rest of the part in which the first `bytes` bytes of `parts` end, or the next one.
fn next(parts: &[Part], mut bytes: usize) -> Option<Part> {
    for part in parts {
        if bytes < part.length {
            // SAFETY: the offset lies within the part.
            let base = unsafe { part.base.add(bytes) };
            return Some(Part { base, length: part.length - bytes });
        }
        bytes -= part.length;
    }
    None
}

/// Translates the error of a link.
fn lost(world: &World, peer: Rank, error: &LinkError) -> Error {
    let gone = world.lock_progress().gone(peer);
    match (gone, error.cause) {
        (Some(gone), _) => gone.fault(peer).into(),
        (None, Cause::Device(_) | Cause::Refused(_) | Cause::Failed(_)) => {
            Fault::PeerFailed { rank: peer, sign: error.sign() }.into()
        }
        (None, _) => NetworkError::from(*error).into(),
    }
}

#[cfg(test)]
mod tests;
