//! One state of the model: the ranks, the packets between them, and what the ranks have done.

use core::fmt::Debug;
use core::hash::Hash;
use std::collections::VecDeque;
use std::sync::Arc;

use strait::SystemMemory;
use strait_core::matching::Envelope;
use strait_core::rndv::{RtrSender, Rules, Turn};

use crate::judging::Judged;
use crate::program::{Network, OpenedAhead, Program, envelope};
use crate::receiving::Receiving;
use crate::replayed::{Machine, Replayed};
use crate::sending::{RECEIVER, key};

/// Rules of a model: those of the state machines, and the duties of their embedder.
pub(crate) trait Ruled: Rules + Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// On a node the cancellation of a receive also retracts younger RTRs.
    const TAKES_BACK_YOUNGER: bool = true;
    /// Between nodes a retraction is answered.
    const ANSWERS: bool = true;
    /// Between nodes the answer to a retraction keeps the order of the messages.
    const ANSWERS_IN_ORDER: bool = true;
    /// A receiver that has cancelled a receive with an RTR sends no RTR before the next turn.
    const STOPS_AFTER_CANCEL: bool = true;
}

/// A message: its sender and its number among the messages of that sender.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Message {
    pub(crate) sender: u32,
    pub(crate) number: usize,
    pub(crate) tag: u32,
}

impl Message {
    pub(crate) const fn envelope(&self) -> Envelope {
        envelope(self.sender, self.tag)
    }

    /// Returns the name of the message in the queue of unexpected messages.
    pub(crate) const fn name(&self) -> u32 {
        (self.sender << 16) + self.number as u32
    }
}

/// The form in which a message arrives.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Body {
    Eager,
    Rts(Option<Turn>),
    /// The data lie where the RTR of this receive requested them.
    RtrAck(Turn, usize),
}

/// A packet from a sender to the receiver.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Packet {
    Message(Message, Body),
    /// The answer to [`Word::Retract`].
    Retracted,
}

/// A word from the receiver to a sender.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Word {
    Rtr {
        tag: u32,
        turn: Turn,
        receive: usize,
    },
    Retract {
        tag: u32,
        turn: Turn,
    },
    /// The message with this number has been read.
    Done(usize),
}

/// The word of an RTR between ranks of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Claim {
    Open,
    Taken,
    Retracted,
}

/// A rank that sends.
#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct Sending<R: Ruled> {
    pub(crate) machine: Arc<Replayed<RtrSender<usize, SystemMemory, R>>>,
    /// Number of sends that have begun.
    pub(crate) begun: usize,
    /// Announced messages that have not been read yet.
    pub(crate) announced: Vec<usize>,
    /// On a node: whether an eager message left since the last look, the number of that look, and
    /// of the last look that found one.
    pub(crate) marked: bool,
    pub(crate) looks: u64,
    pub(crate) found: u64,
    /// Statistics on the RTRs of each tag.
    pub(crate) judged: [Judged; 2],
    /// Packets to the receiver.
    pub(crate) out: VecDeque<Packet>,
    /// Words from the receiver.
    pub(crate) incoming: VecDeque<Word>,
}

/// A receive.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Receive {
    /// The turn that its RTR requested.
    pub(crate) asked: Option<Turn>,
    pub(crate) is_posted: bool,
    /// The message that it matched.
    pub(crate) met: Option<Message>,
    /// The message with the data that were written into its buffer.
    pub(crate) written: Option<Message>,
    /// Whether its RTR has arrived.
    pub(crate) heard: bool,
    /// The word of its RTR on a node.
    pub(crate) claim: Claim,
}

/// A broken rule.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Broken {
    /// A message matched another receive than MPI-4.1 §3.5 prescribes.
    Order,
    /// Data were written into the buffer of a receive that did not get the message.
    Data,
    /// A receiver sent more RTRs than it may, or one to a sender that had said stop-RTR.
    Bound,
    /// An RTR arrived before its message and was not used, in a program where nothing prevents its
    /// use.
    Use,
    /// After a message with a turn a receive sent no RTR, though nothing prevents it; or no message
    /// had a turn for longer than a pause.
    Resume,
    /// More RTRs were wasted than the adaptation allows, or it stopped RTRs that were all used.
    Waste,
}

