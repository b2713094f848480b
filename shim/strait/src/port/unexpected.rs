//! The unexpected messages of a caller that does its own matching.

use strait_core::buffer::Cursor;
use strait_core::engine::{MessageId, Received, StartError};
use strait_core::memory::OutOfMemory;
use strait_core::wire::Key;
use strait_platform::Rank;

use super::{OWNER, Port};

impl Port {
    /// Keeps a message that the caller has taken and matches itself
    /// ([`strait_core::engine::Engine::keep_matched`]). Beyond its share, `source` is told to keep
    /// its messages ([`Port::is_told_to_keep`]).
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was kept.
    pub fn keep(&self, source: Rank, key: Key, bytes: &[u8]) -> Result<MessageId, OutOfMemory> {
        self.world.lock_progress().keep_matched(source, key, bytes)
    }

    /// Receives a message that [`Port::keep`] has kept. Its name ends with this call.
    ///
    /// # Errors
    ///
    /// [`StartError`] for lack of memory. The name stays valid.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`Port::irecv`].
    pub unsafe fn imrecv(
        &self,
        message: MessageId,
        buffer: Cursor,
    ) -> Result<Received, StartError> {
        // SAFETY: the caller guarantees the same (contract of `imrecv`).
        unsafe { self.world.imrecv(message, buffer, OWNER) }
    }

    /// Returns whether `destination` holds as many bytes of this rank's messages as it accepts.
    #[inline]
    #[must_use]
    pub fn is_told_to_keep(&self, destination: Rank) -> bool {
        let engine = self.world.engine();
        engine.is_told_to_keep(destination)
            || self.is_elsewhere(destination) && engine.is_told_to_keep_from_afar(destination)
    }
}
