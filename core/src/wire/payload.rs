//! Structures that are the payload of a packet.

use core::mem::transmute_copy;

/// A structure that travels as it lies in memory. Its own `parse` says which values are good.
///
/// # Safety
///
/// All of its bytes are fields', and any bytes make one.
pub(crate) unsafe trait Payload: Copy {
    /// As the bytes of a packet.
    #[inline(always)]
    fn to_bytes<const N: usize>(self) -> [u8; N] {
        const { assert!(size_of::<Self>() == N) };
        // SAFETY: the array is as long, and every byte of it is a field's.
        unsafe { transmute_copy(&self) }
    }

    /// Reads what another process wrote: nothing is checked.
    #[inline(always)]
    fn from_bytes<const N: usize>(packet: &[u8; N]) -> Self {
        const { assert!(size_of::<Self>() == N) };
        // SAFETY: the array is as long, and any bytes make one; it need not be aligned.
        unsafe { transmute_copy(packet) }
    }
}
