//! Messages between members and lock managers.

use strait_core::layout::Corrupt;
use strait_core::lock::{LockMode, LockRequest, LockType};

/// A reply of a lock manager.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LockReply {
    /// The lock is granted: in CPU mode by the manager, for the member; in network mode by the
    /// member.
    Granted(LockMode),
    /// The member must look at the network word.
    Elsewhere,
    /// A sharer of the lock has died, and the member wants the lock exclusively.
    Denied,
    /// The manager cannot serve the member: a word of the lock, or the member's message, is
    /// impossible.
    Corrupt,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LockPayload {
    /// A request to a manager.
    Request(LockRequest),
    /// A reply of a manager.
    Answer(LockReply),
}

/// A message between two members of a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LockMessage {
    pub(crate) word: LockPayload,
    /// The receiver's number of the lock manager.
    pub(crate) manager: u64,
    /// The sender's place.
    pub(crate) place: u32,
}

/// The form on the wire: the word with the place, and the number of the lock manager.
pub(crate) type PackedLockMessage = [u64; 2];

const WORDS: [LockPayload; 9] = [
    LockPayload::Request(LockRequest::Lock(LockType::Shared)),
    LockPayload::Request(LockRequest::Lock(LockType::Exclusive)),
    LockPayload::Request(LockRequest::Unlock),
    LockPayload::Answer(LockReply::Granted(LockMode::Cpu)),
    LockPayload::Answer(LockReply::Granted(LockMode::Network)),
    LockPayload::Answer(LockReply::Elsewhere),
    LockPayload::Answer(LockReply::Denied),
    LockPayload::Answer(LockReply::Corrupt),
    LockPayload::Request(LockRequest::ShareAhead),
];

impl LockMessage {
    pub(crate) fn pack(self) -> PackedLockMessage {
        let word = WORDS.iter().position(|word| *word == self.word).unwrap_or(WORDS.len());
        [word as u64 | u64::from(self.place) << 32, self.manager]
    }

    pub(crate) fn parse([word, lock_manager]: PackedLockMessage) -> Result<Self, Corrupt> {
        let (number, place) = (word as u32, (word >> 32) as u32);
        let known = WORDS.get(number as usize).ok_or(Corrupt::Lock { found: number })?;
        Ok(Self { word: *known, manager: lock_manager, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        for (number, word) in (0..).zip(WORDS) {
            let message = LockMessage { word, manager: u64::MAX - number, place: u32::MAX };
            assert_eq!(LockMessage::parse(message.pack()), Ok(message));
        }
        assert!(LockMessage::parse([WORDS.len() as u64, 0]).is_err());
    }
}
