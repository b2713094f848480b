//! What the ranks do: all programs of a certain size.

use strait_core::matching::{ANY_SOURCE, ANY_TAG, Envelope, Pattern};

/// The context of all messages.
pub(crate) const CONTEXT: u32 = 1;

/// How packets travel, and who decides what becomes of a cancelled receive.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Network {
    /// Between nodes: a stream each way; the sender answers a retraction in the stream of its messages.
    Streams,
    /// On one node: each RTR has a word that its sender takes or its receiver takes back.
    Words,
}

/// How a message goes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Way {
    /// At once: a short message, or one of any length in ready mode.
    Eager,
    /// By rendezvous: a long message, or one of any length in synchronous mode.
    Rendezvous,
    /// By rendezvous, without speculation.
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
    /// A receive, into a buffer that is larger than eager messages or not.
    Receive { pattern: Pattern, large: bool },
    /// The cancellation of the receive with this number.
    Cancel(usize),
}

/// What every rank does, in order.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Program {
    pub(crate) network: Network,
    /// The sends of each sender.
    pub(crate) sends: Vec<Vec<Send>>,
    pub(crate) steps: Vec<Step>,
    /// So many of the steps are over when the model begins: a receive each, with one message of its sender.
    pub(crate) opened: usize,
}

impl Program {
    /// True when every message goes by rendezvous, every receive may ask for it, and there are records for all: then every RTR
    /// that comes in time is used.
    pub(crate) fn is_steady(&self, records: usize) -> bool {
        let may_ask = |step: &Step| {
            matches!(step, Step::Receive { pattern, large: true }
                if pattern.source != ANY_SOURCE && pattern.tag != ANY_TAG)
        };
        let mut sends = self.sends.iter().flatten();
        let tags = 1 + sends.clone().map(|send| send.tag as usize).max().unwrap_or(0);
        sends.all(|send| send.way == Way::Rendezvous)
            && self.steps.iter().all(may_ask)
            && self.sends.len() * tags <= records
    }
}

/// All programs of a shape.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Envelopes of which both sides have seen one message, as (sender, tag).
    pub(crate) opened: Vec<(u32, u32)>,
    /// What is sent by each sender: so many of these.
    pub(crate) sends: Vec<(usize, Vec<Send>)>,
    /// What is received: so many of these.
    pub(crate) receives: (usize, Vec<Step>),
    /// Whether one of the receives is cancelled, at some time after it was posted.
    pub(crate) cancels: bool,
}

impl Scope {
    /// One sender, one tag, `count` sends and receives of all kinds.
    pub(crate) fn one_envelope(count: usize) -> Self {
        let ways = [Way::Rendezvous, Way::Eager, Way::Plain];
        Self {
            opened: vec![(0, 0)],
            sends: vec![(count, ways.map(|way| Send { way, tag: 0 }).to_vec())],
            receives: (
                count,
                vec![receive(0, 0), Step::Receive { pattern: exact(0, 0), large: false }],
            ),
            cancels: false,
        }
    }

    /// As it is, from a time when nobody has spoken.
    pub(crate) fn unopened(self) -> Self {
        Self { opened: Vec::new(), ..self }
    }

    /// One sender, two tags, receives of any tag or source among the others.
    pub(crate) fn wildcards(count: usize) -> Self {
        let sends = [(Way::Rendezvous, 0), (Way::Rendezvous, 1), (Way::Eager, 0)];
        let receives =
            vec![receive(0, 0), receive(0, 1), receive(0, ANY_TAG), receive(ANY_SOURCE, 0)];
        Self {
            opened: vec![(0, 0), (0, 1)],
            sends: vec![(count, sends.map(|(way, tag)| Send { way, tag }).to_vec())],
            receives: (count, receives),
            cancels: false,
        }
    }

    /// Two senders, one tag, receives of each and of any.
    pub(crate) fn two_senders(each: usize, receives: usize) -> Self {
        let ways = [Way::Rendezvous, Way::Eager].map(|way| Send { way, tag: 0 });
        let steps = [0, 1, ANY_SOURCE].map(|source| receive(source, 0));
        Self {
            opened: vec![(0, 0), (1, 0)],
            sends: vec![(each, ways.to_vec()); 2],
            receives: (receives, steps.to_vec()),
            cancels: false,
        }
    }

    /// One sender, one tag, and one of the receives is cancelled.
    pub(crate) fn cancelled(sends: usize, receives: usize) -> Self {
        let ways = [Way::Rendezvous, Way::Eager].map(|way| Send { way, tag: 0 });
        Self {
            opened: vec![(0, 0)],
            sends: vec![(sends, ways.to_vec())],
            receives: (receives, vec![receive(0, 0)]),
            cancels: true,
        }
    }

    /// One sender, large messages of two tags.
    pub(crate) fn two_tags(count: usize) -> Self {
        let tags = [0, 1].map(|tag| Send { way: Way::Rendezvous, tag });
        Self {
            opened: vec![(0, 0)],
            sends: vec![(count, tags.to_vec())],
            receives: (count, vec![receive(0, 0), receive(0, 1)]),
            cancels: false,
        }
    }

    /// Every program, on both networks.
    pub(crate) fn programs(&self) -> Vec<Program> {
        let opening = |sender: usize| {
            let of_sender = self.opened.iter().filter(move |(rank, _)| *rank as usize == sender);
            of_sender.map(|&(_, tag)| Send { way: Way::Rendezvous, tag })
        };
        let mut all_sends = vec![Vec::new()];
        for (sender, (count, alphabet)) in self.sends.iter().enumerate() {
            let words = words(*count, alphabet);
            let whole = words.iter().map(|word| opening(sender).chain(word.iter().copied()));
            let whole: Vec<Vec<Send>> = whole.map(Iterator::collect).collect();
            all_sends = pairs(&all_sends, &whole, |sends: &Vec<Vec<Send>>, more| {
                sends.iter().chain([more]).cloned().collect()
            });
        }
        let networks = [Network::Streams, Network::Words];
        let opened: Vec<Step> =
            self.opened.iter().map(|&(source, tag)| receive(source, tag)).collect();
        let steps = self.steps().into_iter().map(|steps| [&opened[..], &steps].concat());
        let steps: Vec<Vec<Step>> = steps.collect();
        let programs = pairs(&all_sends, &steps, |sends, steps| (sends.clone(), steps.clone()));
        pairs(&programs, &networks, |(sends, steps), network| Program {
            network: *network,
            sends: sends.clone(),
            steps: steps.clone(),
            opened: opened.len(),
        })
    }

    fn steps(&self) -> Vec<Vec<Step>> {
        let (count, alphabet) = &self.receives;
        let plain = words(*count, alphabet);
        if !self.cancels {
            return plain;
        }
        let places = (0..*count).flat_map(|which| (which + 1..=*count).map(move |at| (which, at)));
        let places: Vec<(usize, usize)> = places.collect();
        pairs(&plain, &places, |steps, (which, at)| {
            let mut steps = steps.clone();
            steps.insert(*at, Step::Cancel(self.opened.len() + which));
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

/// A receive into a large buffer.
const fn receive(source: u32, tag: u32) -> Step {
    Step::Receive { pattern: exact(source, tag), large: true }
}

/// All words of `length` letters.
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
