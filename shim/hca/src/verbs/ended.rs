//! Connections that the other side has ended, on devices with a connection manager.

use strait_core::hca::{Completion, Connection, HcaError};

use super::Verbs;
use super::end::{QueuePair, QueuePairState};
use super::order::RequestOrder;

impl Verbs {
    /// Advances all connections, where there is a connection manager.
    pub(super) fn manage(&mut self) {
        if let (Some(manager), Some(greetings)) = (&self.device.manager, &self.greetings) {
            manager.progress(&mut self.ends, self.random, self.limits, greetings);
        }
    }

    /// Completes the requests in flight on connections that the other side has ended, as the
    /// connection manager reports. The kernel's soft iWARP never completes requests that were
    /// posted after it knew of the end.
    pub(super) fn finish_ended(&mut self) -> Result<(), HcaError> {
        self.manage();
        let has_ended = |end: &Option<QueuePair>| {
            end.as_ref().is_some_and(|end| end.readiness == QueuePairState::Ended)
        };
        while let Some(index) = self.ends.iter().position(has_ended) {
            let connection = Connection(index as u32);
            if let Some(end) = &mut self.ends[index] {
                end.stop();
            }
            self.take(usize::MAX)?;
            let Some(end) = &mut self.ends[index] else { continue };
            end.readiness = QueuePairState::Broken;
            end.order.iter_mut().for_each(RequestOrder::clear);
            while let Some(request) = end.window.pop() {
                if request.signaled {
                    let result = Err(end.flushed());
                    self.taken.push_back(Completion { id: request.id, connection, result });
                }
            }
        }
        Ok(())
    }
}
