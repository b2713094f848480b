//! Two ranks with a device each, and a link between them.

use core::error::Error;
use core::ptr::NonNull;

use strait::SystemMemory;
use strait::hca::Choice;
use strait_core::hca::{Access, Completion, Connection, Done, Hca, HcaError, Readiness, Region};
use strait_core::progress::{Fault, Part, Sign};
use strait_core::regcache::{Cached, Limits, Unwatched};
use strait_core::ring::{Card, Config, Lent, Link, LinkError, Operations};

use crate::bench::bandwidth::WINDOW;
use crate::bench::hca;
use crate::bench::sampling::Batch;
use crate::bench::stage::{Stage, TAG};
use crate::payload::{self, Mismatch};

/// A device that keeps registrations.
pub(super) type Device = Cached<strait::hca::Device, Unwatched, SystemMemory>;

/// This rank's device.
pub(super) fn device(stage: &Stage<'_>, choice: &Choice) -> Result<Device, Box<dyn Error>> {
    let device = hca::open(stage, choice)?;
    let limits = Limits { entries: 64, bytes: 1 << 30 };
    // SAFETY: `Buffer` invalidates what it registers before it goes.
    Ok(unsafe { Cached::new(device, Unwatched, SystemMemory, limits) }?)
}

/// Gives `own` to the partner, and takes its counterpart.
pub(super) fn swap<const N: usize>(
    stage: &Stage<'_>,
    own: [u32; N],
) -> Result<[u32; N], strait::Error> {
    let mut theirs = [0; N];
    stage.endpoint.sendrecv(&own, stage.partner, TAG, &mut theirs, stage.partner, TAG)?;
    Ok(theirs)
}

/// Says what went wrong with the device, and ends the measurement as if the partner were gone: what the transport is
/// told, since a bench has no words of its own for it.
pub(super) fn gone(stage: &Stage<'_>, error: &dyn Error) -> strait::Error {
    eprintln!("strait: {error}");
    strait::Error::Fault(Fault::PeerFailed { rank: stage.partner, sign: Sign::Ended })
}

/// Memory of the bench's own, aligned to a cache line.
#[derive(Debug)]
pub(super) struct Buffer(Vec<Line>);

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "reached through pointers alone")] [u8; 64]);

impl Buffer {
    pub(super) fn new(bytes: usize) -> Self {
        Self(vec![Line([0; 64]); bytes.div_ceil(64)])
    }

    pub(super) fn base(&mut self) -> NonNull<u8> {
        NonNull::from(self.0.as_mut_slice()).cast()
    }

    /// Registers the buffer for everything.
    pub(super) fn register(&mut self, device: &mut Device) -> Result<Region, HcaError> {
        let bytes = size_of_val(self.0.as_slice());
        // SAFETY: the buffer is invalidated before it goes (`Buffer::leave`).
        unsafe { device.register(self.base(), bytes, Access::ALL) }
    }

    /// Gives a registration back, whoever keeps it.
    pub(super) fn leave(&mut self, device: &mut Device, region: Region) -> Result<(), HcaError> {
        device.invalidate(region.base, region.length)?;
        device.deregister(region)
    }
}

/// This rank's end of a link to its partner.
pub(super) struct Pipe<'a, 'world> {
    stage: &'a Stage<'world>,
    device: &'a mut Device,
    link: Link,
    memory: Buffer,
    region: Region,
}

impl<'a, 'world> Pipe<'a, 'world> {
    pub(super) fn new(
        stage: &'a Stage<'world>,
        device: &'a mut Device,
        config: Config,
    ) -> Result<Self, Box<dyn Error>> {
        let mut memory = Buffer::new(config.bytes());
        let region = memory.register(device)?;
        let lent = Lent {
            base: memory.base(),
            local_key: region.local_key,
            remote_key: region.remote_key,
        };
        // SAFETY: the memory is registered, as long as it should be, and the link's until `close`.
        let (mut link, card) = unsafe { Link::init(device, stage.partner, config, lent) }?;
        let (own, mut theirs) = (card.to_bytes(), [0_u8; Card::LENGTH]);
        stage.endpoint.sendrecv(&own, stage.partner, TAG, &mut theirs, stage.partner, TAG)?;
        let card = Card::from_bytes(theirs);
        while link.connect(device, &card)? == Readiness::Pending {}
        stage.barrier()?;
        Ok(Self { stage, device, link, memory, region })
    }

