//! The profile of a run (`[SpecRndv09]` §3.6, static adaptation): how many RTRs of each envelope
//! were used. A later run of the same program reads it and decides before its first message.

use core::fmt;

use super::USAGE_MIN;
use super::recent::Recent;
use crate::memory::{Memory, OutOfMemory, OwnedSlice};
use crate::wire::Key;

/// Number of envelopes that a rank records on each side, a power of two.
const RECORDED: usize = 4096;

/// The side of an envelope on which a rank is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum EnvelopeSide {
    /// The rank sends the messages, and the peer's RTRs arrive.
    Sender,
    /// The rank receives the messages, and sends the RTRs.
    Receiver,
}

impl EnvelopeSide {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Sender, Self::Receiver];

    /// Returns the name in a profile.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

/// The use of the RTRs of one envelope in one run.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct EnvelopeProfile {
    /// The side on which the rank was.
    pub side: EnvelopeSide,
    /// The rank on the other side.
    pub peer: u32,
    /// The context of the messages.
    pub context: u32,
    /// The tag of the messages.
    pub tag: u32,
    /// Number of RTRs.
    pub rtrs: u64,
    /// Number of messages that used one.
    pub used: u64,
}

impl EnvelopeProfile {
    /// Returns true if at least [`USAGE_MIN`] percent of the RTRs were used.
    ///
    /// ```
    /// use strait_core::rndv::{EnvelopeProfile, EnvelopeSide};
    ///
    /// let side = EnvelopeSide::Sender;
    /// let profile = EnvelopeProfile { side, peer: 1, context: 0, tag: 7, rtrs: 10, used: 8 };
    /// assert!(profile.speculates());
    /// assert!(!EnvelopeProfile { used: 7, ..profile }.speculates());
    /// ```
    #[must_use]
    pub const fn speculates(&self) -> bool {
        let enough = self.rtrs as u128 * USAGE_MIN as u128;
        self.rtrs > 0 && self.used as u128 * 100 >= enough
    }

    pub(crate) const fn key(&self) -> Key {
        Key::new(self.context, self.tag)
    }
}

/// Counts of the RTRs of one envelope.
#[derive(Clone, Copy, Debug, Default)]
struct RtrCounts {
    rtrs: u64,
    used: u64,
}

/// The RTRs of each envelope so far, for the profile of this run. The least recently used envelopes
/// are forgotten beyond 4096 on each side, or without memory.
pub struct ProfileRecorder<M: Memory> {
    sender: Recent<RtrCounts, M>,
    receiver: Recent<RtrCounts, M>,
}

impl<M: Memory + Clone> ProfileRecorder<M> {
    /// Creates a recorder that has seen no RTR.
    #[must_use]
    pub fn new(memory: &M) -> Self {
        let table = || Recent::new(memory.clone(), RECORDED);
        Self { sender: table(), receiver: table() }
    }

    /// Counts an RTR that arrived from `peer`, or left for it.
    pub fn rtr(&mut self, side: EnvelopeSide, peer: u32, key: Key) {
        self.count(side, peer, key, |counts| counts.rtrs += 1);
    }

    /// Counts a message that used an RTR.
    pub fn used(&mut self, side: EnvelopeSide, peer: u32, key: Key) {
        self.count(side, peer, key, |counts| counts.used += 1);
    }

    /// Takes back the last count of a used RTR.
    pub fn unused(&mut self, side: EnvelopeSide, peer: u32, key: Key) {
        self.count(side, peer, key, |counts| counts.used = counts.used.saturating_sub(1));
    }

    /// Returns the profile of each envelope with RTRs, in no order.
    pub fn envelopes(&self) -> impl Iterator<Item = EnvelopeProfile> {
        let sides =
            [(EnvelopeSide::Sender, &self.sender), (EnvelopeSide::Receiver, &self.receiver)];
        sides.into_iter().flat_map(|(side, table)| {
            let with_rtrs = table.iter().filter(|(_, _, counts)| counts.rtrs > 0);
            with_rtrs.map(move |(peer, key, &RtrCounts { rtrs, used })| EnvelopeProfile {
                side,
                peer,
                context: key.context(),
                tag: key.tag(),
                rtrs,
                // Counts of RTRs are lost when their envelope is forgotten before its message.
                used: used.min(rtrs),
            })
        })
    }

