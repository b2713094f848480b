//! The operations under way, and the outcomes that were not asked for yet.

use core::ptr::NonNull;

use super::request::{OutgoingMessage, RequestState};
use super::ticket::{LENT, Ticket};
use super::wait_list::WaitList;
use super::{Outcome, Owner, Status};
use crate::memory::{Memory, OutOfMemory, Slab};

/// An operation under way, and its owner.
#[derive(Clone, Copy, Debug)]
struct OperationEntry {
    owner: Owner,
    /// See [`Ticket::generation`]; and [`LENT`].
    generation: u32,
    state: RequestState,
}

/// The operations under way. Each has a number until its outcome is taken.
#[derive(Debug)]
pub(super) struct Requests<M: Memory> {
    entries: Slab<OperationEntry, M>,
    /// Generation of the next request.
    generation: u32,
}

impl<M: Memory> Requests<M> {
    pub(super) const fn new(memory: M) -> Self {
        Self { entries: Slab::new(memory), generation: 0 }
    }

    pub(super) const fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Ensures that the next [`Requests::insert`] does not fail.
    #[inline]
    pub(super) fn reserve(&mut self) -> Result<(), OutOfMemory> {
        self.entries.reserve()
    }

    #[inline]
    pub(super) fn insert(&mut self, owner: Owner, state: RequestState) -> Result<u32, OutOfMemory> {
        self.reserve()?;
        let ticket = self.insert_at_place(owner, state);
        ticket.map(|ticket| ticket.index).ok_or(OutOfMemory { bytes: size_of::<OperationEntry>() })
    }

    /// Adds an operation if that needs no memory, and returns its ticket.
    #[inline(always)]
    pub(super) fn insert_at_place(&mut self, owner: Owner, state: RequestState) -> Option<Ticket> {
        let generation = self.generation;
        let index = self.entries.insert_in_free(OperationEntry { owner, generation, state })?;
        self.generation = (generation + 1) % Ticket::GENERATIONS;
        Some(Ticket { index, generation })
    }

    /// Returns the number that the next [`Requests::insert`] returns. That insert does not fail.
    #[inline(always)]
    pub(super) fn next_id(&mut self) -> Result<u32, OutOfMemory> {
        self.entries.next_key()
    }

    /// Returns the generation of the operation that the next [`Requests::insert`] adds.
    #[inline(always)]
    pub(super) const fn next_generation(&self) -> u32 {
        self.generation
    }

    /// Returns the generation of an operation, and the mark of one in use.
    #[inline(always)]
    pub(super) fn generation(&self, id: u32) -> Option<u32> {
        self.entries.get(id).map(|entry| entry.generation)
    }

