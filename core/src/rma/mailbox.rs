//! Mailboxes: short messages that two ranks write into each other's memory over a lane.
//!
//! A message goes by one RDMA write, without a stream, an envelope or matching. So both ranks must
//! know from elsewhere which message comes next, as the members of a collective operation do. Each
//! rank has a mailbox for the other:
//!
//! | offset | bytes | content, written by the peer |
//! |---:|---:|---|
//! | 0 | 8 | number of messages that the peer has taken out of its own mailbox |
//! | 64 | 64 · 1,088 | entries, used in turn |
//!
//! The last 8 bytes of an entry are its *flag*: the number of the message from 1 on, and its length
//! in bytes in the lowest 16 bits. The message lies directly before the flag, padded to 8 bytes. A
//! device that keeps the order of bytes gets both in one write, other devices get the flag in a
//! second write. An empty message is one word.
//!
//! A rank tells the peer after each half ring how many messages it has taken. It writes this even
//! if the peer does not wait. The peer fills an entry again when its message has been taken.
//!
//! Absent on purpose: waiting, and messages above [`MAIL_MAX`].

use core::fmt;
use core::ptr::NonNull;

use super::{Lane, LaneError};
use crate::buffer::Part;
use crate::buffer::copy::copy_opaque;
use crate::hca::{Hca, RemoteAddress};
use crate::layout::Corrupt;
use crate::ring::Counter;

/// Number of messages in a mailbox.
const ENTRIES: u64 = 64;

/// Longest message in bytes.
pub const MAIL_MAX: usize = 1024;

/// Size of a mailbox in bytes. Zeroed memory is an empty mailbox.
pub const MAILBOX_BYTES: usize = HEAD + ENTRIES as usize * ENTRY;

/// Bytes before the first entry.
const HEAD: usize = 64;

/// Size of an entry in bytes.
const ENTRY: usize = (MAIL_MAX + WORD).next_multiple_of(64);

/// Offset of the flag in an entry.
const FLAG: usize = ENTRY - WORD;

const WORD: usize = size_of::<u64>();

/// Number of bits of a flag for the length.
const LENGTH_BITS: u32 = 16;

const _: () = assert!(MAIL_MAX < 1 << LENGTH_BITS && MAIL_MAX <= FLAG && ENTRIES.is_power_of_two());

/// The reason why a rank can use its mailboxes with a peer no more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MailError {
    /// The lane takes no more requests.
    Lane(LaneError),
    /// The peer wrote what no correct peer writes.
    Corrupt(Corrupt),
}