    fn count(
        &mut self,
        side: EnvelopeSide,
        peer: u32,
        key: Key,
        count: impl FnOnce(&mut RtrCounts),
    ) {
        let table = match side {
            EnvelopeSide::Sender => &mut self.sender,
            EnvelopeSide::Receiver => &mut self.receiver,
        };
        if table.get(peer, key).is_none() && table.insert(peer, key, RtrCounts::default()).is_err()
        {
            return;
        }
        table.touch(peer, key);
        if let Some(counts) = table.get_mut(peer, key) {
            count(counts);
        }
    }
}

impl<M: Memory> fmt::Debug for ProfileRecorder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, receiver } = self;
        f.debug_struct("ProfileRecorder")
            .field("sender", sender)
            .field("receiver", receiver)
            .finish()
    }
}

/// The envelopes of a rank's messages for which the profile of an earlier run forbids RTRs.
pub struct PlainEnvelopes<M: Memory> {
    /// Peers and keys, in ascending order.
    sorted: OwnedSlice<(u32, u64), M>,
}

impl<M: Memory> PlainEnvelopes<M> {
    /// Creates an empty set.
    #[must_use]
    pub const fn new(memory: M) -> Self {
        Self { sorted: OwnedSlice::new(memory) }
    }

    /// Replaces the set by the envelopes in `profile` of which too few RTRs were used.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: the set is unchanged.
    pub fn replace(&mut self, profile: &[EnvelopeProfile]) -> Result<(), OutOfMemory> {
        let is_plain = |it: &&EnvelopeProfile| it.side == EnvelopeSide::Sender && !it.speculates();
        let plain = || profile.iter().filter(is_plain);
        self.sorted.replace(plain().count(), (0, 0), |_, places| {
            for (place, envelope) in places.iter_mut().zip(plain()) {
                *place = (envelope.peer, envelope.key().0);
            }
            places.sort_unstable();
        })
    }

    /// Returns true if the profile forbids RTRs for messages to `peer` with this key.
    #[must_use]
    pub fn contains(&self, peer: u32, key: Key) -> bool {
        self.sorted.binary_search(&(peer, key.0)).is_ok()
    }
}

impl<M: Memory> fmt::Debug for PlainEnvelopes<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.sorted.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::memory::counted::Counted;

    const KEY: Key = Key::new(3, 7);

    const fn of(peer: u32, rtrs: u64, used: u64) -> EnvelopeProfile {
        EnvelopeProfile { side: EnvelopeSide::Sender, peer, context: 3, tag: 7, rtrs, used }
    }

    #[test]
    fn the_recorder_counts_each_side_of_an_envelope_alone() {
        Counted::lend(|memory| {
            let mut recorder = ProfileRecorder::new(&memory);
            for _ in 0..3 {
                recorder.rtr(EnvelopeSide::Sender, 1, KEY);
                recorder.used(EnvelopeSide::Sender, 1, KEY);
            }
            recorder.unused(EnvelopeSide::Sender, 1, KEY);
            recorder.rtr(EnvelopeSide::Receiver, 1, KEY);
            let mut envelopes: Vec<_> = recorder.envelopes().collect();
            envelopes.sort_unstable();
            let receiver = EnvelopeProfile { side: EnvelopeSide::Receiver, ..of(1, 1, 0) };
            assert_eq!(envelopes, [of(1, 3, 2), receiver]);
        });
    }

    #[test]
    fn an_envelope_speculates_if_the_papers_share_of_its_rtrs_was_used() {
        for (rtrs, used, speculates) in
            [(0, 0, false), (1, 1, true), (5, 4, true), (5, 3, false), (u64::MAX, u64::MAX, true)]
        {
            assert_eq!(of(0, rtrs, used).speculates(), speculates, "{used} of {rtrs}");
        }
    }

    #[test]
    fn the_plain_envelopes_are_those_that_send_and_waste_rtrs() {
        Counted::lend(|memory| {
            let mut plain = PlainEnvelopes::new(memory);
            let receiver = EnvelopeProfile { side: EnvelopeSide::Receiver, ..of(4, 5, 0) };
            plain.replace(&[of(9, 5, 0), of(2, 5, 5), receiver, of(1, 4, 3)]).unwrap();
            let found = [1, 2, 4, 9].map(|peer| plain.contains(peer, KEY));
            assert_eq!(found, [true, false, false, true]);
            assert!(!plain.contains(9, Key::new(3, 8)));
            plain.replace(&[]).unwrap();
            assert!(!plain.contains(9, KEY));
        });
    }
}
