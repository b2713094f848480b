//! Windows by messages: the send/receive based design of `[OneSided04]` §3.2, to compare with.
//!
//! An origin packs its operations, and sends them when it synchronises, or waits for what they give. The target carries them out
//! where it makes progress ([`baseline`]), and nobody else reaches its part: so accumulates are atomic by the processor.

mod baseline;
mod target;

use core::fmt;
use core::ptr::NonNull;
use core::str::FromStr;

use bytemuck::bytes_of_mut;
use strait_core::layout::{Call, Corrupt, Wait};
use strait_core::progress::{Owner, Part as Buffer, Way};
use strait_core::reduce::{Integer, Op};
use strait_core::rma::{AnswerNumber, Block, DataNumber, NUMBER_MAX, Name, Record, WindowNumber};

pub(crate) use baseline::Baselines;
use baseline::{TAG, context_of};

use super::card::Card;
use super::combine_far::{number, word};
use super::far::Stretch;
use super::part::Part;
use super::{Window, WindowError};
use crate::{Endpoint, Error, Group, Number, Rank, Unscoped, World};

/// How the operations on a window are carried out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum WindowDesign {
    /// At once, and without the target: by its origin on one node, by the device between nodes.
    #[default]
    Rdma,
    /// By messages, which the origin sends when it synchronises and the target's calls carry out: the paper's baseline.
    SendRecv,
}

impl WindowDesign {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Rdma, Self::SendRecv];

    /// Its name, as `STRAIT_WINDOW` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rdma => "rdma",
            Self::SendRecv => "send_recv",
        }
    }
}

impl fmt::Display for WindowDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WindowDesign {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|design| design.name() == name).ok_or(())
    }
}

/// Marks the cards of members that ask for [`WindowDesign::SendRecv`].
const SEND_RECV: u64 = 1 << 32;

impl Card {
    /// Whether the member asks for [`WindowDesign::SendRecv`].
    pub(super) const fn goes_by_messages(&self) -> bool {
        self.baseline & SEND_RECV != 0
    }
}

/// Blocks of one operation from which on they may be packed: fewer are done sooner by a request each.
const MANY: usize = 8;

/// The name of a member's window among those that it has by messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct BaselineId(WindowNumber);

impl BaselineId {
    /// One that no window of this rank has had.
    pub(super) fn next(world: &World) -> Self {
        Self(world.with_baselines(Baselines::next_window))
    }

    /// For the card, with the design; 0 is none.
    pub(super) fn word(id: Option<Self>, design: WindowDesign) -> u64 {
        let design = if design == WindowDesign::SendRecv { SEND_RECV } else { 0 };
        id.map_or(0, |Self(id)| u64::from(id.word()) | design)
    }

    /// The first member that asks for another design than the first does.
    pub(super) fn disagreement(cards: &[Card], ranks: &[Rank]) -> Option<WindowError> {
        let first = cards.first()?.goes_by_messages();
        let (_, rank) =
            cards.iter().zip(ranks).find(|(card, _)| card.goes_by_messages() != first)?;
        Some(WindowError::Design { rank: *rank })
    }

    /// What each member calls its window.
    pub(super) fn of_members(cards: &[Card]) -> Result<Box<[WindowNumber]>, Corrupt> {
        let number = |card: &Card| {
            let found = card.baseline as u32;
            let unknown = Corrupt::Length { found: found.into(), max: NUMBER_MAX.into() };
            WindowNumber::parse(found).ok_or(unknown)
        };
        cards.iter().map(number).collect()
    }

    /// Has this member's part, and its words, be reached by messages, and the others' by what they call their windows.
    pub(super) fn open(
        self,
        group: &Group<'_>,
        theirs: Box<[WindowNumber]>,
        part: Buffer,
        block: Block,
    ) {
        group.world().with_baselines(|all| all.open(self.0, (group.ranks(), theirs), part, block));
    }
}

