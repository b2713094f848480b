//! The state of a request, as completion functions see it.

/// The state of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RequestView {
    /// There is no such request.
    Nothing,
    /// A persistent request that was not started.
    Inactive,
    Pending,
    Over,
}

impl RequestView {
    /// Returns the state of a request after its operation has begun.
    pub(crate) const fn of(is_over: bool) -> Self {
        if is_over { Self::Over } else { Self::Pending }
    }
}
