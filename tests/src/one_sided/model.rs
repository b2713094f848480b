//! The oracle: one number of a window that several ranks access at once.

use std::collections::HashSet;

use strait::Op;

/// An operation of a rank on one number, in the order of its program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Did {
    /// An accumulate without a result.
    Accumulate(Op, u64),
    /// An accumulate that returned the previous value.
    Fetch(Op, u64, u64),
    /// A compare-and-swap: compared value, new value, and the previous value that it returned.
    Swap(u64, u64, u64),
}

/// Returns the new value of a number after an operation. The oracle does not use the code that it
/// judges.
fn combine(op: Op, old: u64, new: u64) -> u64 {
    match op {
        Op::Sum => old.wrapping_add(new),
        Op::Prod => old.wrapping_mul(new),
        Op::Min => old.min(new),
        Op::Max => old.max(new),
        Op::And => u64::from(old != 0 && new != 0),
        Op::Or => u64::from(old != 0 || new != 0),
        Op::Xor => u64::from((old != 0) != (new != 0)),
        Op::BitAnd => old & new,
        Op::BitOr => old | new,
        Op::BitXor => old ^ new,
        Op::Replace => new,
        Op::NoOp => old,
        other => panic!("the model does not know {other:?}"),
    }
}

impl Did {
    /// Returns the new value, or `None` when the returned value shows that `old` was not there.
    fn after(self, old: u64) -> Option<u64> {
        match self {
            Self::Accumulate(op, operand) => Some(combine(op, old, operand)),
            Self::Fetch(op, operand, got) => (got == old).then(|| combine(op, old, operand)),
            Self::Swap(compare, new, got) => {
                (got == old).then_some(if old == compare { new } else { old })
            }
        }
    }
}

/// Returns whether some order of the ranks' operations, each rank's in its own order, leads from
/// `start` to `end` with the returned values. Accumulates are atomic, and those of one origin to
/// one number are not reordered (MPI-4.1 §12.7.1, §12.7.2).
#[must_use]
pub fn is_possible(start: u64, ranks: &[Vec<Did>], end: u64) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![(vec![0; ranks.len()], start)];
    while let Some((done, number)) = open.pop() {
        if !seen.insert((done.clone(), number)) {
            continue;
        }
        if number == end && done.iter().zip(ranks).all(|(done, all)| *done == all.len()) {
            return true;
        }
        for (rank, all) in ranks.iter().enumerate() {
            let Some(next) = all.get(done[rank]).and_then(|did| did.after(number)) else {
                continue;
            };
            let mut done = done.clone();
            done[rank] += 1;
            open.push((done, next));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_between_ranks_are_free_and_within_one_are_not() {
        let set = |value| Did::Accumulate(Op::Replace, value);
        let ranks = [vec![set(1), set(2)], vec![set(3)]];
        assert!(is_possible(0, &ranks, 2) && is_possible(0, &ranks, 3));
        assert!(!is_possible(0, &ranks, 1) && !is_possible(0, &ranks, 0));
    }

    #[test]
    fn what_was_fetched_has_to_fit_one_order() {
        let add = |got| Did::Fetch(Op::Sum, 1, got);
        assert!(is_possible(5, &[vec![add(5)], vec![add(6)]], 7));
        assert!(is_possible(5, &[vec![add(6)], vec![add(5)]], 7));
        assert!(!is_possible(5, &[vec![add(5)], vec![add(5)]], 7), "not atomic");
        assert!(!is_possible(5, &[vec![add(5)], vec![add(6)]], 6), "lost");
        assert!(!is_possible(5, &[vec![add(6), add(5)]], 7), "out of order");
    }

    #[test]
    fn one_of_two_swaps_succeeds() {
        let ranks = |first, second| [vec![Did::Swap(0, 1, first)], vec![Did::Swap(0, 2, second)]];
        assert!(is_possible(0, &ranks(0, 1), 1) && is_possible(0, &ranks(2, 0), 2));
        assert!(!is_possible(0, &ranks(0, 0), 2));
    }
}
