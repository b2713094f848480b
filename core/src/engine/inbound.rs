//! Large messages on their way in.

use crate::lmt::LmtReceiver;
use crate::wire::Key;

/// An announced message that met its receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbound {
    pub(super) half: LmtReceiver,
    /// The receive's request. `None` after the receive was dropped.
    pub(super) request: Option<u32>,
    pub(super) key: Key,
    pub(super) total: usize,
    pub(super) capacity: usize,
}
