//! The static part of the adaptation (`[SpecRndv09]` §3.6): whether a rank speculates.

/// The negotiation of large messages. Ranks may differ: a receiver sends an RTR only to a sender
/// that accepts RTRs.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Rendezvous {
    /// The sender announces messages; no RTR is requested or sent.
    Plain,
    /// A receive that is posted before its message sends an RTR, regardless of how many RTRs are
    /// used.
    Speculative,
    /// Speculation, but only for envelopes with mostly used RTRs.
    #[default]
    Adaptive,
}

impl Rendezvous {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Speculative, Self::Adaptive];

    /// Returns the name of the setting.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Speculative => "speculative",
            Self::Adaptive => "adaptive",
        }
    }
}
