//! Records: the contents of messages between members of a window that use messages (`[OneSided04]`
//! §3.2).
//!
//! An origin packs its operations into a message, one record behind the other, and sends the
//! message when it synchronises. The target carries them out in order. Long data goes in a message
//! of its own, *apart*, and so does an answer. A number that the origin assigns identifies such a
//! message.

use core::ptr::NonNull;

use super::{AnswerNumber, DataNumber, NUMBER_MAX, SharedNumber};
use crate::buffer::Part;
use crate::reduce::{Op, Reducible, with_number_of};
use crate::wire::Corrupt;

/// Size in bytes of a record, without the data behind it.
pub const RECORD: usize = 40;

/// A record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Record {
    /// Writes to the part.
    Put {
        /// Offset in bytes from the start of the part.
        offset: usize,
        /// Length in bytes.
        length: usize,
        /// Number of the message with the data, or `None` if the data follows the record.
        apart: Option<DataNumber>,
    },
    /// Asks for bytes of the part.
    Get {
        /// Offset in bytes from the start of the part.
        offset: usize,
        /// Length in bytes.
        length: usize,
        /// Number of the message to send.
        answer: AnswerNumber,
    },
    /// Combines numbers of the part with operands.
    Combine {
        /// Offset in bytes from the start of the part.
        offset: usize,
        /// Number of numbers.
        count: usize,
        /// Code of their type, as assigned by [`Reducible`].
        kind: u8,
        /// Operation on each number.
        op: Op,
        /// Number of the message with the operands, or `None` if they follow the record.
        apart: Option<DataNumber>,
        /// Number of the message with the old values, if they are wanted.
        answer: Option<AnswerNumber>,
    },
    /// Compares an integer of the part and swaps it.
    Swap {
        /// Offset in bytes from the start of the part.
        offset: usize,
        /// Size of the integer in bytes.
        width: u8,
        /// Expected value, in the lowest bytes.
        compare: u64,
        /// New value, in the lowest bytes.
        new: u64,
        /// Number of the message with the old value.
        answer: AnswerNumber,
    },
    /// Asks for a reply when everything before this record is done.
    Flush {
        /// Number of this request: how many have been sent so far.
        number: u64,
    },
    /// Replies that everything before a [`Record::Flush`] is done.
    Flushed {
        /// Number of that request.
        number: u64,
    },
    /// Announces that the sender's part may be accessed.
    Posted {
        /// Number of the epoch.
        number: u64,
    },
    /// Announces that the sender has completed its access to the part.
    Completed {
        /// Number of the epoch.
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
    /// Creates a record that combines `count` numbers from `offset` on.
    #[must_use]
    pub const fn combine<T: Reducible>(
        op: Op,
        offset: usize,
        count: usize,
        apart: Option<DataNumber>,
        answer: Option<AnswerNumber>,
    ) -> Self {
        Self::Combine { offset, count, kind: T::KIND, op, apart, answer }
    }

    /// Returns the encoded record.
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

    /// Parses the record at the start of the rest of a message to the owner of `part`.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if no correct member sends this record.
    pub fn read(message: &[u8], part: Part) -> Result<Self, Corrupt> {
        let short = Corrupt::Length { found: message.len() as u64, max: RECORD as u64 };
        let (words, _) = message.get(..RECORD).ok_or(short)?.as_chunks::<8>();
        let word = |number: usize| u64::from_le_bytes(words[number]);
        let [verb, kind, op, ..] = words[0];
        let unknown = |found| Corrupt::Kind { found };
        let [apart, answer] = [word(4) as u32, (word(4) >> 32) as u32];
        let too_large =
            |number: u32| Corrupt::Length { found: number.into(), max: NUMBER_MAX.into() };
        if let Some(number) = [apart, answer].into_iter().find(|number| *number > NUMBER_MAX) {
            return Err(too_large(number));
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
            // The encoding of the parsed record must equal the bytes that were sent, so no unused
            // bit is set.
            _ if known.bytes() != message[..RECORD] => Err(unknown(verb)),
            _ => Ok(known),
        }
    }

    /// Returns the size in bytes of the record's data, behind it or apart.
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

    /// Returns the number of the message with the data, if the data is apart.
    #[must_use]
    pub const fn apart(self) -> Option<DataNumber> {
        match self {
            Self::Put { apart, .. } | Self::Combine { apart, .. } => apart,
            _ => None,
        }
    }

    /// Combines the numbers with the operands, and replaces the operands with the old values. Does
    /// nothing for other records.
    ///
    /// # Safety
    ///
    /// The record was read for `part`, which is valid. Other accesses to these numbers meet the
    /// contract of [`SharedNumber::new`].
    pub unsafe fn carry_out(self, part: Part, operands: &mut [u8]) {
        let Self::Combine { offset, count, kind, op, .. } = self else { return };
        // SAFETY: the offset lies within the part (checked by `read`).
        let there = unsafe { part.base.add(offset) };
        let _known = with_number_of!(kind, T => {
            let operands = operands.chunks_exact_mut(size_of::<T>()).take(count);
            for (number, operand) in operands.enumerate() {
                let place = NonNull::from(operand).cast::<T>();
                // SAFETY: the operand has the bytes of a number, and any bytes are a valid number.
                // The place lies within the part and is aligned (checked by `read`).
                unsafe {
                    let number = SharedNumber::<T>::new(there.add(number * size_of::<T>()));
                    if let Some(before) = number.fetch_and_op(op, place.read_unaligned()) {
                        place.write_unaligned(before);
                    }
                }
            }
        });
    }

    /// Compares and swaps, and returns the old value. Does nothing for other records.
    ///
    /// # Safety
    ///
    /// The record was read for `part`, which is valid. Other accesses to the integer meet the
    /// contract of [`SharedNumber::new`].
    #[must_use]
    pub unsafe fn swap(self, part: Part) -> u64 {
        let Self::Swap { offset, width, compare, new, .. } = self else { return 0 };
        // SAFETY: the integer lies within the part and is aligned (checked by `read`).
        unsafe {
            let there = part.base.add(offset);
            match width {
                1 => {
                    SharedNumber::<u8>::new(there).compare_and_swap(compare as u8, new as u8).into()
                }
                2 => SharedNumber::<u16>::new(there)
                    .compare_and_swap(compare as u16, new as u16)
                    .into(),
                4 => SharedNumber::<u32>::new(there)
                    .compare_and_swap(compare as u32, new as u32)
                    .into(),
                _ => SharedNumber::<u64>::new(there).compare_and_swap(compare, new),
            }
        }
    }
}

