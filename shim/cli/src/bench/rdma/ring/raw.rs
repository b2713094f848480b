//! The speed of the device alone: writes into memory that the partner polls.

use core::error::Error;
use core::ptr::NonNull;

use strait_core::hca::{
    Connection, Hca, Operation, PostError, Readiness, Region, RemoteAddress, Sge, WorkRequest,
};
use strait_core::ring::Counter;

use super::channel::{AlignedBuffer, CachedDevice, gone, poll, swap};
use crate::bench::options::WINDOW;
use crate::measure::sampling::Batch;
use crate::measure::stage::BenchStage;

/// Writes of some length, and a counter of them. Unless a message is only the counter, the counter
/// is a separate message.
pub(super) struct Raw<'a, 'world> {
    stage: &'a BenchStage<'world>,
    device: &'a mut CachedDevice,
    connection: Connection,
    memory: AlignedBuffer,
    region: Region,
    far: RemoteAddress,
    bytes: usize,
    window: Option<usize>,
    /// Number of messages that were sent, posted without a completion, and waited for.
    sent: u64,
    posted: u64,
    done: u64,
    awaited: u64,
}

/// Offsets of the word that the partner writes, of the word from which it is written, and of the
/// bytes.
const WORD: usize = 0;
const SOURCE: usize = 64;
const BYTES: usize = 128;

impl<'a, 'world> Raw<'a, 'world> {
    pub(super) fn new(
        stage: &'a BenchStage<'world>,
        device: &'a mut CachedDevice,
        bytes: usize,
        window: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let mut memory = AlignedBuffer::new(BYTES + bytes);
        let region = memory.register(device)?;
        let (connection, mut address) = device.open(stage.partner)?;
        let words: [u32; 16] = core::array::from_fn(|at| {
            u32::from_ne_bytes(core::array::from_fn(|byte| address.0[4 * at + byte]))
        });
        let theirs = swap(stage, words)?;
        for (to, word) in address.0.chunks_exact_mut(4).zip(theirs) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        while device.connect(connection, &address)? == Readiness::Pending {}
        let own = [region.base as u32, (region.base >> 32) as u32, region.remote_key];
        let [low, high, key] = swap(stage, own)?;
        let far = RemoteAddress { address: u64::from(low) | u64::from(high) << 32, key };
        let window =
            window.then_some((4 << 20) / bytes.max(1)).map(|window| window.clamp(1, WINDOW));
        stage.barrier()?;
        let [sent, posted, done, awaited] = [0; 4];
        Ok(Self {
            stage,
            device,
            connection,
            memory,
            region,
            far,
            bytes,
            window,
            sent,
            posted,
            done,
            awaited,
        })
    }

    pub(super) fn close(mut self) -> Result<(), Box<dyn Error>> {
        self.settle()?;
        self.stage.barrier()?;
        self.device.close(self.connection)?;
        Ok(self.memory.leave(self.device, self.region)?)
    }

    /// Returns the number of messages in a round.
    pub(super) fn messages(&self) -> usize {
        self.window.unwrap_or(1)
    }

    fn at(&mut self, offset: usize) -> NonNull<u8> {
        // SAFETY: the buffer has these bytes.
        unsafe { self.memory.base().add(offset) }
    }

    fn send(&mut self, messages: usize) -> Result<(), strait::Error> {
        self.settle()?;
        self.sent += 1;
        let word = self.at(SOURCE).cast::<u64>();
        // SAFETY: the word lies in the buffer and is aligned. No request reads it: all are
        // complete.
        unsafe { word.write(self.sent) };
        // The counter is the last message, unless it is shorter than the other messages.
        let apart = if self.bytes > 8 { messages } else { messages.saturating_sub(1) };
        for _ in 0..apart {
            self.write(BYTES, BYTES, self.bytes)?;
        }
        self.write(SOURCE, WORD, 8)
    }

    fn write(&mut self, from: usize, to: usize, bytes: usize) -> Result<(), strait::Error> {
        let base = self.at(from);
        let pieces = [Sge { base, length: bytes as u32, key: self.region.local_key }];
        let remote = RemoteAddress { address: self.far.address + to as u64, key: self.far.key };
        let request = WorkRequest {
            id: self.posted + 1,
            operation: Operation::Write { from: &pieces, to: remote },
            signaled: true,
            inline: bytes <= 8,
            fenced: false,
        };
        loop {
            // SAFETY: the bytes are not written while requests are in flight, see `send`.
            match unsafe { self.device.post(self.connection, &request) } {
                Ok(()) => {
                    self.posted += 1;
                    return Ok(());
                }
                Err(PostError::Full) => self.poll()?,
                Err(error) => return Err(gone(self.stage, &error)),
            }
        }
    }

    /// Waits until the device has completed all requests.
    fn settle(&mut self) -> Result<(), strait::Error> {
        while self.done < self.posted {
            self.poll()?;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), strait::Error> {
        self.awaited += 1;
        loop {
            // SAFETY: the word lies in the buffer and is aligned. The partner's device writes it as
            // a whole.
            let word = unsafe { self.at(WORD).cast::<Counter>().as_ref() }.read();
            if word >= self.awaited {
                return Ok(());
            }
            self.poll()?;
        }
    }

    fn poll(&mut self) -> Result<(), strait::Error> {
        for completion in poll(self.device).map_err(|error| gone(self.stage, &error))? {
            completion.result.map_err(|error| gone(self.stage, &error))?;
            self.done = completion.id;
        }
        Ok(())
    }
}

impl Batch for Raw<'_, '_> {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.send(self.messages())?;
            self.wait()?;
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.wait()?;
            let messages = if self.window.is_some() { 0 } else { 1 };
            self.send(messages)?;
        }
        // No rank polls the device until the next sample. The last write would wait for the
        // device's thread to wake up.
        self.settle()
    }
}
