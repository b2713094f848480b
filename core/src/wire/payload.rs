//! Structures that are the payload of a packet.

use core::mem::transmute_copy;

/// A structure that is sent as it lies in memory. Its own `parse` decides which values are valid.
///
/// # Safety
///
/// Every byte of the type belongs to a field, and every bit pattern is a valid value.
pub(crate) unsafe trait WirePayload: Copy {
    /// Returns the value as the bytes of a packet.
    #[inline(always)]
    fn to_bytes<const N: usize>(self) -> [u8; N] {
        const { assert!(size_of::<Self>() == N) };
        // SAFETY: the array has the same size, and every byte of the value belongs to a field.
        unsafe { transmute_copy(&self) }
    }

    /// Reads a value that another process wrote, without any check.
    #[inline(always)]
    fn from_bytes<const N: usize>(packet: &[u8; N]) -> Self {
        const { assert!(size_of::<Self>() == N) };
        // SAFETY: the array has the same size, and every bit pattern is a valid value.
        // `transmute_copy` needs no alignment.
        unsafe { transmute_copy(packet) }
    }
}
