//! The rank that receives, as an engine does it, beside an oracle that searches lists.

use core::fmt::{self, Debug};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use strait::SystemMemory;
use strait_core::matching::{Pattern, PostedQueue, UnexpectedQueue};
use strait_core::rndv::{Rendezvous, RtrReceiver, Turn};

use crate::program::{Step, Way, envelope};
use crate::replayed::{Machine, Replayed};
use crate::sending::key;
use crate::state::{Body, Broken, Claim, Message, Packet, Receive, Ruled, State, Word};

/// The queues of a rank, and its knowledge of future messages.
pub(crate) struct Inbox<R: Ruled> {
    receiver: RtrReceiver<SystemMemory, R>,
    posted: PostedQueue<SystemMemory>,
    unexpected: UnexpectedQueue<SystemMemory>,
}

/// The contents of the queues are also in the oracle's lists. The order of the lists is more
/// precise than that of handles.
impl<R: Ruled> Debug for Inbox<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.receiver.fmt(f)
    }
}

impl<R: Ruled> Machine for Inbox<R> {
    fn fresh() -> Self {
        Self {
            receiver: RtrReceiver::new(SystemMemory),
            posted: PostedQueue::new(SystemMemory),
            unexpected: UnexpectedQueue::new(SystemMemory),
        }
    }
}

/// A rank that receives.
#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct Receiving<R: Ruled> {
    pub(crate) inbox: Arc<Replayed<Inbox<R>>>,
    /// Number of steps taken.
    pub(crate) steps: usize,
    /// The receive that is being cancelled.
    pub(crate) cancelling: Option<usize>,
    /// On a node: the receives with RTRs to be retracted for it, in this order.
    pub(crate) retracting: VecDeque<usize>,
    /// Lists of the oracle: receives in the order in which they were posted, messages in the order
    /// of their arrival.
    pub(crate) waiting: Vec<(usize, Pattern)>,
    pub(crate) arrived: Vec<(Message, Body)>,
    /// Number of RTRs of each envelope that may still be sent before a further turn is known.
    credits: Vec<((u32, u32), u32)>,
    /// Envelopes for which the last message has told which message the next RTR may request.
    informed: BTreeSet<(u32, u32)>,
}

impl<R: Ruled> Receiving<R> {
    pub(crate) fn new() -> Self {
        Self {
            inbox: Arc::new(Replayed::new()),
            steps: 0,
            cancelling: None,
            retracting: VecDeque::new(),
            waiting: Vec::new(),
            arrived: Vec::new(),
            credits: Vec::new(),
            informed: BTreeSet::new(),
        }
    }

    fn call<T>(&mut self, call: impl Fn(&mut Inbox<R>) -> T + Send + Sync + 'static) -> T {
        Arc::make_mut(&mut self.inbox).call(call)
    }

    fn credit(&mut self, sender: u32, tag: u32) -> &mut u32 {
        let of_envelope = |credit: &((u32, u32), u32)| credit.0 == (sender, tag);
        let place = self.credits.iter().position(of_envelope).unwrap_or_else(|| {
            self.credits.push(((sender, tag), 0));
            self.credits.len() - 1
        });
        &mut self.credits[place].1
    }

    /// Creates the record of an envelope before its first message.
    pub(crate) fn open_ahead(&mut self, sender: u32, tag: u32) {
        *self.credit(sender, tag) = R::RTRS;
        self.informed.insert((sender, tag));
        self.call(move |inbox| inbox.receiver.open_ahead(sender, key(tag)));
    }

    /// Learns from a packet which messages RTRs may request.
    fn learn(&mut self, Message { sender, tag, .. }: Message, body: Body) {
        match body {
            Body::Eager => {}
            Body::Rts(turn) => {
                *self.credit(sender, tag) = if turn.is_some() { R::RTRS } else { 0 };
                self.call(move |inbox| inbox.receiver.rts(sender, key(tag), turn));
            }
            Body::RtrAck(turn, _) => {
                *self.credit(sender, tag) = R::RTRS;
                self.call(move |inbox| inbox.receiver.rtr_ack(sender, key(tag), turn));
            }
        }
    }
}

impl<R: Ruled> State<R> {
    /// Delivers the next packet of a sender.
    pub(crate) fn deliver(&mut self, sender: usize) {
        match self.senders[sender].out.pop_front() {
            Some(Packet::Message(message, body)) => self.arrive(message, body),
            Some(Packet::Retracted) => self.answered(),
            None => {}
        }
    }

