//! The basic design: a ring of bytes with head and tail pointers on both sides (`[RdmaChannel04]` §4.2).
//!
//! The ring lies at the receiver, its image, the staging memory, at the sender. The sender has the head pointer and a
//! replica of the tail, the receiver the tail and a replica of the head. A message takes three writes: its bytes, the
//! head, and the tail on the way back. Writes of a connection land in order, so the head never comes before its bytes.

use super::config::{Config, HEAD, RING, TAIL};
use super::error::Cause;
use super::knock::Told;
use super::poster::Poster;
use crate::hca::Hca;
use crate::progress::Cursor;

/// One link's two streams. Positions are bytes since the beginning.
#[derive(Debug)]
pub(super) struct Basic {
    /// Bytes of the ring.
    size: u64,
    staging: usize,
    /// Copied to the staging memory.
    filled: u64,
    /// Handed to the device.
    written: u64,
    /// The head pointer as the peer was told.
    head: u64,
    /// The replica of the peer's tail pointer, as last read.
    tail: u64,
    /// The replica of the peer's head pointer, as last read.
    arrived: u64,
    /// The tail pointer: consumed of the peer's stream.
    consumed: u64,
    /// The tail pointer as the peer was told.
    told: u64,
}

impl Basic {
    pub(super) const fn new(config: &Config) -> Self {
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

    /// Takes bytes as far as the ring has room.
    pub(super) fn put<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
        mut from: Cursor,
    ) -> Result<usize, Cause> {
        self.tail = advanced(poster, TAIL, self.tail, self.head, "the tail pointer")?;
        // Room is where the peer has read, and where our own device has no more to read.
        let free = self.size - (self.filled - self.tail.min(poster.done_mark()));
        let take = free.min(from.remaining() as u64);
        for (at, length) in runs(self.filled, take, self.size) {
            // SAFETY: the run lies in the staging memory, which nobody reads there (see `free`), and apart from users'
            // buffers.
            unsafe { from.gather(poster.at(self.staging + at), length) };
        }
        self.filled += take;
        hca.copied(take as usize);
        self.progress(poster, hca)?;
        Ok(take as usize)
    }

    /// Delivers bytes as far as they have arrived.
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
            // SAFETY: the run lies in the ring, before the head and behind the tail, where the peer does not write.
            unsafe { into.scatter(poster.at(RING + at), length) };
        }
        self.consumed += take;
        hca.copied(take as usize);
        Ok(take as usize)
    }

    /// Hands to the device what it has not got yet: bytes, then the head; the tail.
    pub(super) fn progress<H: Hca>(
        &mut self,
        poster: &mut Poster,
        hca: &mut H,
    ) -> Result<(), Cause> {
        for (at, length) in runs(self.written, self.filled - self.written, self.size) {
            let mark = self.written + length as u64;
            // SAFETY: `put` writes there again only when `done_mark` says so.
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

    /// Writes the tail that the peer has.
    pub(super) fn probe<H: Hca>(&self, poster: &mut Poster, hca: &mut H) -> Result<(), Cause> {
        poster.probe(hca, self.told, TAIL)
    }

    /// How much was written to the peer.
    pub(super) const fn told(&self) -> Told {
        [self.head, self.told, 0, 0]
    }

    /// Whether so much of the peer's has landed.
    pub(super) fn has_landed(poster: &Poster, &[head, tail, ..]: &Told) -> bool {
        poster.counter(HEAD) >= head && poster.counter(TAIL) >= tail
    }

    /// As [`Basic::progress`]. True: the peer has all of it.
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

/// The pointer that the peer keeps at `place`, which is between what it was and `most`.
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

/// Offset and length of the one or two runs that `length` bytes from `position` on have in a ring of `size`.
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
    fn bytes_that_reach_the_end_of_the_ring_go_on_at_its_beginning() {
        let all = |position, length| runs(position, length, 16).collect::<Vec<_>>();
        assert_eq!(all(0, 0), []);
        assert_eq!(all(35, 5), [(3, 5)]);
        assert_eq!(all(8, 8), [(8, 8)]);
        assert_eq!(all(26, 10), [(10, 6), (0, 4)]);
        assert_eq!(all(5, 16), [(5, 11), (0, 5)]);
    }
}
