//! Data that one rank produces in each iteration and another consumes. Both ends compute, and a
//! mark in every page names its iteration.

use core::error::Error;
use core::hint::black_box;

use crate::measure::computation::Processor;
use crate::payload::{self, Mismatch};

/// Size of a page in bytes. The mark is at its start.
const PAGE: usize = 4096;

/// Size of a cache line in bytes.
const LINE: usize = 64;

/// Distance in bytes of a rank's data before they are packed: every other page.
const STRIDE: usize = 2 * PAGE;

/// A rank's part in an exchange of data.
#[derive(Debug)]
pub(super) struct ExchangeWork {
    processor: Processor,
    /// The seeds of the data that this rank produces, and of those that it consumes.
    seeds: [u64; 2],
    /// Computation for the produced and for the consumed data, in nanoseconds.
    pub(super) amounts: [f64; 2],
    /// The produced data.
    grid: Vec<u8>,
    bytes: usize,
}

impl ExchangeWork {
    /// Makes the part for messages of `bytes` bytes.
    pub(super) fn new(processor: Processor, bytes: usize) -> Self {
        let pages = bytes.div_ceil(PAGE);
        Self { processor, seeds: [0; 2], amounts: [0.0; 2], grid: vec![0; pages * STRIDE], bytes }
    }

    /// Returns room for a message.
    pub(super) fn room(&self) -> Vec<u8> {
        vec![0; self.bytes]
    }

    /// Prepares a sample, for which each rank has its own data.
    pub(super) fn prepare(&mut self, seeds: [u64; 2]) {
        self.seeds = seeds;
        payload::fill(&mut self.grid, seeds[0]);
    }

    /// Produces the data of an iteration.
    pub(super) fn produce(&mut self, iteration: u64) {
        self.mark(iteration, 0);
        self.processor.compute(self.amounts[0]);
    }

    fn mark(&mut self, iteration: u64, end: usize) {
        let mark = payload::pattern(self.seeds[end], iteration);
        self.grid.chunks_mut(STRIDE).for_each(|page| page[..mark.len()].copy_from_slice(&mark));
    }

    /// Packs the data that were produced last, as programs do with data that are not contiguous.
    pub(super) fn pack(&self, message: &mut [u8]) {
        for (page, packed) in self.grid.chunks(STRIDE).zip(message.chunks_mut(PAGE)) {
            packed.copy_from_slice(&page[..packed.len()]);
        }
    }

    /// Consumes the data of an iteration. Reads all of them, since bytes that a rank does not read
    /// may never come to its cache.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when they are the data of another iteration.
    pub(super) fn consume(&self, arrived: &[u8], iteration: u64) -> Result<(), Mismatch> {
        let mark = payload::pattern(self.seeds[1], iteration);
        for page in arrived.chunks(PAGE) {
            let length = page.len().min(mark.len());
            payload::compare(&page[..length], &mark[..length])?;
        }
        black_box(arrived.iter().step_by(LINE).fold(0_u8, |all, byte| all ^ byte));
        self.processor.compute(self.amounts[1]);
        Ok(())
    }

    /// Checks all of a message that arrived in an iteration. Overwrites the data that this rank
    /// produced.
    pub(super) fn verify(&mut self, arrived: &[u8], iteration: u64) -> Result<(), Box<dyn Error>> {
        payload::fill(&mut self.grid, self.seeds[1]);
        self.mark(iteration, 1);
        let mut expected = self.room();
        self.pack(&mut expected);
        Ok(payload::compare(arrived, &expected)?)
    }
}
