//! Active messages: accumulates that the target's handler carries out (`[OneSided04]` §3.3.2).
//!
//! Fetching numbers and writing them back moves them twice. An active message moves the operands
//! once, and needs no atomics of the device. The origin writes a description of the work, and the
//! operands, into one of its *operand buffers* at the target. Then it sends an empty message, which
//! wakes the target's handler.
//!
//! The handler takes the lock of the stripe, as an origin does that works by itself. It combines
//! the numbers and writes the old ones to the origin if requested. Last, it raises the origin's
//! acknowledgement word.
//!
//! The target carries out the active messages of one origin in order. Each stays within one stripe,
//! so one lock is enough.

use core::ptr::NonNull;

use super::{STRIPE, SharedNumber};
use crate::buffer::Part;
use crate::reduce::{Op, Reducible, with_number_of};
use crate::wire::Corrupt;

/// Largest number of active messages in progress from one origin to one target.
pub const OPERAND_BUFFERS: usize = 4;

/// Size in bytes of the head before the operands. It keeps them aligned.
const HEAD: usize = 64;

/// Size in bytes of an operand buffer.
pub const OPERAND_BUFFER_BYTES: usize = HEAD + STRIPE;

/// The layout of the memory that a member registers for active messages.
///
/// In a window of `members` members, it consists of these areas, in this order:
///
/// - the operand buffers of each member;
/// - for each member, the buffers for the old values that it returns;
/// - the words of the handler: two for itself and one for each member.
#[derive(Clone, Copy, Debug)]
pub struct AmMemory {
    /// Number of members.
    pub members: usize,
}

impl AmMemory {
    /// Size in bytes of the images of a member's operand buffers at one other member. They are
    /// written from there. A member registers them when it first sends that member an active
    /// message.
    pub const IMAGES: usize = OPERAND_BUFFERS * OPERAND_BUFFER_BYTES;

    /// Returns the size in bytes of all areas.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.words() + (2 + self.members) * size_of::<u64>()
    }

    /// Returns the offset of the operand buffers of the member in `place`.
    #[must_use]
    pub const fn operand_buffers(self, place: usize) -> usize {
        place * OPERAND_BUFFERS * OPERAND_BUFFER_BYTES
    }

    /// Returns the offset of the old values from the member in `place`: [`OPERAND_BUFFERS`] times
    /// [`STRIPE`] bytes.
    #[must_use]
    pub const fn answers(self, place: usize) -> usize {
        self.operand_buffers(self.members) + place * OPERAND_BUFFERS * STRIPE
    }

    /// Returns the offset of the handler's words.
    #[must_use]
    pub const fn words(self) -> usize {
        self.answers(self.members)
    }
}

/// An active message: a request to the handler to change consecutive numbers of its memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ActiveMessage {
    /// The target's memory region: zero for its part, the displacement of an attachment in a
    /// dynamic window.
    pub within: u64,
    /// Offset of the first number in that memory, in bytes.
    pub offset: usize,
    /// Number of numbers.
    pub count: usize,
    /// Code of their type, as assigned by [`Reducible`].
    pub kind: u8,
    /// The operation on each number.
    pub deed: AmOperation,
    /// True if the origin wants the old values.
    pub gives: bool,
}

/// The operation on a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AmOperation {
    /// Combines the number with its operand.
    Combine(Op),
    /// Compare-and-swap with two operands and one number: if the number equals the first operand,
    /// the second replaces it.
    Swap,
}

impl AmOperation {
    /// Code of a swap, among the codes of operations.
    const SWAP: u8 = u8::MAX;

    const fn code(self) -> u8 {
        match self {
            Self::Combine(op) => op.code(),
            Self::Swap => Self::SWAP,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        match code {
            Self::SWAP => Some(Self::Swap),
            code => Op::of_code(code).map(Self::Combine),
        }
    }

    fn is_for<T: Reducible>(self) -> bool {
        match self {
            Self::Combine(op) => T::function(op).is_some(),
            Self::Swap => true,
        }
    }
}

impl ActiveMessage {
    /// Creates an active message for `count` numbers of the target's part from `offset` on, which
    /// do not cross a stripe's end.
    #[must_use]
    pub const fn new<T: Reducible>(
        deed: AmOperation,
        offset: usize,
        count: usize,
        gives: bool,
    ) -> Self {
        Self { within: 0, offset, count, kind: T::KIND, deed, gives }
    }

