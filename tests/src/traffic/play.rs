//! One rank's part of a phase, and the judgement of what it got.

use std::io::{IoSlice, IoSliceMut};

use strait::{Endpoint, Error, Request, Scope, Status, World, wait_all, wait_any};
use strait_core::matching::Pattern;

use super::judge::{UNTOUCHED, judge};
use super::phase::{ANY, Ending, Message, ORDERED, Phase, SHUFFLED, Step, Taking, context};
use crate::payload;

/// Parts of a vectored buffer: uneven, one of them empty.
fn cuts(length: usize) -> [usize; 4] {
    let first = length / 3;
    let second = (length - first).min(50);
    [first, 0, second, length - first - second]
}

/// The buffers of one rank for one phase.
struct Buffers {
    /// By message; empty for those of other ranks.
    outgoing: Vec<Vec<u8>>,
    /// By receive.
    incoming: Vec<Vec<u8>>,
}

impl Buffers {
    fn new(phase: &Phase, rank: u32) -> Self {
        let outgoing = phase.messages.iter().map(|message| match message.envelope.source == rank {
            true => payload::of(message.id, message.length),
            false => Vec::new(),
        });
        let incoming = phase.receives.iter().map(|receive| match receive.rank == rank {
            true => vec![UNTOUCHED; receive.capacity],
            false => Vec::new(),
        });
        Self { outgoing: outgoing.collect(), incoming: incoming.collect() }
    }
}

/// A buffer to receive into.
type Parts<'a> = Vec<IoSliceMut<'a>>;

fn parts_of(mut buffer: &mut [u8]) -> Parts<'_> {
    let mut parts = Vec::new();
    for length in cuts(buffer.len()) {
        let (part, rest) = buffer.split_at_mut(length);
        parts.push(IoSliceMut::new(part));
        buffer = rest;
    }
    parts
}

fn slices_of(mut buffer: &[u8]) -> Vec<IoSlice<'_>> {
    let mut slices = Vec::new();
    for length in cuts(buffer.len()) {
        let (slice, rest) = buffer.split_at(length);
        slices.push(IoSlice::new(slice));
        buffer = rest;
    }
    slices
}

/// A buffer in the form in which its receive takes it.
enum Room<'a> {
    Whole(&'a mut [u8]),
    Parts(Parts<'a>),
}

/// Plays this rank's part of phase `number`; `what` is put in front of a failure.
pub(super) fn play(world: &World, number: u32, phase: &Phase, what: &str) {
    let rank = world.rank();
    let steps = &phase.steps[rank as usize];
    let mut buffers = Buffers::new(phase, rank);
    let Buffers { outgoing, incoming } = &mut buffers;
    let slices: Vec<_> = outgoing.iter().map(|buffer| slices_of(buffer)).collect();
    let mut rooms: Vec<_> = incoming.iter_mut().map(|buffer| Room::Whole(buffer)).collect();
    for step in steps {
        if let Step::Receive { receive, how } = *step
            && matches!(how, Taking::PostedVectored | Taking::BlockingVectored)
            && let Room::Whole(buffer) = &mut rooms[receive]
        {
            rooms[receive] = Room::Parts(parts_of(core::mem::take(buffer)));
        }
    }
    let mut free: Vec<_> = rooms.iter_mut().map(Some).collect();
    let mut statuses = vec![None; phase.receives.len()];
    let [ordered, shuffled, any] = [ORDERED, SHUFFLED, ANY]
        .map(|regime| world.endpoint().with_context(context(number, regime)));
    ordered.scope(|ordered| {
        shuffled.scope(|shuffled| {
            any.scope(|any| {
                let mut pending = Vec::new();
                for step in steps {
                    let (at, request) = match *step {
                        Step::Send { message, blocking, vectored } => {
                            let Message { envelope, .. } = phase.messages[message];
                            let data = Data {
                                bytes: &outgoing[message],
                                slices: vectored.then_some(&slices[message][..]),
                            };
                            let to = &phase.messages[message];
                            let request = match envelope.context % 4 {
                                ORDERED if blocking => data.send(&ordered.endpoint(), to),
                                ORDERED => data.isend(ordered, to),
                                SHUFFLED => data.isend(shuffled, to),
                                _ => data.isend(any, to),
                            };
                            (None, request)
                        }
                        Step::Receive { receive, how } => {
                            let room = free[receive].take().expect("received once");
                            let pattern = &phase.receives[receive].pattern;
                            let request = match pattern.context % 4 {
                                ORDERED => room.receive(ordered, pattern, how),
                                SHUFFLED => room.receive(shuffled, pattern, how),
                                _ => room.receive(any, pattern, how),
                            };
                            (Some(receive), request)
                        }
                        Step::Exchange { message, receive } => {
                            let room = free[receive].take().expect("received once");
                            let pattern = &phase.receives[receive].pattern;
                            let to = &phase.messages[message];
                            let bytes = &outgoing[message];
                            let got = room.exchange(&ordered.endpoint(), bytes, to, pattern);
                            (Some(receive), got.map(Begun::Over))
                        }
                    };
                    match request.unwrap_or_else(|error| panic!("{what}, {step:?}: {error}")) {
                        Begun::Sent => {}
                        Begun::Over(status) => statuses[at.expect("a receive")] = Some(status),
                        Begun::Pending(request) => pending.push((at, request)),
                    }
                }
                end(phase.ending, pending, &mut statuses, what);
            });
        });
    });
    drop(rooms);
    judge(phase, rank, &statuses, &buffers.incoming, what);
}

/// What came of a step.
enum Begun<'scope> {
    Sent,
    Over(Status),
    Pending(Request<'scope>),
}

/// What is sent: the bytes, and the same bytes in parts when they are to be sent so.
struct Data<'a> {
    bytes: &'a [u8],
    slices: Option<&'a [IoSlice<'a>]>,
}

