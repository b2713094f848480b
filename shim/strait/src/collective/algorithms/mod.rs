//! The algorithms of collective operations, as steps of one member with the messages of
//! [`Team`](super::team::Team).
//!
//! Each is a textbook algorithm ("Optimization of Collective Communication Operations in MPICH",
//! Thakur, Rabenseifner, Gropp, 2005). `choice` says which one serves a length and a number of
//! members. All members know both, so all choose the same one.
//!
//! Reductions combine the same pairs in all algorithms: neighbours first, then pairs of neighbours,
//! and so on, with lower places on the left. A result therefore depends neither on the algorithm
//! nor on the root.

use core::ops::Range;

mod allgather;
mod alltoall;
mod broadcast;
pub(super) mod choice;
mod gather;
mod nodes;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;

/// Returns a range of a vector, which has it. One function for all, so that the library has one
/// place of a panic to relocate.
#[inline(never)]
fn piece_of(vector: &[u8], range: Range<usize>) -> &[u8] {
    &vector[range]
}

/// Returns a range of a vector, to write.
#[inline(never)]
pub(super) fn piece_of_mut(vector: &mut [u8], range: Range<usize>) -> &mut [u8] {
    &mut vector[range]
}
