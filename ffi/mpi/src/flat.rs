//! Flat datatypes: the bytes of one element, as runs in the order of the type map.

use core::ffi::c_int;

/// Contiguous bytes of an element.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ByteSpan {
    /// Distance in bytes from the address of the element.
    pub(crate) offset: i64,
    pub(crate) bytes: usize,
}

/// A datatype without structure.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlatType {
    /// Number of bytes of data of one element.
    pub(crate) size: usize,
    pub(crate) lower: i64,
    /// Distance in bytes from one element to the next.
    pub(crate) extent: i64,
    pub(crate) runs: Vec<ByteSpan>,
}

impl FlatType {
    /// Creates a predefined type of this size and extent. A pair with a gap has its last four bytes
    /// behind the gap (MPI-5.0 §6.9.4).
    pub(crate) fn predefined(size: usize, lower: i64, extent: i64) -> Self {
        let mut flat = Self { lower, extent, ..Self::default() };
        let last = size_of::<c_int>();
        let first = size.wrapping_sub(last);
        let is_pair_with_gap = size > last && extent > size as i64 && !first.is_multiple_of(last);
        if is_pair_with_gap {
            flat.push(0, first);
            flat.push(first.next_multiple_of(last) as i64, last);
        } else {
            flat.push(0, size);
        }
        flat
    }

    /// Adds bytes. A run that begins where the last one ends becomes part of it.
    pub(crate) fn push(&mut self, offset: i64, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.size += bytes;
        if let Some(last) = self.runs.last_mut()
            && last.offset + last.bytes as i64 == offset
        {
            last.bytes += bytes;
        } else {
            self.runs.push(ByteSpan { offset, bytes });
        }
    }

    /// Adds `count` elements of `inner`, one behind the other.
    pub(crate) fn push_elements(&mut self, offset: i64, count: i64, inner: &Self) {
        if let Some(run) = inner.single_run() {
            if count > 0 {
                self.push(offset + run.offset, run.bytes * count as usize);
            }
            return;
        }
        for number in 0..count {
            let base = offset + number * inner.extent;
            inner.runs.iter().for_each(|run| self.push(base + run.offset, run.bytes));
        }
    }

    /// Returns the only run, if elements behind each other have no gaps between them.
    pub(crate) fn single_run(&self) -> Option<ByteSpan> {
        match *self.runs {
            [run] if run.bytes as i64 == self.extent => Some(run),
            _ => None,
        }
    }

    /// Returns whether `count` elements at an address would have bytes at the address null.
    pub(crate) fn is_at_null(&self, base: usize, count: usize) -> bool {
        let first = self.runs.first();
        count > 0 && first.is_some_and(|run| base.wrapping_add_signed(run.offset as isize) == 0)
    }

    /// Returns whether elements are bytes behind each other, from their address on.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.size == 0 || self.single_run().is_some_and(|run| run.offset == 0)
    }

    /// Returns the mean number of bytes of a run.
    pub(crate) fn mean_run(&self) -> usize {
        self.size / self.runs.len().max(1)
    }

    /// Returns the runs of `count` elements at `base`, as addresses.
    pub(crate) fn addresses(
        &self,
        base: usize,
        count: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        (0..count).flat_map(move |number| {
            let element = base.wrapping_add_signed((number as i64 * self.extent) as isize);
            self.runs
                .iter()
                .map(move |run| (element.wrapping_add_signed(run.offset as isize), run.bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_touch_become_one() {
        let mut flat = FlatType::default();
        [(0, 4), (4, 4), (12, 2), (10, 2)].into_iter().for_each(|(at, bytes)| flat.push(at, bytes));
        let expected = [(0, 8), (12, 2), (10, 2)].map(|(offset, bytes)| ByteSpan { offset, bytes });
        assert_eq!((flat.size, &flat.runs[..]), (12, &expected[..]));
    }

    #[test]
    fn descending_displacements_keep_the_order_of_the_type_map() {
        let mut flat = FlatType { extent: 8, ..FlatType::default() };
        flat.push(4, 4);
        flat.push(0, 4);
        assert!(!flat.is_contiguous(), "the second half comes first");
        assert_eq!(flat.addresses(100, 1).collect::<Vec<_>>(), [(104, 4), (100, 4)]);
    }

    #[test]
    fn pairs_have_their_gap() {
        let short_int = FlatType::predefined(6, 0, 8);
        assert_eq!(short_int.addresses(0, 1).collect::<Vec<_>>(), [(0, 2), (4, 4)]);
        let double_int = FlatType::predefined(12, 0, 16);
        assert_eq!(double_int.addresses(0, 2).collect::<Vec<_>>(), [(0, 12), (16, 12)]);
        assert!(FlatType::predefined(8, 0, 8).is_contiguous());
    }
}