    /// Marks an operation as in use, or not.
    pub(super) fn lend(&mut self, id: u32, lent: bool) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.generation = entry.generation & !LENT | if lent { LENT } else { 0 };
        }
    }

    /// Returns whether an operation is over or forgotten.
    #[inline(always)]
    pub(super) fn is_over(&self, id: u32) -> bool {
        let entry = self.entries.get(id);
        entry.is_none_or(|entry| matches!(entry.state, RequestState::Done(_)))
    }

    /// Forgets an operation of this generation that is over without a fault, and returns its
    /// status.
    #[inline(always)]
    pub(super) fn take_status(&mut self, id: u32, generation: u32) -> Option<Status> {
        self.entries.discard_if(id, |entry| match entry.state {
            RequestState::Done(Ok(status)) if entry.generation == generation => Some(status),
            _ => None,
        })
    }

    /// Returns the state of a posted receive, and the place for a message of `length` bytes in its
    /// buffer. Returns `None` if the receive has sent an RTR, or has no room in one piece.
    #[inline(always)]
    pub(super) fn posted_place(
        &mut self,
        id: u32,
        length: usize,
    ) -> Option<(&mut RequestState, NonNull<u8>)> {
        let state = &mut self.entries.get_mut(id)?.state;
        let RequestState::Posted { buffer, asked: None, .. } = state else { return None };
        let place = buffer.place_for(length)?;
        Some((state, place))
    }

    /// Forgets a posted receive of this generation, and returns the place for a message of `length`
    /// bytes in its buffer. Returns `None` for the receives of which [`Requests::posted_place`]
    /// does, and then forgets nothing.
    #[inline(always)]
    pub(super) fn take_posted(
        &mut self,
        id: u32,
        generation: u32,
        length: usize,
    ) -> Option<NonNull<u8>> {
        self.entries.discard_if(id, |entry| {
            let RequestState::Posted { buffer, asked: None, .. } = &entry.state else {
                return None;
            };
            buffer.place_for(length).filter(|_| entry.generation == generation)
        })
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<RequestState> {
        self.entries.get(id).map(|entry| entry.state)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut RequestState> {
        self.entries.get_mut(id).map(|entry| &mut entry.state)
    }

    /// Replaces the state of an operation, if it exists.
    #[inline]
    pub(super) fn set(&mut self, id: u32, state: RequestState) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.state = state;
        }
    }

    /// Ends an operation, if it exists. Its outcome is kept until it is asked for.
    #[inline]
    pub(super) fn finish(&mut self, id: u32, outcome: Outcome) {
        self.set(id, RequestState::Done(outcome));
    }

    /// Returns the outcome of an operation that is over, and forgets the operation.
    #[inline]
    pub(super) fn take_outcome(&mut self, id: u32) -> Option<Outcome> {
        let Some(RequestState::Done(outcome)) = self.get(id) else { return None };
        self.entries.remove(id);
        Some(outcome)
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) {
        self.entries.remove(id);
    }

    /// Returns the message of a send that is not over.
    pub(super) fn outgoing(&self, id: u32) -> Option<OutgoingMessage> {
        match self.get(id)? {
            RequestState::Sending { message, .. } => Some(message),
            _ => None,
        }
    }

    /// Returns the message of a send that is not over, to change.
    pub(super) fn outgoing_mut(&mut self, id: u32) -> Option<&mut OutgoingMessage> {
        match self.get_mut(id)? {
            RequestState::Sending { message, .. } => Some(message),
            _ => None,
        }
    }

    /// Returns all operations in ascending order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, RequestState)> {
        self.entries.iter().map(|(id, entry)| (id, entry.state))
    }

    /// Returns the first operation with a number of at least `from`. A loop that changes operations
    /// uses it to continue.
    pub(super) fn next_from(&self, from: u32) -> Option<(u32, RequestState)> {
        self.entries.next_from(from).map(|(id, entry)| (id, entry.state))
    }

    /// Returns the first operation of `owner` with a number of at least `from`.
    pub(super) fn next_of(&self, owner: Owner, from: u32) -> Option<u32> {
        self.entries.iter_from(from).find(|(_, entry)| entry.owner == owner).map(|(id, _)| id)
    }

    /// Adds a send at the end of `line`.
    pub(super) fn line_up(&mut self, line: &mut WaitList, id: u32) {
        let last = line.push(id);
        if let Some(link) = last.and_then(|last| self.link_mut(last)) {
            *link = Some(id);
        }
        if let Some(link) = self.link_mut(id) {
            *link = None;
        }
    }

    /// Removes the first send from `line`, and returns it.
    pub(super) fn leave_line(&mut self, line: &mut WaitList) -> Option<u32> {
        let first = line.first()?;
        let next = self.link(first)?;
        line.pop(next);
        Some(first)
    }

    /// Returns whether the send `id` stands in `line`.
    pub(super) fn stands_in(&self, line: &WaitList, id: u32) -> bool {
        let next = |one: &u32| self.link(*one).flatten();
        core::iter::successors(line.first(), next).any(|one| one == id)
    }

    /// Returns the send behind a send, in its line.
    fn link(&self, id: u32) -> Option<Option<u32>> {
        match self.get(id)? {
            RequestState::Sending { next, .. } => Some(next),
            _ => None,
        }
    }

    fn link_mut(&mut self, id: u32) -> Option<&mut Option<u32>> {
        match self.get_mut(id)? {
            RequestState::Sending { next, .. } => Some(next),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Fault;
    use crate::engine::testing::sending;
    use crate::memory::counted::Counted;

    #[test]
    fn an_outcome_is_taken_once_and_only_when_the_operation_is_over() {
        let mut requests = Requests::new(Counted::default());
        let id = requests.insert(Owner(1), sending(7)).unwrap();
        assert_eq!(requests.take_outcome(id), None);
        requests.finish(id, Err(Fault::Cancelled));
        assert_eq!(requests.take_outcome(id), Some(Err(Fault::Cancelled)));
        assert_eq!(requests.take_outcome(id), None);
        assert_eq!(requests.len(), 0);
        requests.finish(id, Err(Fault::Cancelled));
        assert!(requests.get(id).is_none());
    }

    #[test]
    fn sends_leave_a_line_in_their_order_and_may_join_it_again() {
        let mut requests = Requests::new(Counted::default());
        let mut line = WaitList::default();
        let ids = [0, 1, 2].map(|tag| requests.insert(Owner(1), sending(tag)).unwrap());
        for id in ids {
            requests.line_up(&mut line, id);
        }
        assert!(ids.into_iter().all(|id| requests.stands_in(&line, id)));
        assert_eq!(requests.leave_line(&mut line), Some(ids[0]));
        assert!(!requests.stands_in(&line, ids[0]));
        requests.line_up(&mut line, ids[0]);
        for id in [ids[1], ids[2], ids[0]] {
            assert_eq!(requests.leave_line(&mut line), Some(id));
        }
        assert_eq!(requests.leave_line(&mut line), None);
    }

    #[test]
    fn the_operations_of_an_owner_are_found_one_after_the_other() {
        let mut requests = Requests::new(Counted::default());
        let ids = [1, 2, 1].map(|owner| requests.insert(Owner(owner), sending(0)).unwrap());
        assert_eq!(requests.next_of(Owner(1), 0), Some(ids[0]));
        assert_eq!(requests.next_of(Owner(1), ids[0] + 1), Some(ids[2]));
        assert_eq!(requests.next_of(Owner(1), ids[2] + 1), None);
    }

    #[test]
    fn only_a_send_has_an_outgoing_message() {
        let mut requests = Requests::new(Counted::default());
        let id = requests.insert(Owner(1), sending(3)).unwrap();
        requests.outgoing_mut(id).unwrap().sent = 0;
        assert_eq!(requests.outgoing(id).unwrap().key.tag(), 3);
        requests.set(id, RequestState::Calling { call: 0 });
        assert!(requests.outgoing(id).is_none() && requests.outgoing_mut(id).is_none());
    }
}
