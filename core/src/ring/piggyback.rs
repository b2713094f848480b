//! The piggyback design: one write carries bytes, size, flag and credit (`[RdmaChannel04]` §4.3).
//!
//! Copying and writing take turns: all that is put is copied first, and then leaves.

use super::error::Cause;
use super::poster::Poster;
use super::slot::{Kind, Slots};
use crate::hca::Hca;
use crate::progress::Cursor;

/// Takes bytes as far as there is room.
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
        taken += slots.fill(poster, hca, Kind::Data, &mut from);
    }
    slots.progress(poster, hca)?;
    Ok(taken)
}
