//! Nonblocking operations, and the scope that keeps their buffers.

pub(crate) mod owned;
pub(crate) mod several;

use core::cell::Cell;
use core::marker::PhantomData;
use std::io::{IoSlice, IoSliceMut};

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Owner, SendMode, Status};
use strait_platform::Rank;

use crate::endpoint::{part_of, part_of_mut};
use crate::{Endpoint, Error, Message, Source, Tag, Unscoped, World};

/// A scope in which nonblocking operations begin and end.
///
/// A buffer given to [`Scope::isend`] or [`Scope::irecv`] is borrowed for `'scope`, that is, until
/// the scope has ended. So the program can neither free nor access it while an operation uses it,
/// even if its [`Request`] is forgotten. The form is that of [`std::thread::scope`].
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
/// The buffers are free again when the scope ends, and not before, even if their requests were
/// waited for. A program that reuses buffers while other operations go on has two choices. It opens
/// a scope for each round, or it passes them to [`Endpoint::isend_owned`] and
/// [`Endpoint::irecv_owned`]. The requests of these two return the buffers.
///
/// Requests that are unfinished at the end of the scope, or dropped earlier, are settled. The first
/// three kinds are settled without waiting:
///
/// - a send goes on: the rest of its data is copied, and [`World::finalize`] waits for it to leave;
/// - a receive without a matched message is cancelled;
/// - a receive with an arriving message ends, and the rest of the message is discarded;
/// - a put or get between nodes, or by messages, is waited for.
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    endpoint: Endpoint<'env>,
    owner: Owner,
    /// Number of operations of this scope that are still known to the engine.
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
        // The guard also settles the operations when the body unwinds, before the buffers are free
        // again.
        let _end = ScopeGuard { world: endpoint.world(), owner, open: &scope.open };
        body(&scope)
    }

    /// Returns the endpoint of this scope.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// world.endpoint().with_context(3).scope(|scope| assert_eq!(scope.endpoint().context(), 3));
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub const fn endpoint(&self) -> Endpoint<'env> {
        self.endpoint
    }

    /// Starts a send of `data` to `destination`.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// # let mut bytes = [0_u8; 4];
    /// if world.rank() == 0 {
    ///     let request = endpoint.scope(|scope| scope.isend(b"data", 1, 0)?.wait())?;
    ///     assert_eq!(request.bytes, 4);
    /// } else {
    ///     endpoint.recv(&mut bytes, 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`].
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
        // SAFETY: `data` is borrowed for 'scope, and when that ends the engine has no claim on it
        // (`ScopeGuard`).
        let begun = unsafe { self.endpoint.begin_send_as(self.owner, data, destination, tag) };
        Ok(self.keep(begun?))
    }

    /// Starts a send of the concatenation of `parts` as one message.
    ///
    /// ```
    /// use std::io::IoSlice;
    ///
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let parts = [IoSlice::new(b"head"), IoSlice::new(b"body")];
    ///     endpoint.scope(|scope| scope.isend_vectored(&parts, 1, 0)?.wait())?;
    /// } else {
    ///     assert_eq!(endpoint.recv(&mut [0_u8; 8], 0, 0)?.bytes, 8);
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`].
    pub fn isend_vectored(
        &'scope self,
        parts: &'scope [IoSlice<'scope>],
        destination: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: `IoSlice` is ABI-compatible with `iovec`, as `Part` is. The parts are borrowed
        // for 'scope, as in `isend`.
        let begun = unsafe {
            let data = Cursor::parts(parts_of(parts));
            self.endpoint.push_send(SendMode::Standard, self.owner, data, destination, tag)
        };
        Ok(self.keep(begun?))
    }

    /// Starts a synchronous send of `data` to `destination`. The request completes after the
    /// matching receive has started.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     endpoint.scope(|scope| scope.issend(&[1_u8], 1, 0)?.wait())?;
    ///     // Here rank 1 has started to receive.
    /// } else {
    ///     endpoint.recv(&mut [0_u8], 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`].
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
        // SAFETY: `data` is borrowed for 'scope, and when that ends the engine has no claim on it
        // (`ScopeGuard`).
        let begun = unsafe {
            let data = Cursor::contiguous(data);
            self.endpoint.push_send(SendMode::Synchronous, self.owner, data, destination, tag)
        };
        Ok(self.keep(begun?))
    }

    /// Starts a synchronous send of the concatenation of `parts`, like [`Scope::issend`].
    ///
    /// ```
    /// use std::io::IoSlice;
    ///
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let parts = [IoSlice::new(b"head"), IoSlice::new(b"body")];
    ///     endpoint.scope(|scope| scope.issend_vectored(&parts, 1, 0)?.wait())?;
    /// } else {
    ///     assert_eq!(endpoint.recv(&mut [0_u8; 8], 0, 0)?.bytes, 8);
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`].
    pub fn issend_vectored(
        &'scope self,
        parts: &'scope [IoSlice<'scope>],
        destination: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: `IoSlice` is ABI-compatible with `iovec`, as `Part` is. The parts are borrowed
        // for 'scope, as in `isend`.
        let begun = unsafe {
            let data = Cursor::parts(parts_of(parts));
            self.endpoint.push_send(SendMode::Synchronous, self.owner, data, destination, tag)
        };
        Ok(self.keep(begun?))
    }

    /// Starts a receive from `source` with `tag` into `buffer`.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let mut bytes = [0_u8; 8];
    ///     let status = endpoint.scope(|scope| {
    ///         let request = scope.irecv(&mut bytes, 1, 0)?;
    ///         // Compute while the message is on its way.
    ///         request.wait()
    ///     })?;
    ///     assert_eq!(&bytes[..status.bytes], b"data");
    /// } else {
    ///     endpoint.send(b"data", 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::recv`], for what is known at the start.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.2, `MPI_IRECV`.
    pub fn irecv<T: NoUninit + AnyBitPattern>(
        &'scope self,
        buffer: &'scope mut [T],
        source: impl Into<Source>,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let source = source.into().number();
        let buffer = part_of_mut(bytemuck::must_cast_slice_mut(buffer));
        // SAFETY: `buffer` is borrowed for 'scope, and when that ends the engine has no claim on it
        // (`ScopeGuard`).
        let begun = unsafe { self.endpoint.begin_recv_as(self.owner, buffer, source, tag) };
        Ok(self.keep(begun?))
    }

    /// Starts the receive of one message into `parts`, one after the other.
    ///
    /// ```
    /// use std::io::IoSliceMut;
    ///
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let (mut head, mut body) = ([0_u8; 4], [0_u8; 4]);
    ///     let mut parts = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)];
    ///     endpoint.scope(|scope| scope.irecv_vectored(&mut parts, 1, 0)?.wait())?;
    ///     assert_eq!((&head, &body), (b"head", b"body"));
    /// } else {
    ///     endpoint.send(b"headbody", 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Scope::irecv`].
    pub fn irecv_vectored(
        &'scope self,
        parts: &'scope mut [IoSliceMut<'_>],
        source: impl Into<Source>,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let source = source.into().number();
        // SAFETY: `IoSliceMut` is ABI-compatible with `iovec`, as `Part` is. The parts are borrowed
        // for 'scope, as in `irecv`.
        let begun = unsafe {
            let buffer = Cursor::parts(parts_of(parts));
            self.endpoint.push_recv(self.owner, buffer, source, tag)
        };
        Ok(self.keep(begun?))
    }

    /// Starts the receive of a message that a probe has matched. A message of another world than
    /// the scope's is waited for.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// # use strait::Source;
    /// if world.rank() == 0 {
    ///     let message = endpoint.mprobe(Source::Any, 0)?;
    ///     let mut bytes = vec![0_u8; message.status().bytes];
    ///     endpoint.scope(|scope| scope.imrecv(message, &mut bytes)?.wait())?;
    ///     assert_eq!(bytes, b"data");
    /// } else {
    ///     endpoint.send(b"data", 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Start`] for lack of memory, and then the message goes back to matching.
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
        // SAFETY: `buffer` is borrowed for 'scope, and when that ends the engine has no claim on it
        // (`ScopeGuard`).
        let begun = unsafe { message.begin(self.world(), self.owner, Cursor::contiguous(buffer)) };
        Ok(self.keep(begun?))
    }

    /// Starts the receive of a message that a probe has matched into `parts`, one after the other.
    ///
    /// ```
    /// use std::io::IoSliceMut;
    ///
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let (mut head, mut body) = ([0_u8; 4], [0_u8; 4]);
    ///     let mut parts = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)];
    ///     let message = endpoint.mprobe(1, 0)?;
    ///     endpoint.scope(|scope| scope.imrecv_vectored(message, &mut parts)?.wait())?;
    ///     assert_eq!((&head, &body), (b"head", b"body"));
    /// } else {
    ///     endpoint.send(b"headbody", 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Scope::imrecv`].
    pub fn imrecv_vectored(
        &'scope self,
        message: Message<'_>,
        parts: &'scope mut [IoSliceMut<'_>],
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: `IoSliceMut` is ABI-compatible with `iovec`, as `Part` is. The parts are borrowed
        // for 'scope, as in `irecv`.
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

    /// Returns the request for an operation of this scope.
    #[inline]
    pub(crate) fn keep(&'scope self, operation: Unscoped) -> Request<'scope> {
        if !operation.is_over() {
            self.open.set(self.open.get() + 1);
        }
        Request { world: self.world(), open: &self.open, operation, told: false }
    }
}

