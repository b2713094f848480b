//! The work of a member, step by step: the operations of windows on the core's state machines.

use core::ptr::NonNull;

use fastrand::Rng;
use strait_core::buffer::{Direction, Part};
use strait_core::hca::{Access, Hca as _, Region};
use strait_core::rma::{LaneError, Moving, SLOT, SharedNumber, WindowBlock, transfer};

use super::Stepped;
use super::change::Change;
use super::member::Member;

/// A put of memory that is registered for it.
#[derive(Debug)]
pub(super) struct Long {
    region: Region,
    moving: Moving,
    last: Option<u64>,
}

/// An operation, or a synchronisation.
#[derive(Debug)]
pub(super) enum Work {
    Put {
        target: u32,
        offset: usize,
        data: Vec<u8>,
        done: usize,
        long: Option<Long>,
    },
    Get {
        target: u32,
        offset: usize,
        asked: Option<u64>,
    },
    Change(Change),
    Flush {
        target: u32,
    },
    Post {
        origins: Vec<u32>,
        number: Option<u64>,
    },
    Start {
        targets: Vec<u32>,
    },
    Complete {
        targets: Vec<u32>,
    },
    Wait {
        origins: Vec<u32>,
    },
    /// Waits for all members.
    Meet,
}

impl Work {
    pub(super) const fn put(target: u32, offset: usize, data: Vec<u8>) -> Self {
        Self::Put { target, offset, data, done: 0, long: None }
    }

    pub(super) const fn get(target: u32, offset: usize) -> Self {
        Self::Get { target, offset, asked: None }
    }

    pub(super) const fn post(origins: Vec<u32>) -> Self {
        Self::Post { origins, number: None }
    }

    /// Takes a step. Returns `Some(true)` if the work is complete, and `None` if it cannot proceed
    /// now.
    pub(super) fn step(&mut self, member: &mut Member, rng: &mut Rng) -> Stepped {
        match self {
            Self::Put { target, .. } | Self::Get { target, .. } if !member.may_access(*target) => {
                return Ok(None);
            }
            Self::Change(change) => {
                return match member.may_access(change.target) {
                    true => change.step(member, rng),
                    false => Ok(None),
                };
            }
            _ => {}
        }
        match self {
            Self::Put { target, offset, data, done, long } => {
                put(member, rng, (*target, *offset), (data, done), long)
            }
            Self::Get { target, offset, asked } => get(member, (*target, *offset), asked),
            Self::Change(_) => unreachable!("done above"),
            Self::Flush { target } => Ok(is_flushed(member, *target)?.then_some(true)),
            Self::Post { origins, number } => post(member, origins, number),
            Self::Start { targets } => {
                for &target in &*targets {
                    member.pairs[target as usize].start();
                    member.awaited[target as usize] = true;
                }
                Ok(Some(true))
            }
            Self::Complete { targets } => complete(member, targets),
            Self::Wait { origins } => {
                let words = member.own().words;
                origins.retain(|origin| {
                    let pair = member.pairs[*origin as usize];
                    !pair.is_completed(words.completions(*origin))
                });
                if origins.is_empty() {
                    member.look();
                }
                Ok(origins.is_empty().then_some(true))
            }
            Self::Meet => Ok(None),
        }
    }
}

fn part_of(data: &mut [u8]) -> Part {
    Part { length: data.len(), base: NonNull::from(data).cast() }
}

