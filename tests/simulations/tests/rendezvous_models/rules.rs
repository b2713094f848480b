//! Tests that each rule is needed: without it, some program on some network fails.

use strait_core::rndv::Rules;

use crate::checker::{BOUND, DATA, END, RESUME, USE, WASTE, breaks};
use crate::program::{OpenedAhead, Scope};
use crate::state::Ruled;
use crate::{Small, Tiny};

/// Defines a test that the rules of `$base` without one rule break `property` in some program of
/// `scope`.
macro_rules! without {
    (
        $(#[doc = $doc:literal])*
        $name:ident, $base:ty { $($rule:ident: $type:ty = $value:expr)? }
        $($duty:ident: $duty_value:expr)?, $scope:expr => $property:expr
    ) => {
        $(#[doc = $doc])*
        #[test]
        fn $name() {
            #[derive(Clone, Debug, Eq, Hash, PartialEq)]
            struct Without;

            impl Rules for Without {
                const RTRS: u32 = <$base>::RTRS;
                const RECORDS: usize = <$base>::RECORDS;
                const SAMPLES: u32 = <$base>::SAMPLES;
                const PAUSE_MIN: u32 = <$base>::PAUSE_MIN;
                const PAUSE_MAX: u32 = <$base>::PAUSE_MAX;
                $(const $rule: $type = $value;)?
            }

            impl Ruled for Without {
                $(const $duty: bool = $duty_value;)?
            }

            breaks::<Without>(stringify!($name), &$scope, $property);
        }
    };
}

without! {
    /// An RTR of a message that left by RTS is used for the next message.
    in_order, Small { IN_ORDER: bool = false }, Scope::one_envelope().of(3, 2) => DATA
}
without! {
    /// The next receive requests the message that has used an RTR already, so its RTR is never
    /// used.
    acknowledged, Small { ACKNOWLEDGED: bool = false }, Scope::one_envelope().of(3, 2) => USE
}
without! {
    /// A message is written to a receive while an older message without RTR takes that receive.
    no_rtr_past_none, Small { NO_RTR_PAST_NONE: bool = false },
    Scope::one_envelope().of(3, 2) => DATA
}
without! {
    /// A message is written to a receive while an older receive with a wildcard takes its place.
    no_rtr_past_wildcard, Small { NO_RTR_PAST_WILDCARD: bool = false },
    Scope::wildcards().of(2, 2) => DATA
}
without! {
    /// An eager message took the receive with the RTR that the next message uses.
    eager_flag, Small { EAGER_FLAG: bool = false }, Scope::one_envelope().of(3, 2) => DATA
}
without! {
    /// Two eager messages took the receives, and only one turn was skipped.
    skipped, Small { SKIPPED: u32 = 1 }, Scope::one_envelope().of(3, 2) => DATA
}
without! {
    /// A sender that said stop-RTR gets RTRs.
    stop_rtr, Small { STOP_RTR: bool = false }, Scope::one_envelope().of(3, 2) => BOUND
}
without! {
    /// A receiver never sends an RTR again once an eager message has arrived.
    resume_rtr, Small { RESUME_RTR: bool = false }, Scope::one_envelope().of(2, 3) => RESUME
}
without! {
    /// A receiver never sends an RTR again once too few of its RTRs were used.
    resume_rtr_adaptive, Small { RESUME_RTR: bool = false },
    Scope::large().of(6, 6).adaptive() => RESUME
}
without! {
    /// RTRs that always arrive too late are sent for ever.
    adaptation, Small { ADAPTATION: bool = false }, Scope::large().of(5, 5).adaptive() => WASTE
}
without! {
    /// RTRs that were all used are stopped.
    threshold, Small { USAGE_MIN: u32 = 101 }, Scope::large().of(5, 5).adaptive() => WASTE
}
without! {
    /// A sender that stopped RTRs for want of use gets RTRs.
    stop_rtr_adaptive, Small { STOP_RTR: bool = false }, Scope::large().of(6, 6).adaptive() => BOUND
}
without! {
    /// Every receive that an eager message takes has sent an RTR.
    misprediction, Tiny { MISPREDICTION: bool = false }, Scope::one_envelope().of(3, 2) => BOUND
}
without! {
    /// A receiver sends more RTRs than the sender skips turns.
    bounded, Tiny { BOUNDED: bool = false }, Scope::one_envelope().of(3, 2) => BOUND
}
without! {
    /// A record that was discarded and created again uses an RTR from before.
    counts_on, Tiny { COUNTS_ON: bool = false }, Scope::two_tags().of(3, 3) => DATA
}
without! {
    /// A record that was created after an eager message uses an RTR that was sent for an earlier
    /// message.
    counts_on_ahead, Small { COUNTS_ON: bool = false },
    Scope::one_envelope().of(3, 3).ahead(OpenedAhead::Receiver) => DATA
}
without! {
    /// A message is written into the buffer of a cancelled receive.
    retraction, Small { RETRACTION: bool = false }, Scope::cancelled().of(2, 2) => DATA
}
without! {
    /// The RTR of a cancelled receive is kept.
    retraction_alone, Small { RETRACTION: bool = false }, Scope::cancelled().of(0, 2) => END
}
without! {
    /// A cancel waits for ever.
    answers, Small {} ANSWERS: false, Scope::cancelled().of(0, 1) => END
}
without! {
    /// The receives behind a cancelled one get other messages than they have requested.
    takes_back_younger, Small {} TAKES_BACK_YOUNGER: false, Scope::cancelled().of(3, 3) => DATA
}
without! {
    /// A receive is cancelled while its message is under way.
    answers_in_order, Small {} ANSWERS_IN_ORDER: false, Scope::cancelled().of(2, 2) => DATA
}
without! {
    /// A program that posts and cancels sends RTRs without end.
    stops_after_cancel, Tiny {} STOPS_AFTER_CANCEL: false, Scope::cancelled().of(2, 2) => BOUND
}
