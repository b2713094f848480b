//! The owners of the device's connections.

use strait_core::hca::Connection;
use strait_platform::Rank;

use super::window_tables::{LaneId, MailboxId};

/// The owner of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum ConnectionOwner {
    /// The current link to this peer.
    Line(Rank),
    /// A link to a peer that has left.
    Parted,
    Lane(LaneId),
    Mailboxes(MailboxId),
}

/// The owners of connections, by connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionOwners(Vec<Option<ConnectionOwner>>);

impl ConnectionOwners {
    /// Returns the owner of a connection, if it has one.
    #[inline]
    pub(super) fn of(&self, Connection(connection): Connection) -> Option<ConnectionOwner> {
        self.0.get(connection as usize).copied().flatten()
    }

    /// Records the owner of a connection.
    pub(super) fn set(&mut self, Connection(connection): Connection, owner: ConnectionOwner) {
        let connection = connection as usize;
        self.0.resize(self.0.len().max(connection + 1), None);
        self.0[connection] = Some(owner);
    }

    /// Records that a connection has no owner any more.
    pub(super) fn clear(&mut self, Connection(connection): Connection) {
        if let Some(owner) = self.0.get_mut(connection as usize) {
            *owner = None;
        }
    }
}
