//! The memory of a message: in one part, or in several with gaps between them.

use core::ops::Range;
use core::ptr::NonNull;

use fastrand::Rng;
use strait_core::buffer::{Cursor, Part};

/// The contents of gaps.
const GAP: u8 = 0xc3;

/// A message's bytes in one allocation.
#[derive(Debug)]
pub(super) struct Scattered {
    memory: Vec<u8>,
    /// The places of the parts, in the order of the message.
    places: Vec<Range<usize>>,
    /// The parts, once the operation has begun.
    parts: Vec<Part>,
}

impl Scattered {
    /// Places `bytes` in parts of these lengths, each behind a gap of its own.
    pub(super) fn placed(bytes: &[u8], parts: &[(usize, usize)]) -> Self {
        let mut end = 0;
        let place = |&(gap, length): &(usize, usize)| {
            end += gap + length;
            end - length..end
        };
        let places: Vec<_> = parts.iter().map(place).collect();
        Self::at(bytes, places)
    }

    /// Places `bytes` in one part, or in several: cuts without gaps, a vector, or parts of any
    /// lengths in any order.
    pub(super) fn drawn(bytes: &[u8], rng: &mut Rng) -> Self {
        let length = bytes.len();
        let count = rng.usize(2..12);
        let cut = |number: usize| length * number / count;
        let mut gap = || match rng.u8(0..16) {
            0 => 0,
            1 => 5000,
            _ => rng.usize(1..64),
        };
        let (same, gaps) = (gap(), (0..count).map(|_| gap()).collect::<Vec<_>>());
        let kind = rng.u8(..10);
        if kind < 6 {
            return Self::placed(bytes, &[(0, length)]);
        }
        let part = |number: usize| match kind {
            6 => (0, cut(number + 1) - cut(number)),
            7 if number + 1 < count => (same, length / count),
            7 => (same, length - length / count * number),
            _ => (gaps[number], cut(number + 1) - cut(number)),
        };
        let parts: Vec<_> = (0..count).map(part).collect();
        let mut scattered = Self::placed(bytes, &parts);
        if kind == 9 {
            rng.shuffle(&mut scattered.places);
            scattered = Self::at(bytes, scattered.places);
        }
        scattered
    }

    fn at(bytes: &[u8], places: Vec<Range<usize>>) -> Self {
        let end = places.iter().map(|place| place.end).max().unwrap_or(0);
        let (mut memory, mut rest) = (vec![GAP; end + 8], bytes);
        for place in &places {
            let (part, further) = rest.split_at(place.len());
            memory[place.clone()].copy_from_slice(part);
            rest = further;
        }
        assert!(rest.is_empty(), "the parts hold the message");
        Self { memory, places, parts: Vec::new() }
    }

    /// Returns the whole message.
    pub(super) fn cursor(&mut self) -> Cursor {
        let base = NonNull::from(self.memory.as_mut_slice()).cast::<u8>();
        let part = |place: &Range<usize>| {
            // SAFETY: every place lies in the memory.
            Part { base: unsafe { base.add(place.start) }, length: place.len() }
        };
        self.parts = self.places.iter().map(part).collect();
        // SAFETY: the callers keep this as long as the engine has a claim on the memory.
        unsafe { Cursor::parts(&self.parts) }
    }

    /// Returns the bytes of the message.
    ///
    /// # Panics
    ///
    /// When a byte in a gap has changed.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let (mut rest, mut bytes) = (self.memory.clone(), Vec::new());
        for place in &self.places {
            bytes.extend_from_slice(&rest[place.clone()]);
            rest[place.clone()].fill(GAP);
        }
        assert!(rest.iter().all(|byte| *byte == GAP), "a gap was written");
        bytes
    }

    /// Overwrites the message.
    pub(super) fn fill(&mut self, byte: u8) {
        for place in &self.places {
            self.memory[place.clone()].fill(byte);
        }
    }
}
