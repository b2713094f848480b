//! Waiting for completions without looking all the time.

use core::time::Duration;

use strait_core::hca::{Completion, Hca, HcaError};

/// The longest sleep. A device may have to look now and then for what nobody announces: a peer that died, a receive that a
/// peer has posted at last.
const LONGEST: Duration = Duration::from_millis(50);

/// Where the events that a device was asked for come in. It can be waited on by another thread than the device's owner.
pub trait Events: Send {
    /// Sleeps until the event that was asked for has come, `longest` at most. True: it has.
    ///
    /// # Errors
    ///
    /// [`HcaError::Device`] when the device itself has failed.
    fn wait(&self, longest: Duration) -> Result<bool, HcaError>;
}

/// A device whose events can be slept on.
pub trait EventDriven: Hca {
    /// Its events.
    type Events: Events;

    /// Where its events come in.
    fn events(&self) -> Self::Events;
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
