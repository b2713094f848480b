//! One node: its links, and what it has still to send and receive.

use std::collections::VecDeque;

use crate::Step;
use crate::driver::DrivenNode;
use crate::links::NodeLinks;

/// What a node sends and receives before it goes on: peers, and bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) sends: Vec<(u32, usize)>,
    pub(crate) receives: Vec<(u32, usize)>,
}

/// A message under way: the bytes that are done.
struct Moving {
    peer: u32,
    bytes: Vec<u8>,
    done: usize,
}

/// A node without an engine: each message is bytes in the stream of a link.
pub(super) struct Node {
    links: NodeLinks,
    rounds: VecDeque<Round>,
    sends: Vec<Moving>,
    receives: Vec<Moving>,
    sent: u64,
}

impl DrivenNode for Node {
    fn links(&mut self) -> &mut NodeLinks {
        &mut self.links
    }

    fn turn(&mut self) -> Step {
        let mut moved = self.links.poll();
        moved |= self.links.connect();
        if self.sends.is_empty() && self.receives.is_empty() {
            let Some(round) = self.rounds.pop_front() else { return Step::Finished };
            self.begin(round);
            moved = true;
        }
        moved |= self.push() | self.pull();
        if moved { Step::Moved } else { Step::Waits }
    }
}

impl Node {
    pub(super) fn new(links: NodeLinks, rounds: Vec<Round>) -> Self {
        let (sends, receives) = (Vec::new(), Vec::new());
        Self { links, rounds: rounds.into(), sends, receives, sent: 0 }
    }

    /// Returns the number of links.
    pub(super) fn links(&self) -> usize {
        self.links.count()
    }

    /// Returns the number of messages sent so far, calls and answers included.
    pub(super) const fn messages(&self) -> u64 {
        self.sent + self.links.called()
    }

    fn begin(&mut self, round: Round) {
        for (peer, length) in round.sends {
            self.links.meet(peer);
            self.sent += 1;
            let bytes = vec![self.links.rank() as u8; length];
            self.sends.push(Moving { peer, bytes, done: 0 });
        }
        let receive = |(peer, length)| Moving { peer, bytes: vec![!0; length], done: 0 };
        self.receives.extend(round.receives.into_iter().map(receive));
    }

    fn push(&mut self) -> bool {
        let (links, mut moved) = (&mut self.links, false);
        self.sends.retain_mut(|Moving { peer, bytes, done }| {
            let Some((side, device)) = links.ready(*peer) else { return true };
            let (some, is_over) =
                advance(done, bytes.len(), |done| side.put(device, &bytes[done..]));
            // A peer's device may read a large message until the link is drained.
            let is_over = is_over && side.link.drain(device).expect("the link works");
            moved |= some | is_over;
            !is_over
        });
        moved
    }

    fn pull(&mut self) -> bool {
        let (links, mut moved) = (&mut self.links, false);
        self.receives.retain_mut(|Moving { peer, bytes, done }| {
            let Some((side, device)) = links.ready(*peer) else { return true };
            let length = bytes.len();
            let (some, is_over) =
                advance(done, length, |done| side.get(device, &mut bytes[done..]));
            assert!(!is_over || bytes.iter().all(|byte| *byte == *peer as u8), "damaged bytes");
            moved |= some;
            !is_over
        });
        moved
    }
}

/// Moves the rest of a message. Returns whether bytes moved, and whether it is complete.
fn advance(done: &mut usize, length: usize, go_on: impl FnOnce(usize) -> usize) -> (bool, bool) {
    let bytes = if *done < length { go_on(*done) } else { 0 };
    *done += bytes;
    (bytes > 0, *done == length)
}
