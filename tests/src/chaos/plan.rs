//! The plan of a job: what its ranks do together, and how they are struck. It is drawn from the
//! seed and is the same in every process.
//!
//! Ranks meet for collective operations and epochs. All meetings have one order. Each rank takes
//! part in its meetings in this order, and between them runs its own operations. None of these
//! operations waits for another rank's program, so a correct job does not get stuck.

use strait::{Accumulates, LockDesign, WindowDesign};

use super::board::WINDOWS;
use super::settings::Settings;
use crate::collectives::{Kind, Operation};

/// An operation that several ranks do together.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    pub(super) number: u64,
    pub(super) what: Together,
}

/// The operation of a meeting.
#[derive(Clone, Copy, Debug)]
pub(super) enum Together {
    /// A collective operation in group number `group`, or of all ranks if there is no such group.
    Collective {
        group: usize,
        operation: Operation,
    },
    Create(usize),
    /// Operations between two fences.
    Fence(usize),
    /// Operations between post, start, complete and wait.
    Epochs(usize),
    /// The end of a window, at which its memory is judged.
    Close(usize),
}

/// The source of a window's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Memory {
    Allocated,
    Private,
    Segment,
    Dynamic,
}

/// A window, before it is made.
#[derive(Clone, Debug)]
pub(super) struct WindowPlan {
    pub(super) members: Vec<u32>,
    pub(super) memory: Memory,
    pub(super) design: Option<WindowDesign>,
    pub(super) lock: Option<LockDesign>,
    pub(super) accumulates: Accumulates,
    /// Bytes that one origin may put to one target.
    pub(super) region: usize,
}

/// An action against a rank.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blow {
    Kill,
    /// The rank is stopped for this number of milliseconds.
    Stop(u64),
    /// The rank dies when it next reaches a step; in builds without steps at once.
    Step(usize),
}

/// The time at which a rank is struck.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) rank: u32,
    /// Number of operations that the rank has begun by then.
    pub(super) at: u64,
    /// Delay after that, in microseconds.
    pub(super) after_us: u64,
    pub(super) blow: Blow,
}

/// Everything that the processes of a job agree on besides the settings.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) groups: Vec<Vec<u32>>,
    pub(super) windows: Vec<WindowPlan>,
    pub(super) meetings: Vec<Meeting>,
    pub(super) events: Vec<Event>,
    /// Whether ranks may be struck until they have ended. If so, the survivors do nothing together
    /// at the end.
    pub(super) is_struck_late: bool,
}

impl Plan {
    pub(super) fn draw(settings: &Settings) -> Self {
        let random = &mut fastrand::Rng::with_seed(settings.seed ^ 0x9e37_79b9);
        let groups: Vec<_> = (0..random.usize(1..=4)).map(|_| members(random, settings)).collect();
        let count = if settings.windows { random.usize(0..=WINDOWS) } else { 0 };
        let windows: Vec<_> = (0..count).map(|_| window(random, settings)).collect();
        let meetings = meetings(random, settings, &groups, &windows);
        let events = events(random, settings, meetings.len() as u64);
        Self { groups, windows, meetings, events, is_struck_late: random.u8(..3) == 0 }
    }

    /// Returns the members of a meeting.
    pub(super) fn members(&self, what: Together, ranks: u32) -> Vec<u32> {
        match what {
            Together::Collective { group, .. } => {
                self.groups.get(group).cloned().unwrap_or_else(|| (0..ranks).collect())
            }
            Together::Create(window)
            | Together::Fence(window)
            | Together::Epochs(window)
            | Together::Close(window) => self.windows[window].members.clone(),
        }
    }
}

/// Draws two or more ranks, in any order.
fn members(random: &mut fastrand::Rng, settings: &Settings) -> Vec<u32> {
    let mut all: Vec<u32> = (0..settings.ranks).collect();
    random.shuffle(&mut all);
    if random.bool() {
        all.truncate(random.usize(2..=settings.ranks as usize));
    }
    all
}

fn window(random: &mut fastrand::Rng, settings: &Settings) -> WindowPlan {
    let memories = [Memory::Allocated, Memory::Private, Memory::Segment, Memory::Dynamic];
    let design = settings.window_designs[random.usize(..settings.window_designs.len())];
    let lock = settings.lock_designs[random.usize(..settings.lock_designs.len())];
    // Where nothing is chosen, the environment variable applies.
    WindowPlan {
        members: members(random, settings),
        memory: memories[random.usize(..4)],
        design: random.bool().then_some(design),
        lock: random.bool().then_some(lock),
        accumulates: if random.bool() { Accumulates::Single } else { Accumulates::Any },
        region: [64, 1024, 10_000, 200_000][random.usize(..4)],
    }
}

/// Draws an operation that does not make groups: a member that has its new group could wait there
/// for one that a death has kept from it.
fn collective(random: &mut fastrand::Rng, settings: &Settings, members: u32) -> Operation {
    let longest = settings.longest.min(300_000);
    loop {
        let mut operation = Operation::draw(random, members, longest / 8);
        let length = settings.length(random, longest) / 8;
        operation.length = length / operation.blocks(members);
        if operation.kind != Kind::Split {
            return operation;
        }
    }
}

fn meetings(
    random: &mut fastrand::Rng,
    settings: &Settings,
    groups: &[Vec<u32>],
    windows: &[WindowPlan],
) -> Vec<Meeting> {
    let mut all: Vec<Together> = (0..random.usize(0..=12))
        .map(|_| {
            let group = random.usize(..=groups.len());
            let members = groups.get(group).map_or(settings.ranks, |group| group.len() as u32);
            Together::Collective { group, operation: collective(random, settings, members) }
        })
        .collect();
    for window in 0..windows.len() {
        let mut life = vec![Together::Create(window)];
        for _ in 0..random.usize(0..=4) {
            let fence = random.bool();
            life.push(if fence { Together::Fence(window) } else { Together::Epochs(window) });
        }
        life.push(Together::Close(window));
        // Inserts these meetings among the others, in their own order.
        let mut at = 0;
        for meeting in life {
            at = random.usize(at..=all.len());
            all.insert(at, meeting);
            at += 1;
        }
    }
    all.into_iter().zip(0..).map(|(what, number)| Meeting { number, what }).collect()
}

fn events(random: &mut fastrand::Rng, settings: &Settings, meetings: u64) -> Vec<Event> {
    // The rank's own operations, the meetings with a few operations each, and some more for the
    // end.
    let last = settings.steps + 4 * meetings + 12;
    let first = u64::from(!settings.early) * 2;
    let mut all: Vec<u32> = (0..settings.ranks).collect();
    random.shuffle(&mut all);
    let deaths = random.usize(..settings.ranks as usize).min(random.usize(1..=4));
    let mut events: Vec<_> = all[..deaths]
        .iter()
        .map(|rank| {
            let blow =
                if random.u8(..4) == 0 { Blow::Step(random.usize(..STEPS)) } else { Blow::Kill };
            let at = random.u64(first..last);
            Event { rank: *rank, at, after_us: random.u64(..1500), blow }
        })
        .collect();
    for _ in 0..random.usize(0..=2) {
        let rank = random.u32(..settings.ranks);
        let blow = Blow::Stop(random.u64(1..=30));
        events.push(Event { rank, at: random.u64(first..last), after_us: 0, blow });
    }
    events
}

/// Number of steps at which a rank may be killed: of messages, then of windows.
pub(super) const STEPS: usize = 31 + 10;
