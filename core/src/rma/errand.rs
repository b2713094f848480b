//! Errands: accumulates that the target's handler carries out (`[OneSided04]` §3.3.2).
//!
//! Fetching numbers and writing them back moves them twice; an errand moves the operands once, and needs no atomics of the device.
//! The origin writes what is to be done, and the operands, into one of its *trays* at the target, and sends a message of no bytes
//! behind them, which wakes the target's handler. That takes the lock of the stripe, as an origin does that works by itself,
//! combines, writes what was there to the origin if it is asked for, and raises the origin's word of acknowledgement.
//!
//! Errands of one origin are carried out in their order, and stay within one stripe each: one lock is enough.

use core::ptr::NonNull;

use super::{Place, STRIPE};
use crate::layout::Corrupt;
use crate::progress::Part;
use crate::reduce::{Number, Op, with_number_of};

/// Errands of one origin that are under way to one target, at most.
pub const TRAYS: usize = 4;

/// Bytes before the operands: those stay aligned.
const HEAD: usize = 64;

/// Bytes of a tray.
pub const TRAY: usize = HEAD + STRIPE;

/// Where things lie in the memory that a member registers for errands, in a window of some members: the trays of each member; then
/// the images that this one has of its own trays at each, from which they are written; then what comes back from each; then the
/// words of the handler, two for itself and one for each member.
#[derive(Clone, Copy, Debug)]
pub struct ErrandMemory {
    /// How many.
    pub members: usize,
}

impl ErrandMemory {
    /// Bytes of all of it.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.words() + (2 + self.members) * size_of::<u64>()
    }

    /// Where the trays of the member in `place` begin.
    #[must_use]
    pub const fn trays(self, place: usize) -> usize {
        place * TRAYS * TRAY
    }

    /// Where the images of the trays at that member begin.
    #[must_use]
    pub const fn images(self, place: usize) -> usize {
        self.trays(self.members + place)
    }

    /// Where what comes back from that member begins: [`TRAYS`] times [`STRIPE`] bytes.
    #[must_use]
    pub const fn answers(self, place: usize) -> usize {
        self.images(self.members) + place * TRAYS * STRIPE
    }

    /// Where the words begin.
    #[must_use]
    pub const fn words(self) -> usize {
        self.answers(self.members)
    }
}

/// What a handler is asked to do with consecutive numbers of its memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Errand {
    /// In which memory of the target's: zero for its part, the displacement of an attachment in a dynamic window.
    pub within: u64,
    /// Where in it the numbers begin, bytes.
    pub offset: usize,
    /// How many they are.
    pub count: usize,
    /// Their type, as [`Number`] numbers it.
    pub kind: u8,
    /// What to do with each.
    pub deed: Deed,
    /// Whether the origin wants to know what was there.
    pub gives: bool,
}

/// What is done to a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deed {
    /// It is combined with its operand.
    Combine(Op),
    /// There are two operands and one number: if it is the first, the second takes its place.
    Swap,
}

impl Deed {
    /// What stands for a swap, among the numbers of operations.
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

    fn is_for<T: Number>(self) -> bool {
        match self {
            Self::Combine(op) => T::function(op).is_some(),
            Self::Swap => true,
        }
    }
}

impl Errand {
    /// An errand for `count` numbers of the target's part from `offset` on, which do not cross a stripe's end.
    #[must_use]
    pub const fn new<T: Number>(deed: Deed, offset: usize, count: usize, gives: bool) -> Self {
        Self { within: 0, offset, count, kind: T::KIND, deed, gives }
    }

    /// Bytes of the tray that the errand fills, with `operands` bytes.
    #[must_use]
    pub const fn filled(operands: usize) -> usize {
        HEAD + operands
    }

    /// Where in a tray the operands begin, and later what was there before.
    ///
    /// # Safety
    ///
    /// [`TRAY`] bytes from `tray` on are one object.
    #[must_use]
    pub const unsafe fn operands(tray: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: by the contract.
        unsafe { tray.add(HEAD) }
    }

