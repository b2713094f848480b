//! Handles the heads of messages that arrive.

use strait_core::matching::MaskedEnvelope;

use super::Traffic;
use super::class::MessageClass;
use super::promises::ProviderEnvelope;
use super::queues::{MessageBody, UnmatchedMessage, exhausted};
use crate::abi::{CqEntry, flag};
use crate::operation::OperationKind;
use crate::wire::{
    Away, BY_RTR, HAS_DATA, HeadKind, Numbered, ProviderHead, WANTS_ACK, WANTS_CREDIT,
};

impl Traffic {
    /// Handles a head and the bytes behind it. Drops bytes that no provider sends.
    #[inline(always)]
    pub(super) fn arrive(&mut self, source: u32, tag: u32, bytes: &[u8]) {
        let Some((head, body)) = ProviderHead::read(bytes) else { return };
        match HeadKind::parse(tag) {
            Some(HeadKind::Tagged) => {
                self.arrive_inline(MessageClass::Tagged, source, tag, head, body);
            }
            Some(HeadKind::Msg) => self.arrive_inline(MessageClass::Msg, source, tag, head, body),
            Some(kind) => self.arrive_other(kind, source, tag, head, body),
            None => {}
        }
    }

    #[inline(always)]
    fn arrive_inline(
        &mut self,
        lane: MessageClass,
        source: u32,
        flags: u32,
        head: ProviderHead,
        body: &[u8],
    ) {
        let is_told = flags & (WANTS_ACK | WANTS_CREDIT) != 0;
        if !is_told && self.meet_plain(lane, (source, flags, head), body) {
            return;
        }
        self.arrive_further(lane, source, flags, head, body);
    }

    /// Handles a message with its bytes, if its receive is not plain or not posted yet, or if its
    /// sender waits for the delivery.
    #[inline(never)]
    fn arrive_further(
        &mut self,
        lane: MessageClass,
        source: u32,
        flags: u32,
        head: ProviderHead,
        body: &[u8],
    ) {
        let numbered =
            if flags & WANTS_ACK == 0 { Some((0, body)) } else { Numbered::number(body) };
        let Some((number, body)) = numbered else { return };
        let envelope = MaskedEnvelope { source, tag: head.tag };
        match self.lanes[lane as usize].lend(&envelope) {
            Some((handle, mut receive)) => {
                self.dismiss(receive.asked.take());
                let length = body.len();
                let rest =
                    self.meet(lane, receive, (source, flags, head), (number, length), |_, to| {
                        to.fill(body);
                    });
                self.lanes[lane as usize].give_back(handle, rest);
            }
            None => {
                let name = match self.port.keep(source, HeadKind::Msg.key(0), body) {
                    Ok(name) => name,
                    Err(error) => exhausted(error),
                };
                let body = MessageBody::Here { number, length: body.len(), name };
                let message = UnmatchedMessage { data: head.data, flags, body };
                self.lanes[lane as usize].keep(envelope, message);
            }
        }
        if flags & WANTS_CREDIT != 0 {
            self.port.tell_taken(source);
        }
    }

    #[inline(never)]
    fn arrive_other(
        &mut self,
        kind: HeadKind,
        source: u32,
        flags: u32,
        head: ProviderHead,
        body: &[u8],
    ) {
        match kind {
            HeadKind::MsgAway => self.arrive_away(MessageClass::Msg, source, flags, head, body),
            HeadKind::TaggedAway => {
                self.arrive_away(MessageClass::Tagged, source, flags, head, body);
            }
            HeadKind::Delivered => {
                if let Some(op) = self.deliveries.take_numbered(source, head.tag) {
                    self.sent(source, &op, None);
                }
            }
            HeadKind::Written => self.written(source, flags, head),
            HeadKind::Atomic => self.serve_atomic(source, head, body),
            HeadKind::AtomicDone => self.finish_atomic(source, head, body),
            HeadKind::Ask => self.serve_ask(source, head.tag),
            HeadKind::Open => self.take_open(source, head.tag, body),
            HeadKind::Recall => self.take_recall(source, head.tag),
            HeadKind::Returned => self.take_returned(source, head.tag),
            HeadKind::Prove => self.serve_prove(source, head),
            HeadKind::Proved => self.take_proved(source, head.tag),
            HeadKind::Msg | HeadKind::Tagged => {}
        }
    }

    fn arrive_away(
        &mut self,
        lane: MessageClass,
        source: u32,
        flags: u32,
        head: ProviderHead,
        body: &[u8],
    ) {
        let Some(away) = Away::parse(body) else { return };
        let named = ProviderEnvelope { peer: source, lane, tag: head.tag };
        self.expected.heard(named, away.next, flags & BY_RTR != 0);
        let envelope = MaskedEnvelope { source, tag: head.tag };
        match self.lanes[lane as usize].lend(&envelope) {
            Some((handle, receive)) => {
                let rest = self.fetch(lane, receive, (source, flags, head), away);
                self.lanes[lane as usize].give_back(handle, rest);
            }
            None => {
                let body = MessageBody::Away(away);
                let message = UnmatchedMessage { data: head.data, flags, body };
                self.lanes[lane as usize].keep(envelope, message);
            }
        }
    }

    /// Completes a remote write into this process's memory, which the peer reports.
    fn written(&mut self, source: u32, flags: u32, head: ProviderHead) {
        let entry = CqEntry {
            op_context: core::ptr::null_mut(),
            flags: flag::RMA | flag::REMOTE_WRITE | flag::REMOTE_CQ_DATA,
            len: usize::try_from(head.tag).unwrap_or(usize::MAX),
            buf: core::ptr::null_mut(),
            data: head.data,
            tag: 0,
        };
        self.out.complete(OperationKind::RemoteWrite, entry, flags & HAS_DATA == 0, source);
    }
}
