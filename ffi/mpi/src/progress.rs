//! Progress of both: of Strait in each wait, of the host while one of its operations is open, and
//! seldom otherwise. Neither waits for the other.

use core::ffi::c_int;

use strait::raw::{LoopRecord, RawRecords as _, RawRequests as _};
use strait::{Call, Error, Wait};

use super::host;
use super::state::{self, Entered, Front};
use crate::abi;

/// Number of looks between two turns of the host while one of its operations is open.
const OFTEN: u32 = 8;

/// The number otherwise: while a wait is short, and later.
const SELDOM: u32 = 64;
const SELDOM_LATER: u32 = 4;

/// What a test counts that found nothing in lines. One that found something counts 1.
const IN_VAIN: u32 = 64;

/// The count of tests between two that do more than to take what lies in lines. Such a test takes
/// as long as six others.
const TESTS_PER_POLL: u32 = 64 * IN_VAIN;

/// The count between two that let the host progress although none of its operations is open.
const TESTS_PER_HOST_POLL: u32 = 4 * TESTS_PER_POLL;

/// Number of tests that find nothing by the longer way, as all probes do on a crowded node, between
/// two that yield the processor there.
const LONGER_PER_YIELD: u32 = 8;

/// What a test counts among those that is due after many short ones.
const DUE: u32 = 4;

/// The number between two that let the host progress although none of its operations is open.
const LONGER_PER_HOST_POLL: u32 = 64;

/// Number of looks from which on a wait is long.
const LONG: u32 = 2000;

/// Number of looks without a result after which a wait that lets the lock go yields the processor.
const SPIN: u32 = 500;

/// What a short test does next that found nothing.
pub(crate) enum ShortPoll {
    /// Nothing came, so the test is over.
    Nothing,
    /// Something may have come.
    Moved,
    /// The longer way, which finds operations that failed and lets the host progress: now and then.
    Longer,
}

impl Front {
    /// Returns whether a wait in the host has to make progress of ours meanwhile. An operation of
    /// ours is open, or a peer on another node may send: even a short message needs this process
    /// to accept the connection, and to make room for more.
    #[inline]
    pub(crate) fn needs_progress(&self) -> bool {
        self.requests.has_open() || self.world.nodes().count() > 1
    }

    /// Makes progress once.
    pub(crate) fn poll(&self) -> Result<(), Error> {
        self.world.endpoint().progress()?;
        self.requests.look_at_orphans(self);
        Ok(())
    }

    /// Makes progress in a test that found nothing. A program tests often, so most tests take only
    /// what lies in lines, if there is no more to do.
    pub(crate) fn poll_in_test(&self) -> Result<(), Error> {
        if self.poll_lines_in_test().is_some() { Ok(()) } else { self.poll() }
    }

    /// Returns whether a test of pending requests is over, since no line has come and there is no
    /// more to do. Counts the test then.
    #[inline(always)]
    pub(crate) fn ends_test_in_vain(&self) -> bool {
        let tests = self.tests.get();
        let is_due = tests % TESTS_PER_POLL + IN_VAIN >= TESTS_PER_POLL;
        let is_over = !is_due && self.world.is_quiet();
        if is_over {
            self.tests.set(tests + IN_VAIN);
        }
        is_over
    }

    /// Makes progress in a short test that found nothing.
    #[inline]
    pub(crate) fn poll_in_short_test(&self) -> ShortPoll {
        match self.poll_lines_in_test() {
            Some(false) => ShortPoll::Nothing,
            Some(true) => ShortPoll::Moved,
            // The longer way meets the same error, and reports it.
            None if !self.is_host_due.get() && self.poll().is_ok() => ShortPoll::Moved,
            None => ShortPoll::Longer,
        }
    }

    /// Makes the next test go the longer way, which finds operations that ended without a message.
    pub(crate) fn expect_end(&self) {
        self.tests.set(TESTS_PER_POLL - IN_VAIN);
        self.is_host_due.set(true);
    }

    /// Takes what lies in lines, and returns whether there was anything. `None` if there is more to
    /// do, or may be: then `poll` is due.
    ///
    /// While messages keep coming in lines it seldom is: `poll` takes all that have come, also
    /// those without a receive yet, and copies them once more.
    #[inline]
    fn poll_lines_in_test(&self) -> Option<bool> {
        if self.takes_turn_of_poll() {
            return None;
        }
        let came = self.world.progress_in_lines();
        self.tests.set(self.tests.get() + if came == Some(true) { 1 } else { IN_VAIN });
        came
    }

    /// Returns whether `poll` is due now, and counts that it is called.
    #[inline(always)]
    fn takes_turn_of_poll(&self) -> bool {
        let tests = self.tests.get();
        let due = (tests + 1).next_multiple_of(TESTS_PER_POLL);
        let is_due = tests + IN_VAIN >= due;
        if is_due {
            self.tests.set(due % TESTS_PER_HOST_POLL);
            self.is_host_due.set(self.is_host_due.get() || due == TESTS_PER_HOST_POLL);
        }
        is_due
    }