    /// Writes the errand to a tray.
    ///
    /// # Safety
    ///
    /// `tray` is aligned to 8 bytes, valid for writes of [`TRAY`] bytes, and nobody else reaches it.
    pub unsafe fn write(&self, tray: NonNull<u8>) {
        let Self { within, offset, count, kind, deed, gives } = *self;
        let how = u64::from(kind) | u64::from(deed.code()) << 8 | u64::from(gives) << 16;
        // SAFETY: by the contract.
        unsafe { tray.cast().write([within, offset as u64, count as u64, how]) };
    }

    /// In which of the target's memories the errand in a tray is to be done.
    ///
    /// # Safety
    ///
    /// As for [`Errand::read`].
    #[must_use]
    pub unsafe fn within(tray: NonNull<u8>) -> u64 {
        // SAFETY: by the contract.
        unsafe { tray.cast::<u64>().read() }
    }

    /// Reads an errand from a tray. `part` is the memory that [`Errand::within`] names.
    ///
    /// # Safety
    ///
    /// `tray` is aligned to 8 bytes, valid for reads of [`TRAY`] bytes, and nobody writes it.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]: no origin asks for this.
    pub unsafe fn read(tray: NonNull<u8>, part: Part) -> Result<Self, Corrupt> {
        // SAFETY: by the contract.
        let [within, offset, count, how] = unsafe { tray.cast::<[u64; 4]>().read() };
        let [kind, code, gives, rest @ ..] = how.to_le_bytes();
        let unknown = |found| Corrupt::Kind { found };
        let deed = Deed::of_code(code).ok_or(unknown(code))?;
        let bytes =
            with_number_of!(kind, T => deed.is_for::<T>().then_some(size_of::<T>())).flatten();
        let bytes = bytes.ok_or(unknown(kind))? as u64;
        if gives > 1 || rest != [0; 5] || (deed == Deed::Swap && count != 1) {
            return Err(unknown(gives));
        }
        let length = count.saturating_mul(bytes);
        let room = (part.length as u64).saturating_sub(offset);
        let max = room.min(STRIPE as u64 - offset % STRIPE as u64);
        let address = (part.base.addr().get() as u64).wrapping_add(offset);
        if length > max || !address.is_multiple_of(bytes) {
            return Err(Corrupt::Length { found: length, max });
        }
        // Both fit: they count bytes of the part.
        let (offset, count) = (offset as usize, count as usize);
        Ok(Self { within, offset, count, kind, deed, gives: gives == 1 })
    }

    /// Bytes of what was there, if the origin wants to know it.
    #[must_use]
    pub fn answer(&self) -> Option<usize> {
        let bytes = with_number_of!(self.kind, T => self.count * size_of::<T>());
        bytes.filter(|bytes| self.gives && *bytes > 0)
    }

    /// Combines, and leaves what was there in the place of the operands.
    ///
    /// # Safety
    ///
    /// It was read for `part`, which is valid, and whoever else reaches these numbers does so by a [`Place`], by
    /// [`super::transfer`], or from outside this program; `tray` is the one it was read from, and nobody else reaches that.
    pub unsafe fn carry_out(&self, part: Part, tray: NonNull<u8>) {
        // SAFETY: in the part, by the check of `read`; in the tray.
        let (there, operands) = unsafe { (part.base.add(self.offset), Self::operands(tray)) };
        // SAFETY: by the contract, and checked by `read`.
        let _known = with_number_of!(self.kind, T => unsafe {
            match self.deed {
                Deed::Combine(op) => combine::<T>(op, there, operands, self.count),
                Deed::Swap => swap::<T>(there, operands),
            }
        });
    }
}

/// # Safety
///
/// Both places are aligned, and valid for `count` numbers; those at `operands` nobody else reaches, and those at `there` as by the
/// contract of [`Place::new`].
unsafe fn combine<T: Number>(op: Op, there: NonNull<u8>, operands: NonNull<u8>, count: usize) {
    let Some(function) = T::function(op) else { return };
    for number in 0..count {
        let at = number * size_of::<T>();
        // SAFETY: by the contract. The lock keeps other accumulates away, so reading and writing may be two steps.
        unsafe {
            let place = Place::<T>::new(there.add(at));
            let operand = operands.add(at).cast::<T>();
            let before = place.load();
            place.store(function(before, operand.read()));
            operand.write(before);
        }
    }
}

