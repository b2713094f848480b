//! Records: what members of a window say to each other where that goes by messages (`[OneSided04]` §3.2).
//!
//! An origin packs its operations into a message, one record behind the other, and sends it when it synchronises. The target carries
//! them out in their order. What is long goes in a message of its own, *apart*, and so does an answer; both are told from others by
//! a number that the origin gives them.

use core::ptr::NonNull;

use super::{AnswerNumber, DataNumber, NUMBER_MAX, Place};
use crate::layout::Corrupt;
use crate::progress::Part;
use crate::reduce::{Number, Op, with_number_of};

/// Bytes of a record, without the data behind it.
pub const RECORD: usize = 40;

/// One of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Record {
    /// Write to the part.
    Put {
        /// Bytes from the start of the part.
        offset: usize,
        /// Bytes.
        length: usize,
        /// The number of the message with the data; `None`: they are behind the record.
        apart: Option<DataNumber>,
    },
    /// Send bytes of the part.
    Get {
        /// Bytes from the start of the part.
        offset: usize,
        /// Bytes.
        length: usize,
        /// The number of the message to send.
        answer: AnswerNumber,
    },
    /// Combine numbers of the part with operands.
    Combine {
        /// Bytes from the start of the part.
        offset: usize,
        /// Numbers.
        count: usize,
        /// Their type, as [`Number`] numbers it.
        kind: u8,
        /// What to do with each.
        op: Op,
        /// As in a put.
        apart: Option<DataNumber>,
        /// The number of the message with what was there, if it is wanted.
        answer: Option<AnswerNumber>,
    },
    /// Compare an integer, and swap it.
    Swap {
        /// Bytes from the start of the part.
        offset: usize,
        /// Bytes of the integer.
        width: u8,
        /// The integer, in the lowest bytes.
        compare: u64,
        /// Likewise.
        new: u64,
        /// The number of the message with what was there.
        answer: AnswerNumber,
    },
    /// Say when everything before this is done.
    Flush {
        /// How many times that has been asked.
        number: u64,
    },
    /// It is done.
    Flushed {
        /// How many times that was asked.
        number: u64,
    },
    /// The sender's part may be reached.
    Posted {
        /// The epoch.
        number: u64,
    },
    /// The sender has reached the part.
    Completed {
        /// The epoch.
        number: u64,
    },
}

const PUT: u8 = 1;
const GET: u8 = 2;
const COMBINE: u8 = 3;
const SWAP: u8 = 4;
const FLUSH: u8 = 5;
const FLUSHED: u8 = 6;
const POSTED: u8 = 7;
const COMPLETED: u8 = 8;

impl Record {
    /// A record to combine `count` numbers from `offset` on.
    #[must_use]
    pub const fn combine<T: Number>(
        op: Op,
        offset: usize,
        count: usize,
        apart: Option<DataNumber>,
        answer: Option<AnswerNumber>,
    ) -> Self {
        Self::Combine { offset, count, kind: T::KIND, op, apart, answer }
    }

    /// As it travels.
    #[must_use]
    pub fn bytes(self) -> [u8; RECORD] {
        let (verb, kind, op, numbers, messages) = match self {
            Self::Put { offset, length, apart } => {
                (PUT, 0, 0, [offset as u64, length as u64, 0], (apart, None))
            }
            Self::Get { offset, length, answer } => {
                (GET, 0, 0, [offset as u64, length as u64, 0], (None, Some(answer)))
            }
            Self::Combine { offset, count, kind, op, apart, answer } => {
                (COMBINE, kind, op.code(), [offset as u64, count as u64, 0], (apart, answer))
            }
            Self::Swap { offset, width, compare, new, answer } => {
                (SWAP, width, 0, [offset as u64, compare, new], (None, Some(answer)))
            }
            Self::Flush { number } => (FLUSH, 0, 0, [number, 0, 0], (None, None)),
            Self::Flushed { number } => (FLUSHED, 0, 0, [number, 0, 0], (None, None)),
            Self::Posted { number } => (POSTED, 0, 0, [number, 0, 0], (None, None)),
            Self::Completed { number } => (COMPLETED, 0, 0, [number, 0, 0], (None, None)),
        };
        let how = u64::from_le_bytes([verb, kind, op, 0, 0, 0, 0, 0]);
        let (apart, answer): (Option<DataNumber>, Option<AnswerNumber>) = messages;
        let (apart, answer) =
            (apart.map_or(0, DataNumber::word), answer.map_or(0, AnswerNumber::word));
        let messages = u64::from(apart) | u64::from(answer) << 32;
        let words = [how, numbers[0], numbers[1], numbers[2], messages];
        let mut bytes = [0; RECORD];
        let (places, _) = bytes.as_chunks_mut::<8>();
        places.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
        bytes
    }

