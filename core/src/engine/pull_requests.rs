//! The receives that met offered messages. One pull request is under way to each source.

use super::wait_list::WaitList;
use crate::buffer::Cursor;
use crate::memory::{Memory, OutOfMemory, Slab};
use crate::wire::Offer;

/// A receive that met an offered message.
#[derive(Clone, Copy, Debug)]
pub(super) struct PullRequest {
    pub(super) source: u32,
    pub(super) offer: Offer,
    pub(super) buffer: Cursor,
    /// The receive's request. `None` after the receive was dropped: the message is pulled all the
    /// same, so that its sender is done with it.
    pub(super) request: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    pull: PullRequest,
    next: Option<u32>,
}

/// The pull requests to all sources. Those to one source stand in its line.
#[derive(Debug)]
pub(super) struct PullRequests<M: Memory> {
    entries: Slab<Entry, M>,
}

impl<M: Memory> PullRequests<M> {
    pub(super) const fn new(memory: M) -> Self {
        Self { entries: Slab::new(memory) }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) const fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Ensures that the next [`PullRequests::line_up`] does not fail.
    pub(super) fn reserve(&mut self) -> Result<(), OutOfMemory> {
        self.entries.reserve()
    }

    /// Adds a pull request at the end of the line to its source. Returns its number, and whether it
    /// is the first one and must be sent now.
    pub(super) fn line_up(
        &mut self,
        line: &mut WaitList,
        pull: PullRequest,
    ) -> Result<(u32, bool), OutOfMemory> {
        let number = self.entries.insert(Entry { pull, next: None })?;
        let last = line.push(number);
        if let Some(before) = last.and_then(|last| self.entries.get_mut(last)) {
            before.next = Some(number);
        }
        Ok((number, last.is_none()))
    }

    pub(super) fn get(&self, number: u32) -> Option<&PullRequest> {
        self.entries.get(number).map(|entry| &entry.pull)
    }

    /// Returns the pull request that is under way.
    pub(super) fn first(&self, line: &WaitList) -> Option<PullRequest> {
        self.get(line.first()?).copied()
    }

    /// Ends the pull request that is under way: its message arrives. Returns the next one, which
    /// must be sent now.
    pub(super) fn end_first(&mut self, line: &mut WaitList) -> Option<PullRequest> {
        let ended = self.entries.remove(line.first()?)?;
        line.pop(ended.next);
        self.first(line)
    }

    /// Drops the receive of a message that is pulled all the same.
    pub(super) fn drop_receive(&mut self, number: u32) {
        if let Some(entry) = self.entries.get_mut(number) {
            entry.pull.request = None;
        }
    }

    /// Removes the pull requests to a source that is gone. `end` gets the request of each receive
    /// that was not dropped.
    pub(super) fn clear(&mut self, line: &mut WaitList, mut end: impl FnMut(u32)) {
        let mut next = line.first();
        while let Some(ended) = next.and_then(|number| self.entries.remove(number)) {
            ended.pull.request.into_iter().for_each(&mut end);
            next = ended.next;
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::engine::testing::nothing;
    use crate::memory::counted::Counted;

    fn pull(request: u32) -> PullRequest {
        let offer = Offer { total: 0, place: 0, number: request };
        PullRequest { source: 1, offer, buffer: nothing(), request: Some(request) }
    }

    #[test]
    fn one_pull_request_to_a_source_is_under_way_at_a_time() {
        let (mut pulls, mut line) = (PullRequests::new(Counted::default()), WaitList::default());
        let sent = [1, 2, 3].map(|request| pulls.line_up(&mut line, pull(request)).unwrap().1);
        assert_eq!(sent, [true, false, false]);
        for request in [2, 3] {
            assert_eq!(pulls.first(&line).unwrap().request, Some(request - 1));
            assert_eq!(pulls.end_first(&mut line).unwrap().request, Some(request));
        }
        assert!(pulls.end_first(&mut line).is_none());
        assert!(line.is_empty() && pulls.is_empty());
        assert!(pulls.line_up(&mut line, pull(4)).unwrap().1);
    }

    #[test]
    fn the_receives_from_a_source_that_is_gone_end_except_those_that_were_dropped() {
        let mut pulls = PullRequests::new(Counted::default());
        let mut lines = [WaitList::default(); 2];
        let numbers = [1, 2, 3].map(|request| {
            let line = &mut lines[usize::from(request == 3)];
            pulls.line_up(line, pull(request)).unwrap().0
        });
        pulls.drop_receive(numbers[1]);
        let mut ended = Vec::new();
        pulls.clear(&mut lines[0], |request| ended.push(request));
        assert_eq!((ended, pulls.len()), (Vec::from([1]), 1));
        assert_eq!(pulls.first(&lines[1]).unwrap().request, Some(3));
    }
}