/// A state.
#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State<R: Ruled> {
    pub(crate) program: Arc<Program>,
    pub(crate) senders: Vec<Sending<R>>,
    pub(crate) receiving: Receiving<R>,
    pub(crate) receives: Vec<Receive>,
    pub(crate) broken: Option<Broken>,
}

/// An action that may happen next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// A sender begins its next send.
    Send(usize),
    /// A sender takes the next word of the receiver.
    Hear(usize),
    /// The receiver takes the next packet of a sender.
    Deliver(usize),
    /// The receiver takes the next step of its program.
    Step,
    /// The receiver, which cancels, retracts the next RTR.
    Retract,
}

impl<T: Copy + Debug + Send + Sync, R: Ruled> Machine for RtrSender<T, SystemMemory, R> {
    fn fresh() -> Self {
        Self::new(SystemMemory)
    }
}

impl<R: Ruled> State<R> {
    /// Returns the initial state of a program.
    pub(crate) fn new(program: &Arc<Program>) -> Self {
        let sender = Sending {
            machine: Arc::new(Replayed::new()),
            begun: 0,
            announced: Vec::new(),
            marked: false,
            looks: 0,
            found: 0,
            judged: [Judged::default(), Judged::default()],
            out: VecDeque::new(),
            incoming: VecDeque::new(),
        };
        let mut state = Self {
            program: program.clone(),
            senders: vec![sender; program.sends.len()],
            receiving: Receiving::new(),
            receives: Vec::new(),
            broken: None,
        };
        state.open_ahead();
        for _ in 0..program.opened {
            state.open();
        }
        state
    }

    /// Creates the records that the ranks have before the first message.
    fn open_ahead(&mut self) {
        let program = self.program.clone();
        for (sender, tag) in program.envelopes() {
            if program.ahead == OpenedAhead::Both {
                let machine = Arc::make_mut(&mut self.senders[sender as usize].machine);
                machine.call(move |machine| machine.open_ahead(RECEIVER, key(tag)));
            }
            if program.ahead != OpenedAhead::Neither {
                self.receiving.open_ahead(sender, tag);
            }
        }
    }

    /// Posts the next receive, together with the message that it matches.
    fn open(&mut self) {
        let sender = self.pattern_of(self.receiving.steps).source as usize;
        for action in
            [Action::Step, Action::Send(sender), Action::Deliver(sender), Action::Hear(sender)]
        {
            self.act(action);
        }
        assert!(self.receives.iter().all(|receive| receive.met.is_some()));
    }

    /// Returns all actions that may happen. A state with a broken rule is the last.
    pub(crate) fn actions(&self) -> Vec<Action> {
        if self.broken.is_some() {
            return Vec::new();
        }
        let mut actions = Vec::new();
        // A rank that retracts RTRs on a node is inside a call.
        let busy = !self.receiving.retracting.is_empty();
        for (number, sender) in self.senders.iter().enumerate() {
            if sender.begun < self.program.sends[number].len() {
                actions.push(Action::Send(number));
            }
            if !sender.incoming.is_empty() {
                actions.push(Action::Hear(number));
            }
            if !sender.out.is_empty() && !busy {
                actions.push(Action::Deliver(number));
            }
        }
        if busy {
            actions.push(Action::Retract);
        } else if self.receiving.steps < self.program.steps.len()
            && self.receiving.cancelling.is_none()
        {
            actions.push(Action::Step);
        }
        actions
    }

    /// Performs one action.
    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Send(sender) => self.send(sender),
            Action::Hear(sender) => self.hear(sender),
            Action::Deliver(sender) => self.deliver(sender),
            Action::Step => self.step(),
            Action::Retract => self.retract(),
        }
    }

    /// Records `otherwise` as broken unless `holds` is true.
    pub(crate) fn require(&mut self, holds: bool, otherwise: Broken) {
        if !holds {
            self.broken.get_or_insert(otherwise);
        }
    }

    pub(crate) fn is_on_node(&self) -> bool {
        self.program.network == Network::Words
    }
}
