//! Faults of a device, which a wrapper injects, and what the tracer reports of them.

use core::cell::RefCell;
use core::ptr::NonNull;
use std::rc::Rc;

use strait::hca::soft::{Fabric, SoftHca, SoftMode};
use strait_core::hca::fault::{Faults, Faulty};
use strait_core::hca::trace::{TraceEvent, Traced};
use strait_core::hca::{
    Access, Completion, Connection, Done, Hca, Operation, PostError, Readiness, Region,
    RemoteAddress, Sge, WorkError, WorkRequest,
};

/// Two devices on one thread, the first with a wrapper around it, and a connection between them.
struct Pair<D> {
    one: D,
    other: SoftHca,
    link: Connection,
    back: Connection,
    memory: Box<[u64; 8]>,
    region: Region,
    target: Region,
}

impl<D: Hca> Pair<D> {
    fn new(wrap: impl FnOnce(SoftHca) -> D) -> Self {
        let fabric = Fabric::create(2).unwrap();
        let attach = |rank| SoftHca::attach(&fabric, rank, SoftMode::Inline).unwrap();
        let (mut one, mut other) = (wrap(attach(0)), attach(1));
        let (link, to_one) = one.open(1).unwrap();
        let (back, to_other) = other.open(0).unwrap();
        assert_eq!(one.connect(link, &to_other), Ok(Readiness::Pending));
        assert_eq!(other.connect(back, &to_one), Ok(Readiness::Ready));
        assert_eq!(one.connect(link, &to_other), Ok(Readiness::Ready));
        let mut memory = Box::new([0; 8]);
        let base = NonNull::from(&mut *memory).cast();
        // SAFETY: the memory is freed after the devices.
        let (region, target) = unsafe {
            (one.register(base, 64, Access::ALL).unwrap(), other.register(base, 64, Access::ALL))
        };
        Self { one, other, link, back, memory, region, target: target.unwrap() }
    }

    fn piece(&mut self) -> Sge {
        let base = NonNull::from(&mut *self.memory).cast();
        Sge { base, length: 8, key: self.region.local_key }
    }

    fn far(&self) -> RemoteAddress {
        RemoteAddress { address: self.target.base + 8, key: self.target.remote_key }
    }

    fn post(&mut self, id: u64, operation: Operation<'_>) -> Result<(), PostError> {
        let request = WorkRequest { id, operation, signaled: true, inline: false, fenced: false };
        // SAFETY: the pieces lie in the pair's memory, and nothing else accesses it meanwhile.
        unsafe { self.one.post(self.link, &request) }
    }

    fn write(&mut self, id: u64) -> Result<(), PostError> {
        let (from, to) = ([self.piece()], self.far());
        self.post(id, Operation::Write { from: &from, to })
    }

    fn polled(device: &mut impl Hca) -> Vec<Completion> {
        let empty =
            Completion { id: 0, connection: Connection(0), result: Err(WorkError::Flushed) };
        let mut some = [empty; 16];
        let count = device.poll(&mut some).unwrap();
        some[..count].to_vec()
    }

    fn outcomes(&mut self) -> Vec<(u64, Result<Done, WorkError>)> {
        Self::polled(&mut self.one).iter().map(|one| (one.id, one.result)).collect()
    }
}

/// Every kind of request can get lost, and that breaks its connection on both sides.
#[test]
fn a_lost_request_breaks_its_connection() {
    let everything = Faults { seed: 1, lose: 1_000_000, ..Faults::default() };
    for kind in 0..6 {
        let mut pair = Pair::new(|device| Faulty::new(device, everything));
        let (piece, far) = (pair.piece(), pair.far());
        let pieces = [piece];
        let operation = match kind {
            0 => Operation::Write { from: &pieces, to: far },
            1 => Operation::WriteImmediate { from: &[], to: far, immediate: 3 },
            2 => Operation::Read { into: &pieces, from: far },
            3 => Operation::Send { from: &pieces },
            4 => Operation::Send { from: &[] },
            _ => Operation::FetchAndAdd { result: piece, target: far, addend: 1 },
        };
        pair.post(5, operation).unwrap();
        assert_eq!(pair.outcomes(), [(5, Err(WorkError::Unreachable))], "kind {kind}");
        assert_eq!(pair.write(6), Err(PostError::Broken));
        let request =
            WorkRequest { id: 1, operation, signaled: true, inline: false, fenced: false };
        // SAFETY: the device refuses the request.
        let refused = unsafe { pair.other.post(pair.back, &request) };
        assert_eq!(refused, Err(PostError::Broken));
        assert_eq!(*pair.memory, [0; 8], "it took no effect");
    }
}

