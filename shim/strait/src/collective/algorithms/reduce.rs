//! Reduce and allreduce.
//!
//! The members fall into *parts*: the binary digits of their number, largest first. The size of a
//! part is a power of two. In each part, pairs exchange their vectors (recursive doubling) or
//! halves of them (recursive halving). Then each part adds its result to that of the part before
//! it.

use core::ops::Range;

use super::choice::{REDUCE_MEMBERS, REDUCE_PIECES};
use super::piece_of;
use crate::Error;
use crate::collective::Meeting;
use crate::collective::operation::Operator;
use crate::collective::team::Team;

/// A part of the members.
#[derive(Clone, Copy)]
struct ReducedPart {
    /// First place.
    start: u32,
    /// Number of members, a power of two.
    size: u32,
}

impl ReducedPart {
    /// Returns the part of a member.
    const fn of(place: u32, members: u32) -> Self {
        let mut start = 0;
        loop {
            let size = 1 << (members - start).ilog2();
            if place < start + size {
                return Self { start, size };
            }
            start += size;
        }
    }
}

/// Which part of the vector a member of a part combines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ReducedShare {
    /// All of it.
    Whole,
    /// A piece of it, the smaller the larger the part is.
    Piece,
}

/// Halves a range of bytes at a boundary between elements.
const fn halves(range: &Range<usize>, element: usize) -> (Range<usize>, Range<usize>) {
    let middle = range.start + (range.end - range.start) / element / 2 * element;
    (range.start..middle, middle..range.end)
}

impl ReducedShare {
    /// Returns the range of the vector that member `at` of a part of `size` combines.
    fn range(self, bytes: usize, element: usize, at: u32, size: u32) -> Range<usize> {
        let mut range = 0..bytes;
        let mut bit = 1;
        while self == Self::Piece && bit < size {
            let (low, high) = halves(&range, element);
            range = if at & bit == 0 { low } else { high };
            bit *= 2;
        }
        range
    }
}

/// Combines `mine` with the vector of a higher or lower place.
fn combine(op: &dyn Operator, mine: &mut [u8], theirs: &[u8], is_higher: bool) {
    if is_higher {
        op.with_higher(mine, theirs);
    } else {
        op.with_lower(mine, theirs);
    }
}

