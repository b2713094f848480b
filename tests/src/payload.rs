//! Payloads with bytes that depend on their message and their position.

/// Returns the payload of message `id`.
#[must_use]
pub fn of(id: u64, length: usize) -> Vec<u8> {
    let words = (0..length.div_ceil(8) as u64).flat_map(|word| mix(id, word).to_le_bytes());
    words.take(length).collect()
}

/// Returns the first place at which `bytes` differ from the payload of message `id`. `bytes` may be
/// its beginning.
#[must_use]
pub fn first_difference(id: u64, bytes: &[u8]) -> Option<usize> {
    first_difference_from(id, bytes, 0)
}

/// Returns the first such place from `start` on, a multiple of 8.
#[must_use]
pub fn first_difference_from(id: u64, bytes: &[u8], start: usize) -> Option<usize> {
    bytes
        .chunks(8)
        .zip(0..)
        .skip(start / 8)
        .find(|(chunk, word)| *chunk != &mix(id, *word).to_le_bytes()[..chunk.len()])
        .map(|(_, word)| word as usize * 8)
}

/// Returns a number for each word of each message (a finaliser of SplitMix64).
fn mix(id: u64, word: u64) -> u64 {
    let mut z = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(word) ^ (word << 40);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_message_a_shift_and_a_flipped_bit_are_seen() {
        let bytes = of(7, 100);
        assert_eq!(first_difference(7, &bytes), None);
        assert_eq!(first_difference(7, &bytes[..99]), None);
        assert_eq!(first_difference(8, &bytes), Some(0));
        assert_eq!(first_difference(7, &bytes[8..]), Some(0));
        let mut flipped = bytes;
        flipped[99] ^= 1;
        assert_eq!(first_difference(7, &flipped), Some(96));
    }
}
