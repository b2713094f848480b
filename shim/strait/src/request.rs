//! Requests: nonblocking operations that have started.

pub(crate) mod owned;
pub(crate) mod several;

use core::cell::Cell;

use strait_core::engine::Status;

use crate::{Error, Unscoped, World};

/// A request for an operation that has started. [`Request::wait`], [`Request::test`],
/// [`crate::wait_all`] and similar functions complete it. A request that is dropped unfinished is
/// settled as [`crate::Scope`] describes.
///
/// A request is *inactive* after one of these functions has reported its completion. Functions on
/// several requests ignore inactive ones (MPI-4.1 §3.7.3).
#[derive(Debug)]
#[must_use = "a request that is dropped unfinished is settled, not waited for"]
pub struct Request<'scope> {
    world: &'scope World,
    open: &'scope Cell<u32>,
    operation: Unscoped,
    /// The completion was reported to the caller, so the request is inactive.
    told: bool,
}

impl<'scope> Request<'scope> {
    /// Returns the request for an operation of a scope. `open` counts the scope's operations that
    /// are not over.
    #[inline]
    pub(crate) fn new(world: &'scope World, open: &'scope Cell<u32>, operation: Unscoped) -> Self {
        if !operation.is_over() {
            open.set(open.get() + 1);
        }
        Self { world, open, operation, told: false }
    }

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
