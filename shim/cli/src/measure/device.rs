//! A bare RDMA device for each rank of a pair, as a limit for everything above it.

use core::alloc::Layout;
use core::error::Error;
use core::ptr::NonNull;
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use strait::env;
use strait::hca::soft::{Fabric, SoftHca, SoftMode, TimeModel};
use strait::hca::{Demand, Device, DeviceChoice};
use strait_core::hca::{
    Access, Address, Atomics, Completion, Connection, Done, Hca, Operation, PostError, Readiness,
    Region, RemoteAddress, Sge, WorkError, WorkRequest,
};

use super::sampling::Effort;
use super::stage::{BenchStage, StageSide};

const TAG: u32 = 7;

/// Number of writes in flight together.
pub(crate) const WRITES: usize = 64;

/// Number of receives that the follower keeps posted.
const POSTED: u64 = 512;

/// Number of messages that the follower confirms together. A leader that is two batches ahead
/// waits.
const BATCH: u64 = POSTED / 2;

/// Target time of a sample, in nanoseconds.
const TARGET: f64 = 200_000.0;

/// The measured operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DeviceVerb {
    Write,
    Read,
    Send,
    Atomic,
}

impl DeviceVerb {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Write, "write"),
        (Self::Read, "read"),
        (Self::Send, "send"),
        (Self::Atomic, "fetch-and-add"),
    ];
}

/// Returns the devices to measure: the requested one, or the software devices that differ in time.
pub(crate) fn devices() -> Result<Vec<DeviceChoice>, Box<dyn Error>> {
    Ok(match env::hca()? {
        None | Some(DeviceChoice::None) => {
            [SoftMode::Inline, SoftMode::Engine(TimeModel::INFINIBAND_2004)]
                .map(DeviceChoice::Soft)
                .into()
        }
        Some(choice) => vec![choice],
    })
}

/// Opens this rank's device. A software device is on a fabric that all ranks share.
pub(crate) fn open(
    stage: &BenchStage<'_>,
    choice: &DeviceChoice,
) -> Result<Device, Box<dyn Error>> {
    match choice {
        DeviceChoice::None => Err("no device".into()),
        DeviceChoice::Soft(mode) => {
            let fabric = share_fabric(stage)?;
            Ok(Device::Soft(SoftHca::attach(&fabric, stage.rank(), *mode)?))
        }
        DeviceChoice::SoftAnd(..) => Err("measure each of the two devices by itself".into()),
        DeviceChoice::Verbs(rails) => {
            let demand = Demand { connections: 4, receives: POSTED as u32, memory: 0 };
            Ok(Device::verbs(rails, env::hca_gid()?, stage.rank(), demand)?)
        }
    }
}

/// Makes one fabric for all ranks. The first rank makes it, and the others open the first rank's
/// descriptor.
fn share_fabric(stage: &BenchStage<'_>) -> Result<OwnedFd, Box<dyn Error>> {
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
    // The first rank keeps its descriptor open until all have opened it.
    stage.barrier()?;
    Ok(fabric)
}

/// One rank's device, with a connection to its partner and memory at both ends.
pub(crate) struct DeviceBench {
    device: Device,
    link: Connection,
    memory: DeviceMemory,
    region: Region,
    far: RemoteAddress,
    /// Number of messages that the leader sent or the follower received.
    messages: u64,
    /// Number of batches of which the leader has the confirmation.
    confirmed: u64,
}

impl DeviceBench {
    pub(crate) fn connect(
        stage: &BenchStage<'_>,
        mut device: Device,
        bytes: usize,
    ) -> Result<Self, Box<dyn Error>> {
        // A rank without a partner connects to itself, and sends nothing.
        let partner = if stage.side == StageSide::Idle { stage.rank() } else { stage.partner };
        let memory = DeviceMemory::new(bytes)?;
        // SAFETY: `end` releases the region before the memory.
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
        let far = RemoteAddress { address: far[0], key: far[1].try_into()? };
        Ok(Self { device, link, memory, region, far, messages: 0, confirmed: 0 })
    }

    /// Returns whether the device has atomic operations.
    pub(crate) fn has_atomics(&self) -> bool {
        self.device.capabilities().atomics != Atomics::None
    }

    pub(crate) fn end(mut self, stage: &BenchStage<'_>) -> Result<(), Box<dyn Error>> {
        if stage.side == StageSide::Leader {
            self.confirm(stage, 0)?;
        }
        stage.barrier()?;
        self.device.close(self.link)?;
        Ok(self.device.deregister(self.region)?)
    }

