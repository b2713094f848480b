//! Preparation and opening of the locks of a window.

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use strait_core::hca::Atomics;
use strait_core::lock::{Coding, LockMode, LockState, LockWords};
use strait_core::rma::{WindowBlock, WindowNumber};
use strait_platform::Rank;

use super::standing::LockStanding;
use super::state::{LockCounts, LockMethod, LockTarget, Passive};
use crate::progress::windows::ServedWindow;
use crate::progress::windows::lock_manager::{TwoWords, WindowLockManager};
use crate::progress::windows::lock_managers::WindowLockManagers;
use crate::window::options::WindowOptions;
use crate::window::part::WindowPart;
use crate::window::part_descriptor::{ATOMICS, COHERENT, PartDescriptor};
use crate::{Error, Group, LockDesign, LockPolicy, WindowError, World};

/// The choices of a member for its locks, before it knows those of the others.
#[derive(Clone, Copy, Debug)]
pub(in crate::window) struct Opening {
    options: WindowOptions,
    design: LockDesign,
    policy: LockPolicy,
    has_atomics: bool,
    is_coherent: bool,
    lock_manager: u64,
}

impl Opening {
    /// Prepares the locks of this member.
    pub(in crate::window) fn new(
        world: &World,
        options: WindowOptions,
        spans: bool,
        by_messages: bool,
    ) -> Result<Self, Error> {
        let atomics = atomics_of(world);
        let is_coherent = spans && !by_messages && atomics == Some(Atomics::Coherent);
        let has_atomics = !spans || atomics.is_some_and(|atomics| atomics != Atomics::None);
        let has_atomics = has_atomics && !by_messages;
        let lock_manager = world.with_lock_managers(WindowLockManagers::next_number);
        let (design, policy) = (options.lock_design()?, options.lock_policy()?);
        Ok(Self { options, design, policy, has_atomics, is_coherent, lock_manager })
    }

    /// Returns the words for the part descriptor: design and atomics, and the number of the lock
    /// manager.
    pub(in crate::window) fn words(&self) -> [u64; 2] {
        let design = LockDesign::ALL.iter().position(|design| *design == self.design);
        let atomics = if self.has_atomics { ATOMICS } else { 0 };
        let coherent = if self.is_coherent { COHERENT } else { 0 };
        [design.unwrap_or(0) as u64 | atomics | coherent, self.lock_manager]
    }

    /// Presets the words of this member's lock. This has no effect where they are not used.
    pub(in crate::window) fn preset(&self, words: &LockWords, size: u32, spans: bool) {
        if self.design != LockDesign::Hybrid || !spans {
            return;
        }
        let network = Coding::Ranks { size };
        let (cpu, network) = match self.policy.policy().preset() {
            LockMode::Cpu => (LockState::Free, network.word(LockState::Elsewhere(0))),
            LockMode::Network => (LockState::Elsewhere(0), network.word(LockState::Free)),
        };
        words.at(LockWords::CPU).preset(Coding::Signed.word(cpu));
        words.at(LockWords::NETWORK).preset(network);
    }

    /// Closes the lock manager again.
    pub(in crate::window) fn close(self, world: &World) {
        world.close_lock_manager(self.lock_manager);
    }

    /// Returns an error for the first member that asks for another design than the first member
    /// does.
    pub(in crate::window) fn disagreement(
        descriptors: &[PartDescriptor],
        ranks: &[Rank],
    ) -> Option<WindowError> {
        let design = |descriptor: &PartDescriptor| descriptor.lock & !(ATOMICS | COHERENT);
        let designs = descriptors.iter().map(design);
        let first = descriptors.first().map(design);
        let (_, rank) = designs.zip(ranks).find(|(design, _)| Some(*design) != first)?;
        Some(WindowError::LockDesign { rank: *rank })
    }

