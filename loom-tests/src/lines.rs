//! Messages in lines with contents that follow from their sequence number.

use core::ptr::NonNull;

use strait_core::shm::{LineMessage, SHORT_MAX};
use strait_core::wire::Key;

/// Returns the key of message `sequence`.
#[must_use]
pub fn key(sequence: u64) -> Key {
    Key(!sequence)
}

/// Returns the payload of message `sequence`.
#[must_use]
pub fn contents(sequence: u64, length: usize) -> Vec<u8> {
    (0..length).map(|at| sequence.wrapping_mul(31).wrapping_add(at as u64) as u8).collect()
}

/// Returns the function with which `send` fills lines from `payload`.
pub fn writer(payload: &[u8]) -> impl Fn(NonNull<u8>, usize, usize) {
    move |to, offset, length| {
        let piece = &payload[offset..offset + length];
        // SAFETY: `send` passes a place for `length` bytes in a line, and no payload of ours is in
        // a line.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(piece).cast(), length) };
    }
}

/// Copies the payload of a message that has arrived, by the copy function for its length.
#[must_use]
pub fn read(message: &LineMessage, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    if length <= SHORT_MAX {
        // SAFETY: the vector has `length` bytes.
        unsafe { message.copy_short(NonNull::from(bytes.as_mut_slice()).cast(), length) };
        return bytes;
    }
    let mut rest = bytes.as_mut_slice();
    message.copy(length, |from, piece| {
        let (to, behind) = core::mem::take(&mut rest).split_at_mut(piece);
        // SAFETY: `copy` passes `piece` bytes of a line, and no vector is in a line.
        unsafe { from.copy_to_nonoverlapping(NonNull::from(to).cast(), piece) };
        rest = behind;
    });
    bytes
}
