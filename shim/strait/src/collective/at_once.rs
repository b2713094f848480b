//! The messages of one member to all others, and theirs to it, all under way at once. A member then
//! waits once for all, where it would wait for one after the other.

use core::ops::Range;

use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Owner, Received, RequestId};
use strait_core::matching::Pattern;

use super::algorithms::piece_of_mut;
use super::team::Team;
use crate::Error;
use crate::buffer::part_of_mut;

/// Most messages in each direction that are under way at once.
const WIDTH: usize = 16;

/// Mean length of a member's messages, in bytes, up to which all are sent before any is received.
/// They need not wait for their receives, and receives that are posted take longer.
const SENT_FIRST: usize = 32 << 10;

/// An operation that goes on.
#[derive(Clone, Copy)]
struct Open {
    id: RequestId,
    /// Of a receive: the sender's place, and the length that its message must have.
    expected: Option<(u32, usize)>,
}

/// The operations in one direction that were begun and go on.
type Opened = [Option<Open>; WIDTH];

impl Team<'_> {
    /// Sends each other member its part of a vector, `out`, and receives the member's message in
    /// the range `to` of `into`.
    pub(super) fn exchange_with_all<'b>(
        &self,
        out: impl Fn(u32) -> &'b [u8],
        into: &mut [u8],
        to: impl Fn(u32) -> Range<usize>,
    ) -> Result<(), Error> {
        if into.len() <= self.count() as usize * SENT_FIRST {
            if self.count() == 2 {
                let other = 1 - self.place;
                return self.exchange(out(other), other, piece_of_mut(into, to(other)), other);
            }
            return self.at_once(|team, [_, sends], distances| {
                team.begin_sends(sends, distances.clone(), &out)?;
                team.receive_each(into, distances, &to)
            });
        }
        let into = part_of_mut(into);
        self.at_once(|team, [receives, sends], distances| {
            // SAFETY: `into` is borrowed until `at_once` has ended all operations.
            unsafe { team.begin_receives(receives, distances.clone(), (into, &to)) }?;
            team.begin_sends(sends, distances, &out)
        })
    }

    /// Sends each other member the block `own` of `all`, and receives the member's message in the
    /// range `to` of it.
    ///
    /// # Safety
    ///
    /// No range of another member overlaps `own`.
    pub(super) unsafe fn exchange_within(
        &self,
        own: Range<usize>,
        all: &mut [u8],
        to: impl Fn(u32) -> Range<usize>,
    ) -> Result<(), Error> {
        let all = part_of_mut(all);
        let Part { base, length } = part_at(all, own);
        // SAFETY: `all` is borrowed until `at_once` has ended all operations. The caller guarantees
        // that none of them writes there.
        let own = unsafe { core::slice::from_raw_parts(base.as_ptr(), length) };
        self.at_once(|team, [receives, sends], distances| {
            // SAFETY: as above.
            unsafe { team.begin_receives(receives, distances.clone(), (all, &to)) }?;
            team.begin_sends(sends, distances, |_| own)
        })
    }

    /// Receives the message of each other member in the range `to` of `into`.
    pub(super) fn receive_from_all(
        &self,
        into: &mut [u8],
        to: impl Fn(u32) -> Range<usize>,
    ) -> Result<(), Error> {
        let into = part_of_mut(into);
        self.at_once(|team, [receives, _], distances| {
            // SAFETY: `into` is borrowed until `at_once` has ended all operations.
            unsafe { team.begin_receives(receives, distances, (into, &to)) }
        })
    }

    /// Sends each other member its part of a vector, `out`.
    pub(super) fn send_to_all<'b>(&self, out: impl Fn(u32) -> &'b [u8]) -> Result<(), Error> {
        self.at_once(|team, [_, sends], distances| team.begin_sends(sends, distances, &out))
    }

    /// Calls `begin` for some distances to other members after the others, and ends the operations
    /// that it has begun.
    fn at_once(
        &self,
        mut begin: impl FnMut(Team<'_>, [&mut Opened; 2], Range<u32>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Mailboxes have room for few messages.
        let (team, count) = (self.with_mail(None), self.count());
        for first in (1..count).step_by(WIDTH) {
            let (mut receives, mut sends) = ([None; WIDTH], [None; WIDTH]);
            let distances = first..count.min(first + WIDTH as u32);
            let begun = begin(team, [&mut receives, &mut sends], distances);
            let received = team.end_all(receives, begun);
            team.end_all(sends, received)?;
        }
        Ok(())
    }

    /// Receives the messages of the members at these distances, one after the other.
    pub(super) fn receive_each(
        &self,
        into: &mut [u8],
        distances: Range<u32>,
        to: impl Fn(u32) -> Range<usize>,
    ) -> Result<(), Error> {
        for distance in distances {
            let from = self.absolute(self.count() - distance, self.place);
            self.receive(piece_of_mut(into, to(from)), from)?;
        }
        Ok(())
    }

    /// Posts the receives from the members at these distances.
    ///
    /// # Safety
    ///
    /// The vector is writable until the operations in `open` have been ended, and nothing else uses
    /// the ranges in it.
    unsafe fn begin_receives(
        &self,
        open: &mut Opened,
        distances: Range<u32>,
        (into, to): (Part, impl Fn(u32) -> Range<usize>),
    ) -> Result<(), Error> {
        for (distance, open) in distances.zip(open) {
            let from = self.absolute(self.count() - distance, self.place);
            // SAFETY: the caller guarantees it of all ranges.
            *open = unsafe { self.begin_receive(part_at(into, to(from)), from) }?;
        }
        Ok(())
    }

    /// Begins the sends to the members at these distances.
    fn begin_sends<'b>(
        &self,
        open: &mut Opened,
        distances: Range<u32>,
        out: impl Fn(u32) -> &'b [u8],
    ) -> Result<(), Error> {
        for (distance, open) in distances.zip(open) {
            let place = self.absolute(distance, self.place);
            let id = self.begin_send(out(place), place)?;
            *open = id.map(|id| Open { id, expected: None });
        }
        Ok(())
    }

    /// Posts a receive of exactly the length of `part`. `None`: the message had come.
    ///
    /// # Safety
    ///
    /// `part` is writable until the receive has been ended, and nothing else uses it.
    unsafe fn begin_receive(&self, part: Part, from: u32) -> Result<Option<Open>, Error> {
        let (context, tag) = self.names();
        let pattern = Pattern { context, source: self.rank(from), tag };
        // SAFETY: the caller guarantees it.
        let received =
            unsafe { self.world.irecv(pattern, Cursor::contiguous(part), Owner::BLOCKING) }?;
        let expected = (from, part.length);
        match received {
            Received::Pending(id) => Ok(Some(Open { id, expected: Some(expected) })),
            Received::Done(outcome) => {
                let moved = outcome.map(|status| status.bytes).map_err(Error::from);
                self.check_received(expected, moved).map(|()| None)
            }
        }
    }

    /// Waits for operations, and gives them up after an error, so that none has a claim on memory
    /// any longer.
    fn end_all(&self, open: Opened, mut outcome: Result<(), Error>) -> Result<(), Error> {
        for Open { id, expected } in open.into_iter().flatten() {
            outcome = match (outcome, expected) {
                (Ok(()), Some(expected)) => self.check_received(expected, self.finish(id)),
                (Ok(()), None) => self.finish(id).map(drop),
                (Err(error), _) => {
                    self.world.settle(id);
                    Err(error)
                }
            };
        }
        outcome
    }
}

/// Returns a part of a vector, cut off where the vector ends.
fn part_at(all: Part, Range { start, end }: Range<usize>) -> Part {
    let end = end.min(all.length);
    let start = start.min(end);
    // SAFETY: it lies in the vector.
    Part { base: unsafe { all.base.add(start) }, length: end - start }
}
