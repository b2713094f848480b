//! Access to members through the device, where a window spans nodes (`[OneSided04]` §3.3.1).
//!
//! A put of few bytes returns at once, and the device completes it by the next flush. All other
//! operations wait for the device here, because the origin's memory is borrowed only for the call.
//! Those with memory that the caller keeps for longer are in [`super::started`].

use core::ptr::NonNull;
use std::collections::VecDeque;

use strait_core::buffer::{Direction, Part as Buffer};
use strait_core::engine::Channel;
use strait_core::hca::{Access, Region, RemoteAddress};
use strait_core::layout::{Call, Wait};
use strait_core::rma::{Lane, LaneError, Moving, SLOT, SLOTS};

use super::Window;
use super::part::{RemoteMember, Stretch, WindowPart};
use crate::network::resources::JobDevice;
use crate::{Error, WindowError};

impl Window<'_> {
    /// Repeats `what` on a member's lane until it has a result, and makes progress meanwhile.
    pub(super) fn ask<R>(
        &self,
        remote: &RemoteMember,
        mut what: impl FnMut(&mut Lane, &mut JobDevice) -> Result<Option<R>, LaneError>,
    ) -> Result<R, Error> {
        let asked = self.world.wait_until(
            || Wait { peer: Some(remote.rank), ..self.wait_in(Call::WindowFlush) },
            || {
                let asked = self.world.with_network(|network| {
                    network.poll();
                    network.on_lane(remote.lane, &mut what)
                });
                let Some(asked) = asked else {
                    return Some(Err(WindowError::OtherNode { rank: remote.rank }.into()));
                };
                asked.map_err(|error| self.world.lane_failure(remote.rank, error)).transpose()
            },
        );
        asked.and_then(|asked| asked)
    }

    /// Waits until a request is complete.
    pub(super) fn await_done(&self, remote: &RemoteMember, number: u64) -> Result<(), Error> {
        self.ask(remote, |lane, _| Ok(lane.is_done(number)?.then_some(())))
    }

    /// Waits until all requests to the member are complete, if the device carries them out.
    pub(super) fn flush_remote(&self, part: &WindowPart) -> Result<(), Error> {
        let Some(remote) = &part.remote else { return Ok(()) };
        let flushed = self.await_active_messages(part).and_then(|()| {
            self.ask(remote, |lane, device| {
                Ok(lane.is_flushed(device, remote.block)?.then_some(()))
            })
        });
        // The caller may reuse its memory also after a failure.
        let completed = self.complete_started(part);
        flushed.and(completed)
    }

    /// Writes a word of 8 bytes, after all earlier requests.
    pub(super) fn write_word(
        &self,
        remote: &RemoteMember,
        there: RemoteAddress,
        word: u64,
    ) -> Result<(), Error> {
        let base = NonNull::from(&word).cast();
        let from = Buffer { base, length: size_of_val(&word) };
        // SAFETY: the word lives until the call returns, and the call copies it.
        self.ask(remote, |lane, device| unsafe { lane.write(device, from, there) }).map(drop)
    }

    /// Moves pieces between memory of the origin and a part.
    ///
    /// # Safety
    ///
    /// The pieces lie in the part. The origin's memory is valid for reads or writes.
    pub(super) unsafe fn copy_remote(
        &self,
        remote: &RemoteMember,
        way: Direction,
        pieces: impl IntoIterator<Item = Stretch>,
    ) -> Result<(), Error> {
        let mut fetched = Fetched { window: self, remote, under_way: VecDeque::new() };
        for (local, offset, length) in pieces {
            if length > SLOT {
                fetched.take(0)?;
                // SAFETY: the caller guarantees both sides of the piece (contract of
                // `copy_remote`).
                unsafe { self.move_long(remote, way, (local, offset, length)) }?;
                continue;
            }
            // SAFETY: the caller guarantees both sides (contract of `copy_remote`). Bytes are taken
            // before this returns, or never.
            unsafe { fetched.move_short(way, (local, offset, length)) }?;
        }
        fetched.take(0)
    }

    /// Moves a piece that is longer than a slot, directly from or to the origin's memory.
    ///
    /// # Safety
    ///
    /// The caller meets the contract of [`Window::copy_remote`].
    unsafe fn move_long(
        &self,
        remote: &RemoteMember,
        way: Direction,
        piece: Stretch,
    ) -> Result<(), Error> {
        let (base, offset, length) = piece;
        let access = match way {
            Direction::Read => Access::LOCAL,
            Direction::Write => Access::LOCAL_READ,
        };
        let part = Buffer { base, length };
        // SAFETY: the memory stays valid until the release below, when the device is done with it.
        let region = self.world.with_network(|network| unsafe { network.register(part, access) });
        let Some(region) = region.flatten() else {
            // SAFETY: the caller guarantees both sides of the piece (contract of `copy_remote`).
            return unsafe { self.move_in_short(remote, way, piece) };
        };
        // SAFETY: the caller guarantees both sides (contract of `copy_remote`), and the memory is
        // registered.
        let moved =
            unsafe { self.move_registered(remote, way, (base, region.local_key), offset, length) };
        self.release(&region);
        moved
    }

    /// Moves registered memory, and waits until the device is done with it, also after an error.
    ///
    /// # Safety
    ///
    /// The caller meets the contract of [`Window::copy_remote`], and the memory is registered under
    /// the key.
    pub(super) unsafe fn move_registered(
        &self,
        remote: &RemoteMember,
        way: Direction,
        (base, key): (NonNull<u8>, u32),
        offset: usize,
        length: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees both sides and the key (contract of `move_registered`). The
        // request is done, or the lane broken, before this returns.
        let asked = unsafe { self.ask_registered(remote, way, (base, key), offset, length) };
        let moved = asked.and_then(|last| self.await_done(remote, last));
        if moved.is_err() {
            self.world.with_network(|network| network.break_lane(remote.lane));
        }
        moved
    }

    /// Posts requests that move registered memory, and returns the number of the last one. After an
    /// error, some requests may be in progress.
    ///
    /// # Safety
    ///
    /// The contract of [`Window::move_registered`] holds until that request is done or the lane is
    /// broken.
    pub(super) unsafe fn ask_registered(
        &self,
        remote: &RemoteMember,
        way: Direction,
        (base, key): (NonNull<u8>, u32),
        offset: usize,
        length: usize,
    ) -> Result<u64, Error> {
        let there = remote.part.get().after(offset);
        let mut moving = Moving::new(way, Buffer { base, length }, key, there);
        // SAFETY: the caller guarantees both sides and the key (contract of `ask_registered`).
        self.ask(remote, |lane, device| unsafe { moving.step(lane, device) })
    }

    /// Moves memory that the system cannot register, through slots.
    ///
    /// # Safety
    ///
    /// The caller meets the contract of [`Window::copy_remote`].
    unsafe fn move_in_short(
        &self,
        remote: &RemoteMember,
        way: Direction,
        (base, offset, length): Stretch,
    ) -> Result<(), Error> {
        let pieces = (0..length).step_by(SLOT).map(|done| {
            // SAFETY: `done` is less than the length of the memory.
            (unsafe { base.add(done) }, offset + done, SLOT.min(length - done))
        });
        // SAFETY: the caller guarantees both sides, of which these are pieces (contract of
        // `copy_remote`).
        unsafe { self.copy_remote(remote, way, pieces) }
    }

    fn release(&self, region: &Region) {
        self.world.with_network(|network| network.release(*region));
    }
}

