//! Blocking messages. A rank waits only for an operation that another rank has already prepared, so
//! that the library completes it whatever the program of the other rank does.

use core::task::Poll;
use std::io::{IoSlice, IoSliceMut};

use strait::raw::{ANY_SOURCE, RawEndpoint as _};
use strait::{
    ANY_TAG, Error, Request, Status, Vectored, test_all, test_any, test_some, wait_all, wait_any,
    wait_some,
};

use super::rank::Rank;
use super::stream::{Context, Stream};
use super::talk::{Posted, What};

/// The most messages of a batch, in each direction.
const BATCH: usize = 5;

impl Rank<'_> {
    /// Probes for a message without a receive, and handles it in one of the possible ways.
    pub(super) fn probe(&mut self) {
        let (source, tag) = self.pattern();
        let context = if self.random.bool() { Context::Free } else { Context::Own };
        self.begin("probe", [source.into(), u64::from(context.number()) << 8 | u64::from(tag), 0]);
        let endpoint = self.world.endpoint().with_context(context.number());
        if self.random.u8(..3) == 0 {
            match endpoint.iprobe(source, tag) {
                Ok(Some(Status { source, tag, bytes })) => {
                    self.receive(context, source, tag, bytes);
                }
                Ok(None) => {}
                Err(error) => self.excuse(&error, "a probe"),
            }
            return;
        }
        if self.random.bool() {
            match endpoint.try_to_match(source, tag) {
                Ok(Some(matched)) => {
                    let order = self.next_order();
                    self.keep_matched(matched.status(), &matched, context, order);
                }
                Ok(None) => {}
                Err(error) => self.excuse(&error, "a matched probe"),
            }
            return;
        }
        let message = match endpoint.improbe(source, tag) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(error) => return self.excuse(&error, "a matched probe"),
        };
        if self.random.u8(..3) == 0 {
            // The message returns at once, so the order of messages is kept.
            return drop(message);
        }
        let Status { source, tag, bytes } = message.status();
        let order = self.next_order();
        let mut room = vec![0; bytes];
        let received = if self.random.bool() {
            message.recv(&mut room)
        } else {
            let (first, rest) = room.split_at_mut(bytes / 2);
            message.recv(Vectored::new_mut(&mut [IoSliceMut::new(first), IoSliceMut::new(rest)]))
        };
        let posted = Posted { context, source, tag, order, is_cancelled: false };
        self.take(posted, received, &room);
    }

    /// Receives and waits.
    fn receive(&mut self, context: Context, source: u32, tag: u32, bytes: usize) {
        self.begin(
            "recv",
            [source.into(), u64::from(context.number()) << 8 | u64::from(tag), bytes as u64],
        );
        let order = self.next_order();
        let mut room = vec![0; bytes];
        let endpoint = self.world.endpoint().with_context(context.number());
        let received = if self.random.u8(..3) > 0 {
            endpoint.recv(&mut room, source, tag)
        } else {
            let (first, rest) = room.split_at_mut(bytes / 3);
            let mut parts =
                [IoSliceMut::new(first), IoSliceMut::new(&mut []), IoSliceMut::new(rest)];
            endpoint.recv(Vectored::new_mut(&mut parts), source, tag)
        };
        let posted = Posted { context, source, tag, order, is_cancelled: false };
        self.take(posted, received, &room);
    }

    /// Posts a receive for one blocking send of a peer, and tells the peer.
    pub(super) fn give_credit(&mut self) {
        let (peer, room) = (self.any_rank(), self.room());
        if peer == self.me {
            return;
        }
        self.post(Context::Credit, peer, ANY_TAG, room);
        self.begin_send(self.stream_to(peer, Context::Control, 0));
    }

    /// Returns a peer that has posted a receive for this rank.
    fn creditor(&mut self) -> Option<u32> {
        let with: Vec<u32> =
            (0..self.ranks).filter(|peer| self.credits[*peer as usize] > 0).collect();
        let peer = self.random.choice(with)?;
        self.credits[peer as usize] -= 1;
        Some(peer)
    }

    /// Sends and waits.
    pub(super) fn send_and_wait(&mut self) {
        let Some(peer) = self.creditor() else { return };
        let tag = self.random.u32(..Stream::TAGS);
        let stream = self.stream_to(peer, Context::Credit, tag);
        let message = self.next_message(stream);
        self.begin("send", [peer.into(), u64::from(tag), message.len() as u64]);
        let endpoint = self.world.endpoint().with_context(Context::Credit.number());
        let sent = match self.random.u8(..3) {
            0 => endpoint.send(&message, peer, tag),
            1 => endpoint.ssend(&message, peer, tag),
            _ => {
                let (first, rest) = message.split_at(message.len() / 3);
                endpoint.send(Vectored::new(&[IoSlice::new(first), IoSlice::new(rest)]), peer, tag)
            }
        };
        let status = Status { source: peer, tag, bytes: 0 };
        self.sent(peer, Some(stream), sent.map(|()| status));
    }

    /// Begins to send a message for a blocking receive, and tells the receiver.
    pub(super) fn announce(&mut self) {
        let (peer, tag) = (self.any_rank(), self.random.u32(..Stream::TAGS - 1));
        if peer == self.me {
            return;
        }
        self.begin_send(self.stream_to(peer, Context::Announced, tag));
        self.begin_send(self.stream_to(peer, Context::Control, tag + 1));
    }

    /// Returns the source and tag of a message that is under way.
    fn announcement(&mut self) -> Option<(u32, u32)> {
        let known = (0..self.ranks).flat_map(|peer| {
            let tags = self.announced[peer as usize].into_iter().zip(0..);
            tags.filter(|(count, _)| *count > 0).map(move |(_, tag)| (peer, tag))
        });
        let known: Vec<_> = known.collect();
        let (peer, tag) = self.random.choice(known)?;
        // Messages that were received before their announcement are not under way any more.
        let others = self.announced[peer as usize].iter().sum::<i32>() >= 1;
        let any = others && self.random.bool();
        Some((peer, if any { ANY_TAG } else { tag }))
    }

    /// Receives, or probes, and waits.
    pub(super) fn receive_and_wait(&mut self) {
        let Some((peer, tag)) = self.announcement() else { return };
        let room = self.room();
        self.wait_for(Context::Announced, peer, tag, room);
    }

    /// Receives a message from any source and waits. At least one from this rank itself exists.
    pub(super) fn receive_from_any(&mut self) {
        let tag = self.random.u32(..Stream::TAGS);
        self.begin_send(self.stream_to(self.me, Context::Own, tag));
        let tag = if self.random.bool() { ANY_TAG } else { tag };
        let room = self.room();
        self.wait_for(Context::Own, ANY_SOURCE, tag, room);
    }

    fn wait_for(&mut self, context: Context, source: u32, tag: u32, room: usize) {
        let endpoint = self.world.endpoint().with_context(context.number());
        let about = [source.into(), u64::from(context.number()) << 8 | u64::from(tag), 0];
        let found = match self.random.u8(..3) {
            0 => {
                self.begin("wait in probe", about);
                endpoint.probe(source, tag)
            }
            1 => {
                self.begin("wait in mprobe", about);
                match endpoint.mprobe(source, tag) {
                    Ok(message) => {
                        let Status { source, tag, bytes } = message.status();
                        let order = self.next_order();
                        let mut room = vec![0; bytes];
                        self.begin("mrecv", [source.into(), tag.into(), bytes as u64]);
                        let received = message.recv(&mut room);
                        let posted = Posted { context, source, tag, order, is_cancelled: false };
                        return self.take(posted, received, &room);
                    }
                    Err(error) => Err(error),
                }
            }
            _ => return self.receive(context, source, tag, room),
        };
        match found {
            Ok(Status { source, tag, bytes }) => self.receive(context, source, tag, bytes),
            Err(error) => {
                let posted = Posted { context, source, tag, order: 0, is_cancelled: false };
                self.take(posted, Err(error), &[]);
            }
        }
    }

    /// Begins several operations, each of which will end, and waits for them with one of the calls
    /// for several requests.
    pub(super) fn batch(&mut self) {
        let mut sends = Vec::new();
        while sends.len() < BATCH
            && let Some(peer) = self.creditor()
        {
            let tag = self.random.u32(..Stream::TAGS);
            let stream = self.stream_to(peer, Context::Credit, tag);
            sends.push((stream, self.next_message(stream), self.random.bool()));
        }
        let mut receives = Vec::new();
        if let Some((source, tag)) = self.announcement() {
            let order = self.next_order();
            let posted =
                Posted { context: Context::Announced, source, tag, order, is_cancelled: false };
            receives.push((posted, vec![0_u8; self.room()]));
        }
        let way = self.random.u8(..7);
        self.begin("batch", [way.into(), sends.len() as u64, receives.len() as u64]);
        let endpoint = self.world.endpoint();
        let to = endpoint.with_context(Context::Credit.number());
        let from = endpoint.with_context(Context::Announced.number());
        let mut outcomes: Vec<(What, Result<Status, Error>)> = Vec::new();
        to.scope(|to| {
            from.scope(|from| {
                let (mut requests, mut kinds) = (Vec::new(), Vec::new());
                for (stream, message, synchronous) in &sends {
                    let peer = stream.destination;
                    let begun = match synchronous {
                        true => to.issend(message, peer, stream.tag),
                        false => to.isend(message, peer, stream.tag),
                    };
                    let what = What::Send { peer, stream: Some(*stream) };
                    match begun {
                        Ok(request) => {
                            requests.push(request);
                            kinds.push(what);
                        }
                        Err(error) => outcomes.push((what, Err(error))),
                    }
                }
                for (posted, room) in &mut receives {
                    let what = What::Receive(*posted);
                    match from.irecv(room, posted.source, posted.tag) {
                        Ok(request) => {
                            requests.push(request);
                            kinds.push(what);
                        }
                        Err(error) => outcomes.push((what, Err(error))),
                    }
                }
                finish(&mut requests, way);
                for (request, what) in requests.iter().zip(kinds) {
                    let ended = request.status().transpose().expect("a request that is over");
                    outcomes.push((what, ended));
                }
            });
        });
        for (what, ended) in outcomes {
            match what {
                What::Send { peer, stream } => self.sent(peer, stream, ended),
                What::Receive(posted) => {
                    let (_, room) = receives.pop().expect("at most one receive");
                    self.take(posted, ended, &room);
                }
            }
        }
    }
}

/// Waits until all requests are complete.
fn finish(requests: &mut [Request<'_>], way: u8) {
    const NO_PROGRESS: &str = "progress";
    match way {
        // The outcome of each is checked later.
        0 => drop(wait_all(requests)),
        1 => while wait_any(requests).expect(NO_PROGRESS).is_some() {},
        2 => while !wait_some(requests).expect(NO_PROGRESS).is_empty() {},
        3 => while test_all(requests).is_ok_and(|over| !over) {},
        4 => while test_any(requests).expect(NO_PROGRESS) != Poll::Ready(None) {},
        5 => loop {
            match test_some(requests).expect(NO_PROGRESS) {
                Poll::Ready(ended) if ended.is_empty() => break,
                _ => {}
            }
        },
        _ => {
            for request in requests {
                while request.test().is_ok_and(|status| status.is_none()) {}
            }
        }
    }
}
