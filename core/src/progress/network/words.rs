//! What is said to a peer of messages: it goes before them, and in its order.

use crate::memory::{Memory, OutOfMemory};
use crate::progress::Engine;
use crate::wire::StreamHead;

/// Something to be said, or the place for it.
#[derive(Clone, Copy, Debug)]
pub(in crate::progress) struct Word {
    head: StreamHead,
    next: Option<u32>,
}

impl Word {
    /// What is to be said after it.
    pub(super) const fn next(&self) -> Option<u32> {
        self.next
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// A place for what will be said later, when nothing may fail.
    pub(super) fn reserve_word(&mut self) -> Result<u32, OutOfMemory> {
        self.words.insert(Word { head: StreamHead::Send, next: None })
    }

    /// Has `head` said to `peer`, behind what is to be said already. To one that is gone nothing is.
    pub(super) fn say(&mut self, peer: u32, word: u32, head: StreamHead) {
        let Some(stream) = self.stream_mut(peer) else {
            self.words.remove(word);
            return;
        };
        let ends = &mut stream.outgoing.words.ends;
        let last = ends.map(|(_, last)| last);
        *ends = Some(ends.map_or((word, word), |(first, _)| (first, word)));
        if let Some(last) = last.and_then(|last| self.words.get_mut(last)) {
            last.next = Some(word);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word = Word { head, next: None };
        }
    }

    /// Takes what is to be said first in the stream `number`. A call comes last: the sender hears before that its message was not
    /// read.
    pub(super) fn take_word(&mut self, number: u32) -> Option<StreamHead> {
        let outgoing = &mut self.streams.get_mut(number)?.outgoing;
        let Some((first, last)) = outgoing.words.ends else { return outgoing.take_wish() };
        let word = self.words.remove(first)?;
        outgoing.words.ends = word.next.map(|next| (next, last));
        Some(word.head)
    }
}
