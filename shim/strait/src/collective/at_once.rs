//! The messages of one member to all others, and theirs to it, all under way at once. A member then
//! waits once for all, where it would wait for one after the other.

use core::ops::Range;

use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Owner, Received, RequestId};
use strait_core::matching::Pattern;

use super::team::Team;
use crate::Error;
use crate::buffer::part_of_mut;

/// Most messages in each direction that are under way at once.
const WIDTH: usize = 16;

/// An operation that goes on.
#[derive(Clone, Copy)]
struct Open {
    id: RequestId,
    /// Of a receive: the sender's place, and the length that its message must have.
    expected: Option<(u32, usize)>,
}

impl Team<'_> {
    /// Sends each other member its part of a vector, `out`, and receives the member's message in
    /// the range `to` of `into`.
    pub(super) fn exchange_with_all<'b>(
        &self,
        out: impl Fn(u32) -> &'b [u8],
        into: &mut [u8],
        to: impl Fn(u32) -> Range<usize>,
    ) -> Result<(), Error> {
        // Mailboxes have room for few messages.
        let (team, all, count) = (self.with_mail(None), part_of_mut(into), self.count());
        for first in (1..count).step_by(WIDTH) {
            let distances = first..count.min(first + WIDTH as u32);
            let mut open = [None; 2 * WIDTH];
            // SAFETY: `into` is borrowed until this returns, and `end_all` ends all operations.
            let begun = unsafe { team.begin_exchange(&mut open, distances, &out, (all, &to)) };
            team.end_all(open, begun)?;
        }
        Ok(())
    }

    /// Begins the receives from the members at these distances, and then the sends.
    ///
    /// # Safety
    ///
    /// The vector is writable until the operations in `open` have been ended, and nothing else uses
    /// it.
    unsafe fn begin_exchange<'b>(
        &self,
        open: &mut [Option<Open>; 2 * WIDTH],
        distances: Range<u32>,
        out: impl Fn(u32) -> &'b [u8],
        (into, to): (Part, impl Fn(u32) -> Range<usize>),
    ) -> Result<(), Error> {
        let (receives, sends) = open.split_at_mut(WIDTH);
        for (distance, open) in distances.clone().zip(receives) {
            let from = self.absolute(self.count() - distance, self.place);
            // SAFETY: the caller guarantees it of the whole vector.
            *open = unsafe { self.begin_receive(part_at(into, to(from)), from) }?;
        }
        for (distance, open) in distances.zip(sends) {
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
    fn end_all(
        &self,
        open: [Option<Open>; 2 * WIDTH],
        mut outcome: Result<(), Error>,
    ) -> Result<(), Error> {
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