    /// Takes the link down, on both sides at once.
    pub(super) fn close(mut self) -> Result<(), Box<dyn Error>> {
        self.settle()?;
        self.stage.barrier()?;
        self.link.finalize(self.device)?;
        Ok(self.memory.leave(self.device, self.region)?)
    }

    pub(super) fn operations(&self) -> Operations {
        self.link.operations()
    }

    /// Waits until the partner has everything that was put.
    fn settle(&mut self) -> Result<(), strait::Error> {
        while !self.link.drain(self.device).map_err(|error| gone(self.stage, &error))? {
            self.poll()?;
        }
        Ok(())
    }

    fn put_all(&mut self, bytes: &mut [u8]) -> Result<(), strait::Error> {
        self.all(bytes, |link, device, part| {
            // SAFETY: the bytes are borrowed until all of them are counted.
            unsafe { link.put(device, &[part]) }
        })
    }

    fn get_all(&mut self, bytes: &mut [u8]) -> Result<(), strait::Error> {
        self.all(bytes, |link, device, part| {
            // SAFETY: as in `put_all`, exclusively.
            unsafe { link.get(device, &[part]) }
        })
    }

    #[inline]
    fn all(
        &mut self,
        bytes: &mut [u8],
        step: impl Fn(&mut Link, &mut Device, Part) -> Result<usize, LinkError>,
    ) -> Result<(), strait::Error> {
        let mut part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
        loop {
            let done = step(&mut self.link, self.device, part)
                .map_err(|error| gone(self.stage, &error))?;
            // SAFETY: no more bytes are done than the part has.
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

/// What is done by now, as far as it fits a few.
pub(super) fn poll(device: &mut Device) -> Result<impl Iterator<Item = Completion>, HcaError> {
    let none = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
    let mut completions = [none; 16];
    let count = device.poll(&mut completions)?;
    Ok(completions.into_iter().take(count))
}

/// Messages through a link: there and back, or a window of them one way and a byte back.
pub(super) struct Messages<'p, 'a, 'world> {
    pub(super) pipe: &'p mut Pipe<'a, 'world>,
    pub(super) out: Vec<u8>,
    pub(super) arrived: Vec<u8>,
    /// One way, this many at a time.
    pub(super) window: Option<usize>,
    /// Messages so far.
    pub(super) count: u64,
}

impl<'p, 'a, 'world> Messages<'p, 'a, 'world> {
    pub(super) fn new(pipe: &'p mut Pipe<'a, 'world>, bytes: usize, window: bool) -> Self {
        let window =
            window.then_some((4 << 20) / bytes.max(1)).map(|window| window.clamp(1, WINDOW));
        Self { pipe, out: vec![0; bytes], arrived: vec![0; bytes], window, count: 0 }
    }

    /// What the link keeps of the buffers is forgotten before they go.
    pub(super) fn end(self) -> Result<(), HcaError> {
        for buffer in [&self.out, &self.arrived] {
            let address = buffer.as_ptr().addr() as u64;
            self.pipe.device.invalidate(address, buffer.len() as u64)?;
        }
        Ok(())
    }
}

impl Batch for Messages<'_, '_, '_> {
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
        // Nobody looks at the link until the next sample: what the device did not take yet would wait for that.
        self.pipe.settle()
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        let receives = self.window.is_none() || !self.pipe.stage.leads();
        if receives { payload::verify(&self.arrived, seed) } else { Ok(()) }
    }
}
