//! Large messages in several parts, between nodes: they go beside the stream, by a list of the
//! parts that the receiver reads.

use core::ops::Range;
use std::io::{IoSlice, IoSliceMut};

use fastrand::Rng;
use strait::{Error, Fault, Vectored, World, wait_all};
use strait_tests::{Ranks, die, payload};

/// The contents of gaps.
const GAP: u8 = 0xc3;

/// The software devices.
const DEVICES: [&str; 3] = ["soft-inline", "soft-engine", "soft-iwarp"];

/// A message's memory: parts of one allocation with gaps between them.
struct Scattered {
    memory: Vec<u8>,
    /// The places of the parts. They are in the order of the message, and of the memory.
    places: Vec<Range<usize>>,
}

impl Scattered {
    /// Places `bytes` in parts as long as a packet, or in many short ones. The gaps are equal or
    /// not, and some contain a page.
    fn drawn(bytes: &[u8], rng: &mut Rng) -> Self {
        let count = *rng.choice(&[1, 2, 7, 40, 300]).expect("one of them");
        let is_vector = rng.bool();
        let mut gap = || if rng.u8(..4) == 0 { 5000 } else { rng.usize(..2000) };
        let same = gap();
        let (mut end, mut start, mut places) = (0, 0, Vec::new());
        for number in 1..=count {
            let cut = if is_vector { bytes.len() / count * number } else { gap() * 20 + start };
            let next = if number == count { bytes.len() } else { cut.min(bytes.len()) };
            end += if is_vector { same } else { gap() };
            places.push(end..end + next - start);
            (end, start) = (end + next - start, next);
        }
        let (mut memory, mut rest) = (vec![GAP; end + 16], bytes);
        for place in &places {
            let (part, further) = rest.split_at(place.len());
            memory[place.clone()].copy_from_slice(part);
            rest = further;
        }
        Self { memory, places }
    }

    fn slices(&self) -> Vec<IoSlice<'_>> {
        self.places.iter().map(|place| IoSlice::new(&self.memory[place.clone()])).collect()
    }

    fn slices_mut(&mut self) -> Vec<IoSliceMut<'_>> {
        let (mut rest, mut at, mut slices) = (&mut self.memory[..], 0, Vec::new());
        for place in &self.places {
            let (slice, further) = rest[place.start - at..].split_at_mut(place.len());
            slices.push(IoSliceMut::new(slice));
            (rest, at) = (further, place.end);
        }
        slices
    }

    /// Returns the bytes of the message. No byte of a gap has changed.
    fn bytes(&self) -> Vec<u8> {
        let (mut rest, mut bytes) = (self.memory.clone(), Vec::new());
        for place in &self.places {
            bytes.extend_from_slice(&rest[place.clone()]);
            rest[place.clone()].fill(GAP);
        }
        assert!(rest.iter().all(|byte| *byte == GAP), "a gap was written");
        bytes
    }
}

