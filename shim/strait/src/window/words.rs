//! Numbers of up to 8 bytes as words, as devices and records have them.

use bytemuck::{bytes_of, bytes_of_mut};

use crate::Number;

/// Returns a word that holds the number in its lowest bytes.
pub(super) fn word<T: Number>(number: T) -> u64 {
    let mut word = 0;
    bytes_of_mut(&mut word)[..size_of::<T>()].copy_from_slice(bytes_of(&number));
    word
}

/// Returns the number that a word holds.
pub(super) fn number<T: Number>(word: u64) -> T {
    let mut number = T::zeroed();
    bytes_of_mut(&mut number).copy_from_slice(&bytes_of(&word)[..size_of::<T>()]);
    number
}
