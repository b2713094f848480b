//! Taking completions from the library, and telling what they are of.

use core::mem;

use rdma_mummy_sys as ibv;
use strait_core::hca::{Completion, Connection, HcaError, WorkError};

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
                if let Some(completion) = self.understand(raw) {
                    self.taken.push_back(completion);
                }
            }
            if count < want {
                break;
            }
        }
        Ok(())
    }

    /// Finds out what a completion is of. `None` for one whose connection was closed.
    fn understand(&mut self, raw: &ibv::ibv_wc) -> Option<Completion> {
        let is_receive = raw.wr_id & RECEIVE != 0;
        let has_succeeded = raw.status == ibv::ibv_wc_status::IBV_WC_SUCCESS;
        let (id, connection, sends) = if is_receive {
            let id = self.slots.give(raw.wr_id as u32)?;
            (id, *self.pairs.get(&raw.qp_num)?, false)
        } else {
            let (connection, number) = (Connection((raw.wr_id >> 32) as u32), raw.wr_id as u32);
            let end = self.end(connection)?;
            let Request { id, sends, signaled } = end.window.complete(number)?;
            if has_succeeded {
                end.go_on(number);
                // What others wait for says so to this device alone.
                signaled.then_some(())?;
            }
            (id, connection, sends)
        };
        let result = if has_succeeded {
            Ok(request::done(raw)?)
        } else {
            let hears = self.capabilities.acknowledged;
            let end = self.end(connection)?;
            end.break_down();
            match error::failed(raw.status, sends) {
                WorkError::Flushed if !hears => Err(end.flushed()),
                error => {
                    end.failed = true;
                    Err(error)
                }
            }
        };
        Some(Completion { id, connection, result })
    }
}
