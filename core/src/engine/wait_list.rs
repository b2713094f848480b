//! A queue of entries that are linked through a field of their own, oldest first.

/// The ends of such a queue. Its owner keeps the entries: each names the one behind it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitList {
    ends: Option<(u32, u32)>,
}

impl WaitList {
    pub(super) const fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// Returns the oldest entry.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.ends.map(|(first, _)| first)
    }

    /// Adds `entry`, which names none behind it. Returns the entry that must name it now.
    pub(super) fn push(&mut self, entry: u32) -> Option<u32> {
        let last = self.ends.map(|(_, last)| last);
        self.ends = Some((self.first().unwrap_or(entry), entry));
        last
    }

    /// Removes the oldest entry, which names `next` behind it.
    pub(super) fn pop(&mut self, next: Option<u32>) {
        self.ends = next.and_then(|next| self.ends.map(|(_, last)| (next, last)));
    }

    /// Removes all entries.
    pub(super) const fn clear(&mut self) {
        self.ends = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_leave_in_the_order_in_which_they_came() {
        let (mut list, mut next) = (WaitList::default(), [None; 4]);
        for entry in [2, 0, 3] {
            if let Some(last) = list.push(entry) {
                next[last as usize] = Some(entry);
            }
        }
        for entry in [2, 0, 3] {
            assert_eq!(list.first(), Some(entry));
            list.pop(next[entry as usize]);
        }
        assert!(list.is_empty() && list.first().is_none());
    }

    #[test]
    fn a_list_that_was_emptied_begins_anew() {
        let mut list = WaitList::default();
        assert_eq!(list.push(1), None);
        assert_eq!(list.push(2), Some(1));
        list.clear();
        assert_eq!(list.push(3), None);
        assert_eq!(list.first(), Some(3));
    }
}
