//! Operations that do not wait, and the scope that keeps their buffers.

mod owned;
mod several;

use core::cell::Cell;
use core::marker::PhantomData;
use std::io::{IoSlice, IoSliceMut};

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::progress::{Cursor, Owner, Part, SendMode, Status};

use crate::endpoint::{part_of, part_of_mut};
use crate::{Endpoint, Error, Message, Rank, Tag, Unscoped, World};
pub use owned::OwnedRequest;
pub use several::{test_all, test_any, test_some, wait_all, wait_any, wait_some};

/// Where operations that do not wait begin and end.
///
/// A buffer given to [`Scope::isend`] or [`Scope::irecv`] is borrowed for `'scope`, that is, until the scope has ended,
/// so it can neither go away nor be touched while an operation uses it, even if its [`Request`] is forgotten. The shape
/// is that of [`std::thread::scope`].
///
/// ```no_run
/// # fn main() -> Result<(), strait::Error> {
/// # let world = strait::World::init()?;
/// let endpoint = world.endpoint();
/// let (mut left, mut right) = ([0_u8; 4], [0_u8; 4]);
/// endpoint.scope(|scope| {
///     let mut requests = [scope.irecv(&mut left, 1, 0)?, scope.irecv(&mut right, 2, 0)?];
///     strait::wait_all(&mut requests)
/// })?;
/// # Ok(()) }
/// ```
///
/// The buffers are free again when the scope ends, and not before, even if their requests have been waited for. A program
/// that uses buffers again while other operations go on gives them to [`Endpoint::isend_owned`] and
/// [`Endpoint::irecv_owned`], whose requests give them back, or opens a scope for each round.
///
/// Requests that are still unfinished when the scope ends, or are dropped before, are settled, the first three without waiting:
///
/// - a send goes on: what is left of its data is copied, and [`World::finalize`] waits for it to leave;
/// - a receive that no message has matched is cancelled;
/// - a receive whose message is arriving takes the message with it: the rest is let go;
/// - a put or get between nodes, or by messages, is waited for.
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    endpoint: Endpoint<'env>,
    owner: Owner,
    /// Operations of this scope that the engine knows.
    open: Cell<u32>,
    scope: PhantomData<&'scope mut &'scope ()>,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    pub(crate) fn run<R>(
        endpoint: Endpoint<'env>,
        body: impl for<'inner> FnOnce(&'inner Scope<'inner, 'env>) -> R,
    ) -> R {
        let owner = endpoint.world().next_owner();
        let scope = Scope { endpoint, owner, open: Cell::new(0), scope: PhantomData };
        // Also when the body unwinds: the buffers go back to their owner.
        let _end = End { world: endpoint.world(), owner, open: &scope.open };
        body(&scope)
    }

    /// The endpoint this scope belongs to.
    #[must_use]
    pub const fn endpoint(&self) -> Endpoint<'env> {
        self.endpoint
    }

    /// Begins to send `data` to `destination`.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.2, `MPI_ISEND`.
    #[inline]
    pub fn isend<T: NoUninit>(
        &'scope self,
        data: &'scope [T],
        destination: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let data = part_of(bytemuck::must_cast_slice(data));
        // SAFETY: `data` is borrowed for 'scope, and when that ends the engine has no claim on it (`End`).
        let begun = unsafe { self.endpoint.begin_send_as(self.owner, data, destination, tag) };
        Ok(self.keep(begun?))
    }

    /// Begins to send the concatenation of `parts` as one message.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    pub fn isend_vectored(
        &'scope self,
        parts: &'scope [IoSlice<'scope>],
        destination: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: `IoSlice` is ABI-compatible with `iovec`, as `Part` is; the borrow is as in `isend`.
        let begun = unsafe {
            let data = Cursor::parts(parts_of(parts));
            self.endpoint.push_send(SendMode::Standard, self.owner, data, destination, tag)
        };
        Ok(self.keep(begun?))
    }

    /// Begins to send `data` to `destination`. The request is over not before the receive has begun.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.2, `MPI_ISSEND`.
    pub fn issend<T: NoUninit>(
        &'scope self,
        data: &'scope [T],
        destination: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let data = part_of(bytemuck::must_cast_slice(data));
        // SAFETY: as in `isend`.
        let begun = unsafe {
            let data = Cursor::contiguous(data);
            self.endpoint.push_send(SendMode::Synchronous, self.owner, data, destination, tag)
        };
        Ok(self.keep(begun?))
    }

    /// As [`Scope::issend`], of the concatenation of `parts`.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    pub fn issend_vectored(
        &'scope self,
        parts: &'scope [IoSlice<'scope>],
        destination: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: as in `isend_vectored`.
        let begun = unsafe {
            let data = Cursor::parts(parts_of(parts));
            self.endpoint.push_send(SendMode::Synchronous, self.owner, data, destination, tag)
        };
        Ok(self.keep(begun?))
    }

    /// Begins to receive from `source` with `tag` into `buffer`.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::recv`], for what is known at the start.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.2, `MPI_IRECV`.
    pub fn irecv<T: NoUninit + AnyBitPattern>(
        &'scope self,
        buffer: &'scope mut [T],
        source: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let buffer = part_of_mut(bytemuck::must_cast_slice_mut(buffer));
        // SAFETY: `buffer` is borrowed for 'scope, and when that ends the engine has no claim on it (`End`).
        let begun = unsafe { self.endpoint.begin_recv_as(self.owner, buffer, source, tag) };
        Ok(self.keep(begun?))
    }

    /// Begins to receive one message into `parts`, one after the other.
    ///
    /// # Errors
    ///
    /// As [`Scope::irecv`].
    pub fn irecv_vectored(
        &'scope self,
        parts: &'scope mut [IoSliceMut<'_>],
        source: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: `IoSliceMut` is ABI-compatible with `iovec`, as `Part` is; the borrow is as in `irecv`.
        let begun = unsafe {
            let buffer = Cursor::parts(parts_of(parts));
            self.endpoint.push_recv(self.owner, buffer, source, tag)
        };
        Ok(self.keep(begun?))
    }

    /// Begins to receive a message that a probe has matched. One of another world than the scope's is waited for.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] for want of memory; the message goes back to matching.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.3, `MPI_IMRECV`.
    pub fn imrecv<T: NoUninit + AnyBitPattern>(
        &'scope self,
        message: Message<'_>,
        buffer: &'scope mut [T],
    ) -> Result<Request<'scope>, Error> {
        let buffer = part_of_mut(bytemuck::must_cast_slice_mut(buffer));
        // SAFETY: as in `irecv`.
        let begun = unsafe { message.begin(self.world(), self.owner, Cursor::contiguous(buffer)) };
        Ok(self.keep(begun?))
    }

    /// The same into `parts`, one after the other.
    ///
    /// # Errors
    ///
    /// As [`Scope::imrecv`].
    pub fn imrecv_vectored(
        &'scope self,
        message: Message<'_>,
        parts: &'scope mut [IoSliceMut<'_>],
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: as in `irecv_vectored`.
        let begun = unsafe {
            let buffer = Cursor::parts(parts_of(parts));
            message.begin(self.world(), self.owner, buffer)
        };
        Ok(self.keep(begun?))
    }

    const fn world(&self) -> &'env World {
        self.endpoint.world()
    }

    pub(crate) const fn owner(&self) -> Owner {
        self.owner
    }

    /// The request for an operation of this scope.
    #[inline]
    pub(crate) fn keep(&'scope self, operation: Unscoped) -> Request<'scope> {
        if !operation.is_over() {
            self.open.set(self.open.get() + 1);
        }
        Request { world: self.world(), open: &self.open, operation, told: false }
    }
}

