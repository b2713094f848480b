//! Receives that ask for named messages, for callers that match messages themselves.

use strait_core::buffer::Cursor;
use strait_core::engine::{RequestId, StartError};
use strait_core::matching::Pattern;
use strait_core::rndv::Rendezvous;
use strait_core::wire::Key;
use strait_platform::Rank;

use super::{OWNER, Port};

impl Port {
    /// Gives each message of `context` a name: no two messages of a pair have the same key
    /// ([`strait_core::engine::Engine::name_messages`]).
    pub fn name_messages(&self, context: u32) {
        self.world.lock_progress().name_messages(context);
    }

    /// Returns how large messages are negotiated by default.
    #[must_use]
    pub fn rendezvous(&self) -> Rendezvous {
        self.world.tuning().rendezvous
    }

    /// Takes in the RTRs that have arrived, if one may be of use for a message of `length` bytes to
    /// `destination` with this key. Returns whether an RTR for it is here.
    ///
    /// Other messages that have arrived are taken in as well.
    #[must_use]
    pub fn look_for_rtr(&self, destination: Rank, key: Key, length: usize) -> bool {
        self.world.lock_progress().context().look_for_rtr(destination, key, length)
    }

    /// Posts a receive of the named message `pattern` that asks for it, like
    /// [`strait_core::engine::Engine::ask`]. Returns `None` if none is posted.
    ///
    /// # Errors
    ///
    /// [`StartError`]: nothing was posted.
    ///
    /// # Safety
    ///
    /// The contract is that of [`Port::irecv`]. The receive is also over when [`Port::dismiss`]
    /// returns.
    pub unsafe fn ask(
        &self,
        pattern: Pattern,
        buffer: Cursor,
    ) -> Result<Option<RequestId>, StartError> {
        // SAFETY: the caller guarantees the same (contract of `ask`).
        unsafe { self.world.lock_progress().context().ask(pattern, buffer, OWNER) }
    }

    /// Ends a receive of [`Port::ask`] for a message that will never come
    /// ([`strait_core::engine::Engine::dismiss`]). If it came nevertheless, it is dropped.
    pub fn dismiss(&self, id: RequestId) {
        let dismissed = self.world.lock_progress().dismiss(id);
        if dismissed.is_err() {
            self.world.settle(id);
        }
    }

    /// Cancels a receive that no message has met ([`strait_core::engine::Engine::cancel`]). Its
    /// outcome says whether that was in time.
    pub fn cancel(&self, id: RequestId) {
        let _in_time = self.world.lock_progress().cancel(id);
    }
}
