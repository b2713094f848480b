//! The progress of one rank: its engine, the OS resources that work for it, the servers of its
//! windows, and the threads that make progress while the program computes.
//!
//! From below: [`place`] is the rank's place in its segment. [`context`] has the engine and its OS
//! resources, and starts operations. [`windows`] serves locks and operations by messages.
//! [`round`] is one round of all of this. [`lock`] shares it between the calls, the progress
//! [`thread`], and the threads of windows ([`window_thread`]). [`rank_engine`] is what a world
//! owns.

pub(crate) mod context;
mod lock;
pub(crate) mod place;
pub(crate) mod rank_engine;
mod round;
mod thread;
mod window_thread;
pub(crate) mod windows;
