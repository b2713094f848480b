//! Messages that contain their own number, and the account of the messages that a rank received.
//!
//! Length and content of message number `n` of a stream follow from the seed alone, so a receiver
//! can judge it without an agreement with the sender.

use std::collections::BTreeMap;

use super::settings::Settings;
use crate::payload;

/// The purpose of a context.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub(super) enum Context {
    /// Nonblocking sends and receives, of any pattern.
    Free,
    /// Blocking sends. A receive for each is posted before: the receiver gave a credit.
    Credit,
    /// Blocking receives. A send for each has begun before: the sender announced it.
    Announced,
    /// Blocking receives from any source. The receiver has sent a message to itself before.
    Own,
    /// Credits and announcements.
    Control,
}

impl Context {
    pub(super) const ALL: [Self; 5] =
        [Self::Free, Self::Credit, Self::Announced, Self::Own, Self::Control];

    /// Returns the number of the context in the world.
    pub(super) const fn number(self) -> u32 {
        self as u32 + 1
    }
}

/// Messages from one rank to another with one context and tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub(super) struct Stream {
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) context: Context,
    pub(super) tag: u32,
}

impl Stream {
    /// Number of tags of a context.
    pub(super) const TAGS: u32 = 4;
    /// The tag of the last message of a context.
    pub(super) const LAST: u32 = 9;
    /// Number of streams of one ordered pair of ranks.
    pub(super) const COUNT: usize = Context::ALL.len() * Self::TAGS as usize;

    pub(super) const fn index(self) -> usize {
        self.context as usize * Self::TAGS as usize + self.tag as usize
    }

    /// Returns a number that is unique to the message within the job.
    fn id(self, settings: &Settings, number: u64) -> u64 {
        let pair = u64::from(self.source) << 8 | u64::from(self.destination);
        settings.seed ^ (pair << 40 | (self.index() as u64) << 32 | number)
    }

    /// Returns the length of message `number`, in bytes.
    pub(super) fn length(self, settings: &Settings, number: u64) -> usize {
        let mut random = fastrand::Rng::with_seed(self.id(settings, number));
        let longest = if self.context == Context::Control { 64 } else { settings.longest };
        settings.length(&mut random, longest)
    }

    /// Returns message `number`.
    pub(super) fn message(self, settings: &Settings, number: u64) -> Vec<u8> {
        let (id, length) = (self.id(settings, number), self.length(settings, number));
        let mut bytes = payload::of(id, length);
        if length >= HEADER {
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            bytes[8..HEADER].copy_from_slice(&(!id).to_le_bytes());
        }
        bytes
    }

    /// Judges the received part of a message of `length` bytes. Returns the number that the message
    /// contains, if it is long enough for one.
    fn judge(
        self,
        settings: &Settings,
        bytes: &[u8],
        length: usize,
    ) -> Result<Option<u64>, String> {
        if length < HEADER {
            return Ok(None);
        }
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|place| bytes[at + place]));
        let number = word(0);
        let id = self.id(settings, number);
        if word(8) != !id {
            return Err(format!(
                "{self:?}: a message of {length} bytes with a false head: {number:#x}"
            ));
        }
        let expected = self.length(settings, number);
        if length != expected {
            return Err(format!("{self:?} {number}: {length} bytes instead of {expected}"));
        }
        match payload::first_difference_from(id, bytes, HEADER) {
            Some(at) => Err(format!("{self:?} {number}: of {length} bytes, byte {at} is another")),
            None => Ok(Some(number)),
        }
    }
}

/// Bytes of a message's head: its number, and a check.
const HEADER: usize = 16;

/// A message that was received.
#[derive(Debug)]
struct Receipt {
    /// The position of its receive in the order of posting.
    order: u64,
    number: Option<u64>,
    length: usize,
    /// The whole message, if it is too short for a head.
    short: Vec<u8>,
}

/// All messages that a rank received.
#[derive(Debug, Default)]
pub(super) struct Account {
    receipts: BTreeMap<Stream, Vec<Receipt>>,
}

impl Account {
    /// Records a message. `bytes` are its first bytes, at least as many as a head has unless the
    /// message is shorter.
    ///
    /// # Errors
    ///
    /// Returns the fault of the message.
    pub(super) fn enter(
        &mut self,
        settings: &Settings,
        stream: Stream,
        order: u64,
        (bytes, length): (&[u8], usize),
    ) -> Result<(), String> {
        let number = stream.judge(settings, bytes, length)?;
        let receipts = self.receipts.entry(stream).or_default();
        if number.is_some() && receipts.iter().any(|known| known.number == number) {
            return Err(format!("{stream:?} {number:?}: received twice"));
        }
        let short = if number.is_none() { bytes.to_vec() } else { Vec::new() };
        receipts.push(Receipt { order, number, length, short });
        Ok(())
    }

    /// Judges a stream that has ended. All messages of a survivor, and some of a rank that died,
    /// must have arrived in order, and each once.
    ///
    /// # Errors
    ///
    /// Returns which message is missing, or out of order.
    pub(super) fn close(
        &mut self,
        settings: &Settings,
        stream: Stream,
        begun: u64,
        is_whole: bool,
    ) -> Result<(), String> {
        let mut receipts = self.receipts.remove(&stream).unwrap_or_default();
        receipts.sort_by_key(|receipt| receipt.order);
        let mut next = 0;
        for receipt in &receipts {
            let matches = |number: &u64| match receipt.number {
                Some(found) => found == *number,
                None => is_short_message(settings, stream, *number, receipt),
            };
            // Messages of a rank that died may be missing.
            let last = if is_whole { begun.min(next + 1) } else { begun };
            let Some(number) = (next..last).find(matches) else {
                return Err(format!(
                    "{stream:?}: {:?} of {} bytes came where number {next} of {begun} was expected",
                    receipt.number, receipt.length
                ));
            };
            next = number + 1;
        }
        if is_whole && next != begun {
            return Err(format!("{stream:?}: {begun} messages were sent, and {next} received"));
        }
        Ok(())
    }
}

fn is_short_message(settings: &Settings, stream: Stream, number: u64, receipt: &Receipt) -> bool {
    receipt.length == stream.length(settings, number)
        && receipt.short == stream.message(settings, number)
}
