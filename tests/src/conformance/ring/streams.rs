//! Random traffic in all directions at once, and the check of its results.

use fastrand::Rng;
use strait_core::ring::LinkError;

use crate::payload;
use strait_sim::{Mesh, Rig};

/// The bytes from one rank to another.
#[derive(Debug)]
pub struct Stream {
    /// Source and destination.
    pub way: (u32, u32),
    bytes: Vec<u8>,
    put: usize,
    /// End of the bytes that calls of `put` have named, counted or not: a large part arrives before
    /// it is counted.
    named: usize,
    got: Vec<u8>,
    received: usize,
    /// The bytes that the last `put` and the last `get` named and that are not counted yet.
    putting: Option<Call>,
    getting: Option<Call>,
    /// The error of the source's end.
    pub put_error: Option<LinkError>,
    /// The error of the destination's end.
    pub get_error: Option<LinkError>,
}

/// Positions at which parts of a call end. The last is the end of the call.
type Call = Vec<usize>;

/// Streams between each two ranks of a mesh, played in an order drawn from a seed.
#[derive(Debug)]
pub struct Traffic {
    /// The streams, by source and destination.
    pub streams: Vec<Stream>,
    rng: Rng,
    /// Length of the longest `put` or `get`, in bytes.
    longest: usize,
    /// Number of consecutive turns without an event.
    quiet: u32,
}

impl Stream {
    /// Returns whether no more bytes are to be put or got.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let put = self.put == self.bytes.len() || self.put_error.is_some();
        put && (self.received == self.bytes.len() || self.get_error.is_some())
    }

    /// Returns whether all bytes have arrived.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.received == self.bytes.len()
    }

    /// Asserts that the bytes that have arrived are the beginning of those that were put.
    pub(super) fn assert_right(&self) {
        assert!(self.received <= self.named, "{:?}: more came out than went in", self.way);
        let differs = |at: &usize| self.got[*at] != self.bytes[*at];
        let first = (0..self.received).find(differs);
        assert_eq!(first, None, "{:?}: of {} bytes one differs", self.way, self.received);
    }

    /// Returns whether every byte that has arrived is the one that was put.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.got[..self.received] == self.bytes[..self.received]
    }
}

impl Traffic {
    /// Draws a stream of up to `most` bytes in each direction, in calls of up to `longest` bytes.
    #[must_use]
    pub fn drawn(seed: u64, ranks: u32, most: usize, longest: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let ways = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let stream = |way: (u32, u32)| {
            let length = rng.usize(..=most);
            Stream {
                way,
                bytes: payload::of(u64::from(way.0 << 16 | way.1), length),
                put: 0,
                named: 0,
                got: vec![0; length],
                received: 0,
                putting: None,
                getting: None,
                put_error: None,
                get_error: None,
            }
        };
        let streams = ways.filter(|(from, to)| from != to).map(stream).collect();
        Self { streams, rng, longest, quiet: 0 }
    }

    /// Plays until every stream has ended, then drains the links that have not failed.
    ///
    /// # Panics
    ///
    /// When a byte is wrong, or nothing happens any more.
    pub fn play<R: Rig>(&mut self, mesh: &mut Mesh<R>) {
        while !self.streams.iter().all(Stream::has_ended) {
            self.turn(mesh);
        }
        self.streams.iter().for_each(Stream::assert_right);
    }

    /// Lets every link that has not failed transfer the last of its bytes.
    ///
    /// # Panics
    ///
    /// When that never ends, or another link fails.
    pub fn drain<R: Rig>(&mut self, mesh: &mut Mesh<R>) {
        self.quiet = 0;
        loop {
            let mut done = true;
            for Stream { way, put_error, .. } in &self.streams {
                let (link, device) = mesh.end(way.0, way.1);
                done &= put_error.is_some() || link.drain(device).unwrap();
            }
            if done {
                return;
            }
            let ranks = mesh.nodes.len() as u32;
            let polled = (0..ranks).map(|rank| mesh.poll(rank)).filter(|polled| *polled).count();
            self.count(mesh.rig.pass() || polled > 0);
        }
    }

