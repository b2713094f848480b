//! Explanations for the user, on standard error.

/// Says whether Strait or the host carries messages, and why, if `STRAIT_MPI_VERBOSE` is set.
pub(crate) fn explain(what: impl FnOnce() -> String) {
    if strait::env::MPI_VERBOSE.is_set() {
        eprintln!("strait: {}", what());
    }
}