/// # Safety
///
/// As for [`combine`], of one number and two operands.
unsafe fn swap<T: Number>(there: NonNull<u8>, operands: NonNull<u8>) {
    let operands = operands.cast::<T>();
    // SAFETY: by the contract. The lock keeps others away, as above.
    unsafe {
        let place = Place::<T>::new(there);
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
    fn an_errand_does_what_was_asked_and_leaves_what_was_there() {
        let (mut memory, mut tray) = (vec![1_u64; 16], vec![0_u64; TRAY / 8]);
        let (part, tray) = (part(&mut memory), NonNull::from(&mut tray[..]).cast::<u8>());
        let errand = Errand::new::<f64>(Deed::Combine(Op::Sum), 64, 3, true);
        let numbers = [0.5_f64, 1.5, 2.5];
        // SAFETY: memory of this test's, long enough, and nobody else's.
        unsafe {
            part.base.add(64).cast().write([1.0_f64, 2.0, 3.0]);
            errand.write(tray);
            Errand::operands(tray).cast().write(numbers);
            assert_eq!(Errand::read(tray, part), Ok(errand));
            assert_eq!(errand.answer(), Some(24));
            errand.carry_out(part, tray);
            assert_eq!(part.base.add(64).cast::<[f64; 3]>().read(), [1.5, 3.5, 5.5]);
            assert_eq!(Errand::operands(tray).cast::<[f64; 3]>().read(), [1.0, 2.0, 3.0]);
        }
        assert_eq!((memory[7], memory[11]), (1, 1), "nothing beyond it");
    }

    #[test]
    fn a_swap_happens_when_the_number_is_the_expected_one() {
        let (mut memory, mut tray) = (vec![5_u64; 2], vec![0_u64; TRAY / 8]);
        let (part, tray) = (part(&mut memory), NonNull::from(&mut tray[..]).cast::<u8>());
        let errand = Errand { within: 77, ..Errand::new::<i32>(Deed::Swap, 8, 1, true) };
        for (compare, new, before, after) in [(4, 9, 5, 5), (5, -2, 5, -2)] {
            // SAFETY: memory of this test's, long enough, and nobody else's.
            unsafe {
                errand.write(tray);
                Errand::operands(tray).cast().write([compare, new]);
                assert_eq!(Errand::within(tray), 77);
                assert_eq!(Errand::read(tray, part), Ok(errand));
                errand.carry_out(part, tray);
                assert_eq!(Errand::operands(tray).cast::<i32>().read(), before);
                assert_eq!(part.base.add(8).cast::<[i32; 2]>().read(), [after, 0]);
            }
        }
        assert_eq!(memory[0], 5, "nothing before it");
    }

    #[test]
    fn an_errand_that_nobody_sends_is_refused() {
        let (mut memory, mut tray) = (vec![0_u64; 2 * STRIPE / 8], vec![0_u64; TRAY / 8]);
        let (part, tray) = (part(&mut memory), NonNull::from(&mut tray[..]).cast::<u8>());
        let good = Errand::new::<u32>(Deed::Combine(Op::Max), 4, 8, false);
        let float = Errand::new::<f32>(Deed::Combine(Op::BitXor), 4, 8, false);
        let bad = [
            Errand { offset: 2 * STRIPE - 28, ..good },
            Errand { offset: STRIPE - 4, ..good },
            Errand { offset: usize::MAX - 3, ..good },
            Errand { offset: 6, ..good },
            Errand { count: usize::MAX, ..good },
            Errand { kind: 77, ..good },
            Errand { deed: Deed::Swap, ..good },
            float,
        ];
        // SAFETY: as above.
        let read = |errand: &Errand| unsafe {
            errand.write(tray);
            Errand::read(tray, part)
        };
        assert_eq!(read(&good), Ok(good));
        for errand in bad {
            assert!(read(&errand).is_err(), "{errand:?}");
        }
        for wrong in [1 << 17, 1 << 24, 0x7f << 8] {
            // SAFETY: as above.
            let found = unsafe {
                good.write(tray);
                *tray.cast::<u64>().add(3).as_mut() |= wrong;
                Errand::read(tray, part)
            };
            assert!(found.is_err(), "{wrong:x}");
        }
    }
}
