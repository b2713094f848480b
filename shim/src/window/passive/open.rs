//! The locks of a window that is being made.

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use strait_core::hca::Atomics;
use strait_core::lock::{Coding, Mode, State, Words};
use strait_core::rma::Block;

use super::desk::{Desk, TwoWords};
use super::{Counts, LockDesign, Passive, Standing, Target, Way, WindowOptions};
use crate::window::WindowError;
use crate::window::card::Card;
use crate::window::part::Part;
use crate::{Error, Group, Rank, World};

/// Marks a member whose device has atomics, or that needs none.
const ATOMICS: u64 = 1 << 8;

/// What a member says of its locks, before it knows what the others say.
#[derive(Clone, Copy, Debug)]
pub(in crate::window) struct Opening {
    options: WindowOptions,
    design: LockDesign,
    has_atomics: bool,
    desk: u64,
}

impl Opening {
    /// This member's, whose words are made ready.
    pub(in crate::window) fn new(
        world: &World,
        options: WindowOptions,
        spans: bool,
        by_messages: bool,
    ) -> Result<Self, Error> {
        let atomics = world.with_network(|network| network.atomics());
        let has_atomics = !spans || atomics.is_some_and(|atomics| atomics != Atomics::None);
        let has_atomics = has_atomics && !by_messages;
        let desk = world.with_desks(super::Desks::next_number);
        Ok(Self { options, design: options.lock_design()?, has_atomics, desk })
    }

    /// For the card: design and atomics, desk.
    pub(in crate::window) fn words(&self) -> [u64; 2] {
        let design = LockDesign::ALL.iter().position(|design| *design == self.design);
        let atomics = if self.has_atomics { ATOMICS } else { 0 };
        [design.unwrap_or(0) as u64 | atomics, self.desk]
    }

    /// Presets the words of this member's lock. It has no effect where they are not used.
    pub(in crate::window) fn preset(&self, words: &Words, size: u32, spans: bool) {
        if self.design != LockDesign::Hybrid || !spans {
            return;
        }
        let network = Coding::Ranks { size };
        let (cpu, network) = match self.options.policy.policy().preset() {
            Mode::Cpu => (State::Free, network.word(State::Elsewhere(0))),
            Mode::Network => (State::Elsewhere(0), network.word(State::Free)),
        };
        words.at(Words::CPU).preset(Coding::Signed.word(cpu));
        words.at(Words::NETWORK).preset(network);
    }

    /// Takes back what was opened.
    pub(in crate::window) fn close(self, world: &World) {
        world.with_desks(|desks| desks.close(self.desk));
    }

    /// The first member that asks for another design than the first does.
    pub(in crate::window) fn disagreement(cards: &[Card], ranks: &[Rank]) -> Option<WindowError> {
        let designs = cards.iter().map(|card| card.lock & !ATOMICS);
        let first = cards.first().map(|card| card.lock & !ATOMICS);
        let (_, rank) = designs.zip(ranks).find(|(design, _)| Some(*design) != first)?;
        Some(WindowError::LockDesign { rank: *rank })
    }

    /// Whether every member's device has atomics, or none is needed.
    pub(in crate::window) fn have_atomics(cards: &[Card]) -> bool {
        cards.iter().all(|card| card.lock & ATOMICS != 0)
    }

    /// What the window has when all have agreed.
    pub(in crate::window) fn open(
        self,
        group: &Group<'_>,
        cards: &[Card],
        parts: &[Part],
        block: &Block,
        spans: bool,
    ) -> Result<Passive, Error> {
        let world = group.world();
        let asked = self.design;
        let design = match asked {
            design if Self::have_atomics(cards) || design.is_managed() => design,
            _ => LockDesign::TwoSided,
        };
        let way = match design {
            LockDesign::TwoSided | LockDesign::Thread | LockDesign::Event => Way::Managers,
            LockDesign::TestAndSet if spans => Way::Network,
            LockDesign::Mcs if spans => Way::Queue(Mode::Network),
            LockDesign::Hybrid if spans => Way::Hybrid,
            LockDesign::Mcs => Way::Queue(Mode::Cpu),
            LockDesign::TestAndSet | LockDesign::Hybrid => Way::Cpu,
        };
        match design {
            LockDesign::Thread => world.start_polling_thread()?,
            LockDesign::Event => world.start_thread()?,
            _ => {}
        }
        let has_desk = matches!(way, Way::Managers | Way::Hybrid);
        if has_desk {
            let own = &parts[group.place() as usize];
            let hybrid = own.far.as_ref().filter(|_| way == Way::Hybrid).map(|far| {
                let words = Block::locks_offset(parts.len() as u32) + Words::NETWORK;
                let network = (far.lane, far.block.after(words));
                TwoWords::new(block.locks(), network, self.options.policy.policy())
            });
            let desks = cards.iter().map(|card| card.desk).collect();
            let desk = Desk::new(self.desk, group.ranks(), group.place(), desks, hybrid);
            world.with_desks(|desks| desks.open(desk));
        }
        let target = |part: &Part| Target {
            standing: Cell::new(Standing::None),
            cpu: part
                .block
                .filter(|_| matches!(way, Way::Cpu | Way::Hybrid))
                .map(|block| NonNull::from(block.locks().at(Words::CPU))),
        };
        Ok(Passive {
            asked,
            design,
            way,
            targets: parts.iter().map(target).collect(),
            pursuits: RefCell::default(),
            all: Cell::new(false),
            policy: RefCell::new(self.options.policy.policy()),
            backoff: self.options.backoff,
            desk: has_desk.then_some(self.desk),
            counts: Counts::default(),
        })
    }
}