impl Endpoint<'_> {
    /// Sends `data` to `destination` and receives from `source` into `buffer`. Neither operation
    /// waits for the other.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// let (left, right) = ((world.rank() + 3) % 4, (world.rank() + 1) % 4);
    /// let mut from_left = [0];
    /// endpoint.sendrecv(&[world.rank()], right, 0, &mut from_left, left, 0)?;
    /// assert_eq!(from_left, [left]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`] and [`Endpoint::recv`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.10, `MPI_SENDRECV`.
    pub fn sendrecv<S: NoUninit, R: NoUninit + AnyBitPattern>(
        &self,
        data: &[S],
        destination: Rank,
        send_tag: Tag,
        buffer: &mut [R],
        source: impl Into<Source>,
        recv_tag: Tag,
    ) -> Result<Status, Error> {
        self.scope(|scope| {
            let receive = scope.irecv(buffer, source, recv_tag)?;
            scope.isend(data, destination, send_tag)?.wait()?;
            receive.wait()
        })
    }

    /// Opens a [`Scope`] for nonblocking operations.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// let peer = 1 - world.rank();
    /// let (mine, mut theirs) = ([world.rank(); 1000], [9; 1000]);
    /// endpoint.scope(|scope| {
    ///     let mut requests = [scope.irecv(&mut theirs, peer, 0)?, scope.isend(&mine, peer, 0)?];
    ///     strait::wait_all(&mut requests)
    /// })?;
    /// assert_eq!(theirs, [peer; 1000]);
    /// # Ok(()) }).unwrap();
    /// ```
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> R {
        Scope::run(*self, body)
    }
}