    /// Takes one turn of a rank, or of the rig.
    ///
    /// # Panics
    ///
    /// When nothing has happened for too long.
    pub fn turn<R: Rig>(&mut self, mesh: &mut Mesh<R>) {
        let number = self.rng.usize(..self.streams.len());
        let moved = match self.rng.u32(..8) {
            0 | 1 => self.put(mesh, number),
            2 | 3 => self.get(mesh, number),
            4 => mesh.poll(self.rng.u32(..mesh.nodes.len() as u32)),
            _ => (0..self.rng.u32(..6)).fold(false, |passed, _| mesh.rig.pass() || passed),
        };
        self.count(moved);
    }

    /// Makes one call for each stream from and to `rank`. Returns whether any byte moved.
    pub fn visit<R: Rig>(&mut self, mesh: &mut Mesh<R>, rank: u32) -> bool {
        (0..self.streams.len()).fold(false, |moved, number| {
            let (from, to) = self.streams[number].way;
            moved
                | (from == rank && self.put(mesh, number))
                | (to == rank && self.get(mesh, number))
        })
    }

    fn put<R: Rig>(&mut self, mesh: &mut Mesh<R>, number: usize) -> bool {
        let stream = &mut self.streams[number];
        let (at, length) = (stream.put, stream.bytes.len());
        let call = stream.putting.take();
        let call = call.unwrap_or_else(|| drawn_call(&mut self.rng, self.longest, at, length));
        let (end, cuts) = lengths(&call, at);
        stream.named = stream.named.max(end);
        match mesh.put(stream.way, &stream.bytes[at..end], &cuts) {
            Ok(bytes) => {
                stream.put += bytes;
                stream.putting = (stream.put < end).then_some(call);
                // A call without bytes is followed by others.
                bytes > 0 || (at == end && end < length)
            }
            Err(error) => {
                assert_eq!(error.peer, stream.way.1, "an error names its peer");
                stream.put_error.replace(error).is_none()
            }
        }
    }

    fn get<R: Rig>(&mut self, mesh: &mut Mesh<R>, number: usize) -> bool {
        let stream = &mut self.streams[number];
        let (at, length) = (stream.received, stream.bytes.len());
        let call = stream.getting.take();
        let call = call.unwrap_or_else(|| drawn_call(&mut self.rng, self.longest, at, length));
        let (end, cuts) = lengths(&call, at);
        match mesh.get(stream.way, &mut stream.got[at..end], &cuts) {
            Ok(bytes) => {
                stream.received += bytes;
                stream.getting = (stream.received < end).then_some(call);
                bytes > 0 || (at == end && end < length)
            }
            Err(error) => {
                assert_eq!(error.peer, stream.way.0, "an error names its peer");
                stream.get_error.replace(error).is_none()
            }
        }
    }

    fn count(&mut self, moved: bool) {
        self.quiet = if moved { 0 } else { self.quiet + 1 };
        assert!(self.quiet < 20_000, "nothing happens any more: {:#?}", self.state());
    }

    /// Returns whether nothing has happened for some time.
    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        self.quiet > 2_000
    }

    fn state(&self) -> Vec<((u32, u32), usize, usize, usize)> {
        let state = |s: &Stream| (s.way, s.bytes.len(), s.put, s.received);
        self.streams.iter().map(state).collect()
    }
}

/// Draws a call for some bytes of a stream from `at` on, in a few parts.
fn drawn_call(rng: &mut Rng, longest: usize, at: usize, length: usize) -> Call {
    let longest = if rng.bool() { longest } else { longest.min(64) };
    let end = length.min(at + rng.usize(..=longest));
    let mut call: Call = (0..rng.usize(..3)).map(|_| rng.usize(at..=end)).collect();
    call.push(end);
    call.sort_unstable();
    call
}

/// Returns the end of a call, and the lengths of its remaining parts except the last when `at` is
/// reached.
fn lengths(call: &Call, at: usize) -> (usize, Vec<usize>) {
    let mut from = at;
    let (end, cuts) = call.split_last().unwrap();
    let cuts = cuts.iter().filter(|cut| **cut >= at);
    let cuts = cuts.map(|cut| cut - core::mem::replace(&mut from, *cut)).collect();
    (*end, cuts)
}
