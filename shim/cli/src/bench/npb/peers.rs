//! The ranks of a kernel, and the messages between them, which are counted.

use core::cell::Cell;
use core::ops::Range;
use std::time::Instant;

use bytemuck::{AnyBitPattern, NoUninit};
use strait::{Endpoint, Error, Op, OwnedRequest, Source, wait_all};

/// The tag of exchanges.
const TAG: u32 = 1;

/// What a rank has sent, and how long it has waited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// Messages of the rank, without those of collective operations.
    pub(super) messages: u64,
    /// Time in calls that wait: collective operations and blocking sends are such calls, too.
    pub(super) waited_ns: f64,
}

/// The ranks of a kernel.
#[derive(Debug)]
pub(super) struct Peers<'world> {
    endpoint: Endpoint<'world>,
    traffic: Cell<Traffic>,
}

impl<'world> Peers<'world> {
    pub(super) fn new(endpoint: Endpoint<'world>) -> Self {
        Self { endpoint, traffic: Cell::default() }
    }

    /// Returns what this rank has sent so far, and how long it has waited.
    pub(super) fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    pub(super) fn rank(&self) -> usize {
        self.endpoint.world().rank() as usize
    }

    pub(super) fn count(&self) -> usize {
        self.endpoint.world().size() as usize
    }

    /// Returns the part of `total` things that belongs to a rank, as a range.
    pub(super) fn part(&self, total: usize, rank: usize) -> Range<usize> {
        total * rank / self.count()..total * (rank + 1) / self.count()
    }

    /// Sums numbers of all ranks.
    pub(super) fn sum(&self, numbers: &mut [f64]) -> Result<(), Error> {
        self.timed(|| self.endpoint.allreduce(numbers, Op::Sum))
    }

    /// Returns the counts of all ranks, in the order of ranks.
    pub(super) fn all_counts(&self, counts: &[u32]) -> Result<Vec<u32>, Error> {
        let mut all = vec![0; counts.len() * self.count()];
        self.timed(|| self.endpoint.everyone().allgather(counts, &mut all))?;
        Ok(all)
    }

    /// Sends numbers to a peer, and waits until they may be changed.
    pub(super) fn send(&self, numbers: &[f64], peer: usize, tag: u32) -> Result<(), Error> {
        self.count_message();
        self.timed(|| self.endpoint.send(numbers, peer as u32, tag))
    }

    /// Receives numbers from a peer.
    pub(super) fn recv(&self, numbers: &mut [f64], peer: usize, tag: u32) -> Result<(), Error> {
        self.timed(|| self.endpoint.recv(numbers, peer as u32, tag).map(drop))
    }

    /// Starts a send.
    pub(super) fn start_send<T: NoUninit>(
        &self,
        data: Vec<T>,
        peer: usize,
        tag: u32,
    ) -> Result<OwnedRequest<'world, T>, Error> {
        self.count_message();
        self.endpoint.isend_owned(data, peer as u32, tag)
    }

    /// Starts a receive of this many elements.
    pub(super) fn start_recv<T: NoUninit + AnyBitPattern>(
        &self,
        length: usize,
        source: Source,
        tag: u32,
    ) -> Result<OwnedRequest<'world, T>, Error> {
        self.endpoint.irecv_owned(vec![T::zeroed(); length], source, tag)
    }

    /// Waits for a send or a receive, and returns its buffer.
    pub(super) fn finish<T>(&self, request: OwnedRequest<'_, T>) -> Result<Vec<T>, Error> {
        self.timed(|| {
            let (buffer, outcome) = request.wait();
            outcome.map(|_| buffer)
        })
    }

    /// Sends to a peer while it sends to this rank.
    pub(super) fn exchange<T: NoUninit + AnyBitPattern>(
        &self,
        peer: usize,
        out: &[T],
        into: &mut [T],
    ) -> Result<(), Error> {
        let peer = peer as u32;
        self.count_message();
        self.endpoint.scope(|scope| {
            let receive = scope.irecv(into, peer, TAG)?;
            let send = scope.isend(out, peer, TAG)?;
            self.timed(|| wait_all(&mut [receive, send]).map(drop))
        })
    }

    /// Lets every rank have the parts of all others: in rounds in which what is known doubles.
    pub(super) fn gather(&self, all: &mut [f64]) -> Result<(), Error> {
        let (own, total) = (self.rank(), all.len());
        let mut known = 1;
        while known < self.count() {
            let peer = own ^ known;
            let bounds = |rank: usize| {
                let first = rank / known * known;
                self.part(total, first).start..self.part(total, first + known - 1).end
            };
            let out = all[bounds(own)].to_vec();
            self.exchange(peer, &out, &mut all[bounds(peer)])?;
            known *= 2;
        }
        Ok(())
    }

    /// Returns whether the keys of all ranks are in order, and `total` in number.
    pub(super) fn are_sorted(&self, keys: &[u32], total: usize) -> Result<bool, Error> {
        // The bounds of each rank's keys, and the number of keys on ranks where they are in order.
        let mut all = vec![0.0; 2 * self.count() + 1];
        if let [first, ..] = keys {
            all[2 * self.rank()] = f64::from(*first);
            all[2 * self.rank() + 1] = keys.last().map_or(0.0, |last| f64::from(*last));
        }
        all[2 * self.count()] = if keys.is_sorted() { keys.len() as f64 } else { 0.0 };
        self.sum(&mut all)?;
        let count = all.pop().unwrap_or_default();
        Ok(all.is_sorted() && count as usize == total)
    }

    fn count_message(&self) {
        let traffic = self.traffic.get();
        self.traffic.set(Traffic { messages: traffic.messages + 1, ..traffic });
    }

    /// Adds the time of a call that waits.
    fn timed<R>(&self, call: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = call();
        let traffic = self.traffic.get();
        let waited_ns = traffic.waited_ns + start.elapsed().as_nanos() as f64;
        self.traffic.set(Traffic { waited_ns, ..traffic });
        result
    }
}