/// Puts through slots, or from registered memory if the data are long enough.
fn put(
    member: &mut Member,
    rng: &mut Rng,
    (target, offset): (u32, usize),
    (data, done): (&mut [u8], &mut usize),
    long: &mut Option<Long>,
) -> Stepped {
    let whole = part_of(data);
    if let Some(spot) = member.near(target) {
        // SAFETY: the range lies in the part.
        unsafe { transfer(whole.base, spot.memory.base.add(offset), whole.length) };
        return Ok(Some(true));
    }
    let there = member.spots[target as usize].part.after(offset + *done);
    let (lane, device) = member.lane(target);
    if let Some(Long { region, moving, last }) = long {
        if last.is_none() {
            // SAFETY: the data belong to the work, which lives until this is done.
            *last = unsafe { moving.step(lane, device) }?;
        }
        let Some(last) = *last else { return Ok(None) };
        if !lane.is_done(last)? {
            return Ok(None);
        }
        device.deregister(*region).expect("it is registered");
        return Ok(Some(true));
    }
    if *done == 0 && whole.length > SLOT && rng.bool() {
        // SAFETY: the data belong to the work, which lives until this is done.
        let region = unsafe { device.register(whole.base, whole.length, Access::LOCAL_READ) };
        let region = region.expect("there is room");
        let moving = Moving::new(Direction::Write, whole, region.local_key, there);
        *long = Some(Long { region, moving, last: None });
        return Ok(Some(false));
    }
    let piece = part_of(&mut data[*done..whole.length.min(*done + SLOT)]);
    // SAFETY: the lane copies the data.
    if !unsafe { lane.put(device, piece, there) }? {
        return Ok(None);
    }
    *done += piece.length;
    Ok(Some(*done == whole.length))
}

fn get(member: &mut Member, (target, offset): (u32, usize), asked: &mut Option<u64>) -> Stepped {
    if let Some(spot) = member.near(target) {
        // SAFETY: the number lies in the part, and is aligned.
        let place = unsafe { SharedNumber::<u64>::new(spot.memory.base.add(offset)) };
        member.got.push(place.load());
        return Ok(Some(true));
    }
    let there = member.spots[target as usize].part.after(offset);
    let (lane, device) = member.lane(target);
    let Some(number) = *asked else {
        *asked = lane.fetch(device, 8, there)?;
        return Ok(asked.map(|_| false));
    };
    if !lane.is_done(number)? {
        return Ok(None);
    }
    let found = lane.found(number);
    member.got.push(found);
    Ok(Some(true))
}

/// Returns whether all operations on the target have arrived.
fn is_flushed(member: &mut Member, target: u32) -> Result<bool, LaneError> {
    if !member.are_active_messages_done(target) {
        return Ok(false);
    }
    let there = member.spots[target as usize].block;
    let (lane, device) = member.lane(target);
    lane.is_flushed(device, there)
}

fn post(member: &mut Member, origins: &mut Vec<u32>, number: &mut Option<u64>) -> Stepped {
    let Some(&origin) = origins.last() else { return Ok(Some(true)) };
    let number_now = *number.get_or_insert_with(|| member.pairs[origin as usize].post());
    let place = member.place;
    if let Some(spot) = member.near(origin) {
        spot.words.posts(place).raise(number_now);
    } else if !tell(member, origin, WindowBlock::post_offset(place), number_now)? {
        return Ok(None);
    }
    *number = None;
    origins.pop();
    Ok(Some(origins.is_empty()))
}

/// A processor's signal is not ordered behind the device's operations, and no signal is ordered
/// behind a handler. Therefore the targets are flushed first.
fn complete(member: &mut Member, targets: &mut Vec<u32>) -> Stepped {
    let Some(&target) = targets.last() else { return Ok(Some(true)) };
    member.awaited[target as usize] = false;
    let (place, members) = (member.place, member.spots.len() as u32);
    let number = member.pairs[target as usize].complete();
    if let Some(spot) = member.near(target) {
        if !is_flushed(member, target)? {
            return Ok(None);
        }
        spot.words.completions(place).raise(number);
    } else {
        let offset = WindowBlock::completion_offset(members, place);
        if !member.are_active_messages_done(target) || !tell(member, target, offset, number)? {
            return Ok(None);
        }
    }
    targets.pop();
    Ok(Some(targets.is_empty()))
}

/// Writes a word of a member's block, if the lane accepts the request now.
fn tell(member: &mut Member, to: u32, offset: usize, mut word: u64) -> Result<bool, LaneError> {
    let there = member.spots[to as usize].block.after(offset);
    let (lane, device) = member.lane(to);
    let from = Part { base: NonNull::from(&mut word).cast(), length: 8 };
    // SAFETY: the word is valid during the call, which copies it.
    Ok(unsafe { lane.write(device, from, there) }?.is_some())
}
