//! One rank's part of a phase, and the judgement of its results.

use std::io::{IoSlice, IoSliceMut};

use strait::{
    Error, Request, Scope, Status, Vectored, World, test_all, wait_all, wait_any, wait_some,
};
use strait_core::matching::Pattern;

use super::judge::{UNTOUCHED, judge};
use super::phase::{ANY, Ending, Message, ORDERED, Phase, SHUFFLED, Step, Taking, context, regime};
use crate::payload;

/// Returns the segments of a vectored buffer: uneven, one of them empty.
fn cuts(length: usize) -> [usize; 4] {
    let first = length / 3;
    let second = (length - first).min(50);
    [first, 0, second, length - first - second]
}

/// The buffers of one rank for one phase.
struct Buffers {
    /// Indexed by message; empty for those of other ranks.
    outgoing: Vec<Vec<u8>>,
    /// Indexed by receive.
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

/// Plays this rank's part of phase `number`. A failure message starts with `what`.
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
    let free = rooms.iter_mut().map(Some).collect();
    let mut part = Part { phase, outgoing, slices: &slices, free };
    let mut statuses = vec![None; phase.receives.len()];
    let [ordered, shuffled, any] = [ORDERED, SHUFFLED, ANY]
        .map(|regime| world.endpoint().with_context(context(number, regime)));
    ordered.scope(|ordered| {
        shuffled.scope(|shuffled| {
            any.scope(|any| {
                let mut pending = Vec::new();
                for step in steps {
                    let begun = match part.regime(step) {
                        ORDERED => part.begin(ordered, step),
                        SHUFFLED => part.begin(shuffled, step),
                        _ => part.begin(any, step),
                    };
                    match begun.unwrap_or_else(|error| panic!("{what}, {step:?}: {error}")) {
                        Begun::Sent => {}
                        Begun::Over(receive, status) => statuses[receive] = Some(status),
                        Begun::Pending(receive, request) => pending.push((receive, request)),
                    }
                }
                end(phase.ending, pending, &mut statuses, what);
            });
        });
    });
    drop(rooms);
    judge(phase, rank, &statuses, &buffers.incoming, what);
}

/// The result of a step. Receives are named by their number.
enum Begun<'scope> {
    Sent,
    Over(usize, Status),
    Pending(Option<usize>, Request<'scope>),
}

/// One rank's part, while it is played.
struct Part<'a, 'r> {
    phase: &'a Phase,
    /// Indexed by message.
    outgoing: &'a [Vec<u8>],
    /// The outgoing buffers in segments.
    slices: &'a [Vec<IoSlice<'a>>],
    /// Indexed by receive, until it begins.
    free: Vec<Option<&'a mut Room<'r>>>,
}

impl<'a, 'r> Part<'a, 'r> {
    fn regime(&self, step: &Step) -> u32 {
        let context = match *step {
            Step::Send { message, .. } | Step::Exchange { message, .. } => {
                self.phase.messages[message].envelope.context
            }
            Step::Receive { receive, .. } => self.phase.receives[receive].pattern.context,
        };
        regime(context)
    }