    /// The record at the start of what is left of a message to the owner of `part`.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]: no member sends this.
    pub fn read(message: &[u8], part: Part) -> Result<Self, Corrupt> {
        let short = Corrupt::Length { found: message.len() as u64, max: RECORD as u64 };
        let (words, _) = message.get(..RECORD).ok_or(short)?.as_chunks::<8>();
        let word = |number: usize| u64::from_le_bytes(words[number]);
        let [verb, kind, op, ..] = words[0];
        let unknown = |found| Corrupt::Kind { found };
        let [apart, answer] = [word(4) as u32, (word(4) >> 32) as u32];
        let beyond = |number: u32| Corrupt::Length { found: number.into(), max: NUMBER_MAX.into() };
        if let Some(number) = [apart, answer].into_iter().find(|number| *number > NUMBER_MAX) {
            return Err(beyond(number));
        }
        let (apart, answer) = (DataNumber::parse(apart), AnswerNumber::parse(answer));
        let known = match verb {
            PUT => {
                let (offset, length) = within(part, word(1), word(2), 1)?;
                Self::Put { offset, length, apart }
            }
            GET => {
                let (offset, length) = within(part, word(1), word(2), 1)?;
                Self::Get { offset, length, answer: answer.ok_or(unknown(verb))? }
            }
            COMBINE => {
                let op = Op::of_code(op).ok_or(unknown(op))?;
                let width = with_number_of!(kind, T => T::function(op).map(|_| size_of::<T>()));
                let width = width.flatten().ok_or(unknown(kind))?;
                let (offset, count) = within(part, word(1), word(2), width)?;
                Self::Combine { offset, count, kind, op, apart, answer }
            }
            SWAP if matches!(kind, 1 | 2 | 4 | 8) => {
                let (offset, _) = within(part, word(1), 1, kind.into())?;
                let answer = answer.ok_or(unknown(verb))?;
                Self::Swap { offset, width: kind, compare: word(2), new: word(3), answer }
            }
            FLUSH => Self::Flush { number: word(1) },
            FLUSHED => Self::Flushed { number: word(1) },
            POSTED => Self::Posted { number: word(1) },
            COMPLETED => Self::Completed { number: word(1) },
            found => return Err(unknown(found)),
        };
        let behind = known.data();
        match known.apart() {
            None if message.len() - RECORD < behind => {
                Err(Corrupt::Length { found: behind as u64, max: (message.len() - RECORD) as u64 })
            }
            // What the record says is all that was sent.
            _ if known.bytes() != message[..RECORD] => Err(unknown(verb)),
            _ => Ok(known),
        }
    }

