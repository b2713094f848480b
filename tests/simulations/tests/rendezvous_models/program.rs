//! The programs of the ranks: all programs of a certain size.

use strait_core::matching::{ANY_SOURCE, ANY_TAG, Envelope, Pattern};
use strait_core::rndv::Rendezvous;

/// The context of all messages.
pub(crate) const CONTEXT: u32 = 1;

/// How packets travel, and which side decides the fate of a cancelled receive.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Network {
    /// Between nodes: a stream in each direction. The sender answers a retraction in the stream of
    /// its messages.
    Streams,
    /// On one node: each RTR has a word that either its sender takes or its receiver retracts.
    Words,
}

/// The protocol of a message.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Way {
    /// Sent at once: a short message, or one of any length in ready mode.
    Eager,
    /// Sent by the rendezvous that the program chooses: a long message, or one of any length in
    /// synchronous mode.
    Rendezvous,
    /// Sent by rendezvous, without speculation.
    Plain,
}

/// A send of one rank.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Send {
    pub(crate) way: Way,
    pub(crate) tag: u32,
}

/// A step of the rank that receives.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Step {
    /// A receive. `large`: its buffer is larger than eager messages.
    Receive { pattern: Pattern, large: bool },
    /// The cancellation of the receive with this number.
    Cancel(usize),
}

/// The sides that create the records of all envelopes before the first message, by the profile of
/// an earlier run.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum OpenedAhead {
    Neither,
    Receiver,
    Both,
}

/// The operations of every rank, in order.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Program {
    pub(crate) network: Network,
    /// How rendezvous messages are negotiated.
    pub(crate) choice: Rendezvous,
    /// The sends of each sender.
    pub(crate) sends: Vec<Vec<Send>>,
    pub(crate) steps: Vec<Step>,
    /// Number of steps that are over when the model begins: each is a receive with one message of
    /// its sender.
    pub(crate) opened: usize,
    pub(crate) ahead: OpenedAhead,
}

impl Program {
    /// Returns true if every message goes by rendezvous, every receive may send an RTR, and there
    /// are records for all. Then every RTR that arrives in time is used.
    pub(crate) fn is_steady(&self, records: usize) -> bool {
        let may_ask = |step: &Step| {
            matches!(step, Step::Receive { pattern, large: true }
                if pattern.source != ANY_SOURCE && pattern.tag != ANY_TAG)
        };
        let mut sends = self.sends.iter().flatten();
        self.choice == Rendezvous::Speculative
            && sends.all(|send| send.way == Way::Rendezvous)
            && self.steps.iter().all(may_ask)
            && self.ahead != OpenedAhead::Receiver
            && self.has_records(records)
    }

    /// Returns true if the fate of the RTRs is counted.
    pub(crate) fn is_judged(&self, records: usize) -> bool {
        self.choice == Rendezvous::Adaptive && self.has_records(records)
    }

    /// Returns true if this number of records is enough for all envelopes.
    pub(crate) fn has_records(&self, records: usize) -> bool {
        self.envelopes().count() <= records
    }

    /// Returns the sender and the tag of each envelope.
    pub(crate) fn envelopes(&self) -> impl Iterator<Item = (u32, u32)> {
        let tags = self.sends.iter().flatten().map(|send| 1 + send.tag).max().unwrap_or(1);
        (0..self.sends.len() as u32).flat_map(move |sender| (0..tags).map(move |tag| (sender, tag)))
    }
}

/// All programs of a shape.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Envelopes of which both sides have seen one message, as (sender, tag).
    opened: Vec<(u32, u32)>,
    senders: usize,
    /// Number of sends of each sender, and their alphabet.
    sends: (usize, Vec<Send>),
    /// Number of steps of the receiver, and their alphabet.
    receives: (usize, Vec<Step>),
    /// Whether one of the receives is cancelled, at some time after it was posted.
    cancels: bool,
    choice: Rendezvous,
    ahead: OpenedAhead,
}

impl Scope {
    fn new(opened: &[(u32, u32)], sends: &[(Way, u32)], receives: &[Step]) -> Self {
        let sends = sends.iter().map(|&(way, tag)| Send { way, tag }).collect();
        let (opened, receives) = (opened.to_vec(), (0, receives.to_vec()));
        let choice = Rendezvous::Speculative;
        Self {
            opened,
            senders: 1,
            sends: (0, sends),
            receives,
            cancels: false,
            choice,
            ahead: OpenedAhead::Neither,
        }
    }

    /// Returns messages and receives of all kinds.
    pub(crate) fn one_envelope() -> Self {
        let small = Step::Receive { pattern: exact(0, 0), large: false };
        let sends = [(Way::Rendezvous, 0), (Way::Eager, 0), (Way::Plain, 0)];
        Self::new(&[(0, 0)], &sends, &[receive(0, 0), small])
    }

    /// Returns two tags, and receives of any tag or source among the others.
    pub(crate) fn wildcards() -> Self {
        let sends = [(Way::Rendezvous, 0), (Way::Rendezvous, 1), (Way::Eager, 0)];
        let any = [receive(0, ANY_TAG), receive(ANY_SOURCE, 0)];
        let receives = [&[receive(0, 0), receive(0, 1)], &any[..]].concat();
        Self::new(&[(0, 0), (0, 1)], &sends, &receives)
    }