    /// Measures one operation of `window` in flight together, in nanoseconds. The leader gets
    /// samples.
    pub(crate) fn measure(
        &mut self,
        stage: &BenchStage<'_>,
        effort: Effort,
        verb: DeviceVerb,
        bytes: usize,
        window: usize,
    ) -> Result<Vec<f64>, Box<dyn Error>> {
        let meets = verb == DeviceVerb::Send;
        if meets && stage.side == StageSide::Follower {
            return self.receive(stage).map(|()| Vec::new());
        }
        stage.barrier()?;
        let samples = match stage.side {
            StageSide::Leader => self.lead(stage, effort, verb, bytes, window)?,
            StageSide::Follower | StageSide::Idle => Vec::new(),
        };
        if meets && stage.side == StageSide::Leader {
            // An empty message ends the follower's part.
            self.windows(stage, DeviceVerb::Send, 0, 1, 1)?;
        }
        stage.barrier()?;
        Ok(samples)
    }

    fn lead(
        &mut self,
        stage: &BenchStage<'_>,
        effort: Effort,
        verb: DeviceVerb,
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

    /// Performs `rounds` windows, each after the previous one is complete. Returns nanoseconds.
    fn windows(
        &mut self,
        stage: &BenchStage<'_>,
        verb: DeviceVerb,
        bytes: usize,
        window: usize,
        rounds: u64,
    ) -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        for _ in 0..rounds {
            for _ in 0..window {
                if verb == DeviceVerb::Send {
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

    pub(crate) fn post(&mut self, verb: DeviceVerb, bytes: usize) -> Result<(), PostError> {
        let piece = [self.piece(bytes)];
        let target = self.far;
        let operation = match verb {
            DeviceVerb::Write => Operation::Write { from: &piece, to: target },
            DeviceVerb::Read => Operation::Read { into: &piece, from: target },
            DeviceVerb::Send => Operation::Send { from: &piece },
            DeviceVerb::Atomic => Operation::FetchAndAdd { result: piece[0], target, addend: 1 },
        };
        let request =
            WorkRequest { id: 0, operation, signaled: true, inline: false, fenced: false };
        // SAFETY: the buffers are parts of memory that is not accessed while the device exists.
        unsafe { self.device.post(self.link, &request) }
    }

    fn piece(&self, bytes: usize) -> Sge {
        // A size is at most the size of the memory, which is at most `BYTES_MAX`.
        Sge { base: self.memory.base, length: bytes as u32, key: self.region.local_key }
    }

    /// Returns the next completion, which must be a success.
    pub(crate) fn next(&mut self) -> Result<Completion, Box<dyn Error>> {
        let empty = Completion { id: 0, connection: self.link, result: Err(WorkError::Flushed) };
        let mut one = [empty];
        while self.device.poll(&mut one)? == 0 {
            // The device's thread may share this processor.
            std::thread::yield_now();
        }
        one[0].result?;
        Ok(one[0])
    }

    /// Waits until all batches but `ahead` are confirmed, so that each message finds a posted
    /// receive.
    fn confirm(&mut self, stage: &BenchStage<'_>, ahead: u64) -> Result<(), strait::Error> {
        while self.confirmed + ahead < self.messages / BATCH {
            stage.endpoint.recv::<[u8]>(&mut [], stage.partner, TAG)?;
            self.confirmed += 1;
        }
        Ok(())
    }

    /// Receives until an empty message arrives.
    fn receive(&mut self, stage: &BenchStage<'_>) -> Result<(), Box<dyn Error>> {
        let bytes = self.memory.layout.size();
        let piece = self.piece(bytes);
        // SAFETY: the buffers are parts of memory that is not accessed while the device exists.
        let post = |device: &mut Device| unsafe { device.post_receive(0, piece) };
        // An earlier measurement leaves as many receives posted as were posted for it.
        let missing = POSTED - core::mem::replace(&mut self.memory.posted, POSTED);
        (0..missing).try_for_each(|_| post(&mut self.device))?;
        stage.barrier()?;
        loop {
            let received = self.next()?.result;
            post(&mut self.device)?;
            self.messages += 1;
            if self.messages.is_multiple_of(BATCH) {
                stage.endpoint.send::<[u8]>(&[], stage.partner, TAG)?;
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
struct DeviceMemory {
    base: NonNull<u8>,
    layout: Layout,
    /// Number of receives that are posted with it.
    posted: u64,
}

impl DeviceMemory {
    fn new(bytes: usize) -> Result<Self, Box<dyn Error>> {
        let layout = Layout::from_size_align(bytes, 4096)?;
        // SAFETY: the size is not zero: it holds at least a word.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let base = base.ok_or_else(|| format!("no memory for {bytes} bytes"))?;
        Ok(Self { base, layout, posted: 0 })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it. The device that used it is gone, or its region is released.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}
