//! How much work matching does: the tests count looks at bins and nodes instead of time.

#[cfg(test)]
std::thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// One look at a bin or a node. Nothing outside tests.
#[inline(always)]
pub(super) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// What `work` returned and how many steps it took.
#[cfg(test)]
pub(super) fn count<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let before = STEPS.get();
    let result = work();
    (result, STEPS.get() - before)
}
