//! Checks that a device keeps the promises of [`strait_core::hca`].
//!
//! Two parties run the same checks in parallel: two threads of one process or two processes, each
//! with its own device. [`run`] is the entry point. A check that fails panics. A check that does
//! not apply to a device is returned by `run` with the reason. The caller must end the parties when
//! they hang.

mod atomics;
mod errors;
mod event;
mod limits;
mod memory;
mod messages;
mod order;
mod parties;
mod side;

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use strait_core::hca::Hca;

pub use parties::{Pipe, pipes};
use side::Side;

/// One of the two parties.
pub trait Party {
    /// The type of its device.
    type Device: Hca;

    /// Returns its number, 0 or 1, with which its peer opens connections to it.
    fn rank(&self) -> u32;

    /// Returns its device.
    fn device(&mut self) -> &mut Self::Device;

    /// Passes `mine`, at most 64 bytes, to the other party, and returns the bytes that the other
    /// party passes in the same call. Both wait for each other here, on a path other than the
    /// device.
    fn exchange(&mut self, mine: &[u8]) -> Vec<u8>;

    /// Waits a moment between two polls.
    fn pause(&mut self) {
        std::thread::yield_now();
    }

    /// Sleeps until the requested event of the device has arrived. Returns false if it cannot be
    /// waited for.
    fn wait_for_event(&mut self) -> bool {
        false
    }

    /// Ends this party as a kill would, while its peer stays. Returns where that is impossible.
    fn die(&mut self) {}

    /// Returns the device's deviations from the usual behaviour.
    fn habits(&self) -> Habits {
        Habits::default()
    }
}

/// Differences between devices besides their capabilities.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Whether a message waits for its receive for a while.
    pub patient: bool,
    /// Whether the device gives up after that.
    pub gives_up: bool,
    /// Whether it reports what is wrong with a rank's own piece, and not only that there is an
    /// error.
    pub explains: bool,
    /// Whether a rank can connect to itself.
    pub loops: bool,
    /// Whether it enforces all rights of a region for peers. Otherwise they may read any region,
    /// and write what the rank's own device may write.
    pub strict: bool,
    /// Whether a party can be killed.
    pub mortal: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            patient: true,
            gives_up: true,
            explains: true,
            loops: true,
            strict: true,
            mortal: false,
        }
    }
}

/// The result of a check that did not fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The device keeps the promise of the trait.
    Holds,
    /// The check does not apply to the device, for this reason.
    NotApplicable(&'static str),
}

/// `Ok` if a check applies, or the reason why it does not.
type Applicable = Result<(), &'static str>;

/// One check.
struct Check<P: Party> {
    name: &'static str,
    run: fn(&mut Side<'_, P>) -> Applicable,
}

/// A check and its result.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The name of the check.
    pub name: &'static str,
    /// The result.
    pub outcome: Outcome,
    /// The time that it took.
    pub took: Duration,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outcome {
            Outcome::Holds => {
                write!(f, "{:<44} holds, {:.1} s", self.name, self.took.as_secs_f64())
            }
            Outcome::NotApplicable(reason) => {
                write!(f, "{:<44} not applicable: {reason}", self.name)
            }
        }
    }
}

/// Runs all checks as one of the two parties, and calls `say` with each result as soon as it is
/// known.
///
/// # Panics
///
/// When the device breaks a promise of the trait. The other party then waits, and the caller must
/// end both.
pub fn run<P: Party>(party: &mut P, say: impl FnMut(&Line)) {
    run_some(party, |_| true, say);
}

/// Runs the checks with a name that is `wanted`, as [`run`] does.
pub fn run_some<P: Party>(
    party: &mut P,
    wanted: impl Fn(&str) -> bool,
    mut say: impl FnMut(&Line),
) {
    let mut side = Side::new(party);
    for Check { name, run } in checks().into_iter().filter(|check| wanted(check.name)) {
        let begin = Instant::now();
        side.begin(name);
        let outcome = match run(&mut side) {
            Ok(()) => Outcome::Holds,
            Err(reason) => Outcome::NotApplicable(reason),
        };
        side.end();
        say(&Line { name, outcome, took: begin.elapsed() });
    }
}

/// Returns all checks. The last one may end a party.
fn checks<P: Party>() -> Vec<Check<P>> {
    macro_rules! checks {
        ($($module:ident::{$($check:ident),+ $(,)?})+) => {
            vec![$($(Check { name: stringify!($check), run: $module::$check },)+)+]
        };
    }
    checks! {
        memory::{writes_arrive_whole, reads_bring_all, short_pieces_may_cross_pages,
            pieces_are_gathered_and_scattered, inline_data_is_taken_at_once}
        messages::{messages_meet_receives, both_send_at_once, a_write_brings_a_number,
            a_late_receive_is_waited_for}
        atomics::{atomics_change_one_word, atomics_exclude_each_other}
        order::{a_word_is_never_seen_in_part, completions_come_in_order,
            a_flag_comes_after_its_data, the_last_word_comes_last,
            a_message_comes_after_writes, a_read_sees_earlier_writes, a_fence_holds_writes_back,
            reads_with_writes_behind_cross, the_last_of_a_chain_speaks_for_all}
        limits::{a_full_queue_pushes_back, receives_are_limited, what_is_too_much_is_not_posted,
            what_is_not_there_is_refused}
        errors::{a_bad_remote_key_breaks, a_revoked_key_breaks, a_place_out_of_range_breaks,
            rights_are_needed, local_mistakes_break, what_came_after_is_flushed,
            a_message_too_long_breaks, a_message_without_a_receive_breaks,
            a_closed_connection_is_gone}
        event::{an_armed_device_wakes}
        errors::{the_dead_are_unreachable}
    }
}
