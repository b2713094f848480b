//! Copies of pages and more into memory that another core reads next.

use super::opaque::copy_opaque;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
use super::opaque::stream_line;
use super::wide::{copy_cached, copy_fetching};
use crate::sync::has_fast_kernel_copies;

/// The kind of stores that a copy uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stores {
    /// Stores into this core's cache. Fast if the cores share a cache.
    Cached,
    /// Stores into this core's cache by registers, also where strings copy faster within the cache.
    /// Prefetches the destination lines on processors that gain by it. For a destination that is in
    /// no cache of this core.
    Fetching,
    /// Non-temporal stores of whole lines, which bypass the caches. No line is fetched from the
    /// core that had it last. Fast if the cores share no cache.
    NonTemporal,
}

/// Copies `length` bytes. Any later release store publishes them.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes, and the two do not
/// overlap.
pub unsafe fn copy_bulk(source: *const u8, destination: *mut u8, length: usize, stores: Stores) {
    // SAFETY: the caller guarantees valid, separate ranges of `length` bytes (contract of
    // `copy_bulk`).
    unsafe {
        match stores {
            Stores::Cached => copy_cached(source, destination, length),
            // Not measured there with another copy.
            Stores::Fetching if has_fast_kernel_copies() => {
                copy_cached(source, destination, length);
            }
            Stores::Fetching => copy_fetching(source, destination, length),
            Stores::NonTemporal => stream(source, destination, length),
        }
    }
}

/// Copies by non-temporal stores. Wider stores were no faster, since lines leave the core whole
/// either way.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes, and the two do not
/// overlap.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
unsafe fn stream(source: *const u8, destination: *mut u8, length: usize) {
    const LINE: usize = crate::sync::CACHE_LINE;

    let head = destination.align_offset(LINE).min(length);
    let lines = (length - head) / LINE;
    let body = head + lines * LINE;
    // SAFETY: head, lines and tail are consecutive parts of `length` bytes. The lines of the
    // destination are aligned.
    unsafe {
        copy_opaque(source, destination, head);
        for line in 0..lines {
            let at = head + line * LINE;
            stream_line(source.add(at), destination.add(at));
        }
        copy_opaque(source.add(body), destination.add(body), length - body);
        // A release does not order non-temporal stores; the fence does.
        core::arch::x86_64::_mm_sfence();
    }
}

/// Copies through the cache, on targets without non-temporal stores.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes, and the two do not
/// overlap.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
unsafe fn stream(source: *const u8, destination: *mut u8, length: usize) {
    // SAFETY: the caller guarantees valid, separate ranges of `length` bytes (contract of
    // `stream`).
    unsafe { copy_opaque(source, destination, length) };
}

#[cfg(test)]
mod tests {
    use super::super::testing::copies_whole;
    use super::*;

    #[test]
    fn every_length_at_every_alignment_is_copied_whole_and_nothing_beyond_it() {
        // Miri takes too long for every length. The chosen ones still cover each loop and each
        // remainder of the kernel.
        let lengths = (0..=220).step_by(if cfg!(miri) { 11 } else { 1 });
        for stores in [Stores::Cached, Stores::Fetching, Stores::NonTemporal] {
            copies_whole::<300>(lengths.clone(), |from, to, length| {
                // SAFETY: the arrays of `copies_whole` are long enough and distinct.
                unsafe { copy_bulk(from, to, length, stores) };
            });
        }
    }
}
