//! Large messages on their way in.

use crate::buffer::copy::Stores;
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
    /// The stores of its chunks in the copy ring, once there was one.
    pub(super) stores: Option<Stores>,
    pub(super) capacity: usize,
}
