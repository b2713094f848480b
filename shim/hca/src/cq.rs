//! Waits for completions without polling all the time.

use strait_core::hca::{Completion, Hca, HcaError};
use strait_core::memory::Memory;
use strait_core::regcache::{Cached, MemoryWatch};
use strait_platform::backoff::SLEEP_MAX;
pub use strait_platform::events::Events;

/// A device with events that a thread can sleep on.
pub trait EventDriven: Hca {
    /// Returns the descriptor at which its events arrive.
    fn events(&self) -> Events;
}

impl<H: EventDriven, W: MemoryWatch, M: Memory> EventDriven for Cached<H, W, M> {
    fn events(&self) -> Events {
        self.device().events()
    }
}

/// Takes at least one completion, and sleeps while there is none. If `into` has no room, it returns
/// at once.
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
        // A completion that came before the arming causes no event.
        let count = device.poll(into)?;
        if count > 0 {
            return Ok(count);
        }
        events.wait(SLEEP_MAX)?;
    }
}