impl Window<'_> {
    /// How this window's operations are carried out.
    #[must_use]
    pub const fn design(&self) -> WindowDesign {
        self.design
    }

    /// Has puts and gets between nodes of several blocks go by messages, packed, if the blocks have no more than `bytes` bytes on the
    /// average; 0: none. All others are a request of the device for each block. Members need not agree on it.
    ///
    /// What is packed the target's calls carry out, or its [progress thread](World::start_progress_thread): see
    /// [`Window::needs_target`].
    pub fn pack_up_to(&self, bytes: usize) {
        self.packed_up_to.set(bytes);
    }

    /// Whether blocks may be packed in this window.
    pub(super) fn packs(&self) -> bool {
        self.baseline.is_some() && self.own.attachments.is_none()
    }

    /// Whether these blocks between nodes are packed.
    pub(super) fn are_packed(&self, blocks: &[Stretch]) -> bool {
        let limit = self.packed_up_to.get().saturating_mul(blocks.len());
        self.packs()
            && blocks.len() >= MANY
            && blocks.iter().map(|(.., length)| length).sum::<usize>() <= limit
    }

    /// Waits until the target of blocks that were packed has carried them out.
    pub(super) fn flush_blocks(&self, part: &Part) -> Result<(), Error> {
        part.far.as_ref().map_or(Ok(()), |far| self.flush_records(far.place))
    }

    fn rank_of(&self, place: u32) -> Rank {
        self.parts[place as usize].rank
    }

    /// Has `act` do something with the records of this window.
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

    /// Packs a record for the member in `place`, and waits while too much is on its way there.
    fn pack(&self, place: u32, record: Record, data: &[u8]) -> Result<(), Error> {
        let pack = || self.with_records(|all, id| all.pack(id, place, record, data));
        let what = || Wait::on(Call::WindowFlush, self.rank_of(place));
        let packed = self.world.wait_until(what, || match self.loss_of(place) {
            Some(fault) => Some(Err(fault.into())),
            None => pack().then_some(Ok(())),
        });
        packed.and_then(|packed| packed)
    }

    /// Packs a record with its data: behind it if that is no more than messages take along, and otherwise apart.
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

    /// Has what was packed for the member in `place` leave.
    pub(super) fn press(&self, place: u32) -> Result<(), Error> {
        self.with_records(|all, id| all.press(id, place));
        self.world.progress().map(drop)
    }

    /// Tells the member in `place` something, behind all operations. To one that is gone nothing is said.
    pub(super) fn tell(&self, place: u32, record: Record) -> Result<(), Error> {
        super::unless_gone(self.pack(place, record, &[]))?;
        self.press(place)
    }

    /// Waits until the member in `place` has carried out all that it was asked for.
    pub(super) fn flush_records(&self, place: u32) -> Result<(), Error> {
        if self.baseline.is_none() {
            return Ok(());
        }
        let what = || Wait::on(Call::WindowFlush, self.rank_of(place));
        self.world.wait_until(what, || {
            // In this order: what the target did comes before its end.
            let loss = self.loss_of(place);
            let done = self.with_records(|all, id| all.is_flushed(id, place));
            if done { Some(Ok(())) } else { loss.map(Err) }
        })??;
        Ok(())
    }

    /// Waits until nothing of this window is under way here, and closes it.
    pub(super) fn close_baseline(&self) -> Result<(), Error> {
        let is_idle = || self.with_records(|all, id| all.is_idle(id));
        if self.baseline.is_some() {
            let what = || Wait::new(Call::WindowFree);
            self.world.wait_until(what, || is_idle().then_some(()))?;
        }
        self.with_records(Baselines::close);
        Ok(())
    }

    /// Writes pieces to the part of the member in `place`.
    ///
    /// # Safety
    ///
    /// They lie in the part; the origin's side is valid for reads.
    pub(super) unsafe fn put_records(
        &self,
        place: u32,
        pieces: impl IntoIterator<Item = Stretch>,
    ) -> Result<(), Error> {
        pieces.into_iter().try_for_each(|(base, offset, length)| {
            // SAFETY: by the contract.
            let data = unsafe { NonNull::slice_from_raw_parts(base, length).as_ref() };
            self.pack_with(place, data, |apart| Record::Put { offset, length, apart })
        })
    }

    /// Reads pieces of the part of the member in `place`, and waits for them.
    ///
    /// # Safety
    ///
    /// They lie in the part; the origin's side is valid for writes.
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
            // SAFETY: by the contract.
            return self.receive_answer(place, answer, unsafe { only.as_mut() });
        }
        let mut all = vec![0_u8; buffers.iter().map(|buffer| buffer.len()).sum()];
        self.receive_answer(place, answer, &mut all)?;
        let mut rest = &all[..];
        for mut buffer in buffers {
            let bytes = rest.split_off(..buffer.len()).unwrap_or_default();
            // SAFETY: by the contract.
            unsafe { buffer.as_mut() }.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Receives an answer, in as many messages as it was carried out in.
    fn receive_answer(
        &self,
        place: u32,
        answer: AnswerNumber,
        into: &mut [u8],
    ) -> Result<(), Error> {
        let endpoint = Endpoint::new(self.world, context_of(Name::Answer(answer)));
        let mut done = 0;
        while done < into.len() {
            done += endpoint.recv(&mut into[done..], self.rank_of(place), TAG)?.bytes;
        }
        Ok(())
    }

    /// Begins to move a buffer. `None`: this one is packed, and nothing was done.
    ///
    /// # Safety
    ///
    /// The bytes at `offset` lie in the part; the buffer is valid for reads or writes until the operation is over.
    pub(super) unsafe fn begin_records(
        &self,
        owner: Owner,
        way: Way,
        buffer: Buffer,
        (place, offset): (u32, usize),
    ) -> Result<Option<Unscoped>, Error> {
        let (rank, length) = (self.rank_of(place), buffer.length);
        if way == Way::Write && length <= self.world.unasked_max(rank) {
            return Ok(None);
        }
        let (name, record) = match way {
            Way::Read => {
                let answer = self.next_answer();
                (Name::Answer(answer), Record::Get { offset, length, answer })
            }
            Way::Write => {
                let number = self.next_data();
                (Name::Data(number), Record::Put { offset, length, apart: Some(number) })
            }
        };
        self.pack(place, record, &[])?;
        self.with_records(|all, id| all.want(id, place));
        let endpoint = Endpoint::new(self.world, context_of(name));
        // SAFETY: by the contract.
        let begun = unsafe {
            match way {
                Way::Read => endpoint.begin_recv_as(owner, buffer, rank, TAG),
                Way::Write => endpoint.begin_send_as(owner, buffer, rank, TAG),
            }
        };
        Ok(Some(begun?.moving(self.world, owner)))
    }

    /// Has the member in `place` combine numbers of its part, and waits for what was there if that is wanted.
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

    /// Has the member in `place` compare and swap an integer of its part.
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
