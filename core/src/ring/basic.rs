//! The basic design: a ring of bytes with head and tail pointers on both sides
//! (`[RdmaChannel04]` §4.2).
//!
//! The ring is in the receiver's memory; its image, the staging memory, is in the sender's. The
//! sender has the head pointer and a replica of the tail; the receiver has the tail and a replica
//! of the head. A message takes three writes: its bytes, the head, and the tail on the way back.
//! Writes of one connection arrive in order, so the head never arrives before its bytes.

use super::config::{HEAD, LinkConfig, RING, TAIL};
use super::error::Cause;
use super::poster::Poster;
use super::wakeup::WriteCounts;
use crate::buffer::Cursor;
use crate::hca::Hca;

/// Both streams of a link. Positions count bytes from the start of a stream.
#[derive(Debug)]
pub(super) struct Basic {
    /// Size of the ring, in bytes.
    size: u64,
    staging: usize,
    /// Position up to which bytes are in the staging memory.
    filled: u64,
    /// Position up to which bytes are posted to the device.
    written: u64,
    /// The head pointer that was last written to the peer.
    head: u64,
    /// The replica of the peer's tail pointer, as last read.
    tail: u64,
    /// The replica of the peer's head pointer, as last read.
    arrived: u64,
    /// The tail pointer: position up to which the peer's stream is consumed.
    consumed: u64,
    /// The tail pointer that was last written to the peer.
    told: u64,
}

impl Basic {
    pub(super) const fn new(config: &LinkConfig) -> Self {
        Self {
            size: config.ring_bytes() as u64,
            staging: config.staging(),
            filled: 0,
            written: 0,
            head: 0,
            tail: 0,
            arrived: 0,
            consumed: 0,
            told: 0,
        }
    }

    /// Takes as many bytes as the ring has room for.
    pub(super) fn put<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        mut from: Cursor,
    ) -> Result<usize, Cause> {
        self.tail = advanced(poster, TAIL, self.tail, self.head, "the tail pointer")?;
        // A place is free when the peer has read it and our own device no longer reads its image.
        let free = self.size - (self.filled - self.tail.min(poster.done_mark()));
        let take = free.min(from.remaining() as u64);
        for (at, length) in runs(self.filled, take, self.size) {
            // SAFETY: the run is in the staging memory, where no device reads it (see `free`).
            // Users' buffers do not overlap the lent memory (contract of `Link::put`).
            unsafe { from.gather(poster.at(self.staging + at), length) };
        }
        self.filled += take;
        hca.copied(take as usize);
        self.progress(poster, hca)?;
        Ok(take as usize)
    }

    /// Delivers the bytes that have arrived, up to the size of `into`.
    pub(super) fn get<H: Hca>(
        &mut self,
        poster: &Poster,
        hca: &mut H,
        mut into: Cursor,
    ) -> Result<usize, Cause> {
        let most = self.consumed + self.size;
        self.arrived = advanced(poster, HEAD, self.arrived, most, "the head pointer")?;
        let take = (self.arrived - self.consumed).min(into.remaining() as u64);
        for (at, length) in runs(self.consumed, take, self.size) {
            // SAFETY: the run is in the ring, before the head and after the tail, where the peer
            // does not write.
            unsafe { into.scatter(poster.at(RING + at), length) };
        }
        self.consumed += take;
        hca.copied(take as usize);
        Ok(take as usize)
    }

    /// Posts what the device has not taken yet: the bytes, then the head; and the tail.
    pub(super) fn progress<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<(), Cause> {
        for (at, length) in runs(self.written, self.filled - self.written, self.size) {
            let mark = self.written + length as u64;
            // SAFETY: `put` writes there again only after `done_mark` has passed the bytes.
            if !unsafe { poster.write(hca, (self.staging + at, RING + at), length, mark) }? {
                return Ok(());
            }
            self.written = mark;
        }
        if self.head < self.written && poster.write_word(hca, self.written, HEAD)? {
            self.head = self.written;
        }
        if self.told < self.consumed && poster.write_word(hca, self.consumed, TAIL)? {
            self.told = self.consumed;
        }
        Ok(())
    }

    /// Writes the tail that the peer already has.
    pub(super) fn probe<H: Hca>(&self, poster: &mut Poster, hca: &mut H) -> Result<(), Cause> {
        poster.probe(hca, self.told, TAIL)
    }

    /// Returns how much was written to the peer.
    pub(super) const fn told(&self) -> WriteCounts {
        [self.head, self.told, 0, 0]
    }

    /// Returns true if this much of the peer's writes has arrived.
    pub(super) fn has_landed(poster: &Poster, &[head, tail, ..]: &WriteCounts) -> bool {
        poster.counter(HEAD) >= head && poster.counter(TAIL) >= tail
    }

    /// Calls [`Basic::progress`]. Returns true once the peer has everything.
    pub(super) fn drain<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<bool, Cause> {
        self.progress(poster, hca)?;
        let handed = self.head == self.filled && self.told == self.consumed;
        Ok(handed && poster.drain(hca, self.told, TAIL)?)
    }
}

/// Returns the pointer that the peer keeps at `place`, or an error unless it is between `was` and
/// `most`.
fn advanced(
    poster: &Poster,
    place: usize,
    was: u64,
    most: u64,
    what: &'static str,
) -> Result<u64, Cause> {
    let found = poster.counter(place);
    if (was..=most).contains(&found) {
        Ok(found)
    } else {
        Err(Cause::Corrupt { what, found, most })
    }
}

/// Returns offset and length of the one or two runs that `length` bytes from `position` on occupy
/// in a ring of `size` bytes.
fn runs(position: u64, length: u64, size: u64) -> impl Iterator<Item = (usize, usize)> {
    let at = position % size;
    let first = length.min(size - at);
    let runs = [(at as usize, first as usize), (0, (length - first) as usize)];
    runs.into_iter().filter(|(_, length)| *length > 0)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::runs;

    #[test]
    fn bytes_wrap_at_the_end_of_the_ring() {
        let all = |position, length| runs(position, length, 16).collect::<Vec<_>>();
        assert_eq!(all(0, 0), []);
        assert_eq!(all(35, 5), [(3, 5)]);
        assert_eq!(all(8, 8), [(8, 8)]);
        assert_eq!(all(26, 10), [(10, 6), (0, 4)]);
        assert_eq!(all(5, 16), [(5, 11), (0, 5)]);
    }
}
