//! The description of a message in several parts, which its receiver reads from the sender's
//! memory.

use super::Corrupt;
use crate::hca::RemoteAddress;

/// Blocks of one length at equal distances in one region of the sender. A message in several parts
/// is announced by the address of a list of these. Its bytes are those of the blocks, in order.
///
/// | offset | size | field     | meaning                                                   |
/// |-------:|-----:|-----------|-----------------------------------------------------------|
/// |      0 |    8 | `address` | address of the first block                                |
/// |      8 |    8 | `length`  | length of each block, bytes; not zero                     |
/// |     16 |    8 | `stride`  | distance from one block to the next, bytes                |
/// |     24 |    4 | `count`   | number of blocks; not zero                                |
/// |     28 |    4 | `key`     | key of the region that holds the blocks                   |
///
/// Numbers are little-endian.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StridedRun {
    /// The location of the first block.
    pub first: RemoteAddress,
    /// Length of each block, in bytes; not zero.
    pub length: u64,
    /// Distance from the start of one block to the start of the next, in bytes.
    pub stride: u64,
    /// Number of blocks; not zero.
    pub count: u32,
}

impl StridedRun {
    /// Size of a description, in bytes.
    pub const LENGTH: usize = 32;

    /// Maximum number of descriptions of one message.
    pub const MOST: u32 = 256;

    /// Returns the description as it lies in the sender's memory.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let doubles = [self.first.address, self.length, self.stride];
        for (to, double) in bytes.chunks_exact_mut(8).zip(doubles) {
            to.copy_from_slice(&double.to_le_bytes());
        }
        bytes[24..28].copy_from_slice(&self.count.to_le_bytes());
        bytes[28..].copy_from_slice(&self.first.key.to_le_bytes());
        bytes
    }

    /// Parses a description that another process wrote. The device checks the addresses.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] for blocks without bytes, a run without blocks, and a run that does not
    /// fit an address space.
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let double = |at: usize| {
            let mut double = [0; 8];
            double.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(double)
        };
        let (count, key) = (double(24) as u32, (double(24) >> 32) as u32);
        let first = RemoteAddress { address: double(0), key };
        let run = Self { first, length: double(8), stride: double(16), count };
        let end = u64::from(count).checked_sub(1).and_then(|further| {
            let last = further.checked_mul(run.stride)?.checked_add(first.address)?;
            last.checked_add(run.length)
        });
        if run.length == 0 || end.is_none() || run.bytes().is_none() {
            return Err(Corrupt::Length { found: run.length, max: isize::MAX as u64 });
        }
        Ok(run)
    }

    /// Returns the number of bytes in all blocks. Returns `None` if no message has as many.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let bytes = self.length.checked_mul(u64::from(self.count))?;
        isize::try_from(bytes).is_ok().then_some(bytes)
    }

    /// Returns the location of byte `offset` of the block `number`, and the number of bytes from
    /// there to the end of the block. Returns `None` behind the last block.
    #[must_use]
    pub const fn at(&self, number: u32, offset: u64) -> Option<(RemoteAddress, u64)> {
        if number >= self.count || offset >= self.length {
            return None;
        }
        // No sum overflows, since the end of the last block does not (`parse`).
        let before = (self.stride.wrapping_mul(number as u64)).wrapping_add(offset);
        let address = self.first.address.wrapping_add(before);
        Some((RemoteAddress { address, key: self.first.key }, self.length - offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: StridedRun = StridedRun {
        first: RemoteAddress { address: 0x1234_5678_9abc_def0, key: 0xfedc_ba98 },
        length: 5,
        stride: 7,
        count: 3,
    };

    #[test]
    fn a_run_gives_its_numbers_back() {
        assert_eq!(StridedRun::parse(&RUN.pack()), Ok(RUN));
        assert_eq!(RUN.bytes(), Some(15));
        let one = StridedRun { length: isize::MAX as u64, stride: u64::MAX, count: 1, ..RUN };
        assert_eq!(StridedRun::parse(&one.pack()), Ok(one));
    }

    #[test]
    fn a_place_is_in_a_block() {
        let address = RUN.first.address;
        for (number, offset, place) in [
            (0, 0, Some((address, 5))),
            (2, 4, Some((address + 18, 1))),
            (3, 0, None),
            (1, 5, None),
        ] {
            let found = RUN.at(number, offset).map(|(at, left)| (at.address, left));
            assert_eq!(found, place);
        }
    }

    #[test]
    fn runs_that_no_sender_describes_are_refused() {
        for lie in [
            StridedRun { length: 0, ..RUN },
            StridedRun { count: 0, ..RUN },
            StridedRun { stride: u64::MAX, ..RUN },
            StridedRun { stride: u64::MAX / 2, ..RUN },
            StridedRun { length: u64::MAX, count: 1, ..RUN },
            StridedRun { length: 1 << 62, stride: 0, ..RUN },
            StridedRun { first: RemoteAddress { address: u64::MAX, key: 1 }, count: 1, ..RUN },
        ] {
            assert!(StridedRun::parse(&lie.pack()).is_err(), "{lie:?}");
        }
    }
}