    fn arrive(&mut self, message: Message, body: Body) {
        self.receiving.learn(message, body);
        self.inform(message, body);
        let (envelope, name) = (message.envelope(), message.name());
        let taken = self.receiving.call(move |inbox| inbox.posted.take(&envelope));
        let taken = taken.map(|receive| receive as usize);
        let waiting = &mut self.receiving.waiting;
        let place = waiting.iter().position(|(_, pattern)| pattern.matches(&envelope));
        let expected = place.map(|place| waiting.remove(place).0);
        self.require(taken == expected, Broken::Order);
        if let Some(receive) = taken {
            return self.meet(receive, message, body);
        }
        // A message that uses an RTR finds its receive.
        self.require(!matches!(body, Body::RtrAck(..)), Broken::Data);
        self.receiving.arrived.push((message, body));
        self.receiving.call(move |inbox| inbox.unexpected.insert(envelope, name).expect("memory"));
    }

    fn meet(&mut self, number: usize, message: Message, body: Body) {
        let receive = &mut self.receives[number];
        receive.is_posted = false;
        receive.met = Some(message);
        let right = match body {
            Body::RtrAck(turn, target) => target == number && receive.asked == Some(turn),
            Body::Rts(_) | Body::Eager => receive.written.is_none(),
        };
        if receive.claim == Claim::Open {
            receive.claim = Claim::Retracted;
        }
        let has_asked = receive.asked.is_some();
        self.require(right, Broken::Data);
        let Message { sender, number, tag } = message;
        if has_asked && matches!(body, Body::Eager | Body::Rts(None)) {
            self.receiving.informed.remove(&(sender, tag));
            self.receiving.call(move |inbox| inbox.receiver.mispredicted(sender, key(tag)));
        }
        if let Body::Rts(_) = body {
            self.senders[sender as usize].incoming.push_back(Word::Done(number));
        }
    }

    /// Takes the next step of the program.
    pub(crate) fn step(&mut self) {
        let step = self.program.steps[self.receiving.steps];
        self.receiving.steps += 1;
        match step {
            Step::Receive { pattern, large } => self.receive(pattern, large),
            Step::Cancel(receive) => self.cancel(receive),
        }
    }

    fn receive(&mut self, pattern: Pattern, large: bool) {
        let number = self.receives.len();
        self.receives.push(Receive {
            asked: None,
            is_posted: false,
            met: None,
            written: None,
            heard: false,
            claim: Claim::Open,
        });
        let found = self.receiving.call(move |inbox| inbox.unexpected.find(&pattern));
        let arrived = &mut self.receiving.arrived;
        let place = arrived.iter().position(|(message, _)| pattern.matches(&message.envelope()));
        let expected = place.map(|place| arrived.remove(place));
        let expected_name = expected.map(|(message, _)| message.name());
        self.require(found.map(|found| found.message) == expected_name, Broken::Order);
        if let (Some(found), Some((message, body))) = (found, expected) {
            self.receiving.call(move |inbox| inbox.unexpected.remove(found.handle));
            return self.meet(number, message, body);
        }
        let asked = |receive: u32| self.receives[receive as usize].asked;
        let Inbox { receiver, posted, .. } = &**self.receiving.inbox;
        let turn = receiver.may_request(&pattern, posted.ahead_of(&pattern).map(asked));
        let turn = turn.filter(|_| large);
        let asks = turn.is_some() || !large || !self.should_ask(&pattern);
        self.receiving.call(move |inbox| {
            inbox.posted.post(pattern, number as u32).expect("memory");
        });
        self.require(asks, Broken::Resume);
        self.receiving.waiting.push((number, pattern));
        self.receives[number].is_posted = true;
        self.receives[number].asked = turn;
        if let Some(turn) = turn {
            self.ask(number, &pattern, turn);
        }
    }

    /// Records what a message implies for future RTRs, independently of its RTS.
    fn inform(&mut self, Message { sender, number, tag }: Message, body: Body) {
        let informed = &mut self.receiving.informed;
        let paused = self.program.choice == Rendezvous::Adaptive && body == Body::Rts(None);
        match self.program.sends[sender as usize][number].way {
            Way::Rendezvous if !paused => drop(informed.insert((sender, tag))),
            Way::Rendezvous | Way::Plain => drop(informed.remove(&(sender, tag))),
            Way::Eager => {}
        }
    }

