//! Short accumulates under a lock that a device takes, gathered until the next synchronisation.
//!
//! Such an accumulate is five requests, and its origin waits for two round trips, whatever its
//! length. MPI completes an accumulate at the next synchronisation, so consecutive ones wait here
//! for each other: one lock, one read and one write serve all of them. They are carried out in
//! their order, and before any other accumulate of this member to the part.
//!
//! Only numbers without gaps are gathered. What lies in a gap would be read and written back, and
//! another member may put there at the same time.

use core::ops::Range;

use strait_core::reduce::Op;
use strait_core::rma::{SLOT, STRIPE};

use crate::Number;

/// Largest number of bytes of operands that wait.
const OPERANDS_MAX: usize = 4 * SLOT;

/// Accumulates to consecutive bytes of one part, which wait to be carried out.
#[derive(Debug, Default)]
pub(super) struct GatheredAccumulates {
    /// The bytes of the part that they change, in one stripe, as offsets.
    start: usize,
    end: usize,
    operations: Vec<Gathered>,
    /// The operands of all operations, one after the other.
    operands: Vec<u8>,
}

#[derive(Debug)]
struct Gathered {
    offset: usize,
    /// Size in bytes of the operands.
    length: usize,
    op: Op,
    apply: ApplyFunction,
}

/// Combines numbers with as many operands. Neither need be aligned.
type ApplyFunction = fn(Op, &mut [u8], &[u8]);

impl GatheredAccumulates {
    pub(super) const fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the bytes of the part that all accumulates change.
    pub(super) const fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Returns whether an accumulate can wait together with the others.
    pub(super) fn has_room_for(&self, offset: usize, length: usize) -> bool {
        let (start, end) = (self.start.min(offset), self.end.max(offset + length));
        self.operations.is_empty()
            || (offset <= self.end
                && offset + length >= self.start
                && end - start <= SLOT
                && start / STRIPE == (end - 1) / STRIPE
                && self.operands.len() + length <= OPERANDS_MAX)
    }

    pub(super) fn add<T: Number>(&mut self, offset: usize, operands: &[T], op: Op) {
        let operands: &[u8] = bytemuck::must_cast_slice(operands);
        let length = operands.len();
        (self.start, self.end) = if self.operations.is_empty() {
            (offset, offset + length)
        } else {
            (self.start.min(offset), self.end.max(offset + length))
        };
        self.operands.extend_from_slice(operands);
        self.operations.push(Gathered { offset, length, op, apply: apply::<T> });
    }

    /// Combines the bytes of the part, from `start` to `end`, with all operands.
    pub(super) fn apply(&self, numbers: &mut [u8]) {
        let mut operands = &self.operands[..];
        for Gathered { offset, length, op, apply } in &self.operations {
            let (now, later) = operands.split_at(*length);
            let at = offset - self.start;
            apply(*op, &mut numbers[at..at + length], now);
            operands = later;
        }
    }
}

fn apply<T: Number>(op: Op, numbers: &mut [u8], operands: &[u8]) {
    let Some(function) = T::function(op) else { return };
    let width = size_of::<T>();
    for (number, operand) in numbers.chunks_exact_mut(width).zip(operands.chunks_exact(width)) {
        let before: T = bytemuck::pod_read_unaligned(number);
        let after = function(before, bytemuck::pod_read_unaligned(operand));
        number.copy_from_slice(bytemuck::bytes_of(&after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathered_accumulates_take_effect_in_their_order() {
        let mut all = GatheredAccumulates::default();
        assert!(all.has_room_for(100, 8));
        all.add(100, &[5_u64], Op::Sum);
        all.add(100, &[3_u64], Op::Prod);
        all.add(108, &[7_u32, 9], Op::Replace);
        all.add(92, &[1_u64, 1], Op::Sum);
        let mut numbers = [0_u8; 24];
        numbers[8] = 2;
        assert_eq!((all.start, all.end), (92, 116));
        all.apply(&mut numbers);
        let number = |at: usize| u64::from_le_bytes(numbers[at..at + 8].try_into().unwrap());
        assert_eq!(number(0), 1);
        assert_eq!(number(8), (2 + 5) * 3 + 1);
        assert_eq!(number(16), 9 << 32 | 7);
    }

    #[test]
    fn only_neighbours_in_one_stripe_are_gathered() {
        let mut all = GatheredAccumulates::default();
        all.add(STRIPE - 16, &[1_u64], Op::Sum);
        assert!(all.has_room_for(STRIPE - 8, 8));
        assert!(all.has_room_for(STRIPE - 24, 8));
        assert!(!all.has_room_for(STRIPE - 32, 8), "there is a gap");
        all.add(STRIPE - 8, &[1_u64], Op::Sum);
        assert!(!all.has_room_for(STRIPE, 8), "another lock");
        let mut all = GatheredAccumulates::default();
        all.add(0, &[0_u8; SLOT], Op::Sum);
        assert!(!all.has_room_for(SLOT, 1), "a write of one request");
        assert!(all.has_room_for(8, 8));
    }
}
