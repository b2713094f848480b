//! Memory that the peer's device writes and this processor reads.
//!
//! A processor that polls may find any word of a write before any other. Two things can be believed all the same. A
//! [`Landing`] has landed when its flag is the number that comes next there: the flag is written last, by a request of
//! its own where the device promises nothing within one. A [`Counter`] is one aligned word, so it is old or new and
//! never in between.
//!
//! Writer: the peer's device. Reader: this rank, one thread, which looks and never waits.

use crate::sync::Ordering::Acquire;
use crate::sync::{AtomicU64, UnsafeCell, dma, order};

/// The end of a place where messages land one after the other; their payload lies right before it.
///
/// | offset | size | field    | meaning                                        |
/// |-------:|-----:|----------|------------------------------------------------|
/// |      0 |   16 | `head`   | [`Head`]                                       |
/// |     16 |    8 | `flag`   | number of the message that has landed, from 1  |
///
/// The flag is at the bottom, in one place whatever the length (*bottom fill*, `[RdmaChannel04]` §4.3), so it is never
/// taken from a payload, and an older flag there is a smaller number. Zeroed memory is a place where nothing has
/// landed.
#[derive(Debug)]
#[repr(C)]
pub struct Landing {
    head: UnsafeCell<Head>,
    flag: AtomicU64,
}

/// What a message says of itself.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Head {
    /// Payload, bytes.
    pub length: u32,
    /// What the payload is.
    pub kind: u32,
    /// How many messages the sender of this one has consumed: a credit that travels along.
    pub credit: u64,
}

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    const_assert_eq!(size_of::<Landing>(), 24);
    const_assert_eq!(offset_of!(Landing, flag), 16);
    const_assert_eq!(align_of::<Landing>(), 8);
};

// SAFETY: `flag` is atomic; `head` is reached by one side at a time, which flags (ring/1) and credits (ring/2) prove,
// explored by loom.
unsafe impl Sync for Landing {}

impl Landing {
    /// A place where nothing has landed, for models and tests: zeroed memory is already one.
    #[must_use]
    pub fn empty() -> Self {
        Self { head: UnsafeCell::new(Head::default()), flag: AtomicU64::new(0) }
    }

    /// Whether message `number` has landed here. It and its payload may then be read until its credit is given.
    #[inline(always)]
    #[must_use]
    pub fn holds(&self, number: u64) -> bool {
        // ORDER ring/1: Acquire, pairs with the device's write of the flag, which comes after head and payload.
        let holds = self.flag.load(order("ring/1", Acquire)) == number;
        if holds {
            dma::payload_after_flag();
        }
        holds
    }

    /// What the message here says of itself.
    ///
    /// # Safety
    ///
    /// A message has landed here ([`Landing::holds`]) and its credit is not given.
    #[inline(always)]
    #[must_use]
    pub unsafe fn head(&self) -> Head {
        // SAFETY: by the contract the peer's device does not write here now.
        self.head.with(|head| unsafe { *head })
    }

    /// The head, for the model of a device that writes it.
    #[must_use]
    pub const fn cell(&self) -> &UnsafeCell<Head> {
        &self.head
    }

    /// The flag, for the model of a device that writes it.
    #[must_use]
    pub const fn flag(&self) -> &AtomicU64 {
        &self.flag
    }
}

/// A number that only grows, which the peer's device writes.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero, for models and tests: zeroed memory is already one.
    #[must_use]
    pub fn zero() -> Self {
        Self::default()
    }

    /// Its value. What the peer did before it wrote this value is done.
    #[inline(always)]
    #[must_use]
    pub fn read(&self) -> u64 {
        // ORDER ring/2: Acquire, pairs with the device's write of the counter. As a head, the bytes before it may be read;
        //   as a tail or credit, the places before it may be written again; as fetched, the user may have its buffer back.
        let value = self.0.load(order("ring/2", Acquire));
        dma::payload_after_flag();
        value
    }

    /// The word, for the model of a device that writes it.
    #[must_use]
    pub const fn word(&self) -> &AtomicU64 {
        &self.0
    }
}