    /// Returns whether nothing prevents the RTR of a receive without a matching message.
    fn should_ask(&self, pattern: &Pattern) -> bool {
        let Pattern { source, tag, .. } = *pattern;
        let envelope = envelope(source, tag);
        let mut waiting = self.receiving.waiting.iter();
        self.receiving.informed.contains(&(source, tag))
            && self.program.has_records(R::RECORDS)
            && !waiting.any(|(_, other)| other.matches(&envelope))
    }

    fn ask(&mut self, receive: usize, pattern: &Pattern, turn: Turn) {
        let Pattern { source, tag, .. } = *pattern;
        let credit = self.receiving.credit(source, tag);
        let bounded = *credit > 0;
        *credit = credit.saturating_sub(1);
        let posted = self.receiving.inbox.posted.youngest_first(pattern);
        let asking = posted.filter(|(_, other)| self.receives[*other as usize].asked.is_some());
        let few = asking.count() <= R::RTRS as usize;
        self.require(bounded && few, Broken::Bound);
        self.senders[source as usize].incoming.push_back(Word::Rtr { tag, turn, receive });
    }

    /// Cancels a receive without a matching message.
    fn cancel(&mut self, receive: usize) {
        if !self.receives[receive].is_posted {
            return;
        }
        let Some(turn) = self.receives[receive].asked else { return self.withdraw(receive) };
        let pattern = self.pattern_of(receive);
        self.receiving.cancelling = Some(receive);
        if self.is_on_node() {
            let posted = self.receiving.inbox.posted.youngest_first(&pattern);
            let younger = posted.map(|(_, other)| other as usize).take_while(|it| *it != receive);
            let younger = younger.filter(|_| R::TAKES_BACK_YOUNGER);
            let asking = younger.filter(|other| self.receives[*other].asked.is_some());
            self.receiving.retracting = asking.chain([receive]).collect();
        } else {
            let Pattern { source, tag, .. } = pattern;
            self.senders[source as usize].incoming.push_back(Word::Retract { tag, turn });
        }
    }

    /// On a node the receiver retracts one RTR, unless its sender has taken it.
    pub(crate) fn retract(&mut self) {
        let Some(number) = self.receiving.retracting.pop_front() else { return };
        let receive = &mut self.receives[number];
        if receive.claim == Claim::Taken {
            // The sender has taken all older RTRs, so the message of the receive to be cancelled is
            // under way.
            self.receiving.retracting.clear();
            self.receiving.cancelling = None;
            return;
        }
        receive.claim = Claim::Retracted;
        receive.asked = None;
        if self.receiving.retracting.is_empty() {
            self.receiving.cancelling = None;
            self.withdraw(number);
            self.stop_asking(number);
        }
    }

    /// Between nodes the answer has arrived. A message for the receive would have arrived before
    /// it.
    fn answered(&mut self) {
        let Some(number) = self.receiving.cancelling.take() else { return };
        if self.receives[number].is_posted {
            self.withdraw(number);
            self.stop_asking(number);
        }
    }

    /// The cancelled receive had sent an RTR, so turns later than its own are skipped.
    fn stop_asking(&mut self, receive: usize) {
        if R::STOPS_AFTER_CANCEL {
            let Pattern { source, tag, .. } = self.pattern_of(receive);
            self.receiving.informed.remove(&(source, tag));
            self.receiving.call(move |inbox| inbox.receiver.mispredicted(source, key(tag)));
        }
    }

    fn withdraw(&mut self, number: usize) {
        self.receives[number].is_posted = false;
        let mut posted = self.receiving.inbox.posted.patterns();
        let (handle, ..) =
            posted.find(|(.., receive)| *receive as usize == number).expect("it is posted");
        drop(posted);
        self.receiving.call(move |inbox| inbox.posted.cancel(handle));
        self.receiving.waiting.retain(|(receive, _)| *receive != number);
        let untouched = self.receives[number].written.is_none();
        self.require(untouched, Broken::Data);
    }

    /// Returns the pattern of a receive. Only the receive steps of the program count.
    pub(crate) fn pattern_of(&self, receive: usize) -> Pattern {
        let patterns = self.program.steps.iter().filter_map(|step| match step {
            Step::Receive { pattern, .. } => Some(*pattern),
            Step::Cancel(_) => None,
        });
        patterns.clone().nth(receive).expect("the program has this receive")
    }
}
