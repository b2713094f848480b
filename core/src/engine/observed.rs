//! The place where a rank writes for observers.

/// The place where a rank writes for observers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed {
    /// The clock of events; `None` while events are not recorded.
    pub(super) clock: Option<fn() -> u64>,
}

impl Observed {
    pub(super) const fn nothing() -> Self {
        Self { clock: None }
    }
}
