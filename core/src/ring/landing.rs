//! Memory that the peer's device writes and this processor reads.
//!
//! A processor that polls may see the words of one write in any order. Two facts are reliable:
//!
//! - A message in a [`Landing`] is complete when the flag is the next number expected there. The
//!   flag is written last, by a request of its own if the device guarantees no order within one
//!   request.
//! - A [`Counter`] is one aligned word, so it has either the old or the new value.
//!
//! Writer: the peer's device. Reader: this rank, one thread, which polls and never waits.

use crate::sync::Ordering::Acquire;
use crate::sync::{AtomicU64, UnsafeCell, dma, order, read_once};

/// The end of a place where messages arrive one after the other. The payload lies directly before
/// it.
///
/// | offset | size | field    | meaning                                         |
/// |-------:|-----:|----------|-------------------------------------------------|
/// |      0 |   16 | `head`   | [`LandingHead`]                                        |
/// |     16 |    8 | `flag`   | number of the message that has arrived, from 1  |
///
/// The flag is at the bottom, in one place whatever the length (*bottom fill*, `[RdmaChannel04]`
/// §4.3). It is therefore never confused with a payload, and an older flag there is a smaller
/// number. Zeroed memory is a place where no message has arrived.
#[derive(Debug)]
#[repr(C)]
pub struct Landing {
    head: UnsafeCell<LandingHead>,
    flag: AtomicU64,
}

/// The description of a message.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct LandingHead {
    /// Length of the payload, in bytes.
    pub length: u32,
    /// The kind of the payload.
    pub kind: u32,
    /// Number of messages that the sender of this one has consumed: a piggybacked credit.
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

// SAFETY: `flag` is atomic. One side at a time accesses `head`, as flags (ring/1) and credits
// (ring/2) ensure; loom explores this.
unsafe impl Sync for Landing {}

impl Landing {
    /// Creates a place where no message has arrived, for models and tests. Zeroed memory is such a
    /// place.
    #[must_use]
    pub fn empty() -> Self {
        Self { head: UnsafeCell::new(LandingHead::default()), flag: AtomicU64::new(0) }
    }

    /// Returns true if message `number` has arrived here. The message and its payload may then be
    /// read until its credit is given.
    #[inline(always)]
    #[must_use]
    pub fn holds(&self, number: u64) -> bool {
        // ORDER ring/1: Acquire, pairs with the device's write of the flag, which comes after head
        // and payload.
        let holds = self.flag.load(order("ring/1", Acquire)) == number;
        if holds {
            dma::payload_after_flag();
        }
        holds
    }

    /// Returns the description of the message here.
    ///
    /// # Safety
    ///
    /// A message has arrived here ([`Landing::holds`]), and its credit is not given.
    #[inline(always)]
    #[must_use]
    pub unsafe fn head(&self) -> LandingHead {
        // SAFETY: the caller guarantees that a message has arrived and its credit is not given
        // (contract of `head`). A correct peer's device therefore does not write here now. A head
        // has no padding, and any bytes are a valid head.
        self.head.with(|head| unsafe { read_once(head) })
    }

    /// Returns the head, for the model of a device that writes it.
    #[must_use]
    pub const fn cell(&self) -> &UnsafeCell<LandingHead> {
        &self.head
    }

    /// Returns the flag, for the model of a device that writes it.
    #[must_use]
    pub const fn flag(&self) -> &AtomicU64 {
        &self.flag
    }
}

/// A number that only increases. The peer's device writes it.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Creates a counter at zero, for models and tests. Zeroed memory is such a counter.
    #[must_use]
    pub fn zero() -> Self {
        Self::default()
    }

    /// Returns its value. Everything that the peer did before it wrote this value is done.
    #[inline(always)]
    #[must_use]
    pub fn read(&self) -> u64 {
        // ORDER ring/2: Acquire, pairs with the device's write of the counter. For a head, the
        // bytes before it may then be read. For a tail or credit, the places before it may be
        // written again. For a count of fetched parts, the user may reuse its buffer. For the flag
        // of an entry in a mailbox (`rma`), the message before it may be read.
        let value = self.0.load(order("ring/2", Acquire));
        dma::payload_after_flag();
        value
    }

    /// Returns the word, for the model of a device that writes it.
    #[must_use]
    pub const fn word(&self) -> &AtomicU64 {
        &self.0
    }
}
