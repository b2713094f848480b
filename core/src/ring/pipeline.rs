//! The pipeline design: each chunk leaves as soon as it is copied, while the next one is (`[RdmaChannel04]` §4.4).
//!
//! A chunk that the device refuses for now ends the call. Were more copied after it, they would leave later than their
//! copies allow, since the device has nothing to do by then.

use super::error::Cause;
use super::poster::Poster;
use super::slot::{Kind, Slots};
use crate::hca::Hca;
use crate::progress::Cursor;

/// Takes bytes as far as there is room and the device takes chunks.
pub(super) fn put<H: Hca>(
    slots: &mut Slots,
    poster: &mut Poster,
    hca: &mut H,
    mut from: Cursor,
) -> Result<usize, Cause> {
    let mut taken = 0;
    for _ in 0..slots.room(poster)? {
        slots.progress(poster, hca)?;
        if from.remaining() == 0 || !slots.are_sent() {
            break;
        }
        taken += slots.fill(poster, hca, Kind::Data, &mut from);
    }
    slots.progress(poster, hca)?;
    Ok(taken)
}
