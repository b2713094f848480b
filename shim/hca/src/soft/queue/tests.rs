//! Tests of the time model, with a clock that the test sets.

use core::ptr::NonNull;

use strait_core::hca::{Done, Operation, RemoteAddress, Sge, WorkRequest};

use super::*;

const LINK: Connection = Connection(0);
const END: EndId = EndId { rank: 0, index: 0, generation: 1 };

const MODEL: TimeModel = TimeModel {
    write: Duration::from_micros(10),
    read: Duration::from_micros(30),
    bytes_per_second: 1_000_000_000,
};

/// A device with one connection, and its clock.
struct Bench {
    queues: Queues,
    start: Instant,
}

impl Bench {
    fn new() -> Self {
        let mut queues = Queues::new(MODEL);
        queues.open(END);
        queues.link(LINK).unwrap().far = Some(BlockEnd { end: EndId { rank: 1, ..END }, pid: 1 });
        Self { queues, start: Instant::now() }
    }

    fn at(&self, micros: u64) -> Instant {
        self.start + Duration::from_micros(micros)
    }

    /// Posts a read or a write of `length` bytes at this time. Its completion has the id `id`.
    fn post(&mut self, micros: u64, id: u64, reads: bool, length: u32, fenced: bool) {
        let piece = [Sge { base: NonNull::dangling(), length, key: 0 }];
        let far = RemoteAddress { address: 0, key: 0 };
        let operation = match reads {
            true => Operation::Read { into: &piece, from: far },
            false => Operation::Write { from: &piece, to: far },
        };
        let request = WorkRequest { id, operation, signaled: true, inline: false, fenced };
        self.queues.post(LINK, SoftWork::new(&request).unwrap(), self.at(micros));
    }

    /// Carries out the next request at the time when it is due. Returns that time and the request's
    /// id.
    fn step(&mut self, tried: Tried) -> (u64, u64) {
        let NextWork::At(due) = self.queues.next(Executor::Device, self.start) else {
            panic!("nothing is due later")
        };
        let NextWork::Now(one) = self.queues.next(Executor::Device, due) else {
            panic!("nothing is due then")
        };
        self.queues.tried(&one, tried, Duration::ZERO, due);
        ((due - self.start).as_micros() as u64, one.work.id)
    }

    fn reported(&mut self) -> Vec<(u64, Result<Done, WorkError>)> {
        let empty = Completion { id: 0, connection: LINK, result: Err(WorkError::Flushed) };
        let mut some = [empty; 64];
        let count = self.queues.take(&mut some);
        some[..count].iter().map(|one| (one.id, one.result)).collect()
    }
}

const GOOD: Tried = Tried::Ended(Ok(()));

#[test]
fn bytes_follow_each_other_on_the_wire() {
    let mut bench = Bench::new();
    bench.post(0, 1, false, 50_000, false);
    bench.post(0, 2, false, 0, false);
    bench.post(100, 3, false, 1000, false);
    assert_eq!(bench.step(GOOD), (60, 1), "50 µs on the wire and 10 µs of latency");
    assert_eq!(bench.step(GOOD), (60, 2), "behind the first");
    assert_eq!(bench.step(GOOD), (111, 3), "the wire was free again");
    assert!(matches!(bench.queues.next(Executor::Device, bench.at(1000)), NextWork::Nothing));
}

/// The link has a wire each way: read bytes come while written bytes leave.
#[test]
fn bytes_that_leave_and_bytes_that_come_do_not_meet() {
    let mut bench = Bench::new();
    bench.post(0, 1, true, 50_000, false);
    bench.post(0, 2, false, 20_000, false);
    bench.post(0, 3, true, 1000, false);
    assert_eq!(bench.step(GOOD), (30, 2));
    assert_eq!(bench.step(GOOD), (80, 1));
    assert_eq!(bench.step(GOOD), (81, 3), "behind the first");
}