    /// Returns whether a probe that does not wait is over, since no message waits, no line has
    /// come, and there is no more to do. Counts the probe. The longer way of a probe makes
    /// progress, when that is due.
    #[inline(always)]
    pub(crate) fn ends_probe_in_vain(&self) -> bool {
        // On a crowded node the longer way yields the processor.
        let is_over = !self.is_crowded
            && !self.world.has_unexpected()
            && !self.takes_turn_of_poll()
            && self.world.is_quiet();
        if is_over {
            self.tests.set(self.tests.get() + IN_VAIN);
        }
        is_over
    }

    /// Lets the host progress in a test that found nothing, if an operation of its is open, and
    /// seldom otherwise.
    ///
    /// Returns whether the test is to yield the processor. Where the ranks of the node take turns,
    /// the program may test for a message of a rank that is not running.
    pub(crate) fn poll_host_in_test(&self) -> bool {
        let (before, is_due) = (self.in_vain.get(), self.is_host_due.take());
        let count = before.wrapping_add(if is_due { DUE } else { 1 });
        self.in_vain.set(count);
        let passes = |multiple| before / multiple != count / multiple;
        if is_due || passes(LONGER_PER_HOST_POLL) || self.host_open.get() > 0 {
            self.poll_host();
        }
        self.is_crowded && passes(LONGER_PER_YIELD)
    }

    /// Makes progress once, in a loop that waits for `what`.
    pub(crate) fn poll_in_loop(
        &self,
        record: &mut LoopRecord<'_>,
        what: impl Fn() -> Wait,
    ) -> Result<(), Error> {
        self.world.poll_in_loop(record, what)?;
        self.requests.look_at_orphans(self);
        Ok(())
    }

    /// Lets the host progress. To ask for the status of a receive does so on every host.
    pub(crate) fn poll_host(&self) {
        let standing = self.standing.get();
        if standing == abi::request_null() {
            return;
        }
        let mut flag = 0;
        // SAFETY: the receive is open, and the flag has a place.
        unsafe { host::Request_get_status(standing, &raw mut flag, abi::STATUS_IGNORE) };
    }
}

impl Entered {
    /// Makes progress until `look` returns a value. Lets the lock go between two looks.
    pub(crate) fn wait<T>(
        &mut self,
        what: impl Fn() -> Wait,
        mut look: impl FnMut(&Front) -> Option<T>,
    ) -> Result<T, Error> {
        let front = self.front();
        if self.guard.is_none() && front.host_open.get() == 0 {
            let mut looks = 0_u32;
            return front.world.wait_until(what, || {
                let found = look(front);
                if found.is_none() {
                    looks = looks.saturating_add(1);
                    let every = if looks < LONG { SELDOM } else { SELDOM_LATER };
                    if looks.is_multiple_of(every) {
                        front.poll_host();
                        front.requests.look_at_orphans(front);
                    }
                }
                found
            });
        }
        let mut record = front.world.record_of_loop();
        for looks in 0_u32.. {
            if let Some(found) = look(front) {
                return Ok(found);
            }
            front.poll_in_loop(&mut record, &what)?;
            let is_locked = self.guard.take().is_some();
            if looks % OFTEN == 0 {
                front.poll_host();
            }
            if looks > SPIN {
                std::thread::yield_now();
            }
            if is_locked {
                self.guard = Some(crate::front::lock::lock());
            }
        }
        Err(Error::Stopped)
    }

    /// Makes progress of ours until `look`, which asks the host, returns a code. Holds no lock
    /// while it looks.
    pub(crate) fn wait_for_host(&mut self, mut look: impl FnMut() -> Option<c_int>) -> c_int {
        let front = self.front();
        for looks in 0_u32.. {
            let is_locked = self.guard.take().is_some();
            let found = look();
            if is_locked {
                self.guard = Some(crate::front::lock::lock());
            }
            if let Some(code) = found {
                return code;
            }
            // The call that waits for the operation that fails reports it.
            let _ = front.poll();
            if looks > SPIN {
                drop(self.guard.take());
                std::thread::yield_now();
                self.guard = is_locked.then(crate::front::lock::lock);
            }
        }
        abi::ERR_INTERN
    }
}

/// Waits for the operations of requests that the program freed, and for buffered sends.
pub(crate) fn end_orphans() {
    let Some(mut front) = state::enter() else { return };
    let this = front.front();
    let what = || {
        let wait = this.requests.wait_of_orphans(this);
        Wait { call: Call::Finalize, ..wait }
    };
    // Without progress no operation can end.
    let _ = front.wait(what, |front| {
        front.requests.look_at_orphans(front);
        front.requests.orphans.borrow().is_empty().then_some(())
    });
}
