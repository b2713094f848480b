//! Scopes: nonblocking operations over borrowed buffers.

use core::cell::Cell;
use core::marker::PhantomData;

use strait_core::engine::{Owner, SendMode, Status};
use strait_platform::Rank;

use crate::buffer::{Bytes, BytesMut, RecvBuffer, SendBuffer, part_of, part_of_mut};
use crate::{Endpoint, Error, Message, Request, Source, Tag, Unscoped, World};

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
    pub fn isend<B: SendBuffer + ?Sized>(
        &'scope self,
        data: &'scope B,
        destination: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let begun = match data.bytes() {
            // SAFETY: `data` is borrowed for 'scope, and when that ends the engine has no claim on
            // it (`ScopeGuard`).
            Bytes::One(bytes) => unsafe {
                self.endpoint.begin_send_as(self.owner, part_of(bytes), destination, tag)
            },
            // SAFETY: the parts and their list are borrowed for 'scope, too.
            parts => unsafe {
                let data = parts.cursor();
                self.endpoint.push_send(SendMode::Standard, self.owner, data, destination, tag)
            },
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
    pub fn issend<B: SendBuffer + ?Sized>(
        &'scope self,
        data: &'scope B,
        destination: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: `data` is borrowed for 'scope, and when that ends the engine has no claim on it
        // (`ScopeGuard`).
        let begun = unsafe {
            let data = data.bytes().cursor();
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
    pub fn irecv<B: RecvBuffer + ?Sized>(
        &'scope self,
        buffer: &'scope mut B,
        source: impl Into<Source>,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let source = source.into().number();
        let begun = match buffer.bytes_mut() {
            // SAFETY: `buffer` is borrowed for 'scope, and when that ends the engine has no claim
            // on it (`ScopeGuard`).
            BytesMut::One(bytes) => unsafe {
                self.endpoint.begin_recv_as(self.owner, part_of_mut(bytes), source, tag)
            },
            // SAFETY: the parts and their list are borrowed for 'scope, too.
            parts => unsafe { self.endpoint.push_recv(self.owner, parts.cursor(), source, tag) },
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
    pub fn imrecv<B: RecvBuffer + ?Sized>(
        &'scope self,
        message: Message<'_>,
        buffer: &'scope mut B,
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: `buffer` is borrowed for 'scope, and when that ends the engine has no claim on it
        // (`ScopeGuard`).
        let begun = unsafe { message.begin(self.world(), self.owner, buffer.bytes_mut().cursor()) };
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
        Request::new(self.world(), &self.open, operation)
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
    pub fn sendrecv<S: SendBuffer + ?Sized, R: RecvBuffer + ?Sized>(
        &self,
        data: &S,
        destination: Rank,
        send_tag: Tag,
        buffer: &mut R,
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
