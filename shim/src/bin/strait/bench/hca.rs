//! `strait bench hca`: what the bare RDMA device does, for what is built on it to be held against.

use core::alloc::Layout;
use core::error::Error;
use core::ptr::NonNull;
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use strait::env;
use strait::hca::soft::{Fabric, Mode, SoftHca, TimeModel};
use strait::hca::{Choice, Demand, Device};
use strait_core::hca::{
    Access, Address, Atomics, Completion, Connection, Done, Hca, Operation, Piece, PostError,
    Readiness, Region, Remote, WorkError, WorkRequest,
};

use super::report::{Report, Row};
use super::sampling::Effort;
use super::stage::{Side, Stage};
use super::stats::{self, Summary, time};

const TAG: u32 = 7;

/// Writes that are under way together.
const WINDOW: usize = 64;

/// Receives that the follower keeps posted.
const POSTED: u64 = 512;

/// Messages that the follower confirms together. A leader that is two such batches ahead waits.
const BATCH: u64 = POSTED / 2;

/// How long a sample should take, nanoseconds.
const TARGET: f64 = 200_000.0;

/// What is done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verb {
    Write,
    Read,
    Send,
    Atomic,
}

impl Verb {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Write, "write"),
        (Self::Read, "read"),
        (Self::Send, "send"),
        (Self::Atomic, "fetch-and-add"),
    ];
}

/// The devices to measure: the one that was asked for, or those in software that differ in time.
pub(super) fn devices() -> Result<Vec<Choice>, Box<dyn Error>> {
    Ok(match env::hca()? {
        None | Some(Choice::None) => {
            [Mode::Inline, Mode::Engine(TimeModel::INFINIBAND_2004)].map(Choice::Soft).into()
        }
        Some(choice) => vec![choice],
    })
}

/// This rank's device. In software it is on a fabric that all ranks have in common.
pub(super) fn open(stage: &Stage<'_>, choice: &Choice) -> Result<Device, Box<dyn Error>> {
    match choice {
        Choice::None => Err("no device".into()),
        Choice::Soft(mode) => {
            let fabric = share_fabric(stage)?;
            Ok(Device::Soft(SoftHca::attach(&fabric, stage.rank(), *mode)?))
        }
        Choice::Verbs(rails) => {
            let demand = Demand { connections: 4, receives: POSTED as u32, memory: 0 };
            Ok(Device::verbs(rails, env::hca_gid()?, stage.rank(), demand)?)
        }
    }
}

/// Measurements at so many sizes.
pub(super) fn steps(sizes: usize) -> Result<usize, Box<dyn Error>> {
    // Writes, reads and sends of each size, writes in a row, and one atomic.
    Ok(devices()?.len() * (4 * sizes + 1))
}

pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    sizes: &[usize],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&["device", "operation", "bytes", "min", "p50", "p99"]);
    for choice in devices()? {
        let longest = sizes.iter().copied().max().unwrap_or(0).max(8);
        let device = open(stage, &choice)?;
        let has_atomics = device.capabilities().atomics != Atomics::None;
        let mut bench = Bench::connect(stage, device, longest)?;
        let verbs = Verb::ALL.into_iter().filter(|(verb, _)| has_atomics || *verb != Verb::Atomic);
        for (verb, name) in verbs {
            let sizes = if verb == Verb::Atomic { &[8] } else { sizes };
            for &bytes in sizes {
                let costs = bench.measure(stage, effort, verb, bytes, 1)?;
                let all = stage.gather(&costs, stage.pairs())?.concat();
                if let Some(summary) = Summary::of_costs(&all) {
                    tell(report, &choice, name, bytes, "latency", "ns", summary)?;
                }
                report.step();
            }
        }
        for &bytes in sizes {
            let costs = bench.measure(stage, effort, Verb::Write, bytes, WINDOW)?;
            let rates: Vec<f64> = costs.iter().map(|cost| bytes as f64 * 1e3 / cost).collect();
            let all = stats::sum(&stage.gather(&rates, stage.pairs())?);
            if let Some(summary) = Summary::of_gains(&all) {
                tell(report, &choice, "writes", bytes, "bandwidth", "MB/s", summary)?;
            }
            report.step();
        }
        bench.end(stage)?;
    }
    Ok(())
}

