//! The cheap side of an asymmetric pair of full fences.

use super::Ordering;

/// A fence against another thread's *heavy* one, that is, a barrier which the kernel runs on every processor
/// (`membarrier(2)`). It keeps the compiler from reordering; the processor's part is done by the other side.
///
/// Loom knows no barrier that reaches other threads, so there this is a fence like any other, and so is the heavy one.
#[inline(always)]
#[cfg(not(strait_loom))]
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "this is the facade")]
pub fn fence(_ordering: Ordering) {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// See the production twin.
#[cfg(strait_loom)]
pub fn fence(ordering: Ordering) {
    loom::sync::atomic::fence(ordering);
}
