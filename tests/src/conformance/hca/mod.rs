//! What [`strait_core::hca`] promises, asked of a device.
//!
//! Two parties run the same checks side by side: two threads of one process or two processes, each with its own device.
//! [`run`] is the whole of it. A check that fails panics; one that a device cannot be asked is named with the reason in what
//! `run` returns. Whoever runs the parties ends them when they hang.

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

use strait_core::hca::Hca;

pub use parties::{Pipe, pipes};
use side::Side;

/// One of the two who are checked.
pub trait Party {
    /// Its device.
    type Device: Hca;

    /// Which one it is: 0 or 1, by which its peer opens connections to it.
    fn rank(&self) -> u32;

    /// Its device.
    fn device(&mut self) -> &mut Self::Device;

    /// Gives `mine`, at most 64 bytes, to the other, and takes what the other gives at the same place: both wait for each other here, by some
    /// way that is not the device.
    fn exchange(&mut self, mine: &[u8]) -> Vec<u8>;

    /// Passes a moment between two looks.
    fn pause(&mut self) {
        std::thread::yield_now();
    }

    /// Sleeps until the event that the device was asked for has come. False: it cannot be waited for.
    fn wait_for_event(&mut self) -> bool {
        false
    }

    /// Ends this party as a kill would, its peer staying; returns where that is impossible.
    fn die(&mut self) {}

    /// What the device does otherwise than most do.
    fn habits(&self) -> Habits {
        Habits::default()
    }
}

/// What devices differ in, beside their capabilities.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// A message waits for its receive for a while.
    pub patient: bool,
    /// And then the device gives up.
    pub gives_up: bool,
    /// It says what is wrong with a rank's own piece, and not only that something is.
    pub explains: bool,
    /// A rank can connect to itself.
    pub loops: bool,
    /// It keeps peers to a region's rights in all things. Else they may read any region, and write what the rank's own device
    /// may write.
    pub strict: bool,
    /// A party can be killed.
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

/// How a check went that did not fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The device does what the trait says.
    Holds,
    /// The device cannot be asked, for this reason.
    NotApplicable(&'static str),
}

/// Whether a check can be made, or why not.
type Applicable = Result<(), &'static str>;

/// One check.
struct Check<P: Party> {
    name: &'static str,
    run: fn(&mut Side<'_, P>) -> Applicable,
}

/// A check and how it went.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The check.
    pub name: &'static str,
    /// How it went.
    pub outcome: Outcome,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outcome {
            Outcome::Holds => write!(f, "{:<44} holds", self.name),
            Outcome::NotApplicable(reason) => {
                write!(f, "{:<44} not applicable: {reason}", self.name)
            }
        }
    }
}

/// Runs all checks as one of the two parties, and says how each went as soon as it is known.
///
/// # Panics
///
/// When the device does not do what the trait says. The other party then waits: whoever started both ends it.
pub fn run<P: Party>(party: &mut P, mut say: impl FnMut(&Line)) {
    let mut side = Side::new(party);
    for Check { name, run } in checks() {
        side.begin(name);
        let outcome = match run(&mut side) {
            Ok(()) => Outcome::Holds,
            Err(reason) => Outcome::NotApplicable(reason),
        };
        side.end();
        say(&Line { name, outcome });
    }
}

/// All checks; the last one may cost a party its life.
fn checks<P: Party>() -> Vec<Check<P>> {
    macro_rules! checks {
        ($($module:ident::{$($check:ident),+ $(,)?})+) => {
            vec![$($(Check { name: stringify!($check), run: $module::$check },)+)+]
        };
    }
    checks! {
        memory::{writes_arrive_whole, reads_bring_all, short_pieces_may_cross_pages, pieces_are_gathered_and_scattered,
            inline_data_is_taken_at_once}
        messages::{messages_meet_receives, both_send_at_once, a_write_brings_a_number, a_late_receive_is_waited_for}
        atomics::{atomics_change_one_word, atomics_exclude_each_other}
        order::{a_word_is_never_seen_in_part, completions_come_in_order, a_flag_comes_after_its_data, the_last_word_comes_last,
            a_message_comes_after_writes, a_read_sees_earlier_writes, a_fence_holds_writes_back,
            reads_with_writes_behind_cross, the_last_of_a_chain_speaks_for_all}
        limits::{a_full_queue_pushes_back, receives_are_limited, what_is_too_much_is_not_posted,
            what_is_not_there_is_refused}
        errors::{a_bad_remote_key_breaks, a_revoked_key_breaks, a_place_out_of_range_breaks,
            rights_are_needed, local_mistakes_break, what_came_after_is_flushed,
            a_message_too_long_breaks, nobody_receives, a_closed_connection_is_gone}
        event::{an_armed_device_wakes}
        errors::{the_dead_are_unreachable}
    }
}
