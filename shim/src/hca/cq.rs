//! Waiting for completions without looking all the time.

use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use strait_core::hca::{Completion, Hca, HcaError};
use strait_core::memory::Memory;
use strait_core::regcache::{Cached, Watch};

/// The longest sleep. A device may have to look now and then for what nobody announces: a peer that died, a receive that a
/// peer has posted at last.
const LONGEST: Duration = Duration::from_millis(50);

/// Where the event that a device was asked for comes in: a descriptor that can be read from then on, until the device is
/// armed again. It can be waited on beside other descriptors, and by another thread than the device's owner. Now and then it
/// tells of an event that there was before.
#[derive(Clone, Debug)]
pub struct Events(Arc<OwnedFd>);

impl Events {
    pub(super) const fn new(descriptor: Arc<OwnedFd>) -> Self {
        Self(descriptor)
    }

    /// Sleeps until the event has come, `longest` at most. True: it has.
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

/// A device whose events can be slept on.
pub trait EventDriven: Hca {
    /// Where its events come in.
    fn events(&self) -> Events;
}

impl<H: EventDriven, W: Watch, M: Memory> EventDriven for Cached<H, W, M> {
    fn events(&self) -> Events {
        self.device().events()
    }
}

/// Takes completions, at least one; sleeps while there is none. With no room in `into` it returns at once.
///
/// # Errors
///
/// [`HcaError::Device`] when the device itself has failed.
pub fn wait<D: EventDriven>(device: &mut D, into: &mut [Completion]) -> Result<usize, HcaError> {
    let events = device.events();
    loop {
        let count = device.poll(into)?;
        if count > 0 || into.is_empty() {
            return Ok(count);
        }
        device.arm()?;
        // What came before the arming is not announced.
        let count = device.poll(into)?;
        if count > 0 {
            return Ok(count);
        }
        events.wait(LONGEST)?;
    }
}
