//! Elements without gaps between their bytes, which the host combines.

use core::ffi::c_int;

use strait::bytemuck::{cast_slice, cast_slice_mut};

use super::flat::FlatType;
use super::host;
use crate::abi::Handle;

/// Most elements of one call of the host.
const CALL_MAX: usize = 1 << 24;

/// Sets `right = left op right`, and returns the first code of the host that is an error. `left`
/// has any content afterwards.
pub(crate) fn combine_packed(
    flat: &FlatType,
    datatype: Handle,
    op: Handle,
    left: &mut [u8],
    right: &mut [u8],
) -> c_int {
    let size = flat.size.max(1);
    let call = |left: *mut u8, right: *mut u8, count: usize| {
        let count = count as c_int;
        // SAFETY: both have as many elements as the host's type describes.
        unsafe { host::Reduce_local(left.cast(), right.cast(), count, datatype, op) }
    };
    let mut first = 0;
    for (left, right) in left.chunks_mut(CALL_MAX * size).zip(right.chunks_mut(CALL_MAX * size)) {
        let count = right.len() / size;
        let code = if flat.is_contiguous() && is_aligned(left, size) && is_aligned(right, size) {
            call(left.as_mut_ptr(), right.as_mut_ptr(), count)
        } else {
            let (mut own, mut result) = (spread(flat, left, count), spread(flat, right, count));
            let code = call(own.first_element(), result.first_element(), count);
            gather(flat, &result, right, count);
            code
        };
        if first == 0 {
            first = code;
        }
    }
    first
}

/// Returns whether elements of `size` bytes are aligned as a C compiler would align them.
fn is_aligned(elements: &[u8], size: usize) -> bool {
    let align = 1 << size.trailing_zeros().min(align_of::<u128>().trailing_zeros());
    elements.as_ptr().addr().is_multiple_of(align)
}

/// Elements as the host has them, aligned for any type.
struct Spread {
    memory: Vec<u128>,
    /// Bytes from the start of `memory` to the address of the first element.
    first: usize,
}

impl Spread {
    fn first_element(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast::<u8>().wrapping_add(self.first)
    }
}

/// Returns elements as the host has them, from their bytes in a row.
fn spread(flat: &FlatType, mut bytes: &[u8], count: usize) -> Spread {
    // Some extents and offsets are negative.
    let middle = isize::MAX as usize;
    let low = flat.addresses(middle, count).map(|(at, _)| at).min().unwrap_or(middle);
    let high = flat.addresses(middle, count).map(|(at, length)| at + length).max();
    let low = low.min(middle) & !(align_of::<u128>() - 1);
    let length = high.unwrap_or(low).max(middle) - low;
    let mut memory = vec![0_u128; length.div_ceil(size_of::<u128>()) + 1];
    let first = (middle - low).next_multiple_of(align_of::<u128>());
    let all: &mut [u8] = cast_slice_mut(&mut memory);
    for (at, length) in flat.addresses(first, count) {
        let (piece, behind) = bytes.split_at(length);
        all[at..at + length].copy_from_slice(piece);
        bytes = behind;
    }
    Spread { memory, first }
}

/// Puts the bytes of elements in a row again.
fn gather(flat: &FlatType, from: &Spread, mut bytes: &mut [u8], count: usize) {
    let all: &[u8] = cast_slice(&from.memory);
    for (at, length) in flat.addresses(from.first, count) {
        let (piece, behind) = bytes.split_at_mut(length);
        piece.copy_from_slice(&all[at..at + length]);
        bytes = behind;
    }
}