    /// Opens the locks of the window when all members have agreed.
    pub(in crate::window) fn open(
        self,
        group: &Group<'_>,
        descriptors: &[PartDescriptor],
        parts: &[WindowPart],
        block: &WindowBlock,
        spans: bool,
    ) -> Result<Passive, Error> {
        let world = group.world();
        let asked = self.design;
        let design = match asked {
            design if PartDescriptor::have_atomics(descriptors) || design.is_managed() => design,
            _ => LockDesign::TwoSided,
        };
        let way = match design {
            LockDesign::TwoSided
            | LockDesign::Thread
            | LockDesign::Event
            | LockDesign::ThreadPerWindow => LockMethod::Managers,
            LockDesign::TestAndSet | LockDesign::Hybrid
                if spans && PartDescriptor::are_coherent(descriptors) =>
            {
                LockMethod::Coherent
            }
            LockDesign::TestAndSet if spans => LockMethod::Network,
            LockDesign::Mcs if spans => LockMethod::Queue(LockMode::Network),
            LockDesign::Hybrid if spans => LockMethod::Hybrid,
            LockDesign::Mcs => LockMethod::Queue(LockMode::Cpu),
            LockDesign::TestAndSet | LockDesign::Hybrid => LockMethod::Cpu,
        };
        match design {
            LockDesign::Thread => world.engine().start_polling_thread()?,
            LockDesign::Event => world.engine().start_thread()?,
            _ => {}
        }
        let has_lock_manager = matches!(way, LockMethod::Managers | LockMethod::Hybrid);
        if has_lock_manager {
            let own = &parts[group.place() as usize];
            let hybrid = own.remote.as_ref().filter(|_| way == LockMethod::Hybrid).map(|remote| {
                let words = WindowBlock::locks_offset(parts.len() as u32) + LockWords::NETWORK;
                let network = (remote.lane, remote.block.after(words));
                TwoWords::new(block.locks(), network, self.policy.policy())
            });
            let shown = hybrid.is_none().then(|| block.locks());
            let lock_managers = descriptors.iter().map(|descriptor| descriptor.manager).collect();
            let lock_manager = WindowLockManager::new(
                self.lock_manager,
                group.ranks(),
                group.place(),
                lock_managers,
                hybrid,
                shown,
            );
            world.with_lock_managers(|lock_managers| lock_managers.open(lock_manager));
        }
        // The short way through a lock records no events.
        let is_short = !world.lock_progress().records_events();
        let target = |part: &WindowPart| LockTarget {
            standing: Cell::new(LockStanding::None),
            cpu: part
                .block
                .filter(|_| is_short && way.has_word_for_processors())
                .map(|block| NonNull::from(block.locks().at(way.word_for_processors()))),
            share: part.block.filter(|_| is_short && way == LockMethod::Cpu).map(|block| {
                NonNull::from(block.locks().at(LockWords::share_offset(group.place())))
            }),
        };
        Ok(Passive {
            asked,
            design,
            way,
            targets: parts.iter().map(target).collect(),
            pursuits: RefCell::default(),
            all: Cell::new(false),
            policy: RefCell::new(self.policy.policy()),
            backoff: self.options.backoff,
            manager: has_lock_manager.then_some(self.lock_manager),
            counts: LockCounts::default(),
        })
    }
}

impl Passive {
    /// Starts the window's own thread, if its design has one. `baseline` is the window's number
    /// among those that use messages.
    pub(in crate::window) fn start_thread(
        &self,
        world: &World,
        baseline: Option<WindowNumber>,
    ) -> Result<(), Error> {
        match (self.design, self.manager) {
            (LockDesign::ThreadPerWindow, Some(lock_manager)) => {
                world.engine().start_window_thread(ServedWindow { lock_manager, baseline })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the atomics of the device between nodes, if there is one.
fn atomics_of(world: &World) -> Option<Atomics> {
    let atomics = world.with_network(|network| network.atomics());
    #[cfg(test)]
    let atomics = super::tests::CLAIMED_ATOMICS.get().or(atomics);
    atomics
}
