//! The speculative and adaptive rendezvous of `[SpecRndv09]` §3: a receiver that comes first asks for the data.
//!
//! Sans-IO: [`Sender`] and [`Receiver`] say what is to be sent, and to which message an RTR belongs; whoever embeds them
//! sends, matches and moves data. Neither looks into what an RTR says of the receiver's memory.
//!
//! The packets are the paper's. An *RTS* announces a large message; an *RTR* (request to receive) tells its sender where a
//! posted receive wants it; an *RTR-ACK* takes the place of the RTS of a message that uses an RTR. RTS and RTR-ACK travel in
//! the order of the messages and take part in matching as any message does, so nothing overtakes anything.
//!
//! # Turns
//!
//! What makes it hard is to know which message an RTR belongs to (§3.3). Here both sides count: the sender numbers the
//! rendezvous messages of an envelope, RTS and RTR-ACK carry the number (a [`Turn`]), and an RTR carries the turn of the
//! message that its receive will take, if no other message comes between. The sender uses an RTR for the message of its turn
//! alone, and any message without a turn makes it skip all turns that the receiver may have asked for by then. So an RTR can
//! come late, or never, or be wrong: then nobody uses it. No order is needed between an RTR and anything else that says
//! something of its envelope, but for a retraction.
//!
//! | rule | where | `[SpecRndv09]` |
//! |------|-------|----------------|
//! | *in-order assignment*: the RTR of a turn is for the message of that turn, and that one goes to the first receive that matches | [`Sender::start`] | §3.3.1 |
//! | *acknowledgement*: a message that uses an RTR says so by an RTR-ACK, which counts as the RTS does; that an RTS has met its receive is said by the turn of the next RTR, in place of an RTS-ACK | [`Receiver::rtr_ack`] | §3.3.1 |
//! | *crossing*: an RTR whose message has left by RTS is dropped | [`Sender::rtr`] | §3.3.1 |
//! | *no RTR past a receive without*: none is sent while an earlier receive that could take the message has none | [`Receiver::may_request`] | §3.3.1 |
//! | *no RTR for wildcards*: not for `ANY_SOURCE` as in the paper, nor for `ANY_TAG`, since turns are an envelope's | [`Receiver::may_request`] | §3.3.1 |
//! | *Eager-flag*: set by a message without a turn; RTRs that were or are heard while it is set are not used | [`Sender::eager`] | §3.3.2 |
//! | *stop-RTR*: an RTS without a turn; the receiver sends no RTR for that envelope | [`Receiver::rts`] | §3.3.2, §3.6 |
//! | *resume-RTR*: an RTS with a turn; RTRs count from there | [`Sender::start`], [`Receiver::rts`] | §3.3.2 |
//! | *misprediction*: a receive that sent an RTR and meets a message without a turn stops RTRs until the next turn | [`Receiver::mispredicted`] | §3.3.3 |
//! | *bounded accumulation*: a receiver sends at most [`RTRS`] RTRs of an envelope before it knows of a further turn, a sender keeps as many, both for at most [`RECORDS`] envelopes | both | §3.3.3 |
//! | *adaptation*: below [`USAGE_MIN`] percent of RTRs used, stop-RTR, for a while | [`Sender::start`] | §3.6 |
//! | *retraction*: of a cancelled receive, and of those that asked after it; no RTR follows until the next turn | [`Sender::retract`], [`Sender::refused`], [`Receiver::mispredicted`] | ours |
//!
//! What has no record speculates on nothing. The first RTS of an envelope makes the sender's record, its arrival the
//! receiver's, and either may be thrown away at any time: so the tables are bounded, and an eager message costs nothing where
//! no large one goes. docs/decisions/speculative-rendezvous.md says what that costs, and which test fails without which rule.
//!
//! # What the embedder does
//!
//! - The sender calls [`Sender::start`] or [`Sender::eager`] for every message to a peer for whom there is any record, in the
//!   order in which the messages are to be matched. An eager message may be told of later, but before the next
//!   [`Sender::start`] with its key.
//! - The receiver calls [`Receiver::rts`] or [`Receiver::rtr_ack`] for every RTS and RTR-ACK when it arrives, whether or not it
//!   meets a receive.
//! - A receive remembers the turn it asked for. An RTR-ACK that meets a receive with another turn, or none, is a lie
//!   ([`crate::layout::Corrupt`]).
//! - Who cancels a receive that has asked takes its RTR back, and those of the receives behind it: between ranks of a node each
//!   by a word of its own, the youngest first, where one that is taken means that the receive goes on. Between nodes
//!   [`Sender::retract`] does it, and its answer keeps the order of the messages; the receive stays posted until then.
//! - A receive asks ([`Receiver::may_request`]) when no unexpected message matches it, before it is posted, and only if it
//!   predicts a rendezvous from the length of its buffer.

mod adapt;
mod choice;
mod receiver;
mod recent;
mod rules;
mod sender;
#[cfg(test)]
mod tests;
mod turn;

pub use adapt::{PAUSE_MAX, PAUSE_MIN, SAMPLES, USAGE_MIN};
pub use choice::Rendezvous;
pub use receiver::Receiver;
pub use rules::{All, RECORDS, RTRS, Rules};
pub use sender::{Heard, Sender, Start, Usage};
pub use turn::Turn;
