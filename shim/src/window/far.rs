//! Reaching members through the device, where a window spans nodes (`[OneSided04]` §3.3.1).
//!
//! A put of few bytes is over at once; the device is done with it by the next flush. Everything else waits for the device
//! here, because the origin's memory is borrowed for the call alone.

use core::cell::Cell;
use core::ptr::NonNull;
use std::collections::VecDeque;

use strait_core::hca::{Access, Region, Remote};
use strait_core::layout::{Call, Wait};
use strait_core::progress::{Channel, Fault, Part as Buffer, Way};
use strait_core::rma::{Lane, LaneError, Moving, SLOT, SLOTS};

use super::part::Part;
use super::{Window, WindowError};
use crate::network::{JobDevice, LaneId};
use crate::{Error, Rank, World};

/// Where the device finds what is a member's.
#[derive(Debug)]
pub(super) struct Far {
    pub(super) rank: Rank,
    pub(super) place: u32,
    pub(super) lane: LaneId,
    /// In a dynamic window what it was last looked up to be.
    pub(super) part: Cell<Remote>,
    /// What errands call that memory.
    pub(super) within: Cell<u64>,
    pub(super) block: Remote,
    /// This member's trays at the other.
    pub(super) trays: Remote,
}

/// A piece of an operation: the origin's memory, the place in the part, the length.
pub(super) type Stretch = (NonNull<u8>, usize, usize);

impl Window<'_> {
    /// Asks something on a member's lane, when that takes more.
    pub(super) fn ask<R>(
        &self,
        far: &Far,
        mut what: impl FnMut(&mut Lane, &mut JobDevice) -> Result<Option<R>, LaneError>,
    ) -> Result<R, Error> {
        let asked = self.world.wait_until(
            || Wait::on(Call::WindowFlush, far.rank),
            || {
                let asked = self.world.with_network(|network| {
                    network.poll();
                    network.on_lane(far.lane, &mut what)
                });
                let Some(asked) = asked else {
                    return Some(Err(WindowError::OtherNode { rank: far.rank }.into()));
                };
                asked.map_err(|error| failed(self.world, far.rank, error)).transpose()
            },
        );
        asked.and_then(|asked| asked)
    }

    /// Waits until a request is done.
    pub(super) fn await_done(&self, far: &Far, number: u64) -> Result<(), Error> {
        self.ask(far, |lane, _| Ok(lane.is_done(number)?.then_some(())))
    }

    /// Waits until all that was asked for is done at the member, if the device does it.
    pub(super) fn flush_far(&self, part: &Part) -> Result<(), Error> {
        let Some(far) = &part.far else { return Ok(()) };
        self.await_all_errands(part)?;
        self.ask(far, |lane, device| Ok(lane.is_flushed(device, far.block)?.then_some(())))
    }

    /// Writes a word of 8 bytes, after everything that was asked for before.
    pub(super) fn write_word(&self, far: &Far, there: Remote, word: u64) -> Result<(), Error> {
        let base = NonNull::from(&word).cast();
        let from = Buffer { base, length: size_of_val(&word) };
        // SAFETY: the word is there for the call, which takes it.
        self.ask(far, |lane, device| unsafe { lane.write(device, from, there) }).map(drop)
    }

    /// Moves pieces between memory of the origin's and a part.
    ///
    /// # Safety
    ///
    /// The pieces lie in the part; the origin's side is valid for reads or writes.
    pub(super) unsafe fn copy_far(
        &self,
        far: &Far,
        way: Way,
        pieces: impl IntoIterator<Item = Stretch>,
    ) -> Result<(), Error> {
        let mut fetched = Fetched { window: self, far, under_way: VecDeque::new() };
        for (local, offset, length) in pieces {
            if length > SLOT {
                fetched.take(0)?;
                // SAFETY: by the contract.
                unsafe { self.move_long(far, way, (local, offset, length)) }?;
                continue;
            }
            // SAFETY: by the contract.
            unsafe { fetched.move_short(way, (local, offset, length)) }?;
        }
        fetched.take(0)
    }

    /// Moves more than goes through a slot, straight from or to the origin's memory.
    ///
    /// # Safety
    ///
    /// As for [`Window::copy_far`].
    unsafe fn move_long(&self, far: &Far, way: Way, piece: Stretch) -> Result<(), Error> {
        let (base, offset, length) = piece;
        let access = match way {
            Way::Read => Access::LOCAL,
            Way::Write => Access::LOCAL_READ,
        };
        let part = Buffer { base, length };
        // SAFETY: the memory stays until it is released below, when the device is done with it.
        let region = self.world.with_network(|network| unsafe { network.register(part, access) });
        let Some(region) = region.flatten() else {
            // SAFETY: by the contract.
            return unsafe { self.move_in_short(far, way, piece) };
        };
        // SAFETY: by the contract, and registered.
        let moved =
            unsafe { self.move_registered(far, way, (base, region.local_key), offset, length) };
        self.release(&region);
        moved
    }

    /// Moves registered memory, and waits until the device is done with it, whatever happens.
    ///
    /// # Safety
    ///
    /// As for [`Window::copy_far`], and registered under the key.
    pub(super) unsafe fn move_registered(
        &self,
        far: &Far,
        way: Way,
        (base, key): (NonNull<u8>, u32),
        offset: usize,
        length: usize,
    ) -> Result<(), Error> {
        // SAFETY: by the contract.
        let asked = unsafe { self.ask_registered(far, way, (base, key), offset, length) };
        let moved = asked.and_then(|last| self.await_done(far, last));
        if moved.is_err() {
            self.world.with_network(|network| network.break_lane(far.lane));
        }
        moved
    }

    /// Asks for registered memory to be moved. The number of the last request; after an error some may be under way.
    ///
    /// # Safety
    ///
    /// As for [`Window::move_registered`], until that request is done or the lane broken.
    pub(super) unsafe fn ask_registered(
        &self,
        far: &Far,
        way: Way,
        (base, key): (NonNull<u8>, u32),
        offset: usize,
        length: usize,
    ) -> Result<u64, Error> {
        let there = far.part.get().after(offset);
        let mut moving = Moving::new(way, Buffer { base, length }, key, there);
        // SAFETY: by the contract.
        self.ask(far, |lane, device| unsafe { moving.step(lane, device) })
    }

    /// Moves memory that the system does not register, through slots.
    ///
    /// # Safety
    ///
    /// As for [`Window::copy_far`].
    unsafe fn move_in_short(
        &self,
        far: &Far,
        way: Way,
        (base, offset, length): Stretch,
    ) -> Result<(), Error> {
        let pieces = (0..length).step_by(SLOT).map(|done| {
            // SAFETY: within the memory.
            (unsafe { base.add(done) }, offset + done, SLOT.min(length - done))
        });
        // SAFETY: by the contract.
        unsafe { self.copy_far(far, way, pieces) }
    }

    fn release(&self, region: &Region) {
        self.world.with_network(|network| network.release(*region));
    }
}

