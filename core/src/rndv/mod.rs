//! The speculative and adaptive rendezvous of `[SpecRndv09]` §3: a receive that is posted first
//! asks for the data.
//!
//! The module is sans-IO. [`RtrSender`] and [`RtrReceiver`] decide what to send and which message
//! an RTR belongs to. The embedder sends, matches and moves data. Neither type interprets what an
//! RTR says about the receiver's memory.
//!
//! The packets are the paper's:
//!
//! - *RTS* announces a large message.
//! - *RTR* (request to receive) tells the sender where a posted receive wants the message.
//! - *RTR-ACK* replaces the RTS of a message that uses an RTR.
//!
//! RTS and RTR-ACK travel in the order of the messages and take part in matching like any message,
//! so no message overtakes another.
//!
//! # Turns
//!
//! The difficulty is to know which message an RTR belongs to (§3.3). Here both sides count. The
//! sender numbers the rendezvous messages of an envelope; RTS and RTR-ACK carry the number (a
//! [`Turn`]). An RTR carries the turn of the message that its receive will take if no other message
//! comes between.
//!
//! The sender uses an RTR only for the message of its turn. A message without a turn makes the
//! sender skip all turns that the receiver may have asked for so far. An RTR that is late, lost or
//! wrong is therefore never used. No order is needed between an RTR and other packets of its
//! envelope, except for a retraction.
//!
//! # Rules
//!
//! Section numbers refer to `[SpecRndv09]`.
//!
//! - *In-order assignment* (§3.3.1, [`RtrSender::start`]): the RTR of a turn is for the message of
//!   that turn, which goes to the first receive that matches.
//! - *Acknowledgement* (§3.3.1, [`RtrReceiver::rtr_ack`]): a message that uses an RTR says so with
//!   an RTR-ACK, which counts like an RTS. There is no RTS-ACK: the turn of the next RTR tells that
//!   an RTS has met its receive.
//! - *Crossing* (§3.3.1, [`RtrSender::rtr`]): an RTR is dropped if its message has left by RTS.
//! - *No RTR past a receive without one* (§3.3.1, [`RtrReceiver::may_request`]): none is sent while
//!   an earlier receive that could take the message has none.
//! - *No RTR for wildcards* (§3.3.1, [`RtrReceiver::may_request`]): a receive from `ANY_SOURCE`
//!   sends none, as in the paper. A receive of `ANY_TAG` sends none either, because turns belong to
//!   an envelope.
//! - *Eager-flag* (§3.3.2, [`RtrSender::eager`]): a message without a turn sets it. RTRs that
//!   arrived before, or arrive while it is set, are not used.
//! - *Stop-RTR* (§3.3.2 and §3.6, [`RtrReceiver::rts`]): after an RTS without a turn, the receiver
//!   sends no RTR for that envelope.
//! - *Resume-RTR* (§3.3.2, [`RtrSender::start`], [`RtrReceiver::rts`]): after an RTS with a turn,
//!   RTRs count from there.
//! - *Misprediction* (§3.3.3, [`RtrReceiver::mispredicted`]): a receive that sent an RTR and meets
//!   a message without a turn stops RTRs until the next turn.
//! - *Bounded accumulation* (§3.3.3, both types): a receiver sends at most [`RTRS`] RTRs of an
//!   envelope before it learns of a further turn. A sender keeps as many. Both do so for at most
//!   [`RECORDS`] envelopes.
//! - *Adaptation* (§3.6, [`RtrSender::start`]): the sender says stop-RTR for a while if fewer than
//!   [`USAGE_MIN`] percent of RTRs are used.
//! - *Retraction* (ours, [`RtrSender::retract`], [`RtrSender::refused`],
//!   [`RtrReceiver::mispredicted`]): it covers a cancelled receive and the receives that asked
//!   after it. No RTR follows until the next turn.
//!
//! An envelope without a record does not speculate. Its first RTS creates the sender's record, and
//! the arrival of that RTS creates the receiver's. Either record may be evicted at any time, so the
//! tables are bounded. An eager message costs nothing on an envelope without large messages.
//! [`RtrSender::open_ahead`] and [`RtrReceiver::open_ahead`] create the records of an envelope
//! before its first message, if the profile of an earlier run names it.
//!
//! An embedder that matches messages itself names a coming message by a key of its own. Its RTRs
//! need no turns ([`NamedRtrs`]), and it adapts with a [`UsageFactor`].
//!
//! docs/decisions/speculative-rendezvous.md gives the costs and the test that fails without each
//! rule.
//!
//! # Duties of the embedder
//!
//! - The sender calls [`RtrSender::start`] or [`RtrSender::eager`] for every message to a peer that
//!   has a record, in the order of matching. It may report an eager message later, but before the
//!   next [`RtrSender::start`] with its key.
//! - The receiver calls [`RtrReceiver::rts`] or [`RtrReceiver::rtr_ack`] for every RTS and RTR-ACK
//!   on arrival, whether or not it meets a receive.
//! - A receive remembers the turn it asked for. An RTR-ACK that meets a receive with another turn,
//!   or with none, is corrupt ([`crate::layout::Corrupt`]).
//! - A rank that cancels a receive with an RTR retracts that RTR and the RTRs of the receives
//!   behind it. Within a node, each RTR has a word of its own, and the youngest is retracted first.
//!   A receive continues if its RTR is already taken. Between nodes, [`RtrSender::retract`] does
//!   it, and its answer keeps the order of the messages. The receive stays posted until the answer
//!   arrives.
//! - A receive asks ([`RtrReceiver::may_request`]) when no unexpected message matches it and before
//!   it is posted. It asks only if the length of its buffer predicts a rendezvous.

mod adapt;
mod choice;
mod named;
mod profile;
mod receiver;
mod recent;
mod rules;
mod sender;
#[cfg(test)]
mod tests;

pub use crate::wire::Turn;
pub use adapt::{PAUSE_MAX, PAUSE_MIN, SAMPLES, USAGE_MIN, UsageFactor};
pub use choice::Rendezvous;
pub use named::NamedRtrs;
pub use profile::{EnvelopeProfile, EnvelopeSide, PlainEnvelopes, ProfileRecorder};
pub use receiver::RtrReceiver;
pub use rules::{All, RECORDS, RTRS, Rules};
pub use sender::{RndvStart, RtrOutcome, RtrSender, Usage};