    /// Makes one call in the scope of its regime.
    fn begin<'s>(&mut self, scope: &'s Scope<'s, '_>, step: &Step) -> Result<Begun<'s>, Error>
    where
        'a: 's,
    {
        match *step {
            Step::Send { message, blocking, vectored, synchronous } => {
                self.send(scope, message, (blocking, vectored, synchronous))
            }
            Step::Receive { receive, how } => self.receive(scope, receive, how),
            Step::Exchange { message, receive } => {
                let Message { destination, envelope, .. } = self.phase.messages[message];
                let Pattern { source, tag, .. } = self.phase.receives[receive].pattern;
                let Room::Whole(room) = self.room(receive) else {
                    unreachable!("exchanges are not vectored")
                };
                let (data, endpoint) = (&self.outgoing[message][..], scope.endpoint());
                endpoint
                    .sendrecv(data, destination, envelope.tag, room, source, tag)
                    .map(|status| Begun::Over(receive, status))
            }
        }
    }

    fn send<'s>(
        &self,
        scope: &'s Scope<'s, '_>,
        message: usize,
        (blocking, vectored, synchronous): (bool, bool, bool),
    ) -> Result<Begun<'s>, Error>
    where
        'a: 's,
    {
        let (bytes, slices): (&'a [u8], &'a [_]) = (&self.outgoing[message], &self.slices[message]);
        let Message { destination, envelope, .. } = self.phase.messages[message];
        let (endpoint, tag) = (scope.endpoint(), envelope.tag);
        let request = match (synchronous, vectored) {
            (false, false) if blocking => {
                return endpoint.send(bytes, destination, tag).map(|()| Begun::Sent);
            }
            (false, true) if blocking => {
                return endpoint
                    .send(Vectored::new(slices), destination, tag)
                    .map(|()| Begun::Sent);
            }
            (true, false) if blocking => {
                return endpoint.ssend(bytes, destination, tag).map(|()| Begun::Sent);
            }
            (false, false) => scope.isend(bytes, destination, tag)?,
            (false, true) => scope.isend(Vectored::new(slices), destination, tag)?,
            (true, false) => scope.issend(bytes, destination, tag)?,
            (true, true) => scope.issend(Vectored::new(slices), destination, tag)?,
        };
        if blocking {
            return request.wait().map(|_| Begun::Sent);
        }
        Ok(Begun::Pending(None, request))
    }

    fn receive<'s>(
        &mut self,
        scope: &'s Scope<'s, '_>,
        receive: usize,
        how: Taking,
    ) -> Result<Begun<'s>, Error>
    where
        'a: 's,
    {
        let Pattern { source, tag, .. } = self.phase.receives[receive].pattern;
        let endpoint = scope.endpoint();
        let found = match how {
            Taking::Probed => Some(endpoint.probe(source, tag)?),
            Taking::Matched | Taking::MatchedPosted => {
                let message = endpoint.mprobe(source, tag)?;
                let Room::Whole(room) = self.room(receive) else {
                    unreachable!("matched messages are not vectored")
                };
                if how == Taking::MatchedPosted {
                    return Ok(Begun::Pending(Some(receive), scope.imrecv(message, room)?));
                }
                let found = message.status();
                let status = message.recv(room)?;
                assert_eq!(found, status, "what was probed is received");
                return Ok(Begun::Over(receive, status));
            }
            _ => None,
        };
        let posted = matches!(how, Taking::Posted | Taking::PostedVectored);
        let status = match (posted, self.room(receive)) {
            (true, Room::Whole(room)) => {
                return Ok(Begun::Pending(Some(receive), scope.irecv(room, source, tag)?));
            }
            (true, Room::Parts(parts)) => {
                return Ok(Begun::Pending(
                    Some(receive),
                    scope.irecv(Vectored::new_mut(parts), source, tag)?,
                ));
            }
            (false, Room::Whole(room)) => endpoint.recv(room, source, tag)?,
            (false, Room::Parts(parts)) => endpoint.recv(Vectored::new_mut(parts), source, tag)?,
        };
        assert!(found.is_none_or(|found| found == status), "probed {found:?}, received {status:?}");
        Ok(Begun::Over(receive, status))
    }

    fn room(&mut self, receive: usize) -> &'a mut Room<'r> {
        self.free[receive].take().expect("each receive begins once")
    }
}

/// Waits for all of `pending`. Those with a number are receives.
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
        Ending::WaitAll | Ending::TestAll => {
            if let Ending::TestAll = ending {
                while !test_all(&mut requests).unwrap_or_else(|error| fail(error)) {
                    std::thread::yield_now();
                }
            }
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
        Ending::WaitSome => loop {
            let over = wait_some(&mut requests).unwrap_or_else(|error| fail(error));
            if over.is_empty() {
                break;
            }
            for place in over {
                let status = requests[place].status().unwrap_or_else(|error| fail(error));
                keep(receives[place], status.expect("it is over"));
            }
        },
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
