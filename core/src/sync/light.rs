//! The cheap side of an asymmetric pair of full fences.

use super::ordering::Ordering;

/// Fences against another thread's *heavy* fence, a barrier that the kernel runs on every processor
/// (`membarrier(2)`). This side only keeps the compiler from reordering; the heavy side covers the
/// processor.
///
/// Loom has no barrier that reaches other threads. Under loom, this fence and the heavy one are
/// ordinary full fences.
#[inline(always)]
#[cfg(not(strait_loom))]
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "this is the facade")]
pub fn fence(_ordering: Ordering) {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Loom's variant of the fence above: an ordinary fence.
#[cfg(strait_loom)]
pub fn fence(ordering: Ordering) {
    loom::sync::atomic::fence(ordering);
}