/// Checks that `count` items of `width` bytes from `offset` on lie within the part and are aligned.
/// Returns offset and count.
fn within(part: Part, offset: u64, count: u64, width: usize) -> Result<(usize, usize), Corrupt> {
    let length = count.saturating_mul(width as u64);
    let max = (part.length as u64).saturating_sub(offset);
    let address = (part.base.addr().get() as u64).wrapping_add(offset);
    if offset > part.length as u64 || length > max || !address.is_multiple_of(width as u64) {
        return Err(Corrupt::Length { found: length, max });
    }
    // Both values fit `usize`, because they count bytes of the part.
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
    fn a_record_is_parsed_as_it_was_encoded() {
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
    fn a_record_that_no_member_sends_is_refused() {
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
        // An unused bit, the number of the other type, and a number above the largest.
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
    fn a_parsed_record_stays_within_the_part() {
        let mut memory = [0_u64; 4];
        let part = part(&mut memory);
        for record in records() {
            // Miri takes too long for every value of every byte.
            let (bytes, values) = if cfg!(miri) { (3, 127) } else { (1, 1) };
            for at in (0..RECORD).step_by(bytes) {
                for byte in (0..=u8::MAX).step_by(values) {
                    let mut message = [0; RECORD + 64];
                    message[..RECORD].copy_from_slice(&record.bytes());
                    message[at] = byte;
                    let end = match Record::read(&message, part) {
                        Ok(
                            Record::Put { offset, length, .. } | Record::Get { offset, length, .. },
                        ) => offset + length,
                        Ok(parsed @ Record::Combine { offset, .. }) => offset + parsed.data(),
                        Ok(Record::Swap { offset, width, .. }) => offset + usize::from(width),
                        _ => 0,
                    };
                    assert!(end <= 32, "byte {at} of {record:?} is {byte}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_combined_and_the_old_values_returned() {
        let mut memory = [5_u64, 7, 9, 11];
        let part = part(&mut memory);
        let mut operands = [0_u8; 17];
        operands[1..9].copy_from_slice(&1_u64.to_le_bytes());
        operands[9..].copy_from_slice(&2_u64.to_le_bytes());
        let record = Record::combine::<u64>(Op::Sum, 8, 2, None, None);
        // SAFETY: the numbers lie within the memory, which belongs to this test alone.
        unsafe { record.carry_out(part, &mut operands[1..]) };
        assert_eq!(operands[1..9], 7_u64.to_le_bytes());
        assert_eq!(operands[9..], 9_u64.to_le_bytes());
        let swap =
            |compare| Record::Swap { offset: 24, width: 1, compare, new: 1, answer: answer(1) };
        // SAFETY: the integer lies within the memory, which belongs to this test alone.
        let found = unsafe { [swap(3).swap(part), swap(11).swap(part), swap(11).swap(part)] };
        assert_eq!((found, memory), ([11, 11, 1], [5, 8, 11, 1]));
    }
}