impl fmt::Display for MailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane(error) => error.fmt(f),
            Self::Corrupt(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MailError {}

impl From<LaneError> for MailError {
    fn from(error: LaneError) -> Self {
        Self::Lane(error)
    }
}

impl From<Corrupt> for MailError {
    fn from(error: Corrupt) -> Self {
        Self::Corrupt(error)
    }
}

/// This rank's view of its mailboxes with one peer, one for each direction.
#[derive(Debug)]
pub struct MailboxPair {
    peer: u32,
    /// The mailbox of this rank.
    own: NonNull<u8>,
    /// The mailbox of the peer.
    there: RemoteAddress,
    /// True if the device writes the bytes of one request in their order.
    keeps_order: bool,
    sent: u64,
    /// Number of sent messages that the peer is known to have taken.
    taken: u64,
    received: u64,
    /// Number of received messages of which the peer has been told.
    told: u64,
    /// True if the bytes of the next message have been written without their flag.
    awaits_flag: bool,
}

impl MailboxPair {
    /// Describes empty mailboxes: this rank's at `own`, and that of `peer` at `there`.
    ///
    /// # Safety
    ///
    /// - The [`MAILBOX_BYTES`] bytes at `own` are aligned to 64 bytes, and zero unless the peer has
    ///   written to them. They are valid for reads while this value is in use.
    /// - Only the peer's device writes to them, over the lane's connection.
    #[must_use]
    pub const unsafe fn new(
        peer: u32,
        own: NonNull<u8>,
        there: RemoteAddress,
        keeps_order: bool,
    ) -> Self {
        let [sent, taken, received, told] = [0; 4];
        Self { peer, own, there, keeps_order, sent, taken, received, told, awaits_flag: false }
    }

    /// Returns the address of the peer's mailbox.
    #[must_use]
    pub const fn there(&self) -> RemoteAddress {
        self.there
    }

    /// Sends a message of at most [`MAIL_MAX`] bytes. Returns false if that is not possible now.
    /// The caller then repeats the call with the same message.
    ///
    /// # Errors
    ///
    /// [`MailError`]. No message can be sent any more.
    pub fn send<H: Hca>(
        &mut self,
        lane: &mut Lane,
        hca: &mut H,
        message: &[u8],
    ) -> Result<bool, MailError> {
        debug_assert!(message.len() <= MAIL_MAX, "{} bytes", message.len());
        if !self.has_room()? {
            return Ok(false);
        }
        let padded = message.len().next_multiple_of(WORD);
        let end = entry(self.sent) + FLAG;
        let flag = ((self.sent + 1) << LENGTH_BITS | message.len() as u64).to_ne_bytes();
        let mut image = [0_u8; ENTRY];
        image[..message.len()].copy_from_slice(message);
        image[padded..][..WORD].copy_from_slice(&flag);
        let is_apart = !self.keeps_order && !message.is_empty();
        if is_apart && !self.awaits_flag {
            if !write(lane, hca, &image[..padded], self.there.after(end - padded))? {
                return Ok(false);
            }
            self.awaits_flag = true;
        }
        let start = if is_apart { padded } else { 0 };
        let to = self.there.after(end - (padded - start));
        let is_sent = write(lane, hca, &image[start..padded + WORD], to)?;
        if is_sent {
            self.sent += 1;
            self.awaits_flag = false;
        }
        Ok(is_sent)
    }

    /// Takes the next message, if it has arrived. Copies as much of it as fits in `into`, and
    /// returns its length in bytes. The caller calls [`MailboxPair::acknowledge`] afterwards.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the peer wrote another flag than that of the next message.
    pub fn receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, Corrupt> {
        let (next, start) = (self.received + 1, entry(self.received));
        let flag = self.counter(start + FLAG).read();
        let (found, length) = (flag >> LENGTH_BITS, flag & ((1 << LENGTH_BITS) - 1));
        if found != next {
            // The entry still has the message before, or none.
            if found == next.saturating_sub(ENTRIES) {
                return Ok(None);
            }
            return Err(Corrupt::Sequence { source: self.peer, found, expected: next });
        }
        if length > MAIL_MAX as u64 {
            return Err(Corrupt::Length { found: length, max: MAIL_MAX as u64 });
        }
        let length = length as usize;
        let offset = start + FLAG - length.next_multiple_of(WORD);
        // SAFETY: the bytes lie in the entry. Its flag says that they have arrived, and a correct
        // peer writes them again only when it is told that they were taken. Another peer's write
        // only changes the bytes, as `copy_opaque` allows.
        unsafe {
            let from = self.own.add(offset).as_ptr();
            copy_opaque(from, into.as_mut_ptr(), length.min(into.len()));
        }
        self.received = next;
        Ok(Some(length))
    }

    /// Returns true if the peer has to be told that messages were taken.
    #[must_use]
    pub const fn owes_acknowledgement(&self) -> bool {
        self.received - self.told >= ENTRIES / 2
    }

    /// Tells the peer how many messages were taken, if it has to know. If that is not possible now,
    /// the caller repeats the call later.
    ///
    /// # Errors
    ///
    /// The error that broke the lane.
    pub fn acknowledge<H: Hca>(&mut self, lane: &mut Lane, hca: &mut H) -> Result<(), LaneError> {
        if self.owes_acknowledgement()
            && write(lane, hca, &self.received.to_ne_bytes(), self.there)?
        {
            self.told = self.received;
        }
        Ok(())
    }

    /// Returns true if the next entry of the peer's mailbox is free.
    fn has_room(&mut self) -> Result<bool, Corrupt> {
        if self.sent - self.taken < ENTRIES {
            return Ok(true);
        }
        let found = self.counter(0).read();
        if found < self.taken || found > self.sent {
            return Err(Corrupt::Credit { found, sent: self.sent });
        }
        self.taken = found;
        Ok(self.sent - self.taken < ENTRIES)
    }

    const fn counter(&self, offset: usize) -> &Counter {
        // SAFETY: the word lies in this rank's mailbox and is aligned (contract of `new`). Any
        // bytes are a valid counter, and only a device writes them.
        unsafe { self.own.add(offset).cast().as_ref() }
    }
}

/// Returns the offset in a mailbox of the entry for the message behind `before` others.
const fn entry(before: u64) -> usize {
    HEAD + (before % ENTRIES) as usize * ENTRY
}

/// Writes bytes to the peer's mailbox. Returns false if that is not possible now.
fn write<H: Hca>(
    lane: &mut Lane,
    hca: &mut H,
    bytes: &[u8],
    to: RemoteAddress,
) -> Result<bool, LaneError> {
    let from = Part { base: NonNull::from(bytes).cast(), length: bytes.len() };
    // SAFETY: the bytes are valid for reads, and lie outside the memory lent to the lane.
    Ok(unsafe { lane.write(hca, from, to) }?.is_some())
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::sync::CacheLine;

    /// The memory of a mailbox, in which the test plays the peer's device.
    struct Memory {
        /// Taken once: the pair keeps a copy of it, which another mutable borrow would end.
        base: NonNull<u8>,
        _lines: Vec<CacheLine<[u64; 8]>>,
    }

    impl Memory {
        fn new() -> (Self, MailboxPair) {
            let mut lines: Vec<_> = (0..MAILBOX_BYTES / 64).map(|_| CacheLine([0; 8])).collect();
            let base = NonNull::from(&mut lines[..]).cast();
            let there = RemoteAddress { address: 0, key: 0 };
            // SAFETY: the memory is aligned, zeroed and long enough, and outlives the pair.
            let pair = unsafe { MailboxPair::new(7, base, there, true) };
            (Self { base, _lines: lines }, pair)
        }

        /// Writes the flag of the entry for message `number`.
        fn set_flag(&self, number: u64, flag: u64) {
            // SAFETY: the word lies in the memory and is aligned.
            unsafe { self.base.add(entry(number - 1) + FLAG).cast().write(flag) };
        }
    }

    #[test]
    fn entries_lie_in_the_mailbox_and_do_not_overlap() {
        assert_eq!(entry(0), HEAD);
        assert_eq!(entry(ENTRIES - 1) + ENTRY, MAILBOX_BYTES);
        assert_eq!(entry(ENTRIES), entry(0));
        assert!((0..ENTRIES).all(|before| (entry(before) + FLAG).is_multiple_of(WORD)));
    }

    #[test]
    fn messages_are_taken_in_order_and_acknowledged_after_half_a_ring() {
        let (memory, mut pair) = Memory::new();
        for number in 1..=3 * ENTRIES {
            assert_eq!(pair.receive(&mut []), Ok(None));
            memory.set_flag(number, number << LENGTH_BITS | 5);
            assert_eq!(pair.receive(&mut [0; 3]), Ok(Some(5)));
            assert_eq!(pair.owes_acknowledgement(), number >= ENTRIES / 2);
        }
    }

    #[test]
    fn flags_that_no_peer_writes_are_refused() {
        let (memory, mut pair) = Memory::new();
        memory.set_flag(1, 2 << LENGTH_BITS);
        let wrong = Corrupt::Sequence { source: 7, found: 2, expected: 1 };
        assert_eq!(pair.receive(&mut []), Err(wrong));
        memory.set_flag(1, 1 << LENGTH_BITS | 1025);
        let long = Corrupt::Length { found: 1025, max: 1024 };
        assert_eq!(pair.receive(&mut []), Err(long));
        memory.set_flag(1, 1 << LENGTH_BITS | 1024);
        assert_eq!(pair.receive(&mut [0; 1024]), Ok(Some(1024)));
    }

    #[test]
    fn an_acknowledgement_of_what_was_not_sent_is_refused() {
        let (memory, mut pair) = Memory::new();
        let mut has_room = |sent, acknowledged: u64| {
            pair.sent = sent;
            // SAFETY: the word lies in the memory and is aligned.
            unsafe { memory.base.cast().write(acknowledged) };
            pair.has_room()
        };
        let half = ENTRIES / 2;
        assert_eq!(has_room(ENTRIES, 0), Ok(false));
        assert_eq!(has_room(ENTRIES, half), Ok(true));
        let sent = half + ENTRIES;
        for found in [sent + 1, half - 1] {
            assert_eq!(has_room(sent, found), Err(Corrupt::Credit { found, sent }));
        }
    }
}