/// Ends a scope: no operation keeps a claim on a buffer.
struct End<'a> {
    world: &'a World,
    owner: Owner,
    open: &'a Cell<u32>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if self.open.get() > 0 {
            self.world.settle_owned(self.owner);
        }
    }
}

/// An operation that was begun. Ask for its end with [`Request::wait`], [`Request::test`], [`wait_all`] and their like; dropping it
/// unfinished settles it as [`Scope`] describes. A request whose end one of them has told of is *inactive*: calls for several leave it
/// out (MPI-4.1 §3.7.3).
#[derive(Debug)]
#[must_use = "a request that is dropped unfinished is settled, not waited for"]
pub struct Request<'scope> {
    world: &'scope World,
    open: &'scope Cell<u32>,
    operation: Unscoped,
    /// Whoever waits for it was told of its end: it is inactive.
    told: bool,
}

impl Request<'_> {
    /// Waits for the end. A send's status names its destination.
    ///
    /// # Errors
    ///
    /// How the operation ended badly.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.3, `MPI_WAIT`.
    pub fn wait(mut self) -> Result<Status, Error> {
        self.finish()
    }

    /// The status if the operation is over; makes progress otherwise.
    ///
    /// # Errors
    ///
    /// How the operation ended badly.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.3, `MPI_TEST`.
    pub fn test(&mut self) -> Result<Option<Status>, Error> {
        let tested = self.watch(Unscoped::test);
        self.told |= self.operation.is_over();
        tested
    }

    /// The status if the operation is known to be over, without making progress.
    ///
    /// # Errors
    ///
    /// How the operation ended badly.
    pub fn status(&self) -> Result<Option<Status>, Error> {
        self.operation.status()
    }

    /// Cancels a receive that no message has matched: it then ends with [`crate::Fault::Cancelled`]. Says whether it
    /// did; a receive that matched, and a send, go on. A receive that asked a rank on another node for its message says no, and
    /// may end so all the same: that rank decides, when it is inside the library, and waiting for the receive waits for that.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.4, `MPI_CANCEL`.
    pub fn cancel(&mut self) -> bool {
        self.operation.cancel(self.world)
    }

    /// Waits without taking the request, and leaves it inactive.
    fn finish(&mut self) -> Result<Status, Error> {
        let waited = self.watch(Unscoped::wait);
        self.told = true;
        waited
    }

    /// True when the operation is over.
    fn look(&mut self) -> bool {
        self.watch(Unscoped::look)
    }

    /// Has `act` do something with the operation, and takes it off the scope's book if that was its end.
    #[inline]
    fn watch<R>(&mut self, act: impl FnOnce(&mut Unscoped, &World) -> R) -> R {
        if self.operation.is_over() {
            return act(&mut self.operation, self.world);
        }
        let result = act(&mut self.operation, self.world);
        if self.operation.is_over() {
            self.open.set(self.open.get() - 1);
        }
        result
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.watch(Unscoped::settle);
    }
}

/// A list of `IoSlice` or `IoSliceMut` as the engine sees it.
///
/// # Safety
///
/// `S` has the layout of POSIX `struct iovec`.
const unsafe fn parts_of<S>(parts: &[S]) -> &[Part] {
    const { assert!(size_of::<S>() == size_of::<Part>() && align_of::<S>() == align_of::<Part>()) };
    // SAFETY: by the contract each element is a base that is not null and a length, as `Part` is.
    unsafe { core::slice::from_raw_parts(parts.as_ptr().cast(), parts.len()) }
}