/// A request that is known to take 20 µs starts that much earlier. The owner starts a long one only
/// when it is due.
#[test]
fn bytes_begin_to_move_in_time() {
    let mut bench = Bench::new();
    bench.post(0, 1, false, 50_000, false);
    let NextWork::Now(one) = bench.queues.next(Executor::Device, bench.at(60)) else {
        panic!("not due")
    };
    bench.queues.tried(&one, GOOD, Duration::from_micros(20), bench.at(60));
    bench.post(100, 2, false, 50_000, false);
    let when = |executor| match bench.queues.next(executor, bench.at(100)) {
        NextWork::At(when) => (when - bench.start).as_micros(),
        other => panic!("{other:?}"),
    };
    assert_eq!(when(Executor::Device), 140);
    assert_eq!(when(Executor::Owner), 160);
    let NextWork::Now(two) = bench.queues.next(Executor::Device, bench.at(140)) else {
        panic!("late")
    };
    assert_eq!(two.due, bench.at(160));
}

#[test]
fn a_write_overtakes_a_read_and_is_reported_after_it() {
    let mut bench = Bench::new();
    bench.post(0, 1, true, 0, false);
    bench.post(5, 2, false, 0, false);
    assert_eq!(bench.step(GOOD), (15, 2));
    assert_eq!(bench.reported(), []);
    assert_eq!(bench.step(GOOD), (30, 1));
    assert_eq!(bench.reported(), [(1, Ok(Done::Read)), (2, Ok(Done::Write))]);
}

#[test]
fn a_read_does_not_overtake_a_write() {
    let mut bench = Bench::new();
    bench.post(0, 1, false, 100_000, false);
    bench.post(0, 2, true, 0, false);
    assert_eq!(bench.step(GOOD), (110, 1));
    assert_eq!(bench.step(GOOD), (130, 2));
}

#[test]
fn a_fenced_request_starts_when_the_reads_are_done() {
    let mut bench = Bench::new();
    bench.post(0, 1, true, 0, false);
    bench.post(0, 2, false, 0, true);
    bench.post(0, 3, false, 0, false);
    assert_eq!(bench.step(GOOD), (30, 1));
    assert_eq!(bench.step(GOOD), (40, 2));
    assert_eq!(bench.step(GOOD), (40, 3), "requests behind it wait too");
}

#[test]
fn no_more_reads_are_in_flight_than_the_limit() {
    let mut bench = Bench::new();
    for id in 0..u64::from(READS) + 2 {
        bench.post(0, id, true, 0, false);
    }
    for id in 0..u64::from(READS) {
        assert_eq!(bench.step(GOOD), (30, id));
    }
    assert_eq!(bench.step(GOOD), (60, READS.into()));
    assert_eq!(bench.step(GOOD), (60, u64::from(READS) + 1));
}

/// A failure waits for requests posted before it, and flushes those posted after it.
#[test]
fn a_failure_is_reported_in_its_turn() {
    let mut bench = Bench::new();
    bench.post(0, 1, true, 0, false);
    bench.post(0, 2, false, 0, false);
    bench.post(0, 3, false, 0, false);
    let bad = WorkError::RemoteAccess;
    assert_eq!(bench.step(Tried::Ended(Err(bad))), (10, 2));
    assert_eq!(bench.reported(), []);
    assert_eq!(bench.step(GOOD), (30, 1), "the third is not carried out");
    let expected = [(1, Ok(Done::Read)), (2, Err(bad)), (3, Err(WorkError::Flushed))];
    assert_eq!(bench.reported(), expected);
    assert!(bench.queues.link(LINK).unwrap().is_broken());
    assert!(!bench.queues.is_busy());
}

#[test]
fn a_peer_without_a_receive_is_tried_again_and_then_given_up() {
    let mut bench = Bench::new();
    bench.post(0, 1, false, 0, false);
    let mut times = Vec::new();
    while bench.queues.is_busy() {
        times.push(bench.step(Tried::NotReady).0);
    }
    let expected: Vec<u64> =
        (0..=u64::from(DEVICE_RETRIES)).map(|n| 10 + ((1 << n) - 1) * 1000).collect();
    assert_eq!(times, expected);
    assert_eq!(bench.reported(), [(1, Err(WorkError::NotReady))]);
}
