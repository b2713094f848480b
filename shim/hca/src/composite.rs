//! Two devices as one: a software device for peers of this host, and another for all peers.
//!
//! Each connection belongs to one of the two, which the place of its peer decides. Memory is
//! registered with both under the keys of the other device, so one key serves all peers.
//!
//! The atomics of the two devices are not atomic with each other. So the composite has none
//! ([`Atomics::None`]), as iWARP: users carry out atomics at the target.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use core::fmt;
use core::ptr::NonNull;

use rustix::event::epoll;
use strait_core::hca::{
    Access, Address, Atomics, Capabilities, Completion, Connection, Hca, HcaError, PostError,
    Readiness, Region, Sge, WorkRequest,
};

use crate::cq::{EventDriven, Events};
use crate::soft::SoftHca;

/// The identifier of receives at the two devices. No request has it.
const RECEIVE: u64 = 0x5354_5263_6f6d_7002;

/// Two devices of a rank as one.
///
/// Its receives have no bytes: each is posted to both devices, and a message uses that of one.
pub struct Composite<F> {
    near: SoftHca,
    far: F,
    near_peers: Box<[bool]>,
    /// Identifiers of the receives that are posted and not complete, in the order of posting.
    receives: VecDeque<u64>,
    /// Number of receives at the two devices, near and far. Each has at least as many as
    /// `receives`.
    posted: [usize; 2],
    /// Whether the next poll begins with the far device.
    is_far_first: bool,
    events: Events,
}

/// The two devices of a composite.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Side {
    Near,
    Far,
}

impl Side {
    /// Returns the connection of the composite for a connection of this device.
    const fn outside(self, Connection(inside): Connection) -> Connection {
        Connection(inside * 2 + self as u32)
    }

    /// Returns the device of a connection, and its connection there.
    const fn of(Connection(outside): Connection) -> (Self, Connection) {
        let side = if outside.is_multiple_of(2) { Self::Near } else { Self::Far };
        (side, Connection(outside / 2))
    }
}

impl<F: EventDriven> Composite<F> {
    /// Makes one device of two. `near_peers` says for each rank whether its connections are those
    /// of `near`. That rank has to say the same of this one. Peers without an entry are far.
    ///
    /// # Errors
    ///
    /// [`HcaError::Device`] when the system refuses a descriptor for the events of both.
    pub fn new(near: SoftHca, far: F, near_peers: Box<[bool]>) -> Result<Self, HcaError> {
        let events = both(&near.events(), &far.events())
            .map_err(|error| HcaError::Device { code: error.raw_os_error() })?;
        Ok(Self {
            near,
            far,
            near_peers,
            receives: VecDeque::new(),
            posted: [0; 2],
            is_far_first: false,
            events,
        })
    }

    /// Returns the device for peers of this host.
    pub const fn near(&self) -> &SoftHca {
        &self.near
    }

    /// Returns the device for all other peers.
    pub const fn far(&self) -> &F {
        &self.far
    }
}

/// Returns events that come when one of two devices has one.
fn both(near: &Events, far: &Events) -> Result<Events, rustix::io::Errno> {
    let set: OwnedFd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, events) in [(0, near), (1, far)] {
        epoll::add(&set, events, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
    }
    Ok(Events::new(Arc::new(set)))
}

/// Evaluates one expression for the device of a side.
macro_rules! on {
    ($composite:expr, $side:expr, $device:ident => $does:expr) => {
        match $side {
            Side::Near => {
                let $device = &mut $composite.near;
                $does
            }
            Side::Far => {
                let $device = &mut $composite.far;
                $does
            }
        }
    };
}

impl<F: Hca> Composite<F> {
    fn side_of(&self, peer: u32) -> Side {
        match self.near_peers.get(peer as usize) {
            Some(true) => Side::Near,
            _ => Side::Far,
        }
    }