fn tell(
    report: &mut Report,
    choice: &Choice,
    name: &'static str,
    bytes: usize,
    metric: &'static str,
    unit: &'static str,
    summary: Summary,
) -> std::io::Result<()> {
    report.row(Row::new("hca", bytes, metric, unit, summary).over(choice).of_variant(name))?;
    let number = |value| match unit {
        "ns" => time(value),
        _ => format!("{value:.0} {unit}"),
    };
    let [min, p50, p99] = [summary.min, summary.p50, summary.p99].map(number);
    report.line([choice.to_string(), name.into(), stats::bytes(bytes), min, p50, p99]);
    Ok(())
}

/// One fabric for all ranks: the first makes it, and the others open it where the first has it.
fn share_fabric(stage: &Stage<'_>) -> Result<OwnedFd, Box<dyn Error>> {
    let fabric = if stage.rank() == 0 {
        let fabric = Fabric::create(stage.ranks())?;
        let place = [u64::from(std::process::id()), fabric.as_raw_fd().try_into()?];
        for rank in 1..stage.ranks() {
            stage.endpoint.send(&place, rank, TAG)?;
        }
        fabric
    } else {
        let mut place = [0_u64; 2];
        stage.endpoint.recv(&mut place, 0, TAG)?;
        let path = format!("/proc/{}/fd/{}", place[0], place[1]);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        file.map_err(|error| format!("rank 0's fabric cannot be opened ({path}): {error}"))?.into()
    };
    // The first keeps its descriptor until all have opened it.
    stage.barrier()?;
    Ok(fabric)
}

/// One rank's device, with a connection to its partner and memory at both ends.
pub(super) struct Bench {
    device: Device,
    link: Connection,
    memory: Memory,
    region: Region,
    far: Remote,
    /// Messages sent by the leader, or received by the follower.
    messages: u64,
    /// Batches of them whose confirmation the leader has.
    confirmed: u64,
}

impl Bench {
    pub(super) fn connect(
        stage: &Stage<'_>,
        mut device: Device,
        bytes: usize,
    ) -> Result<Self, Box<dyn Error>> {
        // The odd one out talks to itself, that is, not at all.
        let partner = if stage.side == Side::Idle { stage.rank() } else { stage.partner };
        let memory = Memory::new(bytes)?;
        // SAFETY: `end` gives the region back before the memory.
        let region = unsafe { device.register(memory.base, bytes, Access::ALL) }?;
        let (link, address) = device.open(partner)?;
        let mut theirs = Address([0; Address::LENGTH]);
        stage.endpoint.sendrecv(&address.0, partner, TAG, &mut theirs.0, partner, TAG)?;
        let mut far = [0; 2];
        let place = [region.base, region.remote_key.into()];
        stage.endpoint.sendrecv(&place, partner, TAG, &mut far, partner, TAG)?;
        while device.connect(link, &theirs)? == Readiness::Pending {
            std::thread::yield_now();
        }
        stage.barrier()?;
        let far = Remote { address: far[0], key: far[1].try_into()? };
        Ok(Self { device, link, memory, region, far, messages: 0, confirmed: 0 })
    }

    pub(super) fn end(mut self, stage: &Stage<'_>) -> Result<(), Box<dyn Error>> {
        if stage.side == Side::Leader {
            self.confirm(stage, 0)?;
        }
        stage.barrier()?;
        self.device.close(self.link)?;
        Ok(self.device.deregister(self.region)?)
    }

    /// Nanoseconds of one operation of `window` that are under way together; the leader's samples.
    fn measure(
        &mut self,
        stage: &Stage<'_>,
        effort: Effort,
        verb: Verb,
        bytes: usize,
        window: usize,
    ) -> Result<Vec<f64>, Box<dyn Error>> {
        let meets = verb == Verb::Send;
        if meets && stage.side == Side::Follower {
            return self.receive(stage).map(|()| Vec::new());
        }
        stage.barrier()?;
        let samples = match stage.side {
            Side::Leader => self.lead(stage, effort, verb, bytes, window)?,
            Side::Follower | Side::Idle => Vec::new(),
        };
        if meets && stage.side == Side::Leader {
            // No message is what ends the follower's part.
            self.windows(stage, Verb::Send, 0, 1, 1)?;
        }
        stage.barrier()?;
        Ok(samples)
    }

