//! The interface through which the engine moves bytes between nodes.

use crate::buffer::{Direction, Part};
use crate::engine::FailureCause;
use crate::hca::{Access, Region, RemoteAddress};

/// Streams of bytes to peers on other nodes, and back; and transfers straight between users'
/// memory.
pub trait Channel {
    /// Puts bytes into the stream to `peer`, in their order: as many as it takes now.
    ///
    /// # Safety
    ///
    /// The parts are valid for reads. If the answer says that the channel holds a part, the first
    /// part that is not counted stays valid. The next put to this peer then begins with that part,
    /// until an answer counts it or the stream is closed.
    ///
    /// # Errors
    ///
    /// [`Broken`]: nothing can be put any more.
    unsafe fn put(&mut self, peer: u32, from: &[Part]) -> Result<ChannelProgress, Broken>;

    /// Gets bytes out of the stream from `peer`: as many as have arrived and the parts have room
    /// for.
    ///
    /// # Safety
    ///
    /// The parts are valid for writes. If the answer says that the channel holds a part, the first
    /// part that is not counted stays valid and is touched by no other code. The next get from this
    /// peer then begins with that part, until an answer counts it or the stream is closed.
    ///
    /// # Errors
    ///
    /// [`Broken`]: all bytes that had arrived are delivered, and no more will come.
    unsafe fn get(&mut self, peer: u32, into: &[Part]) -> Result<ChannelProgress, Broken>;

    /// Registers memory for [`Channel::transfer`], and for transfers of peers as far as `access`
    /// permits. Returns `None` if the system refuses.
    ///
    /// # Safety
    ///
    /// The contract of [`Hca::register`](crate::hca::Hca::register) holds until
    /// [`Channel::release`].
    unsafe fn register(&mut self, part: Part, access: Access) -> Option<Region>;

    /// Ends a registration. No transfer under way uses it.
    fn release(&mut self, region: Region);

    /// Starts a transfer between this rank's memory and the peer's, of all bytes or the first of
    /// them. Returns `None` if no transfer can start now.
    ///
    /// # Safety
    ///
    /// The memory is registered here under the key. It is valid for the device until the transfer
    /// is done or the streams are closed.
    ///
    /// # Errors
    ///
    /// [`Broken`]: no transfer can start any more.
    unsafe fn transfer(&mut self, peer: u32, direct: &Direct) -> Result<Option<Begun>, Broken>;

    /// Returns whether the transfer `number` with `peer` is done, and with it all before it. A
    /// transfer that fails breaks the streams.
    fn is_done(&self, peer: u32, number: u64) -> bool;

    /// Returns whether there is a link to `peer`, or one is being made. [`Channel::put`] makes one
    /// if there is none.
    fn is_linked(&self, peer: u32) -> bool;

    /// Returns the time, in nanoseconds since any fixed moment. Transfers are compared by it.
    ///
    /// The engine asks at both ends of a transfer. The time that was told before a call
    /// ([`Engine::tell_time`](crate::engine::Engine::tell_time)) would not do, since a software
    /// device moves a whole message within one call.
    fn now(&self) -> u64;

    /// Ends both streams with `peer`. From then on no part is touched, and no transfer goes on.
    fn close(&mut self, peer: u32);
}

/// The result of a call of a [`Channel`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChannelProgress {
    /// Bytes that were moved, and belong to the caller again.
    pub bytes: usize,
    /// Whether the part after them stays in use until a further call counts it.
    pub holds: bool,
}

/// The error of streams that have ended: the peer is gone, as far as this rank can tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Broken(pub FailureCause);

/// A transfer between memory of this rank and of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    /// Whether the peer's memory is read or written.
    pub direction: Direction,
    /// This rank's memory; not empty.
    pub near: Part,
    /// The local key of its region.
    pub key: u32,
    /// The peer's memory.
    pub far: RemoteAddress,
}

/// A transfer that has started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Begun {
    /// Its number. Later transfers with the same peer have greater numbers.
    pub number: u64,
    /// Number of the bytes that it moves. The rest needs another transfer.
    pub bytes: usize,
}
