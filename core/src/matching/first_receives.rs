//! The first receives of a queue, where they all ask for the same messages.

use core::mem;

use super::steps::step;

/// Number of receives that [`FirstReceives`] holds: a window of the OSU benchmarks.
pub(super) const FIRST_MAX: u32 = 64;

/// The handle of a receive that was posted to an empty queue.
pub(crate) const EMPTY_HANDLE: u32 = 0;

/// The oldest receives of a queue, if they have one selector: those that were posted one after the
/// other while the queue had no other receive.
///
/// Programs often have one receive at a time, or a window of receives that differ by their buffers
/// only. These are in no list and no bin. Each message takes the oldest one.
///
/// The handle of a receive is its place, which is below [`FIRST_MAX`].
#[derive(Debug)]
pub(super) struct FirstReceives<P, T> {
    /// The selector of all, while there are any.
    selector: Option<P>,
    /// Number of the oldest receive. It wraps; its remainder is the place.
    oldest: u32,
    /// Number of places from the oldest receive to the youngest one.
    count: u32,
    /// A receive that was cancelled between others leaves its place empty. The oldest one's place
    /// never is.
    receives: [Option<T>; FIRST_MAX as usize],
}

/// Returns the place of the receive with this number.
#[inline(always)]
const fn place_of(number: u32) -> usize {
    (number % FIRST_MAX) as usize
}

impl<P: Copy + PartialEq, T: Copy> FirstReceives<P, T> {
    pub(super) const fn new() -> Self {
        Self { selector: None, oldest: 0, count: 0, receives: [None; FIRST_MAX as usize] }
    }

    /// Adds a receive to an empty queue. Its handle is [`EMPTY_HANDLE`].
    #[inline(always)]
    pub(super) fn start(&mut self, selector: P, receive: T) {
        step();
        self.selector = Some(selector);
        (self.oldest, self.count) = (EMPTY_HANDLE, 1);
        self.receives[EMPTY_HANDLE as usize] = Some(receive);
    }

    /// Adds a receive, which the caller knows to be the youngest, and returns its handle. Returns
    /// `None` if there are none with this selector, or no place is left.
    #[inline(always)]
    pub(super) fn add(&mut self, selector: &P, receive: T) -> Option<u32> {
        if self.selector.as_ref() != Some(selector) || self.count == FIRST_MAX {
            return None;
        }
        step();
        let place = place_of(self.oldest.wrapping_add(self.count));
        self.receives[place] = Some(receive);
        self.count += 1;
        Some(place as u32)
    }

    /// Returns the selector and the oldest receive.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<(P, T)> {
        Some((self.selector?, self.receives[place_of(self.oldest)]?))
    }

    /// Returns the selector of all.
    pub(super) const fn selector(&self) -> Option<P> {
        self.selector
    }

    /// Returns the handle of the oldest receive.
    #[inline(always)]
    pub(super) const fn first_handle(&self) -> u32 {
        place_of(self.oldest) as u32
    }

    /// Removes the oldest receive, if there is one.
    #[inline(always)]
    pub(super) fn remove_first(&mut self) {
        step();
        self.receives[place_of(self.oldest)] = None;
        if self.count > 1 {
            self.skip_empty();
        } else {
            // It is alone, as most are.
            (self.selector, self.count) = (None, 0);
        }
    }

    /// Removes a receive and returns it.
    #[inline(always)]
    pub(super) fn remove(&mut self, handle: u32) -> Option<T> {
        let receive = mem::take(self.receives.get_mut(handle as usize)?)?;
        if handle == self.first_handle() {
            self.skip_empty();
        }
        Some(receive)
    }

    /// Goes on to the next receive after the oldest one was removed.
    #[inline(always)]
    fn skip_empty(&mut self) {
        while self.receives[place_of(self.oldest)].is_none() {
            step();
            self.oldest = self.oldest.wrapping_add(1);
            self.count -= 1;
            if self.count == 0 {
                self.selector = None;
                return;
            }
        }
    }

    /// Returns all receives as (handle, receive), by ascending handle from `from` on.
    pub(super) fn iter_from(&self, from: u32) -> impl Iterator<Item = (u32, T)> {
        let receives = self.receives.iter().enumerate().skip(from as usize);
        receives.filter_map(|(place, receive)| Some((place as u32, (*receive)?)))
    }

    /// Returns all receives as (handle, receive), the youngest first.
    pub(super) fn youngest_first(&self) -> impl Iterator<Item = (u32, T)> {
        (0..self.count).rev().filter_map(|number| {
            let place = place_of(self.oldest.wrapping_add(number));
            Some((place as u32, self.receives[place]?))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const STEPS: usize = if cfg!(miri) { 60 } else { 500 };

    #[test]
    fn a_receive_with_another_selector_or_too_many_are_refused() {
        let mut first = FirstReceives::new();
        assert_eq!((first.add(&'a', 0), first.first()), (None, None));
        first.start('a', 0);
        assert_eq!(first.add(&'b', 1), None);
        for number in 1..FIRST_MAX {
            assert_eq!(first.add(&'a', number), Some(number));
        }
        assert_eq!(first.add(&'a', 99), None);
        assert_eq!(first.remove(0), Some(0));
        assert_eq!(first.add(&'a', 99), Some(0), "the place is free again");
        assert_eq!((first.remove(FIRST_MAX), first.first()), (None, Some(('a', 1))));
    }

    proptest! {
        /// The same steps on a plain queue give the same receives in the same order.
        #[test]
        fn the_oldest_is_found_whatever_was_removed(
            steps in prop::collection::vec((0..4_u8, 0..FIRST_MAX), 1..STEPS)
        ) {
            let (mut first, mut model) = (FirstReceives::new(), VecDeque::new());
            for (value, (step, choice)) in (0..).zip(steps) {
                match step {
                    0 | 1 if model.is_empty() => {
                        first.start('a', value);
                        model.push_back((EMPTY_HANDLE, value));
                    }
                    0 | 1 => if let Some(handle) = first.add(&'a', value) {
                        prop_assert!(model.iter().all(|(other, _)| *other != handle));
                        model.push_back((handle, value));
                    },
                    2 => {
                        first.remove_first();
                        model.pop_front();
                    }
                    _ if model.is_empty() => {}
                    _ => {
                        let (handle, value) = model.remove(choice as usize % model.len()).unwrap();
                        prop_assert_eq!(first.remove(handle), Some(value));
                    }
                }
                prop_assert_eq!(first.first(), model.front().map(|(_, value)| ('a', *value)));
                prop_assert!(first.youngest_first().eq(model.iter().rev().copied()));
                let mut by_handle: Vec<_> =
                    model.iter().copied().filter(|(handle, _)| *handle >= choice).collect();
                by_handle.sort_unstable();
                prop_assert!(first.iter_from(choice).eq(by_handle));
            }
        }
    }
}