impl<'a> Data<'a> {
    fn send<'s>(&self, endpoint: &Endpoint<'_>, to: &Message) -> Result<Begun<'s>, Error> {
        let tag = to.envelope.tag;
        match self.slices {
            None => endpoint.send(self.bytes, to.destination, tag)?,
            Some(slices) => endpoint.send_vectored(slices, to.destination, tag)?,
        }
        Ok(Begun::Sent)
    }

    fn isend<'s>(&self, scope: &'s Scope<'s, '_>, to: &Message) -> Result<Begun<'s>, Error>
    where
        'a: 's,
    {
        let tag = to.envelope.tag;
        Ok(Begun::Pending(match self.slices {
            None => scope.isend(self.bytes, to.destination, tag)?,
            Some(slices) => scope.isend_vectored(slices, to.destination, tag)?,
        }))
    }
}

impl Room<'_> {
    fn receive<'s>(
        &'s mut self,
        scope: &'s Scope<'s, '_>,
        pattern: &Pattern,
        how: Taking,
    ) -> Result<Begun<'s>, Error> {
        let Pattern { source, tag, .. } = *pattern;
        let endpoint = scope.endpoint();
        let found = match how {
            Taking::Probed => Some(endpoint.probe(source, tag)?),
            _ => None,
        };
        let status = match (how, self) {
            (Taking::Posted | Taking::PostedVectored, Self::Whole(buffer)) => {
                return Ok(Begun::Pending(scope.irecv(buffer, source, tag)?));
            }
            (Taking::Posted | Taking::PostedVectored, Self::Parts(parts)) => {
                return Ok(Begun::Pending(scope.irecv_vectored(parts, source, tag)?));
            }
            (_, Self::Whole(buffer)) => endpoint.recv(buffer, source, tag)?,
            (_, Self::Parts(parts)) => endpoint.recv_vectored(parts, source, tag)?,
        };
        assert!(found.is_none_or(|found| found == status), "probed {found:?}, received {status:?}");
        Ok(Begun::Over(status))
    }

    fn exchange(
        &mut self,
        endpoint: &Endpoint<'_>,
        bytes: &[u8],
        to: &Message,
        from: &Pattern,
    ) -> Result<Status, Error> {
        let Self::Whole(buffer) = self else { unreachable!("exchanges are not vectored") };
        let tag = to.envelope.tag;
        endpoint.sendrecv(bytes, to.destination, tag, buffer, from.source, from.tag)
    }
}

/// Waits for all of `pending`, which are receives where they have a number.
fn end(
    ending: Ending,
    pending: Vec<(Option<usize>, Request<'_>)>,
    statuses: &mut [Option<Status>],
    what: &str,
) {
    let (receives, mut requests): (Vec<_>, Vec<_>) = pending.into_iter().unzip();
    let mut keep = |receive: Option<usize>, status: Status| {
        if let Some(receive) = receive {
            statuses[receive] = Some(status);
        }
    };
    let fail = |error| -> ! { panic!("{what}, waiting: {error}") };
    match ending {
        Ending::WaitAll => {
            wait_all(&mut requests).unwrap_or_else(|error| fail(error));
            for (receive, request) in receives.iter().zip(&requests) {
                let status = request.status().unwrap_or_else(|error| fail(error));
                keep(*receive, status.expect("waited for"));
            }
        }
        Ending::WaitAny => {
            let mut receives = receives;
            while let Some(place) = wait_any(&mut requests).unwrap_or_else(|error| fail(error)) {
                let request = requests.swap_remove(place);
                let status = request.status().unwrap_or_else(|error| fail(error));
                keep(receives.swap_remove(place), status.expect("waited for"));
            }
        }
        Ending::Test => {
            for (receive, mut request) in receives.into_iter().zip(requests).rev() {
                loop {
                    match request.test() {
                        Ok(Some(status)) => break keep(receive, status),
                        Ok(None) => std::thread::yield_now(),
                        Err(error) => fail(error),
                    }
                }
            }
        }
    }
}
