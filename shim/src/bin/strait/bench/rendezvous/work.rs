//! Data that one rank produces, iteration by iteration, and another consumes: with computing at both ends, and with a mark in
//! every page that says of which iteration it is.

use core::error::Error;
use core::hint::black_box;

use super::super::computation::Processor;
use crate::payload::{self, Mismatch};

/// Bytes of a page, the first of which are its mark.
const PAGE: usize = 4096;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Where a rank's data lie before they are packed: every other page.
const STRIDE: usize = 2 * PAGE;

/// A rank's part in an exchange of data.
#[derive(Debug)]
pub(super) struct Work {
    processor: Processor,
    /// Of what this rank produces, and of what it consumes.
    seeds: [u64; 2],
    /// What is computed for what is produced, and for what is consumed, nanoseconds.
    pub(super) amounts: [f64; 2],
    /// What is produced.
    grid: Vec<u8>,
    bytes: usize,
}

impl Work {
    /// Messages of `bytes` bytes.
    pub(super) fn new(processor: Processor, bytes: usize) -> Self {
        let pages = bytes.div_ceil(PAGE);
        Self { processor, seeds: [0; 2], amounts: [0.0; 2], grid: vec![0; pages * STRIDE], bytes }
    }

    /// Room for a message.
    pub(super) fn room(&self) -> Vec<u8> {
        vec![0; self.bytes]
    }

    /// Gets ready for a sample, of which each rank has its own data.
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

    /// Packs what was produced last, as programs do with data that do not lie in a row.
    pub(super) fn pack(&self, message: &mut [u8]) {
        for (page, packed) in self.grid.chunks(STRIDE).zip(message.chunks_mut(PAGE)) {
            packed.copy_from_slice(&page[..packed.len()]);
        }
    }

    /// Consumes the data of an iteration: all of them, since what a rank does not read need never come to its cache.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when they are those of another.
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

    /// Checks all of a message that arrived in an iteration. What this rank has produced is gone then.
    pub(super) fn verify(&mut self, arrived: &[u8], iteration: u64) -> Result<(), Box<dyn Error>> {
        payload::fill(&mut self.grid, self.seeds[1]);
        self.mark(iteration, 1);
        let mut expected = self.room();
        self.pack(&mut expected);
        Ok(payload::compare(arrived, &expected)?)
    }
}
