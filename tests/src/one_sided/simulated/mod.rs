//! Whole windows over the simulated fabric, on one thread: lanes, accumulates in all their ways,
//! handlers, epochs and flushes, as the core has them. Everything is drawn from a seed: the fabric,
//! the window, the program, and the order of the members' turns.
//!
//! Beside the numbers of the program a part has *sums*: consecutive numbers to which origins add
//! ones, many at a time.
//!
//! Two things are absent on purpose: the collective creation of the window, and messages. The
//! scheduler itself provides barriers.

mod change;
mod member;
mod work;

use fastrand::Rng;
use strait_core::buffer::Part;
use strait_core::hca::{Atomics, RemoteAddress};
use strait_core::reduce::Op;
use strait_core::rma::{LaneError, OPERAND_BUFFER_BYTES, SLOT, WindowBlock};

use super::phase::{Call, Ends, Load, NUMBERS, Phase};
use super::play::judge;
use crate::payload;
use change::{Act, Change};
use member::Member;
use strait_sim::{Model, SimFabric};
use work::Work;

/// The result of a step: `Some(true)` at the end, and `None` if nothing can be done now.
type Stepped = Result<Option<bool>, LaneError>;

/// Bytes of the longest load.
const LONGEST: usize = 5 * SLOT;

/// Number of sums in a part.
const SUMS: usize = 700;

/// Number of phases of a program.
const PHASES: u32 = 4;

/// The most events of a phase, as turns and on the fabric, before it counts as a hang.
const BACKOFF: u32 = 3_000_000;

/// The atomicity domain of a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// The device's atomics on the numbers.
    Device,
    /// Locks that devices take. Of three accumulates, `handed` go to handlers.
    Locks { handed: u32 },
    /// Locks that the processors of the part's node take, for devices without atomics.
    Handled,
}

/// The data that all members know of a member.
#[derive(Clone, Copy, Debug)]
struct Spot {
    node: u32,
    /// The part, for devices.
    part: RemoteAddress,
    block: RemoteAddress,
    operand_buffers: RemoteAddress,
    /// The part, for the processors of its node.
    memory: Part,
    words: WindowBlock,
}

/// Returns the bytes of one origin's region in a part.
const fn room() -> usize {
    64 + 2 * LONGEST
}

const fn sums_offset(ranks: u32) -> usize {
    8 * NUMBERS + ranks as usize * room()
}

const fn part_length(ranks: u32) -> usize {
    sums_offset(ranks) + 8 * SUMS
}

/// A job of one window.
struct Job {
    fabric: SimFabric,
    members: Vec<Member>,
    rng: Rng,
}

impl Job {
    fn drawn(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x0514);
        let ranks = rng.u32(2..5);
        let kind = match rng.u32(..3) {
            0 => Kind::Device,
            1 => Kind::Locks { handed: rng.u32(..4) },
            _ => Kind::Handled,
        };
        let mut model = Model::drawn(seed);
        model.capabilities.message =
            *rng.choice(&[OPERAND_BUFFER_BYTES as u64, 1 << 30]).expect("one of them");
        if kind == Kind::Handled {
            model.capabilities.atomics = Atomics::None;
            model.capabilities.acknowledged = false;
        }
        let per_node = rng.u32(1..3);
        let fabric = SimFabric::new(seed, ranks, model);
        let members = Member::all(&fabric, ranks, per_node, kind);
        Self { fabric, members, rng }
    }

    fn ranks(&self) -> u32 {
        self.members.len() as u32
    }

    /// Lets an event happen on the fabric, or a member continue.
    fn pass(&mut self) {
        if self.rng.u32(..4) > 0 && self.fabric.advance() {
            return;
        }
        let at = self.rng.usize(..self.members.len());
        self.members[at].turn(&mut self.rng);
        let meet = |member: &Member| matches!(member.works.front(), Some(Work::Meet));
        if self.members.iter().all(meet) {
            self.members.iter_mut().for_each(|member| drop(member.works.pop_front()));
        }
    }

    /// Plays until all members have done all their work.
    fn run(&mut self) {
        for _ in 0..BACKOFF {
            if self.members.iter().all(|member| member.works.is_empty()) {
                return;
            }
            self.pass();
        }
        let left: Vec<_> = self.members.iter().map(|member| member.works.front()).collect();
        panic!("a hang: {left:?}");
    }
}

