//! Windows by messages: the send/receive based design of `[OneSided04]` §3.2, for comparison.
//!
//! An origin packs its operations. It sends them when it synchronises, or waits for their results.
//! The target carries them out when it makes progress ([`crate::progress::windows`]). No other rank
//! reaches its part, so the processor makes accumulates atomic.

use core::ptr::NonNull;

use bytemuck::bytes_of_mut;
use strait_core::buffer::{Direction, Part as Buffer};
use strait_core::engine::Owner;
use strait_core::layout::{Call, Wait};
use strait_core::reduce::{Integer, Op};
use strait_core::rma::{AnswerNumber, DataNumber, Record, RecordName, WindowNumber};
use strait_platform::Rank;

use super::Window;
use super::baseline_id::BaselineId;
use super::part::{Stretch, WindowPart};
use super::words::{number, word};
use crate::error::unless_gone;
use crate::progress::windows::baseline::{Baselines, context_of};
use crate::reserved::WINDOW_TAG as TAG;
use crate::{Endpoint, Error, Number, Unscoped, WindowDesign};

/// Smallest number of blocks of one operation that may be packed. A request for each is faster for
/// fewer blocks.
const MANY: usize = 8;

impl Window<'_> {
    /// Returns the way in which this window's operations are carried out.
    ///
    /// ```
    /// # use strait::{Assert, Window, WindowDesign};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).design(WindowDesign::SendRecv).allocate(64)?;
    /// assert_eq!(window.design(), WindowDesign::SendRecv);
    /// window.free()
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub const fn design(&self) -> WindowDesign {
        self.design
    }

    /// Packs internode puts and gets of several blocks into messages if the blocks have at most
    /// `bytes` bytes on average; 0 packs none. All others take one request of the device for each
    /// block. Members need not agree on the limit.
    ///
    /// The target's calls carry out packed blocks, or its [progress
    /// thread](crate::World::start_progress_thread) does: see [`Window::needs_target`].
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// window.pack_up_to(0); // The targets of this program compute for long.
    /// window.free()
    /// # }).unwrap();
    /// ```
    pub fn pack_up_to(&self, bytes: usize) {
        self.packed_up_to.set(bytes);
    }

    /// Returns whether blocks may be packed in this window.
    pub(super) fn packs(&self) -> bool {
        self.baseline.is_some() && self.own.attachments.is_none()
    }

    /// Returns whether these internode blocks are packed.
    pub(super) fn are_packed(&self, blocks: &[Stretch]) -> bool {
        let limit = self.packed_up_to.get().saturating_mul(blocks.len());
        self.packs()
            && blocks.len() >= MANY
            && blocks.iter().map(|(.., length)| length).sum::<usize>() <= limit
    }

    /// Waits until the target of packed blocks has carried them out.
    pub(super) fn flush_blocks(&self, part: &WindowPart) -> Result<(), Error> {
        part.remote.as_ref().map_or(Ok(()), |remote| self.flush_records(remote.place))
    }

    fn rank_of(&self, place: u32) -> Rank {
        self.parts[place as usize].rank
    }

    /// Calls `act` with the records of this window.
    fn with_records<R: Default>(&self, act: impl FnOnce(&mut Baselines, WindowNumber) -> R) -> R {
        let act = |id: BaselineId| self.world.with_baselines(|all| act(all, id.0));
        self.baseline.map(act).unwrap_or_default()
    }

    fn next_data(&self) -> DataNumber {
        self.world.with_baselines(Baselines::next_data)
    }

    fn next_answer(&self) -> AnswerNumber {
        self.world.with_baselines(Baselines::next_answer)
    }

    /// Packs a record for the member in `place`, and waits while too many bytes wait there.
    fn pack(&self, place: u32, record: Record, data: &[u8]) -> Result<(), Error> {
        let pack = || self.with_records(|all, id| all.pack(id, place, record, data));
        let peer = Some(self.rank_of(place));
        let what = || Wait { peer, ..self.wait_in(Call::WindowFlush) };
        let packed = self.world.wait_until(what, || match self.loss_of(place) {
            Some(fault) => Some(Err(fault.into())),
            None => pack().then_some(Ok(())),
        });
        packed.and_then(|packed| packed)
    }

    /// Packs a record with its data. Short data, which messages carry without a request, follow the
    /// record. Longer data travel in a separate message.
    fn pack_with(
        &self,
        place: u32,
        data: &[u8],
        record: impl FnOnce(Option<DataNumber>) -> Record,
    ) -> Result<(), Error> {
        if data.len() <= self.world.unasked_max(self.rank_of(place)) {
            return self.pack(place, record(None), data);
        }
        let number = self.next_data();
        self.pack(place, record(Some(number)), &[])?;
        self.with_records(|all, _| all.send(self.rank_of(place), number, data));
        Ok(())
    }

    /// Sends the records for the member in `place`.
    pub(super) fn press(&self, place: u32) -> Result<(), Error> {
        self.with_records(|all, id| all.press(id, place));
        self.world.progress().map(drop)
    }

    /// Sends a record to the member in `place`, after all operations. Sends nothing to a member
    /// that is gone.
    pub(super) fn tell(&self, place: u32, record: Record) -> Result<(), Error> {
        unless_gone(self.pack(place, record, &[]))?;
        self.press(place)
    }

    /// Waits until the member in `place` has carried out all operations on it.
    pub(super) fn flush_records(&self, place: u32) -> Result<(), Error> {
        if self.baseline.is_none() {
            return Ok(());
        }
        let peer = Some(self.rank_of(place));
        let what = || Wait { peer, ..self.wait_in(Call::WindowFlush) };
        self.world.wait_until(what, || {
            // The order matters: the target's last answer comes before its end.
            let loss = self.loss_of(place);
            let done = self.with_records(|all, id| all.is_flushed(id, place));
            if done { Some(Ok(())) } else { loss.map(Err) }
        })??;
        Ok(())
    }

    /// Waits until no record of this window is in progress here, and closes the window.
    pub(super) fn close_baseline(&self) -> Result<(), Error> {
        let is_idle = || self.with_records(|all, id| all.is_idle(id));
        if self.baseline.is_some() {
            let what = || self.wait_in(Call::WindowFree);
            self.world.wait_until(what, || is_idle().then_some(()))?;
        }
        self.with_records(Baselines::close);
        Ok(())
    }

    /// Writes pieces to the part of the member in `place`.
    ///
    /// # Safety
    ///
    /// The pieces lie in the part, and the origin's memory is valid for reads.
    pub(super) unsafe fn put_records(
        &self,
        place: u32,
        pieces: impl IntoIterator<Item = Stretch>,
    ) -> Result<(), Error> {
        pieces.into_iter().try_for_each(|(base, offset, length)| {
            // SAFETY: the caller guarantees that the origin's memory is valid for reads (contract
            // of `put_records`).
            let data = unsafe { NonNull::slice_from_raw_parts(base, length).as_ref() };
            self.pack_with(place, data, |apart| Record::Put { offset, length, apart })
        })
    }

    /// Reads pieces of the part of the member in `place`, and waits for them.
    ///
    /// # Safety
    ///
    /// The pieces lie in the part, and the origin's memory is valid for writes.
    pub(super) unsafe fn get_records(
        &self,
        place: u32,
        pieces: impl IntoIterator<Item = Stretch>,
    ) -> Result<(), Error> {
        let answer = self.next_answer();
        let mut buffers = Vec::new();
        for (base, offset, length) in pieces.into_iter().filter(|(.., length)| *length > 0) {
            self.pack(place, Record::Get { offset, length, answer }, &[])?;
            buffers.push(NonNull::slice_from_raw_parts(base, length));
        }
        self.press(place)?;
        if let [mut only] = buffers[..] {
            // SAFETY: the caller guarantees that the buffer is valid for writes (contract of
            // `get_records`).
            return self.receive_answer(place, answer, unsafe { only.as_mut() });
        }
        let mut all = vec![0_u8; buffers.iter().map(|buffer| buffer.len()).sum()];
        self.receive_answer(place, answer, &mut all)?;
        let mut rest = &all[..];
        for mut buffer in buffers {
            let bytes = rest.split_off(..buffer.len()).unwrap_or_default();
            // SAFETY: the caller guarantees that the buffer is valid for writes (contract of
            // `get_records`).
            unsafe { buffer.as_mut() }.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Receives an answer, which may arrive in several messages.
    fn receive_answer(
        &self,
        place: u32,
        answer: AnswerNumber,
        into: &mut [u8],
    ) -> Result<(), Error> {
        let endpoint = Endpoint::new(self.world, context_of(RecordName::Answer(answer)));
        let mut done = 0;
        while done < into.len() {
            done += endpoint.recv(&mut into[done..], self.rank_of(place), TAG)?.bytes;
        }
        Ok(())
    }

    /// Begins to move a buffer. `None`: this operation is packed instead, and nothing was done.
    ///
    /// # Safety
    ///
    /// The bytes at `offset` lie in the part. The buffer is valid for reads or writes until the
    /// operation is complete.
    pub(super) unsafe fn begin_records(
        &self,
        owner: Owner,
        way: Direction,
        buffer: Buffer,
        (place, offset): (u32, usize),
    ) -> Result<Option<Unscoped>, Error> {
        let (rank, length) = (self.rank_of(place), buffer.length);
        if way == Direction::Write && length <= self.world.unasked_max(rank) {
            return Ok(None);
        }
        let (name, record) = match way {
            Direction::Read => {
                let answer = self.next_answer();
                (RecordName::Answer(answer), Record::Get { offset, length, answer })
            }
            Direction::Write => {
                let number = self.next_data();
                (RecordName::Data(number), Record::Put { offset, length, apart: Some(number) })
            }
        };
        self.pack(place, record, &[])?;
        self.with_records(|all, id| all.want(id, place));
        let endpoint = Endpoint::new(self.world, context_of(name));
        // SAFETY: the caller guarantees that the buffer stays valid until the operation is complete
        // (contract of `begin_records`).
        let begun = unsafe {
            match way {
                Direction::Read => endpoint.begin_recv_as(owner, buffer, rank, TAG),
                Direction::Write => endpoint.begin_send_as(owner, buffer, rank, TAG),
            }
        };
        Ok(Some(begun?.moving(self.world, owner)))
    }

    /// Combines numbers of the part of the member in `place`. With `results`, waits for the
    /// previous numbers.
    pub(super) fn combine_records<T: Number>(
        &self,
        (place, offset): (u32, usize),
        operands: &[T],
        results: Option<&mut [T]>,
        op: Op,
    ) -> Result<(), Error> {
        let results = results.filter(|results| !results.is_empty());
        let answer = results.is_some().then(|| self.next_answer());
        self.pack_with(place, bytemuck::must_cast_slice(operands), |apart| {
            Record::combine::<T>(op, offset, operands.len(), apart, answer)
        })?;
        let Some((results, answer)) = results.zip(answer) else { return Ok(()) };
        self.press(place)?;
        self.receive_answer(place, answer, bytemuck::must_cast_slice_mut(results))
    }

    /// Compares and swaps an integer in the part of the member in `place`, and returns its previous
    /// value.
    pub(super) fn swap_record<T: Number + Integer>(
        &self,
        (place, offset): (u32, usize),
        compare: T,
        new: T,
    ) -> Result<T, Error> {
        let (answer, width) = (self.next_answer(), size_of::<T>() as u8);
        let (compare, new) = (word(compare), word(new));
        self.pack(place, Record::Swap { offset, width, compare, new, answer }, &[])?;
        self.press(place)?;
        let mut found = 0_u64;
        self.receive_answer(place, answer, bytes_of_mut(&mut found))?;
        Ok(number(found))
    }
}
