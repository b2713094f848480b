//! Taking completions from the library, and telling what they are of.

use core::mem;

use rdma_mummy_sys as ibv;
use strait_core::hca::{Completion, Connection, Done, HcaError, WorkError};

use super::window::Request;
use super::{BATCH, RECEIVE, Verbs, error, request};

impl Verbs {
    /// Takes completions from the library until it has none or `taken` has `enough`.
    pub(super) fn take(&mut self, enough: usize) -> Result<(), HcaError> {
        while self.taken.len() < enough {
            // SAFETY: integers, for which zero is a value.
            let mut batch: [ibv::ibv_wc; BATCH] = unsafe { mem::zeroed() };
            let want = BATCH.min(enough - self.taken.len());
            // SAFETY: the queue is live, and the library writes at most so many entries.
            let count = unsafe {
                ibv::ibv_poll_cq(self.completions.as_ptr(), want as i32, batch.as_mut_ptr())
            };
            let count = usize::try_from(count).map_err(|_| HcaError::Device { code: count })?;
            for raw in &batch[..count.min(want)] {
                self.understand(raw);
            }
            if count < want {
                break;
            }
        }
        Ok(())
    }

    /// Takes what can be reported now that the library has reported this.
    fn understand(&mut self, raw: &ibv::ibv_wc) {
        if raw.wr_id & RECEIVE != 0 {
            let completion = self.received(raw);
            self.taken.extend(completion);
            return;
        }
        let connection = Connection((raw.wr_id >> 32) as u32);
        let Some(end) = self.end(connection) else { return };
        let Some(order) = &mut end.order else {
            let completion = self.completed(connection, raw);
            self.taken.extend(completion);
            return;
        };
        order.reported(*raw);
        while let Some(raw) = self.end(connection).and_then(|end| end.order.as_mut()?.next()) {
            let completion = self.completed(connection, &raw);
            self.taken.extend(completion);
        }
        if let Some(end) = self.end(connection) {
            end.go_on();
        }
    }

    /// What a receive's completion says. `None` for one whose connection was closed.
    fn received(&mut self, raw: &ibv::ibv_wc) -> Option<Completion> {
        let id = self.slots.give(raw.wr_id as u32)?;
        let connection = *self.pairs.get(&raw.qp_num)?;
        Some(Completion { id, connection, result: self.result(connection, raw, false)? })
    }

    /// What a request's completion says. `None` for what is not under way, or was to say nothing.
    fn completed(&mut self, connection: Connection, raw: &ibv::ibv_wc) -> Option<Completion> {
        let window = &mut self.end(connection)?.window;
        let Request { id, sends, signaled } = window.complete(raw.wr_id as u32)?;
        let result = self.result(connection, raw, sends)?;
        (signaled || result.is_err()).then_some(Completion { id, connection, result })
    }

    fn result(
        &mut self,
        connection: Connection,
        raw: &ibv::ibv_wc,
        sends: bool,
    ) -> Option<Result<Done, WorkError>> {
        if raw.status == ibv::ibv_wc_status::IBV_WC_SUCCESS {
            return request::done(raw).map(Ok);
        }
        let hears = self.capabilities.acknowledged;
        let end = self.end(connection)?;
        end.break_down();
        Some(Err(match error::failed(raw.status, sends) {
            WorkError::Flushed if !hears => end.flushed(),
            error => {
                end.failed = true;
                error
            }
        }))
    }
}
