//! What becomes of operations with a peer that is gone.

use super::peer::Target;
use super::request::Request;
use super::{Engine, Fault, Gone, ProgressError};
use crate::memory::Memory;
use crate::sync::spin_hint;

impl<M: Memory + Clone> Engine<M> {
    /// Says that `rank` sends and receives no more. Everything it had handed over before is delivered first; then each
    /// operation that needs it ends with its fault: sends to it, receives posted for it alone, a message that was
    /// arriving. A receive from any source stays: another rank may match it. Later operations with the rank fail to
    /// start. Others are not affected. Saying it twice changes nothing.
    ///
    /// # Errors
    ///
    /// [`ProgressError`] from delivering what was left; call again.
    pub fn peer_gone(&mut self, rank: u32, how: Gone) -> Result<(), ProgressError> {
        if self.peers[rank as usize].gone.is_some() {
            return Ok(());
        }
        self.drain()?;
        let fault = how.fault(rank);
        let peer = &mut self.peers[rank as usize];
        peer.gone = Some(how);
        peer.shut();
        let arriving = peer.arriving.take();
        self.inboxes.remove(rank);
        self.wanted.remove(rank);
        while self.peers[rank as usize].waiting.ends.is_some() {
            self.finish_first_waiting(rank, Err(fault));
        }
        match arriving.map(|arriving| arriving.target) {
            Some(Target::Request(id)) => self.fail(id, fault),
            Some(Target::Message(number)) => self.forget_message(number),
            Some(Target::Nobody) | None => {}
        }
        self.fail_posted_for(rank, fault);
        self.cells.reclaim(&self.segment, rank)?;
        Ok(())
    }

    /// How `rank` went, if it did.
    #[must_use]
    pub fn gone(&self, rank: u32) -> Option<Gone> {
        self.peers.get(rank as usize).and_then(|peer| peer.gone)
    }

    /// Delivers all that the gone rank had handed over. One pass takes every cell that was in the queue, and then
    /// the fastboxes; only behind a link that another rank is about to write can there be more.
    fn drain(&mut self) -> Result<(), ProgressError> {
        const LOOKS: u32 = 10_000;
        for _ in 0..LOOKS {
            self.progress()?;
            if !self.segment.rank_block(self.rank).recv_queue.awaits_link() {
                break;
            }
            spin_hint();
        }
        Ok(())
    }

    fn fail_posted_for(&mut self, rank: u32, fault: Fault) {
        let mut from = 0;
        while let Some((handle, pattern, id)) = self.posted.next_from(from) {
            if pattern.source == rank {
                self.posted.cancel(handle);
                self.fail(id, fault);
            }
            from = handle + 1;
        }
    }

    fn fail(&mut self, id: u32, fault: Fault) {
        if let Some(request) = self.request_mut(id) {
            *request = Request::Done(Err(fault));
        }
    }

    /// Drops an unexpected message whose rest will never come.
    fn forget_message(&mut self, number: u32) {
        if let Some(message) = self.messages.remove(number) {
            self.unexpected.remove(message.handle);
            if let Some(owned) = message.payload {
                self.release(owned);
            }
        }
    }
}