    /// Bytes of the data that belong to it, behind it or apart.
    #[must_use]
    pub fn data(self) -> usize {
        match self {
            Self::Put { length, .. } => length,
            Self::Combine { count, kind, .. } => {
                with_number_of!(kind, T => count * size_of::<T>()).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// The number of the message with the data, if they are apart.
    #[must_use]
    pub const fn apart(self) -> Option<DataNumber> {
        match self {
            Self::Put { apart, .. } | Self::Combine { apart, .. } => apart,
            _ => None,
        }
    }

    /// Combines, and leaves what was there in the place of the operands. Other records do nothing.
    ///
    /// # Safety
    ///
    /// It was read for `part`, which is valid; whoever else reaches these numbers does so as the contract of [`Place::new`] says.
    pub unsafe fn carry_out(self, part: Part, operands: &mut [u8]) {
        let Self::Combine { offset, count, kind, op, .. } = self else { return };
        // SAFETY: in the part, by the check of `read`.
        let there = unsafe { part.base.add(offset) };
        let _known = with_number_of!(kind, T => {
            for (number, operand) in operands.chunks_exact_mut(size_of::<T>()).take(count).enumerate() {
                let place = NonNull::from(operand).cast::<T>();
                // SAFETY: the operand has the bytes of a number, for which any are good; the place is in the part and aligned, by
                // the check of `read`.
                unsafe {
                    let number = Place::<T>::new(there.add(number * size_of::<T>()));
                    if let Some(before) = number.fetch_and_op(op, place.read_unaligned()) {
                        place.write_unaligned(before);
                    }
                }
            }
        });
    }

    /// Compares and swaps, and gives what was there. Other records do nothing.
    ///
    /// # Safety
    ///
    /// As for [`Record::carry_out`].
    #[must_use]
    pub unsafe fn swap(self, part: Part) -> u64 {
        let Self::Swap { offset, width, compare, new, .. } = self else { return 0 };
        // SAFETY: in the part and aligned, by the check of `read`.
        unsafe {
            let there = part.base.add(offset);
            match width {
                1 => Place::<u8>::new(there).compare_and_swap(compare as u8, new as u8).into(),
                2 => Place::<u16>::new(there).compare_and_swap(compare as u16, new as u16).into(),
                4 => Place::<u32>::new(there).compare_and_swap(compare as u32, new as u32).into(),
                _ => Place::<u64>::new(there).compare_and_swap(compare, new),
            }
        }
    }
}

/// Offset and count of things of `width` bytes that all lie in the part, where such things can be.
fn within(part: Part, offset: u64, count: u64, width: usize) -> Result<(usize, usize), Corrupt> {
    let length = count.saturating_mul(width as u64);
    let max = (part.length as u64).saturating_sub(offset);
    let address = (part.base.addr().get() as u64).wrapping_add(offset);
    if offset > part.length as u64 || length > max || !address.is_multiple_of(width as u64) {
        return Err(Corrupt::Length { found: length, max });
    }
    // Both fit: they count bytes of the part.
    Ok((offset as usize, count as usize))
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn part(memory: &mut [u64]) -> Part {
        Part { length: size_of_val(memory), base: NonNull::from(memory).cast() }
    }

    fn data(word: u32) -> Option<DataNumber> {
        Some(DataNumber::parse(word).expect("a number"))
    }

    fn answer(word: u32) -> AnswerNumber {
        AnswerNumber::parse(word).expect("a number")
    }

    fn records() -> Vec<Record> {
        vec![
            Record::Put { offset: 3, length: 5, apart: None },
            Record::Put { offset: 0, length: 32, apart: data(7) },
            Record::Get { offset: 32, length: 0, answer: answer(NUMBER_MAX) },
            Record::combine::<i16>(Op::Max, 2, 3, None, Some(answer(1))),
            Record::combine::<f64>(Op::Sum, 8, 3, data(9), None),
            Record::Swap { offset: 4, width: 4, compare: 1, new: 2, answer: answer(3) },
            Record::Flush { number: u64::MAX },
            Record::Flushed { number: 1 },
            Record::Posted { number: 2 },
            Record::Completed { number: 3 },
        ]
    }

    #[test]
    fn what_is_said_is_heard() {
        let mut memory = [0_u64; 4];
        let part = part(&mut memory);
        for record in records() {
            let mut message = record.bytes().to_vec();
            if record.apart().is_none() {
                let length = message.len() + record.data();
                message.resize(length, 0);
            }
            assert_eq!(Record::read(&message, part), Ok(record));
            message.pop();
            let short = record.apart().is_some() || record.data() == 0;
            assert!(Record::read(&message, part).is_err() || !short, "{record:?}");
        }
    }

    #[test]
    fn what_nobody_says_is_refused() {
        let mut memory = [0_u64; 4];
        let part = part(&mut memory);
        let bad = [
            Record::Put { offset: 28, length: 5, apart: data(1) },
            Record::Put { offset: 33, length: 0, apart: data(1) },
            Record::Get { offset: usize::MAX, length: 2, answer: answer(1) },
            Record::combine::<u32>(Op::Sum, 2, 1, data(1), None),
            Record::combine::<u64>(Op::Sum, 0, usize::MAX, data(1), None),
            Record::combine::<f32>(Op::BitXor, 0, 1, data(1), None),
            Record::Swap { offset: 0, width: 3, compare: 0, new: 0, answer: answer(1) },
            Record::Swap { offset: 25, width: 8, compare: 0, new: 0, answer: answer(1) },
        ];
        for record in bad {
            assert!(Record::read(&record.bytes(), part).is_err(), "{record:?}");
        }
        // A bit that no record has, the other's number, and a number beyond the highest.
        for (at, byte) in [(5, 1), (16, 1), (32, 1), (36, 1), (39, 0x80)] {
            let mut rest = Record::Posted { number: 1 }.bytes();
            rest[at] = byte;
            assert!(Record::read(&rest, part).is_err(), "byte {at}");
        }
        let mut without = Record::Get { offset: 0, length: 2, answer: answer(1) }.bytes();
        without[36] = 0;
        assert!(Record::read(&without, part).is_err());
    }

    #[test]
    fn whatever_is_heard_lies_in_the_part() {
        let mut memory = [0_u64; 4];
        let part = part(&mut memory);
        for record in records() {
            for at in 0..RECORD {
                // Every byte takes Miri too long.
                for byte in (0..=u8::MAX).step_by(if cfg!(miri) { 51 } else { 1 }) {
                    let mut message = [0; RECORD + 64];
                    message[..RECORD].copy_from_slice(&record.bytes());
                    message[at] = byte;
                    let end = match Record::read(&message, part) {
                        Ok(
                            Record::Put { offset, length, .. } | Record::Get { offset, length, .. },
                        ) => offset + length,
                        Ok(heard @ Record::Combine { offset, .. }) => offset + heard.data(),
                        Ok(Record::Swap { offset, width, .. }) => offset + usize::from(width),
                        _ => 0,
                    };
                    assert!(end <= 32, "byte {at} of {record:?} is {byte}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_combined_and_what_was_there_is_left() {
        let mut memory = [5_u64, 7, 9, 11];
        let part = part(&mut memory);
        let mut operands = [0_u8; 17];
        operands[1..9].copy_from_slice(&1_u64.to_le_bytes());
        operands[9..].copy_from_slice(&2_u64.to_le_bytes());
        let record = Record::combine::<u64>(Op::Sum, 8, 2, None, None);
        // SAFETY: within the memory, which is this test's alone.
        unsafe { record.carry_out(part, &mut operands[1..]) };
        assert_eq!(operands[1..9], 7_u64.to_le_bytes());
        assert_eq!(operands[9..], 9_u64.to_le_bytes());
        let swap =
            |compare| Record::Swap { offset: 24, width: 1, compare, new: 1, answer: answer(1) };
        // SAFETY: likewise.
        let found = unsafe { [swap(3).swap(part), swap(11).swap(part), swap(11).swap(part)] };
        assert_eq!((found, memory), ([11, 11, 1], [5, 8, 11, 1]));
    }
}