/// Why a member is not reached any more.
#[cold]
pub(crate) fn failed(world: &World, rank: Rank, error: LaneError) -> Error {
    match world.turn().gone(rank) {
        Some(how) => how.fault(rank).into(),
        None => match error.sign() {
            Some(sign) => Fault::PeerFailed { rank, sign }.into(),
            None => WindowError::Device { rank, error }.into(),
        },
    }
}

/// Short reads under way on one lane, oldest first: the request, where its bytes belong, and their number.
struct Fetched<'a, 'world> {
    window: &'a Window<'world>,
    far: &'a Far,
    under_way: VecDeque<(u64, NonNull<u8>, usize)>,
}

impl Fetched<'_, '_> {
    /// # Safety
    ///
    /// As for [`Window::copy_far`], until what was read is taken. The piece fits a slot.
    unsafe fn move_short(&mut self, way: Way, piece: Stretch) -> Result<(), Error> {
        let (base, offset, length) = piece;
        let there = self.far.part.get().after(offset);
        match way {
            Way::Write => {
                let from = Buffer { base, length };
                self.window.ask(self.far, |lane, device| {
                    // SAFETY: by the contract.
                    Ok(unsafe { lane.put(device, from, there) }?.then_some(()))
                })
            }
            Way::Read => {
                // The next request is to find its slot empty.
                self.take(SLOTS - 1)?;
                let fetch = |lane: &mut Lane, device: &mut _| lane.fetch(device, length, there);
                let number = self.window.ask(self.far, fetch)?;
                self.under_way.push_back((number, base, length));
                Ok(())
            }
        }
    }

    /// Takes what was read out of its slots, until so many reads are left.
    fn take(&mut self, left: usize) -> Result<(), Error> {
        while self.under_way.len() > left
            && let Some((number, base, length)) = self.under_way.pop_front()
        {
            self.window.await_done(self.far, number)?;
            self.window.ask(self.far, |lane, device: &mut JobDevice| {
                // SAFETY: the slot holds it until `SLOTS` more requests; the origin's memory is as long, by the contract of
                // `move_short`, and no part of the slots.
                unsafe { lane.slot(number).copy_to_nonoverlapping(base, length) };
                strait_core::hca::Hca::copied(device, length);
                Ok(Some(()))
            })?;
        }
        Ok(())
    }
}
