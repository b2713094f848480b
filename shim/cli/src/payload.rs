//! Payloads that can be checked: a seed and the position determine every byte.

use core::fmt;

/// Fills `buffer` with the pattern of `seed`.
pub(crate) fn fill(buffer: &mut [u8], seed: u64) {
    for (position, word) in (0..).zip(buffer.chunks_mut(8)) {
        word.copy_from_slice(&pattern(seed, position)[..word.len()]);
    }
}

/// Compares all of `buffer` with the pattern of `seed`.
///
/// # Errors
///
/// [`Mismatch`] for the first byte that differs.
pub(crate) fn verify(buffer: &[u8], seed: u64) -> Result<(), Mismatch> {
    for (position, word) in (0..).zip(buffer.chunks(8)) {
        let expected = &pattern(seed, position)[..word.len()];
        compare_at(position as usize * 8, buffer.len(), word, expected)?;
    }
    Ok(())
}

/// Compares all of `found` with `expected`, which is as long.
///
/// # Errors
///
/// [`Mismatch`] for the first byte that differs.
pub(crate) fn compare(found: &[u8], expected: &[u8]) -> Result<(), Mismatch> {
    compare_at(0, found.len(), found, expected)
}

/// Compares the bytes from `start` of a payload of `length` bytes.
fn compare_at(start: usize, length: usize, found: &[u8], expected: &[u8]) -> Result<(), Mismatch> {
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => {
            Err(Mismatch { length, byte: start + at, expected: expected[at], found: found[at] })
        }
    }
}

/// Returns eight bytes of the pattern: the output function of SplitMix64, so that neighbours, seeds
/// and shifts all differ.
#[inline]
pub(crate) const fn pattern(seed: u64, position: u64) -> [u8; 8] {
    let step = position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut word = seed.wrapping_mul(0xd129_0d3a_7b0c_2f6b).wrapping_add(step);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)).to_le_bytes()
}

/// The difference of a payload from the one that was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Mismatch {
    length: usize,
    byte: usize,
    expected: u8,
    found: u8,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { length, byte, expected, found } = self;
        write!(
            f,
            "a payload of {length} bytes arrived damaged: byte {byte} is {found:#04x}, \
             {expected:#04x} was sent; this is a defect of strait or of the machine's memory"
        )
    }
}

impl core::error::Error for Mismatch {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_byte_is_found() {
        for length in [1, 7, 8, 9, 100] {
            let mut buffer = vec![0; length];
            fill(&mut buffer, 5);
            assert_eq!(verify(&buffer, 5), Ok(()));
            for byte in 0..length {
                buffer[byte] ^= 0x10;
                assert_eq!(verify(&buffer, 5).unwrap_err().byte, byte);
                buffer[byte] ^= 0x10;
            }
        }
    }

    #[test]
    fn another_seed_and_another_position_give_other_bytes() {
        let (mut one, mut two) = ([0; 64], [0; 64]);
        fill(&mut one, 1);
        fill(&mut two, 2);
        assert_ne!(one, two);
        assert_ne!(one[..32], one[32..]);
        assert!(verify(&one, 2).is_err());
    }
}