/// A guard that settles the operations of a scope, so that none keeps a claim on a buffer.
struct ScopeGuard<'a> {
    world: &'a World,
    owner: Owner,
    open: &'a Cell<u32>,
}

impl Drop for ScopeGuard<'_> {
    fn drop(&mut self) {
        if self.open.get() > 0 {
            self.world.settle_owned(self.owner);
        }
    }
}

/// A request for an operation that has started. [`Request::wait`], [`Request::test`], [`wait_all`]
/// and similar functions complete it. A request that is dropped unfinished is settled as [`Scope`]
/// describes. A request is *inactive* after one of these functions has reported its completion.
/// Functions on several requests ignore inactive ones (MPI-4.1 §3.7.3).
#[derive(Debug)]
#[must_use = "a request that is dropped unfinished is settled, not waited for"]
pub struct Request<'scope> {
    world: &'scope World,
    open: &'scope Cell<u32>,
    operation: Unscoped,
    /// The completion was reported to the caller, so the request is inactive.
    told: bool,
}

impl Request<'_> {
    /// Waits for the operation to complete. The status of a send names its destination.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let mut byte = [0_u8];
    ///     let status = endpoint.scope(|scope| scope.irecv(&mut byte, 1, 7)?.wait())?;
    ///     assert_eq!((status.source, status.bytes, byte), (1, 1, [5]));
    /// } else {
    ///     endpoint.send(&[5_u8], 0, 7)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The cause, when the operation failed.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.3, `MPI_WAIT`.
    pub fn wait(mut self) -> Result<Status, Error> {
        self.finish()
    }

    /// Returns the status if the operation is complete. Otherwise makes progress.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let mut byte = [0_u8];
    ///     let polls = endpoint.scope(|scope| {
    ///         let mut request = scope.irecv(&mut byte, 1, 7)?;
    ///         let mut polls = 0;
    ///         while request.test()?.is_none() {
    ///             polls += 1; // Here the program computes something else.
    ///         }
    ///         Ok::<_, strait::Error>(polls)
    ///     })?;
    ///     println!("{byte:?} after {polls} polls");
    /// } else {
    ///     endpoint.send(&[5_u8], 0, 7)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The cause, when the operation failed.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.3, `MPI_TEST`.
    pub fn test(&mut self) -> Result<Option<Status>, Error> {
        let tested = self.watch(Unscoped::test);
        self.told |= self.operation.is_over();
        tested
    }

    /// Returns the status if the operation is known to be complete, without making progress.
    ///
    /// ```
    /// # strait::World::run_in_process(1, |world| {
    /// # let endpoint = world.endpoint();
    /// let mut byte = [0_u8];
    /// endpoint.scope(|scope| {
    ///     let request = scope.irecv(&mut byte, 0, 7)?;
    ///     assert_eq!(request.status()?, None, "nothing was sent");
    ///     Ok::<(), strait::Error>(())
    /// })?;
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The cause, when the operation failed.
    pub fn status(&self) -> Result<Option<Status>, Error> {
        self.operation.status()
    }

    /// Cancels a receive without a matched message, which then ends with
    /// [`crate::Fault::Cancelled`]. Returns whether it did. A matched receive and a send go on. A
    /// receive that has asked a remote rank for its message returns false, and may still end as
    /// cancelled. The remote rank decides that inside the library, and a wait for the receive waits
    /// for the decision.
    ///
    /// ```
    /// # strait::World::run_in_process(1, |world| {
    /// # let endpoint = world.endpoint();
    /// # use strait::ErrorKind;
    /// let mut byte = [0_u8];
    /// endpoint.scope(|scope| {
    ///     let mut request = scope.irecv(&mut byte, 0, 7)?;
    ///     assert!(request.cancel(), "nothing was sent");
    ///     assert_eq!(request.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    ///     Ok::<(), strait::Error>(())
    /// })?;
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.4, `MPI_CANCEL`.
    pub fn cancel(&mut self) -> bool {
        self.operation.cancel(self.world)
    }

    /// Waits without consuming the request, and leaves it inactive.
    fn finish(&mut self) -> Result<Status, Error> {
        let waited = self.watch(Unscoped::wait);
        self.told = true;
        waited
    }

    /// Returns true when the operation is complete.
    fn look(&mut self) -> bool {
        self.watch(Unscoped::look)
    }

    /// Runs `act` on the operation. Updates the scope's count if that completed it.
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

/// Returns a list of `IoSlice` or `IoSliceMut` as a list of [`Part`]s.
///
/// # Safety
///
/// `S` has the layout of POSIX `struct iovec`.
const unsafe fn parts_of<S>(parts: &[S]) -> &[Part] {
    const { assert!(size_of::<S>() == size_of::<Part>() && align_of::<S>() == align_of::<Part>()) };
    // SAFETY: the caller guarantees that each element is a non-null base and a length, which is the
    // layout of `Part` (contract of `parts_of`).
    unsafe { core::slice::from_raw_parts(parts.as_ptr().cast(), parts.len()) }
}