/// Short reads in progress on one lane, oldest first: the request, the destination of its bytes,
/// and their number.
struct Fetched<'a, 'world> {
    window: &'a Window<'world>,
    remote: &'a RemoteMember,
    under_way: VecDeque<(u64, NonNull<u8>, usize)>,
}

impl Fetched<'_, '_> {
    /// # Safety
    ///
    /// The contract of [`Window::copy_remote`] holds until the bytes are taken. The piece fits a
    /// slot.
    unsafe fn move_short(&mut self, way: Direction, piece: Stretch) -> Result<(), Error> {
        let (base, offset, length) = piece;
        let there = self.remote.part.get().after(offset);
        match way {
            Direction::Write => {
                let from = Buffer { base, length };
                self.window.ask(self.remote, |lane, device| {
                    // SAFETY: the caller guarantees that `from` is valid for reads and that the
                    // piece lies in the part (contract of `move_short`).
                    Ok(unsafe { lane.put(device, from, there) }?.then_some(()))
                })
            }
            Direction::Read => {
                // The next request must find its slot empty.
                self.take(SLOTS - 1)?;
                let fetch = |lane: &mut Lane, device: &mut _| lane.fetch(device, length, there);
                let number = self.window.ask(self.remote, fetch)?;
                self.under_way.push_back((number, base, length));
                Ok(())
            }
        }
    }

    /// Copies read bytes out of their slots, until at most `left` reads remain.
    fn take(&mut self, left: usize) -> Result<(), Error> {
        while self.under_way.len() > left
            && let Some((number, base, length)) = self.under_way.pop_front()
        {
            self.window.await_done(self.remote, number)?;
            self.window.ask(self.remote, |lane, device: &mut JobDevice| {
                // SAFETY: the slot holds the bytes until `SLOTS` more requests. By the contract of
                // `move_short` the origin's memory is as long, and it does not overlap the slots.
                unsafe { lane.slot(number).copy_to_nonoverlapping(base, length) };
                strait_core::hca::Hca::copied(device, length);
                Ok(Some(()))
            })?;
        }
        Ok(())
    }
}
