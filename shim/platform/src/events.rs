//! The events of a device, and waits for them.

use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use strait_core::hca::HcaError;

/// A descriptor that becomes readable when a device has the event that it was armed for.
///
/// It stays readable until the device is armed again. A thread can wait for it beside other
/// descriptors, and need not own the device. It sometimes reports an event that was there before.
#[derive(Clone, Debug)]
pub struct Events(Arc<OwnedFd>);

impl Events {
    /// Wraps the descriptor at which the events arrive.
    #[must_use]
    pub const fn new(descriptor: Arc<OwnedFd>) -> Self {
        Self(descriptor)
    }

    /// Sleeps until the event has come, or until `longest` has passed. Returns whether it has come.
    ///
    /// # Errors
    ///
    /// [`HcaError::Device`] when the descriptor cannot be waited on.
    pub fn wait(&self, longest: Duration) -> Result<bool, HcaError> {
        let longest = Timespec::try_from(longest).ok();
        match poll(&mut [PollFd::new(self, PollFlags::IN)], longest.as_ref()) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(HcaError::Device { code: error.raw_os_error() }),
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
