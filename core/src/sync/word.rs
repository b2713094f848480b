//! Unsigned integers in memory that several processes reach.

use core::ptr::NonNull;

use super::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use super::ordering::Ordering::Relaxed;

/// An unsigned integer that the processor reads, writes and swaps as a whole.
pub trait AtomicWord: Copy + Eq + sealed::Atomic {}

pub(crate) mod sealed {
    use core::ptr::NonNull;

    /// The atomic accesses. Each requires an address that is valid for reads and writes and
    /// aligned. While others may access it, only atomic accesses do.
    pub trait Atomic: Sized {
        unsafe fn load(place: NonNull<Self>) -> Self;
        unsafe fn store(place: NonNull<Self>, value: Self);
        unsafe fn swap(place: NonNull<Self>, value: Self) -> Self;
        unsafe fn fetch_add(place: NonNull<Self>, value: Self) -> Self;
        unsafe fn compare_exchange(
            place: NonNull<Self>,
            old: Self,
            new: Self,
        ) -> Result<Self, Self>;
    }
}

macro_rules! words {
    ($($word:ident is $atomic:ident,)*) => {$(
        impl AtomicWord for $word {}

        impl sealed::Atomic for $word {
            #[inline(always)]
            unsafe fn load(place: NonNull<Self>) -> Self {
                // SAFETY: the caller guarantees a valid, aligned address (contract of `Atomic`).
                unsafe { place.cast::<$atomic>().as_ref() }.load(Relaxed)
            }

            #[inline(always)]
            unsafe fn store(place: NonNull<Self>, value: Self) {
                // SAFETY: the caller guarantees a valid, aligned address (contract of `Atomic`).
                unsafe { place.cast::<$atomic>().as_ref() }.store(value, Relaxed);
            }

            #[inline(always)]
            unsafe fn swap(place: NonNull<Self>, value: Self) -> Self {
                // SAFETY: the caller guarantees a valid, aligned address (contract of `Atomic`).
                unsafe { place.cast::<$atomic>().as_ref() }.swap(value, Relaxed)
            }

            #[inline(always)]
            unsafe fn fetch_add(place: NonNull<Self>, value: Self) -> Self {
                // SAFETY: the caller guarantees a valid, aligned address (contract of `Atomic`).
                unsafe { place.cast::<$atomic>().as_ref() }.fetch_add(value, Relaxed)
            }

            #[inline(always)]
            unsafe fn compare_exchange(
                place: NonNull<Self>,
                old: Self,
                new: Self,
            ) -> Result<Self, Self> {
                // SAFETY: the caller guarantees a valid, aligned address (contract of `Atomic`).
                unsafe { place.cast::<$atomic>().as_ref() }
                    .compare_exchange(old, new, Relaxed, Relaxed)
            }
        }
    )*};
}

words! { u8 is AtomicU8, u16 is AtomicU16, u32 is AtomicU32, u64 is AtomicU64, }
