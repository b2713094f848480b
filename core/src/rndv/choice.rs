//! Whether a rank speculates: the static part of the adaptation (`[SpecRndv09]` §3.6).

/// How large messages are negotiated. Ranks need not agree: an RTR is sent only where the sender of the messages takes them.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Rendezvous {
    /// The sender announces; no RTR is asked for or sent.
    Plain,
    /// A receiver that comes first asks, whatever becomes of its RTRs.
    Speculative,
    /// As `Speculative`, for envelopes whose RTRs are mostly used.
    #[default]
    Adaptive,
}

impl Rendezvous {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Speculative, Self::Adaptive];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Speculative => "speculative",
            Self::Adaptive => "adaptive",
        }
    }
}
