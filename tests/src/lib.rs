//! What the scenarios share.