    /// Returns receives of each sender and of any.
    pub(crate) fn two_senders() -> Self {
        let receives = [0, 1, ANY_SOURCE].map(|source| receive(source, 0));
        let opened = [(0, 0), (1, 0)];
        let sends = [(Way::Rendezvous, 0), (Way::Eager, 0)];
        Self { senders: 2, ..Self::new(&opened, &sends, &receives) }
    }

    /// Returns programs in which one of the receives is cancelled.
    pub(crate) fn cancelled() -> Self {
        let sends = [(Way::Rendezvous, 0), (Way::Eager, 0)];
        Self { cancels: true, ..Self::new(&[(0, 0)], &sends, &[receive(0, 0)]) }
    }

    /// Returns large messages of two tags.
    pub(crate) fn two_tags() -> Self {
        let sends = [0, 1].map(|tag| (Way::Rendezvous, tag));
        Self::new(&[(0, 0)], &sends, &[receive(0, 0), receive(0, 1)])
    }

    /// Returns large messages with eager ones among them.
    pub(crate) fn mispredicted() -> Self {
        Self { cancels: false, ..Self::cancelled() }
    }

    /// Returns large messages alone.
    pub(crate) fn large() -> Self {
        Self::new(&[(0, 0)], &[(Way::Rendezvous, 0)], &[receive(0, 0)])
    }

    /// Makes the rendezvous adaptive. Otherwise RTRs are sent without regard to their use.
    pub(crate) fn adaptive(self) -> Self {
        Self { choice: Rendezvous::Adaptive, ..self }
    }

    /// Sets the number of sends of each sender and of receives, after those that open envelopes.
    pub(crate) fn of(self, sends: usize, receives: usize) -> Self {
        Self { sends: (sends, self.sends.1), receives: (receives, self.receives.1), ..self }
    }

    /// Adds `more` sends and receives.
    pub(crate) fn and(self, more: usize) -> Self {
        let (sends, receives) = (self.sends.0 + more, self.receives.0 + more);
        self.of(sends, receives)
    }

    /// Starts from a state in which no rank has sent anything.
    pub(crate) fn unopened(self) -> Self {
        Self { opened: Vec::new(), ..self }
    }

    /// Starts from a state in which no rank has sent anything, and these sides have opened all
    /// envelopes ahead.
    pub(crate) fn ahead(self, ahead: OpenedAhead) -> Self {
        Self { ahead, ..self.unopened() }
    }

    /// Returns every program, on both networks.
    pub(crate) fn programs(&self) -> Vec<Program> {
        let all_sends = (0..self.senders).fold(vec![Vec::new()], |all, sender| {
            pairs(&all, &self.sends_of(sender), |sends: &Vec<Vec<Send>>, more| {
                sends.iter().chain([more]).cloned().collect()
            })
        });
        let actions =
            pairs(&all_sends, &self.steps(), |sends, steps| (sends.clone(), steps.clone()));
        pairs(&actions, &[Network::Streams, Network::Words], |(sends, steps), network| Program {
            network: *network,
            choice: self.choice,
            sends: sends.clone(),
            steps: steps.clone(),
            opened: self.opened.len(),
            ahead: self.ahead,
        })
    }

    fn sends_of(&self, sender: usize) -> Vec<Vec<Send>> {
        let opened = self.opened.iter().filter(|(rank, _)| *rank as usize == sender);
        let opened = opened.map(|&(_, tag)| Send { way: Way::Rendezvous, tag });
        let opened: Vec<Send> = opened.collect();
        let (count, alphabet) = &self.sends;
        words(*count, alphabet).iter().map(|word| [&opened[..], word].concat()).collect()
    }

    fn steps(&self) -> Vec<Vec<Step>> {
        let opened = self.opened.iter().map(|&(source, tag)| receive(source, tag));
        let opened: Vec<Step> = opened.collect();
        let (count, alphabet) = &self.receives;
        let steps = words(*count, alphabet);
        let steps: Vec<Vec<Step>> = steps.iter().map(|word| [&opened[..], word].concat()).collect();
        if !self.cancels {
            return steps;
        }
        let all = opened.len()..opened.len() + count;
        let cancels = all.clone().flat_map(|receive| {
            (receive + 1..all.end + 1).map(move |place| (place, Step::Cancel(receive)))
        });
        pairs(&steps, &cancels.collect::<Vec<_>>(), |steps, &(place, cancel)| {
            let mut steps = steps.clone();
            steps.insert(place, cancel);
            steps
        })
    }
}

pub(crate) const fn envelope(source: u32, tag: u32) -> Envelope {
    Envelope { context: CONTEXT, source, tag }
}

const fn exact(source: u32, tag: u32) -> Pattern {
    Pattern { context: CONTEXT, source, tag }
}

/// Returns a receive into a large buffer.
const fn receive(source: u32, tag: u32) -> Step {
    Step::Receive { pattern: exact(source, tag), large: true }
}

/// Returns all words of `length` letters.
fn words<T: Copy>(length: usize, alphabet: &[T]) -> Vec<Vec<T>> {
    (0..length).fold(vec![Vec::new()], |words, _| {
        pairs(&words, alphabet, |word: &Vec<T>, letter| [&word[..], &[*letter]].concat())
    })
}

fn pairs<A, B, C>(some: &[A], others: &[B], pair: impl Fn(&A, &B) -> C) -> Vec<C> {
    some.iter()
        .flat_map(|one| others.iter().map(|other| pair(one, other)).collect::<Vec<C>>())
        .collect()
}
