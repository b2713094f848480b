//! Numbers of windows that several processes change by the processor's atomic instructions.

use core::ptr::NonNull;

use strait_core::reduce::Op;
use strait_core::rma::SharedNumber;
use strait_core::sync::AtomicU64;
use strait_loom_tests::{Arc, model_in_full, thread};

/// Returns the number in a word of the facade, so that loom sees each access.
fn number(word: &AtomicU64) -> SharedNumber<u64> {
    // SAFETY: the word is aligned, and outlives the model's threads. All accesses are atomic.
    unsafe { SharedNumber::new(NonNull::from(word).cast()) }
}

/// An operation of one process: a combination, or a swap if the number has an expected value.
#[derive(Clone, Copy)]
enum Act {
    Combine(Op, u64),
    Swap(u64, u64),
}

impl Act {
    /// Performs the operation on a shared number. Returns the number before.
    fn on(self, word: &AtomicU64) -> u64 {
        match self {
            Self::Combine(op, operand) => number(word).fetch_and_op(op, operand).unwrap(),
            Self::Swap(old, new) => number(word).compare_and_swap(old, new),
        }
    }

    /// Returns the result of the operation on a number that only one process uses.
    fn of(self, before: u64) -> u64 {
        match self {
            Self::Combine(Op::Sum, operand) => before + operand,
            Self::Combine(Op::Prod, operand) => before * operand,
            Self::Combine(Op::Max, operand) => before.max(operand),
            Self::Combine(Op::Replace, operand) => operand,
            Self::Combine(..) => before,
            Self::Swap(old, new) => {
                if before == old {
                    new
                } else {
                    before
                }
            }
        }
    }
}

const START: u64 = 5;

/// Performs both operations at once. Their results are those of one order.
fn in_some_order(acts: [Act; 2]) {
    model_in_full(move || {
        let word = Arc::new(AtomicU64::new(START));
        let other = {
            let word = Arc::clone(&word);
            thread::spawn(move || acts[1].on(&word))
        };
        let found = [acts[0].on(&word), other.join().unwrap()];
        let last = number(&word).load();
        let (first, second) = (acts[0].of(START), acts[1].of(START));
        let orders = [([START, first], acts[1].of(first)), ([second, START], acts[0].of(second))];
        assert!(orders.contains(&(found, last)), "{found:?}, then {last}");
    });
}

#[test]
fn instructions_and_loops_of_two_processes_lose_nothing() {
    in_some_order([Act::Combine(Op::Sum, 3), Act::Combine(Op::Sum, 4)]);
    in_some_order([Act::Combine(Op::Sum, 3), Act::Combine(Op::Prod, 2)]);
    in_some_order([Act::Combine(Op::Prod, 2), Act::Combine(Op::Max, 7)]);
    in_some_order([Act::Combine(Op::Replace, 9), Act::Combine(Op::Prod, 2)]);
}

#[test]
fn one_of_two_swaps_succeeds() {
    in_some_order([Act::Swap(START, 6), Act::Swap(START, 7)]);
    in_some_order([Act::Swap(8, 6), Act::Combine(Op::Sum, 3)]);
}

/// MPI-4.1 section 12.7.1: the accumulates of one origin to one number keep their order.
#[test]
fn who_reads_a_number_twice_does_not_go_back() {
    model_in_full(|| {
        let word = Arc::new(AtomicU64::new(0));
        let origin = {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                number(&word).store(1);
                let _ = number(&word).fetch_and_op(Op::Prod, 2);
                number(&word).store(3);
            })
        };
        let found = [0; 3].map(|_| number(&word).load());
        assert!(found.is_sorted() && found[2] <= 3, "{found:?}");
        origin.join().unwrap();
        assert_eq!(number(&word).load(), 3);
    });
}
