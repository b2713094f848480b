//! Operations that own their buffers, and return them one by one.

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::engine::Status;
use strait_platform::Rank;

use crate::buffer::{part_of, part_of_mut};
use crate::{Endpoint, Error, Source, Tag, Unscoped, World};

/// A send or a receive that owns its buffer until it is complete. [`OwnedRequest::wait`] returns
/// the buffer for immediate reuse, so a program can keep several operations in flight over a few
/// buffers. A buffer that is only borrowed belongs to a [`Scope`](crate::Scope), and is free again
/// when the scope ends.
///
/// Dropping an unfinished request settles it as a [`Scope`](crate::Scope) does, and frees the
/// buffer.
///
/// ```
/// # fn main() -> Result<(), strait::Error> {
/// # let worlds = strait::World::in_process(2)?;
/// # let (endpoint, other) = (worlds[0].endpoint(), worlds[1].endpoint());
/// // A pipeline: up to four messages are in flight, and their buffers are used again.
/// let mut in_flight = std::collections::VecDeque::new();
/// for number in 0..100_u8 {
///     let mut buffer = if in_flight.len() == 4 {
///         let oldest: strait::OwnedRequest<'_, u8> = in_flight.pop_front().unwrap();
///         let (buffer, outcome) = oldest.wait();
///         outcome?;
///         buffer
///     } else {
///         vec![0; 1000]
///     };
///     buffer.fill(number);
///     in_flight.push_back(endpoint.isend_owned(buffer, 1, 0)?);
/// #   let (received, outcome) = other.irecv_owned(vec![1_u8; 1000], 0, 0)?.wait();
/// #   assert_eq!((outcome?.bytes, received), (1000, vec![number; 1000]));
/// }
/// for request in in_flight {
///     request.wait().1?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a request that is dropped unfinished is settled, not waited for"]
pub struct OwnedRequest<'world, T> {
    world: &'world World,
    operation: Unscoped,
    buffer: Vec<T>,
}

impl<T> OwnedRequest<'_, T> {
    /// Waits for the operation to complete. Returns the buffer and the outcome. The status of a
    /// send names its destination.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let (buffer, outcome) = endpoint.irecv_owned(vec![0_u8; 16], 1, 0)?.wait();
    ///     assert_eq!(&buffer[..outcome?.bytes], b"data");
    /// } else {
    ///     endpoint.send(b"data", 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.3, `MPI_WAIT`.
    pub fn wait(mut self) -> (Vec<T>, Result<Status, Error>) {
        let outcome = self.operation.wait(self.world);
        (core::mem::take(&mut self.buffer), outcome)
    }

    /// Returns the status if the operation is complete, and then [`OwnedRequest::wait`] returns the
    /// buffer at once. Otherwise makes progress.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let mut request = endpoint.irecv_owned(vec![0_u8; 16], 1, 0)?;
    ///     while request.test()?.is_none() {
    ///         // Compute something else.
    ///     }
    ///     let (buffer, _) = request.wait();
    ///     assert_eq!(&buffer[..4], b"data");
    /// } else {
    ///     endpoint.send(b"data", 0, 0)?;
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
        self.operation.test(self.world)
    }

    /// Cancels a receive without a matched message, as [`Request::cancel`](crate::Request::cancel)
    /// does.
    ///
    /// ```
    /// # strait::World::run_in_process(1, |world| {
    /// # let endpoint = world.endpoint();
    /// let mut request = endpoint.irecv_owned(vec![0_u8; 16], 0, 7)?;
    /// assert!(request.cancel());
    /// let (buffer, outcome) = request.wait();
    /// assert!(outcome.is_err());
    /// assert_eq!(buffer.len(), 16, "the buffer comes back");
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.4, `MPI_CANCEL`.
    pub fn cancel(&mut self) -> bool {
        self.operation.cancel(self.world)
    }
}

impl<T> Drop for OwnedRequest<'_, T> {
    fn drop(&mut self) {
        // The claim on the buffer must end before the buffer is freed.
        self.operation.settle(self.world);
    }
}

impl<'world> Endpoint<'world> {
    /// Starts a send of `data` to `destination`. The request owns the data until the send is
    /// complete.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let request = endpoint.isend_owned(vec![1.5_f64; 100], 1, 0)?;
    ///     let (buffer, outcome) = request.wait();
    ///     outcome?;
    ///     assert_eq!(buffer.len(), 100, "the buffer may be used again");
    /// } else {
    ///     endpoint.recv(&mut [0.0_f64; 100], 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`], after which the data are dropped.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.2, `MPI_ISEND`.
    pub fn isend_owned<T: NoUninit>(
        &self,
        data: Vec<T>,
        destination: Rank,
        tag: Tag,
    ) -> Result<OwnedRequest<'world, T>, Error> {
        let part = part_of(bytemuck::must_cast_slice(&data));
        // SAFETY: the request keeps the vector until the operation is complete or settled. The
        // elements do not move with the vector, and no other code can reach them. A request that is
        // forgotten never frees it.
        let operation = unsafe { self.begin_send(part, destination, tag) }?;
        Ok(OwnedRequest { world: self.world(), operation, buffer: data })
    }

    /// Starts a receive from `source` with `tag`, of at most as many elements as `buffer` has. The
    /// request owns the buffer until the receive is complete.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let request = endpoint.irecv_owned(vec![0.0_f64; 100], 1, 0)?;
    ///     let (numbers, outcome) = request.wait();
    ///     assert_eq!((outcome?.count::<f64>(), numbers[0]), (Some(1), 1.5));
    /// } else {
    ///     endpoint.send(&[1.5_f64], 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::recv`] that are known at the start, after which the buffer is
    /// dropped.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.2, `MPI_IRECV`.
    pub fn irecv_owned<T: NoUninit + AnyBitPattern>(
        &self,
        mut buffer: Vec<T>,
        source: impl Into<Source>,
        tag: Tag,
    ) -> Result<OwnedRequest<'world, T>, Error> {
        let source = source.into().number();
        let part = part_of_mut(bytemuck::must_cast_slice_mut(&mut buffer));
        // SAFETY: the request keeps the vector until the operation is complete or settled, and no
        // other code can reach its elements, as in `isend_owned`.
        let operation = unsafe { self.begin_recv(part, source, tag) }?;
        Ok(OwnedRequest { world: self.world(), operation, buffer })
    }
}
