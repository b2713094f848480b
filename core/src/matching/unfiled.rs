//! The youngest entries of a queue, which are in no bin yet.

use super::steps::step;

/// Number of entries that may wait unfiled. A search visits all of them, so it is a constant.
pub(super) const UNFILED_MAX: usize = 32;

/// What an envelope and each selector without a wildcard that matches it have in common. Others may
/// have the same mark, so an entry with an equal mark is still to be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark(u32);

impl Mark {
    /// The mark of a selector with a wildcard, which may match any envelope.
    pub(super) const ANY: Self = Self(1);

    /// The mark of an entry that was removed.
    const GONE: Self = Self(0);

    /// Returns the mark of a number in which entries seldom agree.
    #[inline(always)]
    pub(super) const fn of(number: u32) -> Self {
        Self(number << 2 | 2)
    }
}

/// An entry of the queue: its mark, and the handle of its node.
#[derive(Clone, Copy, Debug)]
struct Entry {
    mark: Mark,
    handle: u32,
}

/// The youngest entries of a queue in the order in which they came.
///
/// Most entries leave a queue soon and from its front. They are found here by comparing marks, and
/// never filed. When there are [`UNFILED_MAX`], all of them are filed. So each filed entry is older
/// than each unfiled one.
#[derive(Debug)]
pub(super) struct Unfiled {
    entries: [Entry; UNFILED_MAX],
    /// The place of the oldest entry.
    start: usize,
    /// The place behind the youngest entry. Between them may be places of entries that are gone.
    end: usize,
    count: u32,
    /// The number of entries with the mark [`Mark::ANY`] that were added since there was none.
    any: u32,
}

impl Unfiled {
    pub(super) const fn new() -> Self {
        let gone = Entry { mark: Mark::GONE, handle: 0 };
        Self { entries: [gone; UNFILED_MAX], start: 0, end: 0, count: 0, any: 0 }
    }

    #[inline(always)]
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether there is a place for another entry.
    #[inline(always)]
    pub(super) const fn has_place(&self) -> bool {
        self.end < UNFILED_MAX
    }

    /// Moves the entries to the front, if that makes enough places to be worth it, and returns
    /// whether it did. `moved` gets the handle and the new place of each entry.
    pub(super) fn close_gaps(&mut self, mut moved: impl FnMut(u32, usize)) -> bool {
        if self.count as usize > UNFILED_MAX / 2 {
            return false;
        }
        let mut end = 0;
        for place in self.start..self.end {
            let entry = self.entries[place];
            if entry.mark != Mark::GONE {
                step();
                moved(entry.handle, end);
                self.entries[end] = entry;
                end += 1;
            }
        }
        (self.start, self.end) = (0, end);
        true
    }

    /// Returns the place of the next entry.
    #[inline(always)]
    pub(super) const fn next_place(&self) -> usize {
        self.end
    }

    /// Adds an entry behind all others. There is [a place](Self::has_place) for it.
    #[inline(always)]
    pub(super) fn push(&mut self, mark: Mark, handle: u32) {
        step();
        self.entries[self.end] = Entry { mark, handle };
        self.end += 1;
        self.count += 1;
        self.any += u32::from(mark == Mark::ANY);
    }

    /// Returns the place and the handle of the oldest entry from `first` on that may match.
    #[inline(always)]
    pub(super) fn next_from(&self, first: usize, mark: Mark) -> Option<(usize, u32)> {
        let first = first.max(self.start);
        let entries = self.entries.get(first..self.end)?;
        let place = if mark != Mark::ANY && self.any == 0 {
            entries.iter().position(|entry| {
                step();
                entry.mark == mark
            })
        } else {
            entries.iter().position(|entry| {
                step();
                entry.mark == mark
                    || entry.mark == Mark::ANY
                    || (mark == Mark::ANY && entry.mark != Mark::GONE)
            })
        };
        let place = first + place?;
        Some((place, self.entries[place].handle))
    }

    /// Removes the entry at `place`.
    #[inline(always)]
    pub(super) fn remove(&mut self, place: usize) {
        step();
        self.entries[place].mark = Mark::GONE;
        self.count -= 1;
        if self.count == 0 {
            (self.start, self.end, self.any) = (0, 0, 0);
        } else if place == self.start {
            self.skip_gone();
        }
    }

    /// Goes on to the next entry after the oldest one was removed.
    #[inline(always)]
    fn skip_gone(&mut self) {
        while self.entries.get(self.start).is_some_and(|entry| entry.mark == Mark::GONE) {
            step();
            self.start += 1;
        }
    }

    /// Returns the handles, the oldest entry's first.
    pub(super) fn handles(&self) -> impl DoubleEndedIterator<Item = u32> {
        let entries = self.entries[self.start..self.end].iter();
        entries.filter(|entry| entry.mark != Mark::GONE).map(|entry| entry.handle)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const CASES: u32 = if cfg!(miri) { 4 } else { 256 };
    const STEPS: usize = if cfg!(miri) { 60 } else { 300 };

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: CASES,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// The same steps on a plain list find the same entries in the same order.
        #[test]
        fn entries_are_found_in_their_order(
            steps in prop::collection::vec((0..5_u8, 0..6_u32), 1..STEPS)
        ) {
            let (mut unfiled, mut model) = (Unfiled::new(), VecDeque::<(Mark, u32)>::new());
            for (handle, (kind, number)) in (0..).zip(steps) {
                let mark = if number == 0 { Mark::ANY } else { Mark::of(number) };
                if kind < 3 {
                    let mut moved = Vec::new();
                    let mut note = |which, to| moved.push((which, to));
                    if unfiled.has_place() || unfiled.close_gaps(&mut note) {
                        prop_assert!(moved.iter().all(|(which, to)| model[*to].1 == *which));
                        unfiled.push(mark, handle);
                        model.push_back((mark, handle));
                    } else {
                        prop_assert!(model.len() > UNFILED_MAX / 2, "room was left");
                        (unfiled, model) = (Unfiled::new(), VecDeque::<(Mark, u32)>::new());
                    }
                    continue;
                }
                let is_it = |(other, _): &(Mark, u32)| {
                    *other == mark || mark == Mark::ANY || *other == Mark::ANY
                };
                let expected = model.iter().position(is_it);
                let found = unfiled.next_from(0, mark);
                prop_assert_eq!(found.map(|(_, handle)| handle), expected.map(|at| model[at].1));
                let next = found.and_then(|(place, _)| unfiled.next_from(place + 1, mark));
                let second = model.iter().filter(|entry| is_it(entry)).nth(1);
                prop_assert_eq!(next.map(|(_, handle)| handle), second.map(|(_, handle)| *handle));
                if let (Some((place, handle)), Some(at)) = (found, expected) {
                    unfiled.remove(place);
                    model.remove(at);
                    prop_assert!(unfiled.handles().all(|other| other != handle));
                }
                prop_assert_eq!(unfiled.count() as usize, model.len());
                prop_assert!(unfiled.handles().eq(model.iter().map(|(_, handle)| *handle)));
            }
        }
    }
}
