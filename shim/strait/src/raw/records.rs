//! What interfaces of other languages leave for observers: names that users know.

use strait_core::layout::{Communicator, Wait};

use crate::world::LoopRecord;
use crate::{Error, World, sealed};

/// Records of a [`World`] for observers (`strait why`), for interfaces above it.
pub trait RawRecords: sealed::Sealed {
    /// Sets the function that the program has called. Waits of this world that take long have its
    /// name, until another one is set. `name` is called only then.
    fn set_caller(&self, name: fn() -> &'static str);

    /// Records a communicator, over an earlier one with the same context.
    fn add_communicator(&self, communicator: Communicator);

    /// Removes a communicator from the record.
    fn remove_communicator(&self, context: u32);

    /// Returns the number of packets that this rank has sent to ranks of its node and received from
    /// them.
    fn packets(&self) -> u64;

    /// Returns the record of a loop that calls [`RawRecords::poll_in_loop`].
    fn record_of_loop(&self) -> LoopRecord<'_>;

    /// Makes progress, and records now and then that this rank waits for `what`. `record` lasts as
    /// long as the loop.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::OutOfMemory`] when no progress can be made.
    fn poll_in_loop(
        &self,
        record: &mut LoopRecord<'_>,
        what: impl Fn() -> Wait,
    ) -> Result<(), Error>;
}

impl RawRecords for World {
    #[inline(always)]
    fn set_caller(&self, name: fn() -> &'static str) {
        World::set_caller(self, name);
    }

    fn add_communicator(&self, communicator: Communicator) {
        self.record_place().add_communicator(communicator);
    }

    fn remove_communicator(&self, context: u32) {
        self.record_place().remove_communicator(context);
    }

    fn packets(&self) -> u64 {
        self.lock_progress().publish_counts();
        World::packets(self)
    }

    fn record_of_loop(&self) -> LoopRecord<'_> {
        World::record_of_loop(self)
    }

    fn poll_in_loop(
        &self,
        record: &mut LoopRecord<'_>,
        what: impl Fn() -> Wait,
    ) -> Result<(), Error> {
        World::poll_in_loop(self, record, what)
    }
}