/// Each rank of two sends the other windows of messages in drawn parts, into drawn parts.
fn exchange(world: &World, seed: u64) {
    let (endpoint, rank) = (world.endpoint(), world.rank());
    let other = 1 - rank;
    for window in 0..6 {
        let mut common = Rng::with_seed(seed << 8 | window);
        let lengths: Vec<usize> = (0..4).map(|_| common.usize(1000..700_000)).collect();
        let capacities: Vec<usize> = lengths
            .iter()
            .map(|length| if common.u8(..4) == 0 { length / 2 } else { length + common.usize(..9) })
            .collect();
        let mut rng = Rng::with_seed(seed << 8 | window | u64::from(rank) << 60);
        let id = |from: u32, number: usize| u64::from(from) << 32 | window << 8 | number as u64;
        let out = |(number, length): (usize, &usize)| {
            Scattered::drawn(&payload::of(id(rank, number), *length), &mut rng)
        };
        let outgoing: Vec<_> = lengths.iter().enumerate().map(out).collect();
        let room = |capacity: &usize| Scattered::drawn(&vec![0; *capacity], &mut rng);
        let mut incoming: Vec<_> = capacities.iter().map(room).collect();
        let sent: Vec<_> = outgoing.iter().map(Scattered::slices).collect();
        let mut rooms: Vec<_> = incoming.iter_mut().map(Scattered::slices_mut).collect();
        endpoint.scope(|scope| {
            let mut sends: Vec<_> = Vec::new();
            if rng.bool() {
                sends.extend(sent.iter().map(|s| scope.isend(Vectored::new(s), other, 1).unwrap()));
            }
            let mut receives = Vec::new();
            for room in &mut rooms {
                receives.push(scope.irecv(Vectored::new_mut(room), other, 1).unwrap());
            }
            if sends.is_empty() {
                sends.extend(sent.iter().map(|s| scope.isend(Vectored::new(s), other, 1).unwrap()));
            }
            for (receive, (length, capacity)) in
                receives.into_iter().zip(lengths.iter().zip(&capacities))
            {
                match receive.wait() {
                    Ok(status) => assert!(status.bytes == *length && length <= capacity),
                    Err(Error::Fault(Fault::Truncated { message, .. })) => {
                        assert!(message == *length && length > capacity);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            wait_all(&mut sends).unwrap();
        });
        drop(rooms);
        for (number, room) in incoming.iter().enumerate() {
            let bytes = room.bytes();
            let came = bytes.len().min(lengths[number]);
            let wrong = payload::first_difference(id(other, number), &bytes[..came / 8 * 8]);
            assert_eq!(wrong, None, "message {number} of window {window}, seed {seed}");
            assert!(bytes[came..].iter().all(|byte| *byte == 0));
        }
    }
}

/// Plays the exchange on a device, with every way and either side first.
fn play(name: &'static str, device: &'static str) {
    for (way, rendezvous) in
        [("read", "plain"), ("write", "plain"), ("auto", "plain"), ("auto", "speculative")]
    {
        let job = Ranks::new(2, name).on_nodes(2).with("STRAIT_HCA", device);
        let job = job.with("STRAIT_NET_LMT", way).with("STRAIT_RENDEZVOUS", rendezvous);
        job.with("STRAIT_STREAM_MAX", 2000).run(|world| {
            (1..4).for_each(|seed| exchange(&world, seed));
            assert!(world.remote_transfers().scattered > 0);
            world.finalize().unwrap();
        });
    }
}

#[test]
fn messages_in_drawn_parts_by_copies() {
    play("messages_in_drawn_parts_by_copies", DEVICES[0]);
}

#[test]
fn messages_in_drawn_parts_by_a_thread() {
    play("messages_in_drawn_parts_by_a_thread", DEVICES[1]);
}

#[test]
fn messages_in_drawn_parts_by_iwarp() {
    play("messages_in_drawn_parts_by_iwarp", DEVICES[2]);
}

/// A rank dies while messages in several parts to it and from it are under way.
#[test]
fn a_rank_dies_while_parts_are_read_or_written() {
    const MANY: usize = 4 << 20;
    for (way, rendezvous) in [("read", "plain"), ("write", "plain"), ("auto", "speculative")] {
        let name = "a_rank_dies_while_parts_are_read_or_written";
        let job = Ranks::new(2, name).on_nodes(2).with("STRAIT_HCA", "soft-engine");
        let job = job.with("STRAIT_NET_LMT", way).with("STRAIT_RENDEZVOUS", rendezvous);
        job.with_deaths(&[1]).run(|world| {
            let (endpoint, other) = (world.endpoint(), 1 - world.rank());
            let (memory, mut room) = (vec![1_u8; MANY + 256], vec![0_u8; MANY]);
            let parts: Vec<_> = memory.chunks(MANY / 64 + 4).map(|c| &c[..MANY / 64]).collect();
            let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let data = Vectored::new(&slices[..64]);
            // From now on receives that are posted first send RTRs. The other rank may be dead
            // before the survivor looks at any of its operations.
            let first = endpoint.sendrecv(data, other, 1, &mut room, other, 1);
            first.map_or_else(assert_failed, drop);
            endpoint.scope(|scope| {
                let receive = scope.irecv(&mut room, other, 1);
                let send = scope.isend(data, other, 1);
                if world.rank() == 1 {
                    (0..6).for_each(|_| endpoint.progress().unwrap());
                    die();
                }
                for started in [receive, send] {
                    let outcome = started.and_then(strait::Request::wait);
                    outcome.map_or_else(assert_failed, drop);
                }
            });
            assert_failed(endpoint.recv(&mut [0_u8], 1, 2).unwrap_err());
            world.finalize().unwrap();
        });
    }
}

fn assert_failed(error: Error) {
    assert!(matches!(error, Error::Fault(Fault::PeerFailed { rank: 1, .. })), "{error}");
}