    /// Returns the size in bytes of an operand buffer's contents with `operands` bytes of operands.
    #[must_use]
    pub const fn filled(operands: usize) -> usize {
        HEAD + operands
    }

    /// Returns the address of the operands in an operand buffer. The old values later replace them
    /// there.
    ///
    /// # Safety
    ///
    /// [`OPERAND_BUFFER_BYTES`] bytes from `operand_buffer` on belong to one object.
    #[must_use]
    pub const unsafe fn operands(operand_buffer: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: the caller guarantees that the offset lies within one object (contract of
        // `operands`).
        unsafe { operand_buffer.add(HEAD) }
    }

    /// Writes the active message to an operand buffer.
    ///
    /// # Safety
    ///
    /// `operand_buffer` is aligned to 8 bytes and valid for writes of [`OPERAND_BUFFER_BYTES`]
    /// bytes. No other thread or device accesses it.
    pub unsafe fn write(&self, operand_buffer: NonNull<u8>) {
        let Self { within, offset, count, kind, deed, gives } = *self;
        let how = u64::from(kind) | u64::from(deed.code()) << 8 | u64::from(gives) << 16;
        // SAFETY: the caller guarantees an aligned, exclusive buffer of [`OPERAND_BUFFER_BYTES`]
        // bytes (contract of `write`).
        unsafe { operand_buffer.cast().write([within, offset as u64, count as u64, how]) };
    }

    /// Returns the target's memory region that the active message in an operand buffer names.
    ///
    /// # Safety
    ///
    /// `operand_buffer` is aligned to 8 bytes and valid for reads of [`OPERAND_BUFFER_BYTES`]
    /// bytes, and nothing writes it.
    #[must_use]
    pub unsafe fn within(operand_buffer: NonNull<u8>) -> u64 {
        // SAFETY: the caller guarantees an aligned buffer of [`OPERAND_BUFFER_BYTES`] bytes
        // (contract of `within`).
        unsafe { operand_buffer.cast::<u64>().read() }
    }

    /// Reads an active message from an operand buffer. `part` is the memory that
    /// [`ActiveMessage::within`] names.
    ///
    /// # Safety
    ///
    /// `operand_buffer` is aligned to 8 bytes and valid for reads of [`OPERAND_BUFFER_BYTES`]
    /// bytes, and nothing writes it.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if no correct origin sends this message.
    pub unsafe fn read(operand_buffer: NonNull<u8>, part: Part) -> Result<Self, Corrupt> {
        // SAFETY: the caller guarantees an aligned buffer of [`OPERAND_BUFFER_BYTES`] bytes
        // (contract of `read`).
        let [within, offset, count, how] = unsafe { operand_buffer.cast::<[u64; 4]>().read() };
        let [kind, code, gives, rest @ ..] = how.to_le_bytes();
        let unknown = |found| Corrupt::Kind { found };
        let deed = AmOperation::of_code(code).ok_or(unknown(code))?;
        let bytes =
            with_number_of!(kind, T => deed.is_for::<T>().then_some(size_of::<T>())).flatten();
        let bytes = bytes.ok_or(unknown(kind))? as u64;
        if gives > 1 || rest != [0; 5] || (deed == AmOperation::Swap && count != 1) {
            return Err(unknown(gives));
        }
        let length = count.saturating_mul(bytes);
        let room = (part.length as u64).saturating_sub(offset);
        let max = room.min(STRIPE as u64 - offset % STRIPE as u64);
        let address = (part.base.addr().get() as u64).wrapping_add(offset);
        if length > max || !address.is_multiple_of(bytes) {
            return Err(Corrupt::Length { found: length, max });
        }
        // Both values fit `usize`, because they count bytes of the part.
        let (offset, count) = (offset as usize, count as usize);
        Ok(Self { within, offset, count, kind, deed, gives: gives == 1 })
    }

    /// Returns the size in bytes of the old values, if the origin wants them.
    #[must_use]
    pub fn answer(&self) -> Option<usize> {
        let bytes = with_number_of!(self.kind, T => self.count * size_of::<T>());
        bytes.filter(|bytes| self.gives && *bytes > 0)
    }

    /// Combines the numbers with the operands, and replaces the operands with the old values.
    ///
    /// # Safety
    ///
    /// The message was read for `part`, which is valid, from `operand_buffer`, which nothing else
    /// accesses. Other accesses to these numbers go through a [`SharedNumber`] or
    /// [`super::transfer()`], or come from outside this program.
    pub unsafe fn carry_out(&self, part: Part, operand_buffer: NonNull<u8>) {
        // SAFETY: the offset lies within the part (checked by `read`), and the operands lie within
        // the operand buffer.
        let (there, operands) =
            unsafe { (part.base.add(self.offset), Self::operands(operand_buffer)) };
        // SAFETY: the caller guarantees valid, exclusive operands (contract of `carry_out`); `read`
        // checked range and alignment.
        let _known = with_number_of!(self.kind, T => unsafe {
            match self.deed {
                AmOperation::Combine(op) => combine::<T>(op, there, operands, self.count),
                AmOperation::Swap => swap::<T>(there, operands),
            }
        });
    }
}

/// # Safety
///
/// Both addresses are aligned and valid for `count` numbers. Nothing else accesses the numbers at
/// `operands`. The contract of [`SharedNumber::new`] holds for the numbers at `there`.
unsafe fn combine<T: Reducible>(op: Op, there: NonNull<u8>, operands: NonNull<u8>, count: usize) {
    let Some(function) = T::function(op) else { return };
    for number in 0..count {
        let at = number * size_of::<T>();
        // SAFETY: the caller guarantees valid, aligned numbers (contract of `combine`). The lock
        // keeps other accumulates away, so load and store may be two steps.
        unsafe {
            let place = SharedNumber::<T>::new(there.add(at));
            let operand = operands.add(at).cast::<T>();
            let before = place.load();
            place.store(function(before, operand.read()));
            operand.write(before);
        }
    }
}

/// # Safety
///
/// Both addresses are aligned; `there` is valid for one number and `operands` for two. Nothing else
/// accesses the operands. The contract of [`SharedNumber::new`] holds for the number at `there`.
unsafe fn swap<T: Reducible>(there: NonNull<u8>, operands: NonNull<u8>) {
    let operands = operands.cast::<T>();
    // SAFETY: the caller guarantees valid, aligned numbers (contract of `swap`). The lock keeps
    // other accumulates away, so load and store may be two steps.
    unsafe {
        let place = SharedNumber::<T>::new(there);
        let (before, compare, new) = (place.load(), operands.read(), operands.add(1).read());
        if before.to_bits() == compare.to_bits() {
            place.store(new);
        }
        operands.write(before);
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::vec;

    use super::*;

    fn part(memory: &mut [u64]) -> Part {
        Part { length: size_of_val(memory), base: NonNull::from(memory).cast() }
    }

    #[test]
    fn an_active_message_combines_and_returns_the_old_values() {
        let (mut memory, mut operand_buffer) =
            (vec![1_u64; 16], vec![0_u64; OPERAND_BUFFER_BYTES / 8]);
        let (part, operand_buffer) =
            (part(&mut memory), NonNull::from(&mut operand_buffer[..]).cast::<u8>());
        let active_message = ActiveMessage::new::<f64>(AmOperation::Combine(Op::Sum), 64, 3, true);
        let numbers = [0.5_f64, 1.5, 2.5];
        // SAFETY: the memory belongs to this test alone and is long enough.
        unsafe {
            part.base.add(64).cast().write([1.0_f64, 2.0, 3.0]);
            active_message.write(operand_buffer);
            ActiveMessage::operands(operand_buffer).cast().write(numbers);
            assert_eq!(ActiveMessage::read(operand_buffer, part), Ok(active_message));
            assert_eq!(active_message.answer(), Some(24));
            active_message.carry_out(part, operand_buffer);
            assert_eq!(part.base.add(64).cast::<[f64; 3]>().read(), [1.5, 3.5, 5.5]);
            assert_eq!(
                ActiveMessage::operands(operand_buffer).cast::<[f64; 3]>().read(),
                [1.0, 2.0, 3.0]
            );
        }
        assert_eq!((memory[7], memory[11]), (1, 1), "the numbers around it are unchanged");
    }

    #[test]
    fn a_swap_happens_if_the_number_has_the_expected_value() {
        let (mut memory, mut operand_buffer) =
            (vec![5_u64; 2], vec![0_u64; OPERAND_BUFFER_BYTES / 8]);
        let (part, operand_buffer) =
            (part(&mut memory), NonNull::from(&mut operand_buffer[..]).cast::<u8>());
        let active_message = ActiveMessage {
            within: 77,
            ..ActiveMessage::new::<i32>(AmOperation::Swap, 8, 1, true)
        };
        for (compare, new, before, after) in [(4, 9, 5, 5), (5, -2, 5, -2)] {
            // SAFETY: the memory belongs to this test alone and is long enough.
            unsafe {
                active_message.write(operand_buffer);
                ActiveMessage::operands(operand_buffer).cast().write([compare, new]);
                assert_eq!(ActiveMessage::within(operand_buffer), 77);
                assert_eq!(ActiveMessage::read(operand_buffer, part), Ok(active_message));
                active_message.carry_out(part, operand_buffer);
                assert_eq!(ActiveMessage::operands(operand_buffer).cast::<i32>().read(), before);
                assert_eq!(part.base.add(8).cast::<[i32; 2]>().read(), [after, 0]);
            }
        }
        assert_eq!(memory[0], 5, "the number before it is unchanged");
    }

    #[test]
    fn an_active_message_that_no_origin_sends_is_refused() {
        let (mut memory, mut operand_buffer) =
            (vec![0_u64; 2 * STRIPE / 8], vec![0_u64; OPERAND_BUFFER_BYTES / 8]);
        let (part, operand_buffer) =
            (part(&mut memory), NonNull::from(&mut operand_buffer[..]).cast::<u8>());
        let good = ActiveMessage::new::<u32>(AmOperation::Combine(Op::Max), 4, 8, false);
        let float = ActiveMessage::new::<f32>(AmOperation::Combine(Op::BitXor), 4, 8, false);
        let bad = [
            ActiveMessage { offset: 2 * STRIPE - 28, ..good },
            ActiveMessage { offset: STRIPE - 4, ..good },
            ActiveMessage { offset: usize::MAX - 3, ..good },
            ActiveMessage { offset: 6, ..good },
            ActiveMessage { count: usize::MAX, ..good },
            ActiveMessage { kind: 77, ..good },
            ActiveMessage { deed: AmOperation::Swap, ..good },
            float,
        ];
        // SAFETY: the memory belongs to this test alone and is long enough.
        let read = |active_message: &ActiveMessage| unsafe {
            active_message.write(operand_buffer);
            ActiveMessage::read(operand_buffer, part)
        };
        assert_eq!(read(&good), Ok(good));
        for active_message in bad {
            assert!(read(&active_message).is_err(), "{active_message:?}");
        }
        for wrong in [1 << 17, 1 << 24, 0x7f << 8] {
            // SAFETY: the memory belongs to this test alone and is long enough.
            let found = unsafe {
                good.write(operand_buffer);
                *operand_buffer.cast::<u64>().add(3).as_mut() |= wrong;
                ActiveMessage::read(operand_buffer, part)
            };
            assert!(found.is_err(), "{wrong:x}");
        }
    }
}
