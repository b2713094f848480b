//! Bytes of payload in the lines of a fastbox or baton.

/// Payload in bytes of a message that takes one line.
pub const SHORT_MAX: usize = 48;

/// Payload in bytes of each further line of a longer message.
pub const MORE_PER_LINE: usize = 56;
