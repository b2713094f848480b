//! Statistics on the RTRs of an envelope, counted outside the state machines: how many the
//! adaptation may waste, and which it may not stop.

use strait_core::rndv::{Rules, Turn};

use crate::state::{Body, Broken, Message, Ruled, State};

/// The RTRs of one tag that arrived at a sender since its last stop-RTR.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Judged {
    /// Turns with a message that has not left.
    open: Vec<u32>,
    used: u32,
    wasted: u32,
    /// Number of consecutive rendezvous messages without a turn.
    silent: u32,
    /// Number of messages that had a turn after those.
    pub(crate) resumed: u32,
}

impl Judged {
    /// Records that an RTR has arrived. An RTR that arrives in a pause was sent before it.
    pub(crate) fn heard(&mut self, turn: Turn) {
        if self.silent == 0 {
            self.open.push(Turn::word(Some(turn)));
        }
    }

    /// Records how a rendezvous message leaves. Returns the rule that the adaptation breaks, if
    /// any.
    fn left<R: Rules>(&mut self, body: Body) -> Option<Broken> {
        match body {
            Body::RtrAck(turn, _) => {
                self.used += 1;
                self.open.retain(|open| *open != Turn::word(Some(turn)));
                None
            }
            Body::Rts(Some(turn)) => {
                self.resumed += u32::from(self.silent > 0);
                self.silent = 0;
                let before = self.open.len();
                self.open.retain(|open| *open > Turn::word(Some(turn)));
                self.wasted += (before - self.open.len()) as u32;
                // The RTRs judged earlier were used enough, and those not yet judged are few.
                let spare = 100_u32.saturating_sub(R::USAGE_MIN);
                let unjudged = self.wasted.saturating_sub(R::SAMPLES * spare / 100);
                let enough = unjudged * R::USAGE_MIN <= self.used * spare;
                (!enough).then_some(Broken::Waste)
            }
            Body::Rts(None) => {
                let stops = self.silent == 0;
                let needless = stops && self.wasted == 0 && self.open.is_empty();
                let silent = self.silent + 1;
                *self = Self { silent, resumed: self.resumed, ..Self::default() };
                let too_long = (silent > R::PAUSE_MAX).then_some(Broken::Resume);
                if needless { Some(Broken::Waste) } else { too_long }
            }
            Body::Eager => None,
        }
    }
}

impl<R: Ruled> State<R> {
    /// Judges how a rendezvous message leaves.
    pub(crate) fn judge(&mut self, Message { sender, tag, .. }: Message, body: Body) {
        if !self.program.is_judged(R::RECORDS) {
            return;
        }
        let judged = &mut self.senders[sender as usize].judged[tag as usize];
        if let Some(broken) = judged.left::<R>(body) {
            self.require(false, broken);
        }
    }

    /// Returns whether a sender said stop-RTR and then resume-RTR.
    pub(crate) fn has_resumed(&self) -> bool {
        self.senders.iter().flat_map(|sender| &sender.judged).any(|judged| judged.resumed > 0)
    }
}
