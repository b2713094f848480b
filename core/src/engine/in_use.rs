//! Counts of what an engine has under way. All are zero when nothing is.

/// Counts of what operations and messages hold, for a search for leaks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InUse {
    /// Operations without an outcome, or with an outcome that was not asked for yet.
    pub requests: usize,
    /// Messages, or announcements of messages, that have not been received.
    pub unexpected: usize,
    /// Large messages under way, and receives that have pulled or asked for their messages.
    pub transfers: usize,
    /// Descriptors of this rank that a message uses.
    pub descriptors: usize,
    /// Cells of this rank that it does not have.
    pub cells: usize,
}
