//! What the engine asks of whoever moves bytes between nodes.

use crate::hca::{Access, Region, Remote};
use crate::progress::{Part, Sign};

/// Streams of bytes to peers on other nodes, and back; and transfers straight between users' memory.
pub trait Channel {
    /// Puts bytes into the stream to `peer`: as many as it takes now, in their order.
    ///
    /// # Safety
    ///
    /// The parts are valid for reads. If the answer says that the channel holds a part, the first that is not counted stays so,
    /// and the next put to this peer begins with it, until an answer counts it or the stream is closed.
    ///
    /// # Errors
    ///
    /// [`Broken`]: nothing can be put any more.
    unsafe fn put(&mut self, peer: u32, from: &[Part]) -> Result<Taken, Broken>;

    /// Gets bytes out of the stream from `peer`: as many as have arrived and the parts hold.
    ///
    /// # Safety
    ///
    /// The parts are valid for writes. If the answer says that the channel holds a part, the first that is not counted stays so, is
    /// touched by nobody else, and the next get from this peer begins with it, until an answer counts it or the stream is closed.
    ///
    /// # Errors
    ///
    /// [`Broken`]: all that had arrived is delivered, and nothing else will.
    unsafe fn get(&mut self, peer: u32, into: &[Part]) -> Result<Taken, Broken>;

    /// Registers memory for [`Channel::transfer`], and for those of peers as far as `access` says. `None`: the system does not
    /// let it.
    ///
    /// # Safety
    ///
    /// As for [`Hca::register`](crate::hca::Hca::register), until [`Channel::release`].
    unsafe fn register(&mut self, part: Part, access: Access) -> Option<Region>;

    /// Gives a registration back. No transfer that is under way uses it.
    fn release(&mut self, region: Region);

    /// Begins to move bytes between this rank's memory and the peer's: all, or the first of them. `None`: not now.
    ///
    /// # Safety
    ///
    /// The memory is registered here under the key, and valid for the device until the transfer is done or the streams are
    /// closed.
    ///
    /// # Errors
    ///
    /// [`Broken`], as for [`Channel::put`].
    unsafe fn transfer(&mut self, peer: u32, direct: &Direct) -> Result<Option<Begun>, Broken>;

    /// Whether the transfer `number` with `peer` is done, and so all before it. One that fails breaks the streams.
    fn is_done(&self, peer: u32, number: u64) -> bool;

    /// Ends both streams with `peer`. No part is touched from now on, and no transfer goes on.
    fn close(&mut self, peer: u32);
}

/// What a [`Channel`] did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Taken {
    /// Bytes that were moved, and are the caller's again.
    pub bytes: usize,
    /// Whether the part after them is in use until a further call counts it.
    pub holds: bool,
}

/// The streams with a peer are at their end: it is gone, as far as this rank can tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Broken(pub Sign);

/// A transfer between memory of this rank and of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    /// From where to where.
    pub way: Way,
    /// This rank's memory; not empty.
    pub near: Part,
    /// The local key of its region.
    pub key: u32,
    /// The peer's memory.
    pub far: Remote,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// From the peer's memory to this rank's.
    Read,
    /// From this rank's memory to the peer's.
    Write,
}

/// A transfer that has begun.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Begun {
    /// Its number: later ones with the same peer have greater ones.
    pub number: u64,
    /// How many of the bytes it moves; the rest is another transfer's.
    pub bytes: usize,
}
