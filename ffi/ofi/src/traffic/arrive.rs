//! What becomes of heads that come.

use super::{Body, Kept, Lane, Op, Traffic};
use crate::abi::{CqEntry, flag};
use crate::wire::{Away, HAS_DATA, Head, Kind, Numbered, WANTS_ACK, WANTS_CREDIT};

impl Traffic {
    /// Deals with a head and what stands behind it. What no provider sends is dropped.
    #[inline(always)]
    pub(super) fn arrive(&mut self, source: u32, tag: u32, bytes: &[u8]) {
        let Some((head, body)) = Head::read(bytes) else { return };
        match Kind::parse(tag) {
            Some(Kind::Tagged) => self.arrive_inline(Lane::Tagged, source, tag, head, body),
            Some(Kind::Msg) => self.arrive_inline(Lane::Msg, source, tag, head, body),
            Some(kind) => self.arrive_other(kind, source, tag, head, body),
            None => {}
        }
    }

    #[inline(always)]
    fn arrive_inline(&mut self, lane: Lane, source: u32, flags: u32, head: Head, body: &[u8]) {
        let told = flags & (WANTS_ACK | WANTS_CREDIT) != 0;
        if !told && self.meet_first(lane, (source, flags, head), body) {
            return;
        }
        self.arrive_further(lane, source, flags, head, body);
    }

    /// As [`Traffic::arrive_inline`], where the first receive does not accept the message or is no simple one, or the delivery is told.
    #[inline(never)]
    fn arrive_further(&mut self, lane: Lane, source: u32, flags: u32, head: Head, body: &[u8]) {
        let numbered =
            if flags & WANTS_ACK == 0 { Some((0, body)) } else { Numbered::number(body) };
        let Some((number, body)) = numbered else { return };
        match self.lanes[lane as usize].take_posted(source, head.tag) {
            Some((seat, receive)) => {
                self.meet(lane, seat, receive, (source, flags, head), (number, body));
            }
            None => {
                self.port.hold(source, body.len());
                let kept = Kept { data: head.data, flags, body: Body::Here(number, body.into()) };
                self.lanes[lane as usize].keep(source, head.tag, kept);
            }
        }
        if flags & WANTS_CREDIT != 0 {
            self.port.tell_taken(source);
        }
    }

    #[inline(never)]
    fn arrive_other(&mut self, kind: Kind, source: u32, flags: u32, head: Head, body: &[u8]) {
        match kind {
            Kind::MsgAway => self.arrive_away(Lane::Msg, source, flags, head, body),
            Kind::TaggedAway => self.arrive_away(Lane::Tagged, source, flags, head, body),
            Kind::Delivered => {
                if let Some(how) = self.undelivered.remove(&(source, head.tag)) {
                    self.sent(&how, None);
                }
            }
            Kind::Written => self.written(source, flags, head),
            Kind::Atomic => self.serve_atomic(source, head, body),
            Kind::AtomicDone => self.finish_atomic(source, head, body),
            Kind::Ask => self.serve_ask(source, head.tag),
            Kind::Open => self.take_open(source, head.tag, body),
            Kind::Recall => self.take_recall(source, head.tag),
            Kind::Returned => self.take_returned(source, head.tag),
            Kind::Prove => self.serve_prove(source, head),
            Kind::Proved => self.take_proved(source, head.tag),
            Kind::Msg | Kind::Tagged => {}
        }
    }

    fn arrive_away(&mut self, lane: Lane, source: u32, flags: u32, head: Head, body: &[u8]) {
        let Some(away) = Away::parse(body) else { return };
        match self.lanes[lane as usize].take_posted(source, head.tag) {
            Some((seat, receive)) => {
                self.fetch(lane, seat, receive, (source, flags, head), away);
            }
            None => {
                let kept = Kept { data: head.data, flags, body: Body::Away(away) };
                self.lanes[lane as usize].keep(source, head.tag, kept);
            }
        }
    }

    /// A peer has written to our memory and tells us so.
    fn written(&mut self, source: u32, flags: u32, head: Head) {
        let entry = CqEntry {
            op_context: core::ptr::null_mut(),
            flags: flag::RMA | flag::REMOTE_WRITE | flag::REMOTE_CQ_DATA,
            len: usize::try_from(head.tag).unwrap_or(usize::MAX),
            buf: core::ptr::null_mut(),
            data: head.data,
            tag: 0,
        };
        self.out.complete(Op::RemoteWrite, entry, flags & HAS_DATA == 0, source);
    }
}
