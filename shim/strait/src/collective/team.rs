//! The members of a group as one of them sees them, and the messages between them.

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::buffer::Cursor;
use strait_core::engine::{Fault, Gone, Owner, Received, RequestId, SendMode, Sent};
use strait_core::layout::{Call, RankSet, Wait};
use strait_core::matching::Pattern;
use strait_core::wire::Key;
use strait_platform::Rank;

use super::scratch::Scratch;
use crate::buffer::{part_of, part_of_mut};
use crate::network::MailboxId;
use crate::reserved::INTERNAL;
use crate::{CollectiveError, Error, World};

/// The members of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Members<'a> {
    /// Every rank of the job.
    All(u32),
    /// The rank in each place.
    List(&'a [Rank]),
}

impl Members<'_> {
    const fn count(self) -> u32 {
        match self {
            Self::All(ranks) => ranks,
            Self::List(ranks) => ranks.len() as u32,
        }
    }

    fn rank(self, place: u32) -> Rank {
        match self {
            Self::All(_) => place,
            Self::List(ranks) => ranks[place as usize],
        }
    }
}

/// A group, as one of its members sees it. Every wait ends with [`Fault::PeerFailed`] when any
/// member dies. A member that gives up for that reason does not tell the members that wait for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Team<'a> {
    pub(super) world: &'a World,
    context: u32,
    tag: u32,
    members: Members<'a>,
    /// The members that must not be lost: those of the whole group, where the team is part of a
    /// group.
    all: Members<'a>,
    pub(super) place: u32,
    /// Number of the window of which these are the members.
    window: Option<u32>,
    /// Mailboxes with other members, for short messages.
    pub(super) mail: Option<&'a [(Rank, MailboxId)]>,
}

impl<'a> Team<'a> {
    pub(super) const fn new(
        world: &'a World,
        context: u32,
        tag: u32,
        members: Members<'a>,
        place: u32,
    ) -> Self {
        Self { world, context, tag, members, all: members, place, window: None, mail: None }
    }

    /// Returns the same members, as those of a window.
    pub(super) const fn of_window(self, window: Option<u32>) -> Self {
        Self { window, ..self }
    }