#[test]
fn the_request_that_is_named_breaks_the_connection() {
    let third = Faults { break_at: Some(2), ..Faults::default() };
    let mut pair = Pair::new(|device| Faulty::new(device, third));
    for id in 0..3 {
        pair.write(id).unwrap();
    }
    assert_eq!(pair.write(3), Err(PostError::Broken));
    let written = Ok(Done::Write);
    let expected = [(0, written), (1, written), (2, Err(WorkError::Unreachable))];
    assert_eq!(pair.outcomes(), expected);
}

#[test]
fn a_failure_is_the_one_that_was_asked_for() {
    let error = WorkError::Device { code: 12 };
    let faults = Faults { fail: 1_000_000, error: Some(error), ..Faults::default() };
    let mut pair = Pair::new(|device| Faulty::new(device, faults));
    pair.write(0).unwrap();
    assert_eq!(pair.outcomes(), [(0, Err(error))]);
}

#[test]
fn completions_are_late_and_in_order() {
    let faults = Faults { seed: 3, delay: 500_000, delay_polls: 5, ..Faults::default() };
    let mut pair = Pair::new(|device| Faulty::new(device, faults));
    for id in 0..12 {
        pair.write(id).unwrap();
    }
    let (mut ids, mut polls) = (Vec::new(), 0);
    while ids.len() < 12 {
        ids.extend(pair.outcomes().iter().map(|(id, _)| *id));
        polls += 1;
    }
    assert!(ids.is_sorted() && polls > 2, "{ids:?} after {polls} polls");
}

#[test]
fn a_refused_post_is_as_if_it_had_not_been() {
    let faults = Faults { seed: 4, refuse: 500_000, ..Faults::default() };
    let mut pair = Pair::new(|device| Faulty::new(device, faults));
    let posted: Vec<u64> = (0..100).filter(|id| pair.write(*id).is_ok()).collect();
    assert!((20..80).contains(&posted.len()), "{} were posted", posted.len());
    let mut done = Vec::new();
    while done.len() < posted.len() {
        done.extend(pair.outcomes().iter().map(|(id, _)| *id));
    }
    assert_eq!(done, posted);
}

/// The same seed causes the same faults.
#[test]
fn the_seed_decides() {
    let run = |seed| {
        let faults = Faults { seed, lose: 20_000, refuse: 100_000, ..Faults::default() };
        let mut pair = Pair::new(|device| Faulty::new(device, faults));
        (0..100).map(|id| pair.write(id)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert!((2..20).any(|seed| run(seed) != run(1)));
}

#[test]
fn a_trace_reads_as_what_happened() {
    let told = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&told);
    let mut pair = Pair::new(|device| {
        Traced::new(device, move |event: &TraceEvent| sink.borrow_mut().push(event.to_string()))
    });
    pair.write(7).unwrap();
    pair.outcomes();
    let to = RemoteAddress { key: 0xbad, ..pair.far() };
    let from = [pair.piece()];
    pair.post(8, Operation::Write { from: &from, to }).unwrap();
    pair.outcomes();
    pair.outcomes();
    pair.one.arm().unwrap();
    let (region, link) = (pair.region, pair.link);
    pair.one.deregister(region).unwrap();
    pair.one.close(link).unwrap();
    let told = told.borrow();
    let (base, far) = (region.base, pair.far());
    let expected = [
        "open to rank 1: connection 0".to_owned(),
        "connect 0: pending".to_owned(),
        "connect 0: ready".to_owned(),
        format!(
            "register 64 bytes at {base:#x}: local key {:#x}, remote key {:#x}",
            region.local_key, region.remote_key
        ),
        format!("post on 0: id 7 write, 8 bytes in 1, at {:#x} key {:#x}", far.address, far.key),
        "completion on 0: id 7 written".to_owned(),
        format!("post on 0: id 8 write, 8 bytes in 1, at {:#x} key 0xbad", far.address),
        "completion on 0: id 8 failed: remote access error: memory outside its region, or a wrong \
         or revoked key"
            .to_owned(),
        "arm".to_owned(),
        format!("deregister 64 bytes at {base:#x}"),
        "close 0".to_owned(),
    ];
    assert_eq!(*told, expected);
}
