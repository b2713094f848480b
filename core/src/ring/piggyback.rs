//! The piggyback design: one write carries bytes, size, flag and credit (`[RdmaChannel04]` §4.3).
//!
//! Copies and writes alternate: `put` copies all its bytes first, and then posts them.

use super::error::Cause;
use super::poster::Poster;
use super::slot::{SlotKind, Slots};
use crate::buffer::Cursor;
use crate::hca::Hca;

/// Takes as many bytes as there is room for.
pub(super) fn put<H: Hca>(
    slots: &mut Slots,
    poster: &mut Poster,
    hca: &mut H,
    mut from: Cursor,
) -> Result<usize, Cause> {
    let mut taken = 0;
    for _ in 0..slots.room(poster)? {
        if from.remaining() == 0 {
            break;
        }
        taken += slots.fill(poster, hca, SlotKind::Data, &mut from);
    }
    slots.progress(poster, hca)?;
    Ok(taken)
}
