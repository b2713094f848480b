//! One-sided communication: what needs no operating system (`[OneSided04]` chapter 3, MPI-4.1 chapter 12).
//!
//! A window is made of *parts*, one for each member. Its owner and all others reach a part at the same time, each in its own
//! good time: so nothing here ever makes a reference to a part's bytes, and what moves them is [`transfer`] or an atomic
//! access ([`Place`]).
//!
//! Beside its part each member has a [`Block`] in the segment: the words by which ranks tell each other that a part may be
//! reached and that it has been (`post`, `start`, `complete`, `wait`), and the locks of accumulates that no instruction can
//! make atomic.
//!
//! A window that spans nodes has a [`Lane`] to each member: puts are its writes, gets its reads. An accumulate is some requests on
//! it, one after the other ([`Exchange`], [`Locked`]); what would go to and fro for long is an [`Errand`] for the member's
//! [`Handler`].
//!
//! Absent on purpose: which epochs allow which operations (an MPI library's), and passing the time.

mod attachment;
mod block;
mod errand;
mod errands;
mod exchange;
mod handler;
mod lane;
mod locked;
mod moving;
mod name;
mod pscw;
mod record;
mod shape;
mod transfer;
mod word;

pub use attachment::{ATTACHMENTS, Attachment, Table, Tag, Words, find};
pub use block::{Block, STRIPE, STRIPES};
pub use errand::{Deed, Errand, ErrandMemory, TRAY, TRAYS};
pub use errands::{Errands, Trays};
pub use exchange::Exchange;
pub use handler::{Guest, Handler, Lanes, Station, Stripes};
pub use lane::{Change, LENT, Lane, LaneError, SLOT, SLOTS};
pub use locked::{Locked, LockedTurn};
pub use moving::Moving;
pub use name::{AnswerNumber, DataNumber, NUMBER_MAX, Name, WindowNumber};
pub use pscw::{Pair, Signal};
pub use record::{RECORD, Record};
pub use shape::{Run, Shape};
pub use transfer::transfer;
pub use word::{Place, Word, is_sum_of_words};

use crate::sync::Ordering::SeqCst;
use crate::sync::{fence, order};

/// What a step of an operation came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turn<R> {
    /// It has moved: there is another step.
    On,
    /// A lock is another's, whom the word found in it names. There is another step, after a moment.
    Held(u64),
    /// It is done.
    Done(R),
}

/// Completes, at their targets, all operations that this thread has carried out so far, and lets it see what others have
/// completed: the memory's part of a flush (MPI-4.1 §12.5.4).
#[inline(always)]
pub fn flush() {
    // ORDER rma/1: SeqCst, pairs with itself. Two ranks that each write, flush, and read what the other writes: at least one
    //   reads it. And with rma/1 of a reader between two reads: who sees an operation after a flush sees those before it.
    fence(order("rma/1", SeqCst));
}
