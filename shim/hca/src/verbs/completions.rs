//! Takes completions from the library, and finds the requests and receives that they belong to. A
//! thread may sleep until the device announces one.

use core::mem;
use std::sync::Arc;

use rdma_mummy_sys as ibv;
use strait_core::hca::{Completion, Connection, Done, HcaError, WorkError};

use super::window::PostedRequest;
use super::{BATCH, RECEIVE, Verbs, error, request};
use crate::cq::{EventDriven, Events};

impl EventDriven for Verbs {
    fn events(&self) -> Events {
        Events::new(Arc::clone(&self.bell))
    }
}

impl Verbs {
    /// Takes completions from the library until it has none or `taken` has `enough` entries.
    pub(super) fn take(&mut self, enough: usize) -> Result<(), HcaError> {
        while self.taken.len() < enough {
            // SAFETY: the entries consist of integers, for which zero is a valid value.
            let mut batch: [ibv::ibv_wc; BATCH] = unsafe { mem::zeroed() };
            let want = BATCH.min(enough - self.taken.len());
            // SAFETY: the queue is live, and the library writes at most `want` entries.
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

    /// Moves to `taken` each completion that can be reported now that the library has reported
    /// `raw`.
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

    /// Returns the completion of a receive, or `None` when its connection was closed.
    fn received(&mut self, raw: &ibv::ibv_wc) -> Option<Completion> {
        let id = self.slots.give(raw.wr_id as u32)?;
        let connection = *self.pairs.get(&raw.qp_num)?;
        Some(Completion { id, connection, result: self.result(connection, raw, false)? })
    }

    /// Returns the completion of a request. Returns `None` when the request is not in flight, or
    /// when no completion was requested.
    fn completed(&mut self, connection: Connection, raw: &ibv::ibv_wc) -> Option<Completion> {
        let window = &mut self.end(connection)?.window;
        let PostedRequest { id, sends, signaled } = window.complete(raw.wr_id as u32)?;
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