    /// Returns a team of some members, this one among them, for a step of an operation of all.
    pub(super) fn among<'b>(&self, ranks: &'b [Rank]) -> Team<'b>
    where
        'a: 'b,
    {
        let own = ranks.iter().position(|rank| *rank == self.world.rank());
        Team { members: Members::List(ranks), place: own.unwrap_or(0) as u32, ..*self }
    }

    /// Returns the same members, which send short messages through these mailboxes.
    pub(super) const fn with_mail<'b>(self, mail: Option<&'b [(Rank, MailboxId)]>) -> Team<'b>
    where
        'a: 'b,
    {
        Team { mail, ..self }
    }

    /// Returns the rank in `place`.
    pub(super) fn rank(&self, place: u32) -> Rank {
        self.members.rank(place)
    }

    pub(super) const fn count(&self) -> u32 {
        self.members.count()
    }

    /// Returns the ranks of the other members.
    pub(super) fn others(self) -> impl Iterator<Item = Rank> {
        (0..self.count())
            .filter(move |place| *place != self.place)
            .map(move |p| self.members.rank(p))
    }

    /// Describes the wait of a member for a barrier in the segment.
    pub(super) fn barrier_wait(&self) -> Wait {
        let others = RankSet::of(self.others());
        let tag = Some(self.tag).filter(|tag| *tag != 0);
        let (context, window) = (Some(self.context), self.window);
        Wait { context, tag, others, window, ..Wait::new(Call::Barrier) }
    }

    /// Describes the wait of a member for the other's vector in the segment.
    pub(super) fn exchange_wait(&self) -> Wait {
        Wait { call: Call::Collective, ..self.barrier_wait() }
    }

    /// Describes the wait of a member for the member in `place`, or for all others.
    pub(super) fn step_wait(&self, place: Option<u32>) -> Wait {
        let wait = self.exchange_wait();
        let others = place.map_or(wait.others, |place| RankSet::of([self.rank(place)]));
        Wait { others, ..wait }
    }

    /// Returns true when all members are on one node, so that they can meet in its segment.
    pub(super) fn is_on_one_node(self) -> bool {
        let own = Some(self.world.node());
        self.world.nodes().count() == 1 || self.others().all(|rank| self.world.node_of(rank) == own)
    }

    /// Returns why the group cannot meet any more, if so: a member died, or all others left.
    pub(super) fn loss(&self) -> Option<Fault> {
        let engine = self.world.lock_progress();
        if !engine.is_any_gone() {
            return None;
        }
        let mut all_left = None;
        let mut left = 1;
        let own = self.world.rank();
        for rank in (0..self.all.count()).map(|place| self.all.rank(place)) {
            if rank == own {
                continue;
            }
            match engine.gone(rank) {
                Some(how @ Gone::Failed(_)) => return Some(how.fault(rank)),
                Some(Gone::Unreachable) => return Some(Fault::Unreachable { rank }),
                Some(Gone::Finished) => {
                    left += 1;
                    all_left = Some(Fault::PeerFinished { rank });
                }
                None => {}
            }
        }
        all_left.filter(|_| left == self.all.count())
    }

    /// Refuses an operation by messages once a member has died. Members that waited for it gave up
    /// in the middle, and the messages they had sent by then do not belong to this operation.
    pub(super) fn check_whole(&self) -> Result<(), Fault> {
        match self.loss() {
            Some(fault @ Fault::PeerFailed { .. }) => Err(fault),
            _ => Ok(()),
        }
    }

    /// Returns the cause behind `error`. A member that left early, or is out of step, mostly is so
    /// because it saw another member die.
    #[cold]
    pub(super) fn blame(&self, error: Error) -> Error {
        let doubtful = matches!(
            error,
            Error::Fault(Fault::PeerFinished { .. })
                | Error::Collective(CollectiveError::Length { .. })
        );
        if !doubtful {
            return error;
        }
        if let Err(error) = self.world.look_for_the_gone() {
            return error;
        }
        match self.loss() {
            // The others may have ended the operation, and then left in good order.
            None | Some(Fault::PeerFinished { .. }) => error,
            Some(death) => Error::Fault(death),
        }
    }

    /// Checks that the root has a place in the group.
    pub(super) fn check_root(&self, root: u32) -> Result<(), CollectiveError> {
        let members = self.count();
        if root < members { Ok(()) } else { Err(CollectiveError::Root { root, members }) }
    }

    /// Sends to the member in `place`.
    pub(super) fn send(&self, data: &[u8], place: u32) -> Result<(), Error> {
        match self.begin_send(data, place)? {
            Some(id) => self.finish(id).map(drop),
            None => Ok(()),
        }
    }

    /// Receives a message of exactly the length of `buffer` from the member in `place`.
    pub(super) fn receive(&self, buffer: &mut [u8], place: u32) -> Result<(), Error> {
        let (source, expected) = (self.members.rank(place), buffer.len());
        let received = match self.mailboxes(place, expected) {
            Some(mail) => self.receive_mail(mail, buffer, place),
            None => self.receive_any_length(buffer, source),
        };
        self.check_received((place, expected), received)
    }

    /// Checks that a message from a place has the expected length, given the number of bytes that
    /// were received.
    pub(super) fn check_received(
        &self,
        (place, expected): (u32, usize),
        received: Result<usize, Error>,
    ) -> Result<(), Error> {
        let found = match received {
            Err(Error::Fault(Fault::Truncated { message, .. })) => message,
            other => other?,
        };
        if found == expected {
            return Ok(());
        }
        Err(CollectiveError::Length { rank: self.rank(place), found, expected }.into())
    }

    /// Refuses a block of this member that has another length where it goes to.
    pub(super) fn check_length(&self, expected: usize, found: usize) -> Result<(), Error> {
        if found == expected {
            return Ok(());
        }
        let rank = self.members.rank(self.place);
        Err(CollectiveError::Length { rank, found, expected }.into())
    }

    /// Returns memory for what this member receives and combines.
    pub(super) fn scratch(&self, bytes: usize) -> Scratch<'a> {
        Scratch::new(&self.world.collective_memory.scratch, bytes)
    }

    /// Sends to one place while it receives from another place, or the same one.
    pub(super) fn exchange(
        &self,
        data: &[u8],
        to: u32,
        buffer: &mut [u8],
        from: u32,
    ) -> Result<(), Error> {
        let sending = self.begin_send(data, to)?;
        let received = self.receive(buffer, from);
        match sending {
            // A long send has a claim on `data` that must end, also after a failed receive.
            Some(id) if received.is_err() => self.world.settle(id),
            Some(id) => self.finish(id).map(drop)?,
            None => {}
        }
        received
    }

    /// Begins a send. `Some`: the send continues and needs `data`, and the caller ends it by
    /// `finish` or `settle`.
    pub(super) fn begin_send(&self, data: &[u8], place: u32) -> Result<Option<RequestId>, Error> {
        if let Some(mail) = self.mailboxes(place, data.len()) {
            return self.send_mail(mail, data, place).map(|()| None);
        }
        let (context, tag) = self.names();
        let (rank, key) = (self.members.rank(place), Key::new(context, tag));
        let sent = self.world.engine().send_short(rank, key, data);
        if self.world.wake_after(sent, rank) {
            return Ok(None);
        }
        let sent = self.world.engine().send_straight(rank, key, data);
        if self.world.wake_after(sent, rank) || self.world.send_medium(rank, key, data) {
            return Ok(None);
        }
        // SAFETY: each caller ends the operation before its borrow of `data` ends.
        let data = unsafe { Cursor::contiguous(part_of(data)) };
        // SAFETY: each caller ends the operation before its borrow of `data` ends.
        let sent =
            unsafe { self.world.isend(SendMode::Standard, rank, key, data, Owner::BLOCKING) }?;
        Ok(match sent {
            Sent::Done => None,
            Sent::Pending(id) => Some(id),
        })
    }

    /// Returns the context and the tag of the messages.
    pub(super) const fn names(&self) -> (u32, u32) {
        (self.context | INTERNAL, self.tag)
    }

    fn receive_any_length(&self, buffer: &mut [u8], source: Rank) -> Result<usize, Error> {
        let (context, tag) = self.names();
        let endpoint = self.world.endpoint().with_context(self.context).internal();
        if let Some(status) = endpoint.poll_lines(buffer, source, tag) {
            return Ok(status.bytes);
        }
        let pattern = Pattern { context, source, tag };
        // SAFETY: `finish` ends the operation's claim before this returns.
        let received = unsafe {
            let cursor = Cursor::contiguous(part_of_mut(buffer));
            self.world.irecv(pattern, cursor, Owner::BLOCKING)
        }?;
        match received {
            Received::Done(outcome) => Ok(outcome?.bytes),
            Received::Pending(id) => self.finish(id),
        }
    }

    /// Waits for an operation, and ends its claim on its buffer also after an error. Returns the
    /// number of bytes moved.
    pub(super) fn finish(&self, id: RequestId) -> Result<usize, Error> {
        let what = || {
            let wait = self.world.lock_progress().wait_of(id);
            Wait { call: Call::Collective, context: Some(self.context), ..wait }
        };
        Ok(self.world.wait_until_over(id, what, || self.loss())??.bytes)
    }

    /// Waits until every member has entered the barrier. In each round a rank hears of twice as
    /// many members as before (dissemination). It serves the leaders of nodes, and groups without a
    /// slot.
    pub(super) fn disseminate(&self) -> Result<(), Error> {
        let count = self.count();
        let mut distance = 1;
        while distance < count {
            let (to, from) = (self.place + distance, self.place + count - distance);
            self.exchange(&[], to % count, &mut [], from % count)?;
            distance *= 2;
        }
        Ok(())
    }
}

pub(super) fn bytes_mut<T: NoUninit + AnyBitPattern>(data: &mut [T]) -> &mut [u8] {
    bytemuck::must_cast_slice_mut(data)
}
