//! The pipeline design: each chunk is sent as soon as it is copied, while the next one is copied
//! (`[RdmaChannel04]` §4.4).
//!
//! The call ends at a chunk that the device refuses for now. Chunks copied after it would be sent
//! later than their copies allow, because the device would be idle by then.

use super::error::Cause;
use super::poster::Poster;
use super::slot::{SlotKind, Slots};
use crate::buffer::Cursor;
use crate::hca::Hca;

/// Takes as many bytes as there is room for and the device accepts.
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
        taken += slots.fill(poster, hca, SlotKind::Data, &mut from);
    }
    slots.progress(poster, hca)?;
    Ok(taken)
}
