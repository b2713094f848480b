//! One target's lock, and the members that request it: the state machines of the library, with
//! words and messages between them, one step at a time. A simulation draws the member with the next
//! step, or a model checker explores all of them.
//!
//! A step is one access to a word, one message, or one wait that can end. A member that waits takes
//! no step until the awaited word has changed. If no member can step although a member waits, a
//! wake-up was lost.

mod member;
mod standstill;
mod target;

use strait_core::lock::{
    FixedMode, Follow, History, Hysteresis, LockMode, LockType, MeasuredCost, Policy,
};

pub use member::Member;
pub use target::Target;

/// The lock design.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Design {
    /// A lock manager.
    Managed,
    /// Test-and-set.
    TestAndSet,
    /// A queue; whether its word can be swapped.
    Queue(bool),
    /// Two words, with the policy that moves the lock.
    Hybrid(Moves),
}

/// A policy, as a value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Moves {
    /// [`Follow`].
    Always(Follow),
    /// [`Hysteresis`].
    Sometimes(Hysteresis),
    /// [`History`].
    Recently(History),
    /// [`MeasuredCost`].
    Worthwhile(MeasuredCost),
    /// [`FixedMode`].
    Never(FixedMode),
}

impl Policy for Moves {
    fn preset(&self) -> LockMode {
        match self {
            Self::Always(policy) => policy.preset(),
            Self::Sometimes(policy) => policy.preset(),
            Self::Recently(policy) => policy.preset(),
            Self::Worthwhile(policy) => policy.preset(),
            Self::Never(policy) => policy.preset(),
        }
    }

    fn migrates(&mut self, from: LockMode) -> bool {
        match self {
            Self::Always(policy) => policy.migrates(from),
            Self::Sometimes(policy) => policy.migrates(from),
            Self::Recently(policy) => policy.migrates(from),
            Self::Worthwhile(policy) => policy.migrates(from),
            Self::Never(policy) => policy.migrates(from),
        }
    }

    fn suits(&mut self, mode: LockMode) {
        if let Self::Recently(policy) = self {
            policy.suits(mode);
        }
    }
}

/// The next event.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Action {
    /// A member takes a step.
    Step(u32),
    /// The manager receives the oldest message of a member.
    Deliver(u32),
    /// The manager takes a step.
    Manage,
    /// The manager learns that a member has died.
    Learn(u32),
    /// A member dies.
    Kill(u32),
}

/// The whole state.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Play {
    /// The members; the first is the target.
    pub members: Vec<Member>,
    /// The words and the manager.
    pub target: Target,
    /// Number of members that may still die.
    pub deaths: u32,
    /// The rule that was broken, if any.
    pub broken: Option<&'static str>,
    alone: u32,
    sharers: u32,
    /// The largest number of members that shared the lock at once.
    pub most: u32,
}

impl Play {
    /// Creates members that acquire the lock as in their programs, one time after the other. The
    /// first `on_node` are on the target's node. Up to `deaths` members other than the target may
    /// die.
    #[must_use]
    pub fn new(design: Design, programs: &[&[LockType]], on_node: u32, deaths: u32) -> Self {
        let members = programs.iter().map(|program| Member::new(program.to_vec())).collect();
        let target = Target::new(design, programs.len() as u32, on_node);
        Self { members, target, deaths, broken: None, alone: 0, sharers: 0, most: 0 }
    }

    /// Returns whether this event can happen.
    #[must_use]
    pub fn can(&self, action: Action) -> bool {
        match action {
            Action::Step(place) => self.members[place as usize].can_step(place, &self.target),
            Action::Deliver(origin) => self.target.has_message(origin),
            Action::Manage => self.target.can_manage(),
            Action::Learn(place) => self.target.can_learn(place),
            Action::Kill(place) => self.deaths > 0 && place > 0 && !self.target.is_gone(place),
        }
    }

    /// Returns the events that can happen.
    #[must_use]
    pub fn actions(&self) -> Vec<Action> {
        if self.broken.is_some() {
            return Vec::new();
        }
        let places = 0..self.members.len() as u32;
        let of_places = places.flat_map(|place| {
            [Action::Step, Action::Deliver, Action::Learn, Action::Kill].map(|kind| kind(place))
        });
        of_places.chain([Action::Manage]).filter(|action| self.can(*action)).collect()
    }

    /// Performs an event.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Step(place) => self.on_member(place, |it, target| it.step(place, target)),
            Action::Deliver(origin) => self.target.deliver(origin),
            Action::Manage => self.target.manage(),
            Action::Learn(place) => self.target.learn(place),
            Action::Kill(place) => {
                self.deaths -= 1;
                self.target.kill(place);
                self.on_member(place, |it, _| it.die());
            }
        }
        self.judge();
    }

    /// Lets a member act, and counts the holders of the lock.
    fn on_member(&mut self, place: u32, act: impl FnOnce(&mut Member, &mut Target)) {
        let member = &mut self.members[place as usize];
        let before = member.holds();
        act(member, &mut self.target);
        for (held, more) in [(before, u32::MAX), (member.holds(), 1)] {
            match held {
                Some(LockType::Exclusive) => self.alone = self.alone.wrapping_add(more),
                Some(LockType::Shared) => self.sharers = self.sharers.wrapping_add(more),
                None => {}
            }
        }
    }

    /// Checks that the present holders may hold the lock together.
    fn judge(&mut self) {
        if self.alone > 1 || self.alone == 1 && self.sharers > 0 {
            self.broken = Some("two members hold the lock that exclude each other");
        }
        if self.target.is_confused() {
            self.broken = Some("the manager got an invalid request");
        }
        self.most = self.most.max(self.sharers);
    }

    /// Returns whether all living members have held the lock as often as they wanted. After a
    /// death, some may have learned of it instead.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let anybody_died = (0..self.members.len() as u32).any(|place| self.target.is_gone(place));
        self.members.iter().all(|member| member.is_over(anybody_died))
    }
}