    fn lead(
        &mut self,
        stage: &Stage<'_>,
        effort: Effort,
        verb: Verb,
        bytes: usize,
        window: usize,
    ) -> Result<Vec<f64>, Box<dyn Error>> {
        let deadline = Instant::now() + effort.limit;
        let mut rounds = effort.rounds.unwrap_or(1);
        while effort.rounds.is_none() && self.windows(stage, verb, bytes, window, rounds)? < TARGET
        {
            rounds *= 2;
        }
        let mut samples = Vec::with_capacity(effort.samples);
        while samples.is_empty() || samples.len() < effort.samples && Instant::now() < deadline {
            let nanoseconds = self.windows(stage, verb, bytes, window, rounds)?;
            samples.push(nanoseconds / (rounds * window as u64) as f64);
        }
        Ok(samples)
    }

    /// `rounds` windows, each begun when the one before is done. Nanoseconds.
    fn windows(
        &mut self,
        stage: &Stage<'_>,
        verb: Verb,
        bytes: usize,
        window: usize,
        rounds: u64,
    ) -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        for _ in 0..rounds {
            for _ in 0..window {
                if verb == Verb::Send {
                    self.confirm(stage, 1)?;
                    self.messages += 1;
                }
                self.post(verb, bytes)?;
            }
            for _ in 0..window {
                self.next()?;
            }
        }
        Ok(start.elapsed().as_nanos() as f64)
    }

    pub(super) fn post(&mut self, verb: Verb, bytes: usize) -> Result<(), PostError> {
        let piece = [self.piece(bytes)];
        let target = self.far;
        let operation = match verb {
            Verb::Write => Operation::Write { from: &piece, to: target },
            Verb::Read => Operation::Read { into: &piece, from: target },
            Verb::Send => Operation::Send { from: &piece },
            Verb::Atomic => Operation::FetchAndAdd { result: piece[0], target, addend: 1 },
        };
        let request =
            WorkRequest { id: 0, operation, signaled: true, inline: false, fenced: false };
        // SAFETY: pieces of memory that nobody touches as long as there is a device.
        unsafe { self.device.post(self.link, &request) }
    }

    fn piece(&self, bytes: usize) -> Piece {
        // A size is at most that of the memory, which is at most `BYTES_MAX`.
        Piece { base: self.memory.base, length: bytes as u32, key: self.region.local_key }
    }

    /// The next completion, which must be a success.
    pub(super) fn next(&mut self) -> Result<Completion, Box<dyn Error>> {
        let empty = Completion { id: 0, connection: self.link, result: Err(WorkError::Flushed) };
        let mut one = [empty];
        while self.device.poll(&mut one)? == 0 {
            // The device's thread may share our processor.
            std::thread::yield_now();
        }
        one[0].result?;
        Ok(one[0])
    }

    /// Waits until all but `ahead` of the batches sent are confirmed, so that no message meets a follower without receives.
    fn confirm(&mut self, stage: &Stage<'_>, ahead: u64) -> Result<(), strait::Error> {
        while self.confirmed + ahead < self.messages / BATCH {
            stage.endpoint.recv::<u8>(&mut [], stage.partner, TAG)?;
            self.confirmed += 1;
        }
        Ok(())
    }

    /// Receives until a message of no bytes comes.
    fn receive(&mut self, stage: &Stage<'_>) -> Result<(), Box<dyn Error>> {
        let bytes = self.memory.layout.size();
        let piece = self.piece(bytes);
        // SAFETY: as in `post`.
        let post = |device: &mut Device| unsafe { device.post_receive(0, piece) };
        // As many are left posted by an earlier measurement as were posted for it.
        let missing = POSTED - core::mem::replace(&mut self.memory.posted, POSTED);
        (0..missing).try_for_each(|_| post(&mut self.device))?;
        stage.barrier()?;
        loop {
            let received = self.next()?.result;
            post(&mut self.device)?;
            self.messages += 1;
            if self.messages.is_multiple_of(BATCH) {
                stage.endpoint.send::<u8>(&[], stage.partner, TAG)?;
            }
            if received == Ok(Done::Receive { length: 0 }) {
                break;
            }
        }
        stage.barrier()?;
        Ok(())
    }
}

/// Memory for a device.
struct Memory {
    base: NonNull<u8>,
    layout: Layout,
    /// Receives that are posted with it.
    posted: u64,
}

impl Memory {
    fn new(bytes: usize) -> Result<Self, Box<dyn Error>> {
        let layout = Layout::from_size_align(bytes, 4096)?;
        // SAFETY: not of size zero: it holds at least a word.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let base = base.ok_or_else(|| format!("no memory for {bytes} bytes"))?;
        Ok(Self { base, layout, posted: 0 })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: from `new`; the device that knew it is gone, or the region given back.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}
