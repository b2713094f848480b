//! Two ranks with a device each, and a link between them.

use core::error::Error;
use core::ptr::NonNull;

use strait::SystemMemory;
use strait::hca::DeviceChoice;
use strait_core::buffer::Part;
use strait_core::engine::{FailureCause, Fault};
use strait_core::hca::{Access, Completion, Connection, Done, Hca, HcaError, Readiness, Region};
use strait_core::regcache::{CacheLimits, Cached, Unwatched};
use strait_core::ring::{Link, LinkAddress, LinkConfig, LinkError, LinkMemory, Operations};

use crate::bench::options::WINDOW;
use crate::measure::device::open;
use crate::measure::sampling::Batch;
use crate::measure::stage::{BenchStage, TAG};
use crate::output::complain;
use crate::payload::{self, Mismatch};

/// A device with a registration cache.
pub(super) type CachedDevice = Cached<strait::hca::Device, Unwatched, SystemMemory>;

/// Opens this rank's device.
pub(super) fn device(
    stage: &BenchStage<'_>,
    choice: &DeviceChoice,
) -> Result<CachedDevice, Box<dyn Error>> {
    let device = open(stage, choice)?;
    let limits = CacheLimits { entries: 64, bytes: 1 << 30 };
    // SAFETY: `AlignedBuffer` invalidates its registration before it is dropped.
    Ok(unsafe { Cached::new(device, Unwatched, SystemMemory, limits) }?)
}

/// Passes `own` to the partner, and returns its counterpart.
pub(super) fn swap<const N: usize>(
    stage: &BenchStage<'_>,
    own: [u32; N],
) -> Result<[u32; N], strait::Error> {
    let mut theirs = [0; N];
    stage.endpoint.sendrecv(&own, stage.partner, TAG, &mut theirs, stage.partner, TAG)?;
    Ok(theirs)
}

/// Reports a failure of the device, and ends the measurement as if the partner had died. A bench
/// has no error of its own that the transport could take.
pub(super) fn gone(stage: &BenchStage<'_>, error: &dyn Error) -> strait::Error {
    complain(error);
    strait::Error::Fault(Fault::PeerFailed { rank: stage.partner, sign: FailureCause::Ended })
}