impl Team<'_> {
    /// Reduces to the root. Elsewhere, `data` is undefined afterwards.
    pub(in crate::collective) fn reduce(
        &self,
        meeting: Meeting<'_>,
        data: &mut [u8],
        op: &dyn Operator,
        root: u32,
    ) -> Result<(), Error> {
        if self.reduces_as_pair() {
            return match self.place == root {
                true => self.reduce_from_other(None, data, op),
                false => self.send(data, root),
            };
        }
        if data.len() >= REDUCE_PIECES && self.count() >= REDUCE_MEMBERS {
            return self.reduce_in_pieces(data, op, root);
        }
        if !self.is_on_one_node() {
            if op.is_exact() {
                return self.reduce_by_nodes(meeting, data, op, root);
            }
            let mail = self.mail_among_all(meeting, data.len())?;
            return self.with_mail(mail.as_deref()).reduce_by_messages(data, op, root);
        }
        if self.reduce_shared(meeting, data, op, root)? {
            return Ok(());
        }
        self.reduce_by_messages(data, op, root)
    }

    /// Returns whether the members are two on one node. They combine each other's messages with
    /// their own vectors, without copies of these.
    pub(in crate::collective) fn reduces_as_pair(&self) -> bool {
        self.count() == 2 && self.is_on_one_node()
    }

    /// Receives the vector of the other one of two members, and combines it with `own`, or with
    /// `result` itself.
    pub(in crate::collective) fn reduce_from_other(
        &self,
        own: Option<&[u8]>,
        result: &mut [u8],
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let other = 1 - self.place;
        if let Some(own) = own {
            self.receive(result, other)?;
            self.combine_with_own(op, result, own, other);
            return Ok(());
        }
        let mut theirs = self.scratch(result.len());
        self.receive(theirs.bytes(), other)?;
        combine(op, result, theirs.bytes(), other > self.place);
        Ok(())
    }

    /// Combines `data`, which has come from the member `from`, with this member's `own`.
    pub(super) fn combine_with_own(
        &self,
        op: &dyn Operator,
        data: &mut [u8],
        own: &[u8],
        from: u32,
    ) {
        combine(op, data, own, from < self.place);
    }

    /// Reduces to place 0, from where the result goes to the root.
    fn reduce_by_messages(
        &self,
        data: &mut [u8],
        op: &dyn Operator,
        root: u32,
    ) -> Result<(), Error> {
        self.reduce_to_first(data, op)?;
        match self.place {
            _ if root == 0 => Ok(()),
            0 => self.send(data, root),
            place if place == root => self.receive(data, 0),
            _ => Ok(()),
        }
    }

    /// Reduces along a binomial tree to place 0. The pairs are always the same, with lower places
    /// on the left, and so is the result.
    pub(in crate::collective) fn reduce_to_first(
        &self,
        data: &mut [u8],
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let mut bit = 1;
        while bit < self.count() {
            if self.place & bit != 0 {
                return self.send(data, self.place - bit);
            }
            if self.place + bit < self.count() {
                let mut theirs = self.scratch(data.len());
                self.receive(theirs.bytes(), self.place + bit)?;
                op.with_higher(data, theirs.bytes());
            }
            bit *= 2;
        }
        Ok(())
    }

    /// Reduces in pieces, which the root gathers.
    fn reduce_in_pieces(&self, data: &mut [u8], op: &dyn Operator, root: u32) -> Result<(), Error> {
        self.reduce_in_part(None, data, op, ReducedShare::Piece)?;
        self.reduce_parts(data, op, ReducedShare::Piece)?;
        let first = ReducedPart::of(0, self.count());
        let piece = |place| ReducedShare::Piece.range(data.len(), op.element(), place, first.size);
        if self.place != root && self.place < first.size {
            return self.send(piece_of(data, piece(self.place)), root);
        }
        if self.place == root {
            for place in (0..first.size).filter(|place| *place != root) {
                let piece = ReducedShare::Piece.range(data.len(), op.element(), place, first.size);
                self.receive(&mut data[piece], place)?;
            }
        }
        Ok(())
    }

    /// Reduces for all members. The member's vector is `own`, or is in `data`.
    pub(in crate::collective) fn allreduce(
        &self,
        meeting: Meeting<'_>,
        own: Option<&[u8]>,
        data: &mut [u8],
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let share =
            if data.len() >= REDUCE_PIECES { ReducedShare::Piece } else { ReducedShare::Whole };
        let is_apart = share == ReducedShare::Piece || self.count() == 2;
        if is_apart && self.is_on_one_node() {
            return self.allreduce_by(own, data, op, share);
        }
        if let Some(own) = own {
            data.copy_from_slice(own);
        }
        if !self.is_on_one_node() {
            if share == ReducedShare::Whole && op.is_exact() {
                return self.allreduce_by_nodes(meeting, data, op);
            }
            let mail = self.mail_among_all(meeting, data.len())?;
            return self.with_mail(mail.as_deref()).allreduce_by(None, data, op, share);
        }
        if self.allreduce_shared(meeting, data, op)? {
            return Ok(());
        }
        self.allreduce_by(None, data, op, share)
    }

    /// Reduces whole vectors for all members, whatever their length.
    pub(super) fn allreduce_whole(&self, data: &mut [u8], op: &dyn Operator) -> Result<(), Error> {
        self.allreduce_by(None, data, op, ReducedShare::Whole)
    }

    fn allreduce_by(
        &self,
        own: Option<&[u8]>,
        data: &mut [u8],
        op: &dyn Operator,
        share: ReducedShare,
    ) -> Result<(), Error> {
        self.reduce_in_part(own, data, op, share)?;
        if self.count().is_power_of_two() {
            return self.gather_in_part(data, op, share);
        }
        self.reduce_parts(data, op, share)?;
        let first = ReducedPart::of(0, self.count()).size;
        if self.place >= first {
            return self.receive(data, self.place - first);
        }
        self.gather_in_part(data, op, share)?;
        if self.place + first < self.count() { self.send(data, self.place + first) } else { Ok(()) }
    }

    /// Combines the vectors of a part. Each member has its share of the result. The member's vector
    /// is `own`, or is in `data`.
    fn reduce_in_part(
        &self,
        mut own: Option<&[u8]>,
        data: &mut [u8],
        op: &dyn Operator,
        share: ReducedShare,
    ) -> Result<(), Error> {
        let part = ReducedPart::of(self.place, self.count());
        if let Some(own) = own.filter(|_| part.size == 1) {
            data.copy_from_slice(own);
        }
        let mut scratch = None;
        let mut range = 0..data.len();
        let mut bit = 1;
        while bit < part.size {
            let partner = self.place ^ bit;
            let (kept, given) = match (share, halves(&range, op.element())) {
                (ReducedShare::Whole, _) => (range.clone(), range),
                (ReducedShare::Piece, (low, high)) if partner > self.place => (low, high),
                (ReducedShare::Piece, (low, high)) => (high, low),
            };
            if let Some(own) = own.take() {
                let theirs = &mut data[kept.clone()];
                self.exchange(piece_of(own, given), partner, theirs, partner)?;
                self.combine_with_own(op, theirs, piece_of(own, kept.clone()), partner);
            } else {
                let scratch = scratch.get_or_insert_with(|| self.scratch(kept.len()));
                let theirs = &mut scratch.bytes()[..kept.len()];
                self.exchange(piece_of(data, given), partner, theirs, partner)?;
                combine(op, &mut data[kept.clone()], theirs, partner > self.place);
            }
            range = kept;
            bit *= 2;
        }
        Ok(())
    }

    /// Adds the result of each part to that of the part before it, share by share. The first part
    /// then has the result of all.
    fn reduce_parts(
        &self,
        data: &mut [u8],
        op: &dyn Operator,
        share: ReducedShare,
    ) -> Result<(), Error> {
        let part = ReducedPart::of(self.place, self.count());
        let at = self.place - part.start;
        let end = part.start + part.size;
        if end < self.count() {
            let next = ReducedPart::of(end, self.count());
            let own = share.range(data.len(), op.element(), at, part.size);
            let mine = &mut data[own];
            let mut theirs = self.scratch(mine.len());
            self.receive(theirs.bytes(), end + at % next.size)?;
            op.with_higher(mine, theirs.bytes());
        }
        if part.start > 0 {
            // The part before is the lowest digit of the places before this part.
            let size = part.start & part.start.wrapping_neg();
            for theirs in (at..size).step_by(part.size as usize) {
                let range = share.range(data.len(), op.element(), theirs, size);
                self.send(piece_of(data, range), part.start - size + theirs)?;
            }
        }
        Ok(())
    }

    /// Gathers the shares of the first part at each of its members, in the reverse order of
    /// `reduce_in_part`.
    fn gather_in_part(
        &self,
        data: &mut [u8],
        op: &dyn Operator,
        share: ReducedShare,
    ) -> Result<(), Error> {
        let mut bit = ReducedPart::of(0, self.count()).size / 2;
        while share == ReducedShare::Piece && bit > 0 {
            // Both partners had this range before they halved it.
            let range = share.range(data.len(), op.element(), self.place, bit);
            let (low, high) = halves(&range, op.element());
            let (before, after) = data.split_at_mut(low.end);
            let (low, high) = (&mut before[low], &mut after[..high.len()]);
            let partner = self.place ^ bit;
            if partner > self.place {
                self.exchange(low, partner, high, partner)?;
            } else {
                self.exchange(high, partner, low, partner)?;
            }
            bit /= 2;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_binary_digits_of_the_members() {
        let parts = |members| -> Vec<(u32, u32)> {
            let part = |place| ReducedPart::of(place, members);
            (0..members).map(|place| (part(place).start, part(place).size)).collect()
        };
        assert_eq!(parts(1), [(0, 1)]);
        assert_eq!(parts(4), [(0, 4); 4]);
        assert_eq!(parts(7), [(0, 4), (0, 4), (0, 4), (0, 4), (4, 2), (4, 2), (6, 1)]);
    }

    #[test]
    fn the_pieces_of_a_part_are_the_whole_vector() {
        for elements in [0, 1, 3, 8, 13] {
            let (bytes, element) = (elements * 12, 12);
            let mut pieces: Vec<_> =
                (0..4).map(|at| ReducedShare::Piece.range(bytes, element, at, 4)).collect();
            pieces.sort_by_key(|piece| (piece.start, piece.end));
            let end = pieces.iter().fold(0, |end, piece| {
                assert_eq!(piece.start, end);
                assert!(piece.start.is_multiple_of(element));
                piece.end
            });
            assert_eq!(end, bytes);
        }
    }
}