    /// Polls one device.
    fn poll_side(&mut self, side: Side, into: &mut [Completion]) -> Result<usize, HcaError> {
        let count = on!(self, side, device => device.poll(into))?;
        for completion in &mut into[..count] {
            completion.connection = side.outside(completion.connection);
            if completion.id == RECEIVE {
                // Each device has no more receives than were posted here, and others at the same
                // time are not distinguished.
                completion.id = self.receives.pop_front().unwrap_or(0);
                self.posted[side as usize] -= 1;
            }
        }
        Ok(count)
    }
}

impl<F: Hca> Hca for Composite<F> {
    /// Returns what both devices can do.
    fn capabilities(&self) -> Capabilities {
        let (near, far) = (self.near.capabilities(), self.far.capabilities());
        Capabilities {
            inline: near.inline.min(far.inline),
            pieces: near.pieces.min(far.pieces),
            read_pieces: near.read_pieces.min(far.read_pieces),
            reads: near.reads.min(far.reads),
            depth: near.depth.min(far.depth),
            receives: near.receives.min(far.receives),
            message: near.message.min(far.message),
            atomics: Atomics::None,
            immediate: near.immediate && far.immediate,
            acknowledged: near.acknowledged && far.acknowledged,
            ordered_bytes: near.ordered_bytes && far.ordered_bytes,
        }
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        // SAFETY: the caller upholds the contract of `Hca::register`, and the arguments are passed
        // on unchanged.
        let region = unsafe { self.far.register(base, length, access) }?;
        // SAFETY: as above, for the same memory and access.
        match unsafe { self.near.register_as(region, access) } {
            Ok(()) => Ok(region),
            Err(error) => {
                self.far.deregister(region)?;
                Err(error)
            }
        }
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        // The far device may give the keys again as soon as it has taken them back.
        self.near.deregister(region)?;
        self.far.deregister(region)
    }

    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError> {
        let side = self.side_of(peer);
        let (inside, address) = on!(self, side, device => device.open(peer))?;
        Ok((side.outside(inside), address))
    }

    fn connect(
        &mut self,
        connection: Connection,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        let (side, inside) = Side::of(connection);
        on!(self, side, device => device.connect(inside, address))
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        let (side, inside) = Side::of(connection);
        on!(self, side, device => device.close(inside))
    }

    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        if !self.capabilities().has(&request.operation) {
            return Err(PostError::Unsupported);
        }
        let (side, inside) = Side::of(connection);
        // SAFETY: the caller upholds the contract of `Hca::post`, and the request is passed on
        // unchanged.
        on!(self, side, device => unsafe { device.post(inside, request) })
    }

    /// Posts a receive without bytes to both devices.
    unsafe fn post_receive(&mut self, id: u64, piece: Sge) -> Result<(), PostError> {
        if piece.length > 0 {
            return Err(PostError::Unsupported);
        }
        let wanted = self.receives.len() + 1;
        for side in [Side::Near, Side::Far] {
            // After an error at the other device, or a message by that device, this one has more.
            if self.posted[side as usize] < wanted {
                // SAFETY: the piece has no bytes.
                on!(self, side, device => unsafe { device.post_receive(RECEIVE, piece) })?;
                self.posted[side as usize] += 1;
            }
        }
        self.receives.push_back(id);
        Ok(())
    }

    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError> {
        self.is_far_first = !self.is_far_first;
        let (first, second) = match self.is_far_first {
            true => (Side::Far, Side::Near),
            false => (Side::Near, Side::Far),
        };
        let count = self.poll_side(first, into)?;
        match self.poll_side(second, &mut into[count..]) {
            Ok(more) => Ok(count + more),
            // The next poll begins with this device, and reports the error.
            Err(_) if count > 0 => Ok(count),
            Err(error) => Err(error),
        }
    }

    fn arm(&mut self) -> Result<(), HcaError> {
        self.near.arm()?;
        self.far.arm()
    }

    fn copied(&mut self, bytes: usize) {
        self.far.copied(bytes);
    }
}

impl<F: EventDriven> EventDriven for Composite<F> {
    fn events(&self) -> Events {
        self.events.clone()
    }
}

impl<F: fmt::Debug> fmt::Debug for Composite<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Composite")
            .field("near", &self.near)
            .field("far", &self.far)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
