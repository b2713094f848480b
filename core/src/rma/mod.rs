//! The part of one-sided communication that needs no operating system (`[OneSided04]` chapter 3,
//! MPI-4.1 chapter 12).
//!
//! A window consists of *parts*, one for each member. The owner of a part and all other members
//! access it concurrently. So nothing here ever makes a reference to a part's bytes. [`transfer()`]
//! or an atomic access ([`SharedNumber`]) moves them.
//!
//! Beside its part each member has a [`WindowBlock`] in the segment. It contains the words by which
//! ranks announce that a part may be accessed and that an access is complete (`post`, `start`,
//! `complete`, `wait`). It also contains the locks of accumulates for which no atomic instruction
//! exists.
//!
//! A window that spans nodes has a [`Lane`] to each member. Puts are the lane's writes, gets its
//! reads. An accumulate is a sequence of requests on the lane ([`FetchUpdate`], [`LockedUpdate`]).
//! An accumulate that would need many round trips is an active message ([`ActiveMessage`]) to the
//! member's [`AmHandler`].
//!
//! The leaders of nodes in collective operations use lanes, too: they write short messages into
//! each other's mailboxes ([`MailboxPair`]).
//!
//! Absent on purpose: which epochs allow which operations (an MPI library's task), and passing the
//! time.

mod am;
mod am_handler;
mod am_sender;
mod attachment;
mod bias;
mod block;
mod exchange;
mod lane;
mod locked;
mod mailbox;
mod moving;
mod name;
mod plain;
mod pscw;
mod record;
mod shape;
mod transfer;
mod word;

pub use crate::sync::AtomicWord;
pub use am::{ActiveMessage, AmMemory, AmOperation, OPERAND_BUFFER_BYTES, OPERAND_BUFFERS};
pub use am_handler::{AmHandler, AmOrigin, LaneAccess, Station, Stripes};
pub use am_sender::{AmSender, OperandBuffers};
pub use attachment::{
    ATTACHMENTS, Attachment, AttachmentTable, AttachmentTag, AttachmentWords, entries_used, find,
    find_run,
};
pub use bias::StripeBias;
pub use block::{STRIPE, STRIPES, WindowBlock};
pub use exchange::FetchUpdate;
pub use lane::{AtomicOp, LENT, Lane, LaneError, SLOT, SLOTS};
pub use locked::{LockedResult, LockedUpdate};
pub use mailbox::{MAIL_MAX, MAILBOX_BYTES, MailError, MailboxPair};
pub use moving::Moving;
pub use name::{AnswerNumber, DataNumber, NUMBER_MAX, RecordName, WindowNumber};
pub use plain::combine_plain;
pub use pscw::{Pair, Signal};
pub use record::{RECORD, Record};
pub use shape::{ByteRun, Shape};
pub use transfer::transfer;
pub use word::{SharedNumber, is_sum_of_words};

use crate::sync::Ordering::SeqCst;
use crate::sync::{fence, order};

/// The result of a step of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StepResult<R> {
    /// The operation has advanced. There is another step.
    On,
    /// Another rank holds a lock; the value names it. There is another step, after a pause.
    Held(u64),
    /// The operation is done.
    Done(R),
}

/// Completes at their targets all operations that this thread has carried out so far. Makes the
/// operations that other ranks have completed visible to it. This is the memory's part of a flush
/// (MPI-4.1 §12.5.4).
#[inline(always)]
pub fn flush() {
    // ORDER rma/1: SeqCst, pairs with itself. If two ranks each write, flush, and read what the
    //   other writes, at least one of them reads the new value. Pairs with rma/1 of a reader
    //   between two reads: a reader that sees an operation after a flush sees those before it.
    fence(order("rma/1", SeqCst));
}
