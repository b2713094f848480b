//! Unexpected messages.

use super::answers::NO_ANSWER;
use super::message_buffers::OwnedBuffer;
use super::method_news::MethodNews;
use crate::lmt::SendCookie;
use crate::matching::Envelope;
use crate::wire::{MessageAddress, Offer, SHORT_MAX, Turn};

/// An unexpected message: copied out of its cells, or kept by its sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnexpectedMessage {
    pub(super) envelope: Envelope,
    pub(super) standing: MatchState,
    /// Its number in the order of arrival among the messages that met no receive.
    pub(super) arrival: u64,
    /// The bit of a synchronous message with which its receive answers, or [`NO_ANSWER`].
    pub(super) answer: u32,
    pub(super) body: UnexpectedData,
    pub(super) total: usize,
    /// Bytes of it that are in this rank.
    pub(super) arrived: usize,
}

impl UnexpectedMessage {
    /// Returns a message that is about to be queued.
    pub(super) const fn new(
        envelope: Envelope,
        body: UnexpectedData,
        total: usize,
        arrived: usize,
    ) -> Self {
        let (standing, answer) = (MatchState::Met, NO_ANSWER);
        Self { envelope, standing, arrival: 0, answer, body, total, arrived }
    }
}

/// The name of a message that a probe has matched. It is valid until a receive of the message has
/// started, or the message was put back.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct MessageId(pub(super) u32);

/// The place of an unexpected message in matching.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MatchState {
    /// In the unexpected queue, under this handle.
    Queued(u32),
    /// Taken out of the queue by a probe, for the holder of its number.
    Matched,
    /// Matched with its receive, or about to be queued.
    Met,
}

/// The place of the data of an unexpected message.
#[derive(Clone, Copy, Debug)]
pub(super) enum UnexpectedData {
    /// In memory of the engine; `None` for an empty message.
    Here(Option<OwnedBuffer>),
    /// In this value: a short message, complete.
    Short([u64; SHORT_MAX / 8]),
    /// In the memory of the sender.
    There(DeferredSend),
    /// With the sender, which is gone. A receive of the message reports the loss.
    Lost,
}

impl UnexpectedData {
    /// Returns the engine's memory that belongs to the message.
    pub(super) const fn owned(&self) -> Option<OwnedBuffer> {
        match self {
            Self::Here(payload) => *payload,
            Self::There(DeferredSend::Method(news)) => news.cookie,
            Self::Short(_) | Self::There(_) | Self::Lost => None,
        }
    }

    /// Returns whether the data are in this rank, or arriving there.
    pub(super) const fn is_here(&self) -> bool {
        matches!(self, Self::Here(_) | Self::Short(_))
    }
}

/// The packet by which a sender announced a message that it kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum DeferredSend {
    /// An RTS: the message is large.
    Announced(SendCookie),
    /// An offer: this rank had no room for the message.
    Offered(Offer),
    /// An RTS of a message that the embedder's method moves.
    Method(MethodNews),
    /// An RTS from another node: the message is large, and its receiver may read it where it lies.
    Exposed { offer: Offer, from: MessageAddress, turn: Option<Turn> },
}
