//! The lines of a pair of ranks as an observer finds them.

use std::os::unix::fs::FileExt as _;

use strait_core::shm::fastbox_lines_sent;
use strait_core::sync::CACHE_LINE;
use strait_core::wire::HeaderWord;

use super::SegmentMap;
use crate::nodes::Rank;

/// Number of tries to read lines during which no credit changes.
const TRIES: u32 = 4;

/// Lines of a pair block before the baton: one credit for each direction.
const CREDITS: usize = 2;

/// What the lines of a pair tell. The first of two values is about the packets of the lower rank,
/// the second about those of the higher one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PairLines {
    /// Numbers of the latest packets that lie in lines.
    pub(crate) latest: [u64; 2],
    /// Lines that the fastboxes have carried so far. `None` if a fastbox holds values that no rank
    /// writes.
    pub(crate) fastbox_lines: [Option<u64>; 2],
}

impl SegmentMap {
    /// Reads the lines of a pair. A pair that has not communicated gets no memory by this.
    pub(crate) fn pair_lines(&self, a: Rank, b: Rank) -> PairLines {
        let config = self.segment.plan().config();
        let lines = config.baton_lines as usize + 2 * config.fastbox_lines as usize;
        let mut words = Vec::new();
        for _ in 0..TRIES {
            words = self.first_words(a, b, CREDITS + lines);
            if self.first_words(a, b, CREDITS) == words[..CREDITS] {
                return self.parse(&words);
            }
        }
        // The fastbox is in use. Its receiver reports lines several times in a lap, so the lines
        // that it has reported are the latest number there is.
        let parsed = self.parse(&words);
        let reported = [0, 1].map(|way| parsed.fastbox_lines[way].map(|_| words[way]));
        PairLines { fastbox_lines: reported, ..parsed }
    }

    fn parse(&self, words: &[u64]) -> PairLines {
        let config = self.segment.plan().config();
        let (baton, fastbox) = (config.baton_lines as usize, config.fastbox_lines as usize);
        let headers: Vec<HeaderWord> = words.iter().copied().map(HeaderWord).collect();
        let mut latest = [0; 2];
        for (is_higher, number) in headers[CREDITS..].iter().filter_map(|header| header.packet()) {
            let latest = &mut latest[usize::from(is_higher)];
            *latest = number.max(*latest);
        }
        let fastbox_lines = [0, 1].map(|direction| {
            let first = CREDITS + baton + direction * fastbox;
            fastbox_lines_sent(words[direction], &headers[first..first + fastbox])
        });
        PairLines { latest, fastbox_lines }
    }

    /// Returns the first words of the first `lines` lines of a pair block: the credits, then the
    /// headers. They are zero if the pair has no memory.
    fn first_words(&self, a: Rank, b: Rank, lines: usize) -> Vec<u64> {
        let mut block = vec![0; lines * CACHE_LINE];
        let (offset, _) = self.segment.plan().pair_range(a, b);
        // A file with holes reads as zeros there. What cannot be read counts as a hole.
        if self.view_file().read_exact_at(&mut block, offset as u64).is_err() {
            block.fill(0);
        }
        let words = block.chunks_exact(CACHE_LINE).filter_map(|line| line.first_chunk());
        words.map(|word| u64::from_ne_bytes(*word)).collect()
    }
}
