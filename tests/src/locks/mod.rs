//! One target's lock, and the members that want it: the machines that ship, and words and messages between them, one step at a
//! time. Who steps next is drawn by a simulation, or explored by a model checker.
//!
//! A step is one access to a word, one message, or one wait that can end. A member that waits takes no step until what it waits for
//! has changed, so where nobody can step although somebody waits, a wake-up was lost.

mod member;
mod standstill;
mod target;

use strait_core::lock::{Follow, Hysteresis, LockType, Mode, Pinned, Policy};

pub use member::Member;
pub use target::Target;

/// How the lock is made.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Design {
    /// By its manager.
    Managed,
    /// By test-and-set.
    TestAndSet,
    /// By a queue; whether its word can be swapped.
    Queue(bool),
    /// At two words, when this moves it.
    Hybrid(Moves),
}

/// A policy, as a value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Moves {
    /// [`Follow`].
    Always(Follow),
    /// [`Hysteresis`].
    Sometimes(Hysteresis),
    /// [`Pinned`].
    Never(Pinned),
}

impl Policy for Moves {
    fn preset(&self) -> Mode {
        match self {
            Self::Always(policy) => policy.preset(),
            Self::Sometimes(policy) => policy.preset(),
            Self::Never(policy) => policy.preset(),
        }
    }

    fn migrates(&mut self, from: Mode) -> bool {
        match self {
            Self::Always(policy) => policy.migrates(from),
            Self::Sometimes(policy) => policy.migrates(from),
            Self::Never(policy) => policy.migrates(from),
        }
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Action {
    /// A member steps.
    Step(u32),
    /// The manager takes in the oldest message of a member.
    Deliver(u32),
    /// The manager works.
    Manage,
    /// The manager learns that a member has died.
    Learn(u32),
    /// A member dies.
    Kill(u32),
}

/// All of it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Play {
    /// The members; the first is the target.
    pub members: Vec<Member>,
    /// Words and manager.
    pub target: Target,
    /// Members that may still die.
    pub deaths: u32,
    /// What must never be, and was.
    pub broken: Option<&'static str>,
    alone: u32,
    sharers: u32,
    /// Most that ever shared the lock at once.
    pub most: u32,
}

impl Play {
    /// The members want the lock as their programs say, one time after the other. The first `on_node` are on the target's node;
    /// `deaths` of the others than the target may die.
    #[must_use]
    pub fn new(design: Design, programs: &[&[LockType]], on_node: u32, deaths: u32) -> Self {
        let members = programs.iter().map(|program| Member::new(program.to_vec())).collect();
        let target = Target::new(design, programs.len() as u32, on_node);
        Self { members, target, deaths, broken: None, alone: 0, sharers: 0, most: 0 }
    }

    /// Whether this can happen.
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

    /// What can happen.
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

    /// Lets it happen.
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

    /// Has a member do something, and counts who has the lock.
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

    /// Who has the lock now may have it together.
    fn judge(&mut self) {
        if self.alone > 1 || self.alone == 1 && self.sharers > 0 {
            self.broken = Some("two that exclude each other have the lock");
        }
        if self.target.is_confused() {
            self.broken = Some("the manager is asked what it cannot be asked");
        }
        self.most = self.most.max(self.sharers);
    }

    /// Whether all that live have had the lock as often as they wanted it. With a death, some may have been told of it instead.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let anybody_died = (0..self.members.len() as u32).any(|place| self.target.is_gone(place));
        self.members.iter().all(|member| member.is_over(anybody_died))
    }
}
