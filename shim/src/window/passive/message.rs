//! What members and lock managers say to each other.

use strait_core::layout::Corrupt;
use strait_core::lock::{LockType, Mode, Request};

/// What a manager answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Answer {
    /// The lock is had: in CPU mode by the manager, for the member; in network mode by the member.
    Granted(Mode),
    /// The member is to look at the network word.
    Elsewhere,
    /// Somebody has died who shares the lock, which the member wants alone.
    Denied,
    /// The manager cannot serve the member: a word of the lock, or what the member has said, is impossible.
    Corrupt,
}

/// Something said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Word {
    /// To a manager.
    Request(Request),
    /// From one.
    Answer(Answer),
}

/// Something said between two members of a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Message {
    pub(super) word: Word,
    /// Which window, as the receiver counts its own.
    pub(super) desk: u64,
    /// The place of who says it.
    pub(super) place: u32,
}

/// As it travels: the word and the place, the desk.
pub(super) type Packed = [u64; 2];

const WORDS: [Word; 8] = [
    Word::Request(Request::Lock(LockType::Shared)),
    Word::Request(Request::Lock(LockType::Exclusive)),
    Word::Request(Request::Unlock),
    Word::Answer(Answer::Granted(Mode::Cpu)),
    Word::Answer(Answer::Granted(Mode::Network)),
    Word::Answer(Answer::Elsewhere),
    Word::Answer(Answer::Denied),
    Word::Answer(Answer::Corrupt),
];

impl Message {
    pub(super) fn pack(self) -> Packed {
        let word = WORDS.iter().position(|word| *word == self.word).unwrap_or(WORDS.len());
        [word as u64 | u64::from(self.place) << 32, self.desk]
    }

    pub(super) fn parse([word, desk]: Packed) -> Result<Self, Corrupt> {
        let (number, place) = (word as u32, (word >> 32) as u32);
        let known = WORDS.get(number as usize).ok_or(Corrupt::Lock { found: number })?;
        Ok(Self { word: *known, desk, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        for (number, word) in (0..).zip(WORDS) {
            let message = Message { word, desk: u64::MAX - number, place: u32::MAX };
            assert_eq!(Message::parse(message.pack()), Ok(message));
        }
        assert!(Message::parse([8, 0]).is_err());
    }
}