/// Memory of the bench, aligned to a cache line.
#[derive(Debug)]
pub(super) struct AlignedBuffer(Vec<AlignedLine>);

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct AlignedLine(#[expect(dead_code, reason = "reached through pointers alone")] [u8; 64]);

impl AlignedBuffer {
    pub(super) fn new(bytes: usize) -> Self {
        Self(vec![AlignedLine([0; 64]); bytes.div_ceil(64)])
    }

    pub(super) fn base(&mut self) -> NonNull<u8> {
        NonNull::from(self.0.as_mut_slice()).cast()
    }

    /// Registers the buffer for all kinds of access.
    pub(super) fn register(&mut self, device: &mut CachedDevice) -> Result<Region, HcaError> {
        let bytes = size_of_val(self.0.as_slice());
        // SAFETY: the registration is invalidated before the buffer is dropped
        // (`AlignedBuffer::leave`).
        unsafe { device.register(self.base(), bytes, Access::ALL) }
    }

    /// Releases a registration, even if it is cached.
    pub(super) fn leave(
        &mut self,
        device: &mut CachedDevice,
        region: Region,
    ) -> Result<(), HcaError> {
        device.invalidate(region.base, region.length)?;
        device.deregister(region)
    }
}

/// This rank's end of a link to its partner.
pub(super) struct BenchPipe<'a, 'world> {
    stage: &'a BenchStage<'world>,
    device: &'a mut CachedDevice,
    link: Link,
    memory: AlignedBuffer,
    region: Region,
}

impl<'a, 'world> BenchPipe<'a, 'world> {
    pub(super) fn new(
        stage: &'a BenchStage<'world>,
        device: &'a mut CachedDevice,
        config: LinkConfig,
    ) -> Result<Self, Box<dyn Error>> {
        let mut memory = AlignedBuffer::new(config.bytes());
        let region = memory.register(device)?;
        let lent = LinkMemory {
            base: memory.base(),
            local_key: region.local_key,
            remote_key: region.remote_key,
        };
        // SAFETY: the memory stays registered as long as it must, and the link's memory until
        // `close`.
        let (mut link, card) = unsafe { Link::init(device, stage.partner, config, lent) }?;
        let (own, mut theirs) = (card.to_bytes(), [0_u8; LinkAddress::LENGTH]);
        stage.endpoint.sendrecv(&own, stage.partner, TAG, &mut theirs, stage.partner, TAG)?;
        let card = LinkAddress::from_bytes(theirs);
        while link.connect(device, &card)? == Readiness::Pending {}
        stage.barrier()?;
        Ok(Self { stage, device, link, memory, region })
    }

    /// Closes the link, on both sides at once.
    pub(super) fn close(mut self) -> Result<(), Box<dyn Error>> {
        self.settle()?;
        self.stage.barrier()?;
        self.link.finalize(self.device)?;
        Ok(self.memory.leave(self.device, self.region)?)
    }

    pub(super) fn operations(&self) -> Operations {
        self.link.operations()
    }

    /// Waits until the partner has received all bytes that were put.
    fn settle(&mut self) -> Result<(), strait::Error> {
        while !self.link.drain(self.device).map_err(|error| gone(self.stage, &error))? {
            self.poll()?;
        }
        Ok(())
    }

    fn put_all(&mut self, bytes: &mut [u8]) -> Result<(), strait::Error> {
        self.all(bytes, |link, device, part| {
            // SAFETY: the bytes stay borrowed until all of them are counted.
            unsafe { link.put(device, &[part]) }
        })
    }

    fn get_all(&mut self, bytes: &mut [u8]) -> Result<(), strait::Error> {
        self.all(bytes, |link, device, part| {
            // SAFETY: the bytes stay exclusively borrowed until all of them are counted.
            unsafe { link.get(device, &[part]) }
        })
    }

    #[inline]
    fn all(
        &mut self,
        bytes: &mut [u8],
        step: impl Fn(&mut Link, &mut CachedDevice, Part) -> Result<usize, LinkError>,
    ) -> Result<(), strait::Error> {
        let mut part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
        loop {
            let done = step(&mut self.link, self.device, part)
                .map_err(|error| gone(self.stage, &error))?;
            // SAFETY: at most as many bytes are done as the part has.
            part.base = unsafe { part.base.add(done) };
            part.length -= done;
            if part.length == 0 {
                return Ok(());
            }
            self.poll()?;
        }
    }

    fn poll(&mut self) -> Result<(), strait::Error> {
        for completion in poll(self.device).map_err(|error| gone(self.stage, &error))? {
            self.link.handle(&completion);
        }
        Ok(())
    }
}

/// Takes the completed work, up to the capacity of a small array.
pub(super) fn poll(
    device: &mut CachedDevice,
) -> Result<impl Iterator<Item = Completion>, HcaError> {
    let none = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
    let mut completions = [none; 16];
    let count = device.poll(&mut completions)?;
    Ok(completions.into_iter().take(count))
}

/// Messages through a link: there and back, or a window of them in one direction and a byte back.
pub(super) struct LinkMessages<'p, 'a, 'world> {
    pub(super) pipe: &'p mut BenchPipe<'a, 'world>,
    pub(super) out: Vec<u8>,
    pub(super) arrived: Vec<u8>,
    /// Number of messages at a time in one direction. `None`: there and back.
    pub(super) window: Option<usize>,
    /// Number of messages so far.
    pub(super) count: u64,
}

impl<'p, 'a, 'world> LinkMessages<'p, 'a, 'world> {
    pub(super) fn new(pipe: &'p mut BenchPipe<'a, 'world>, bytes: usize, window: bool) -> Self {
        let window =
            window.then_some((4 << 20) / bytes.max(1)).map(|window| window.clamp(1, WINDOW));
        Self { pipe, out: vec![0; bytes], arrived: vec![0; bytes], window, count: 0 }
    }

    /// Removes the buffers from the link's cache before they are dropped.
    pub(super) fn end(self) -> Result<(), HcaError> {
        for buffer in [&self.out, &self.arrived] {
            let address = buffer.as_ptr().addr() as u64;
            self.pipe.device.invalidate(address, buffer.len() as u64)?;
        }
        Ok(())
    }
}

impl Batch for LinkMessages<'_, '_, '_> {
    fn prepare(&mut self, seed: u64) {
        payload::fill(&mut self.out, seed);
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            for _ in 0..self.window.unwrap_or(1) {
                self.pipe.put_all(&mut self.out)?;
                self.count += 1;
            }
            match self.window {
                Some(_) => self.pipe.get_all(&mut [0])?,
                None => self.pipe.get_all(&mut self.arrived)?,
            }
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            for _ in 0..self.window.unwrap_or(1) {
                self.pipe.get_all(&mut self.arrived)?;
            }
            match self.window {
                Some(_) => self.pipe.put_all(&mut [0])?,
                None => self.pipe.put_all(&mut self.out)?,
            }
        }
        // No rank polls the link until the next sample. Requests that the device has not taken
        // would wait for that.
        self.pipe.settle()
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        let receives = self.window.is_none() || !self.pipe.stage.leads();
        if receives { payload::verify(&self.arrived, seed) } else { Ok(()) }
    }
}