/// Plays the program of `seed`.
///
/// # Panics
///
/// When a result is impossible, or nothing happens any more.
pub fn play(seed: u64) {
    let mut job = Job::drawn(seed);
    let ranks = job.ranks();
    let mut numbers = vec![0_u64; ranks as usize * NUMBERS];
    let mut sums = vec![[0_u64; SUMS]; ranks as usize];
    for number in 0..PHASES {
        let phase = Phase::draw(seed, number, ranks, LONGEST);
        let added = draw_sums(&mut job.rng, &mut sums);
        for place in 0..ranks {
            let works = works(&phase, &added, place, ranks);
            job.members[place as usize].works.extend(works);
        }
        job.run();
        let about = format!("phase {number}: {phase:?}");
        let parts: Vec<_> = job.members.iter_mut().map(Member::seen).collect();
        let mut said = Vec::new();
        for (member, part) in job.members.iter_mut().zip(&parts) {
            let own = numbers_at(part, 0, NUMBERS);
            said.push(own.chain(core::mem::take(&mut member.got)).collect());
        }
        judge(&phase, &mut numbers, &said, &about);
        for (place, (part, sums)) in parts.iter().zip(&sums).enumerate() {
            let found: Vec<_> = numbers_at(part, sums_offset(ranks), SUMS).collect();
            assert_eq!(found, sums, "the sums of {place}; {about}");
        }
        phase.loads.iter().for_each(|load| check(&parts[load.target as usize], load));
    }
}

fn numbers_at(part: &[u8], offset: usize, count: usize) -> impl Iterator<Item = u64> {
    let (words, _) = part[offset..].as_chunks();
    words[..count].iter().map(|word| u64::from_le_bytes(*word))
}

/// Draws additions of ones: origin, target, and the number of leading sums. Updates the sums to the
/// expected values.
fn draw_sums(rng: &mut Rng, sums: &mut [[u64; SUMS]]) -> Vec<(u32, u32, usize)> {
    let mut added = Vec::new();
    for origin in 0..sums.len() as u32 {
        for (target, sums) in (0..).zip(sums.iter_mut()) {
            if rng.u32(..3) == 0 {
                let scale = rng.u32(..8);
                let count = rng.usize(1..=SUMS >> scale);
                sums[..count].iter_mut().for_each(|sum| *sum += 1);
                added.push((origin, target, count));
            }
        }
    }
    added
}

/// Returns the work of a member in a phase.
fn works(phase: &Phase, added: &[(u32, u32, usize)], place: u32, ranks: u32) -> Vec<Work> {
    let mut works = Vec::new();
    for load in phase.loads.iter().filter(|load| load.origin == place) {
        let data = payload::of(load.id, load.cut.length);
        let mut done = 0;
        for run in load.cut.with(|shape| shape.runs().collect::<Vec<_>>()) {
            let data = data[done..done + run.length].to_vec();
            done += run.length;
            let offset = load_offset(load) + run.offset;
            works.push(Work::put(load.target, offset, data));
        }
    }
    for access in phase.accesses.iter().filter(|access| access.origin == place) {
        let (target, offset) = (access.target, 8 * access.number);
        works.push(match access.call {
            Call::Put(value) => Work::put(target, offset, value.to_le_bytes().to_vec()),
            Call::Get => Work::get(target, offset),
            Call::Accumulate(op, operand) => combine((target, offset), op, vec![operand], false),
            Call::Fetch(op, operand) => combine((target, offset), op, vec![operand], true),
            Call::Swap(compare, new) => {
                Work::Change(Change::new(target, offset, Act::Swap(compare, new), true))
            }
        });
    }
    let mut targets = phase.partners(place, true);
    for (_, target, count) in added.iter().filter(|(origin, ..)| *origin == place) {
        works.push(combine((*target, sums_offset(ranks)), Op::Sum, vec![1; *count], false));
        targets.push(*target);
    }
    targets.sort_unstable();
    targets.dedup();
    let origins =
        added.iter().filter(|(_, target, _)| *target == place).map(|(origin, ..)| *origin);
    let mut origins: Vec<_> = origins.chain(phase.partners(place, false)).collect();
    origins.sort_unstable();
    origins.dedup();
    let flush = |works: &mut Vec<Work>, targets: &[u32]| {
        works.extend(targets.iter().map(|target| Work::Flush { target: *target }));
    };
    match phase.ends {
        Ends::Fence => flush(&mut works, &(0..ranks).collect::<Vec<_>>()),
        Ends::Flush => flush(&mut works, &targets),
        Ends::Epochs { .. } => {
            let begin = [Work::post(origins.clone()), Work::Start { targets: targets.clone() }];
            let end = [Work::Complete { targets }, Work::Wait { origins }];
            works = begin.into_iter().chain(works).chain(end).collect();
        }
    }
    works.push(Work::Meet);
    works
}

fn combine((target, offset): (u32, usize), op: Op, operands: Vec<u64>, gives: bool) -> Work {
    Work::Change(Change::new(target, offset, Act::Combine(op, operands), gives))
}

fn load_offset(load: &Load) -> usize {
    8 * NUMBERS + load.origin as usize * room() + load.offset
}

/// Checks that a load has arrived in the part.
fn check(part: &[u8], load: &Load) {
    let mut found = Vec::new();
    for run in load.cut.with(|shape| shape.runs().collect::<Vec<_>>()) {
        let at = load_offset(load) + run.offset;
        found.extend_from_slice(&part[at..at + run.length]);
    }
    assert_eq!(payload::first_difference(load.id, &found), None, "{load:?}");
}
