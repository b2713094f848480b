//! How the ranks exchange values while they join, and agree on whether all of them have joined.
//!
//! A rank that cannot join says so in its last exchange. The others are then in an earlier step,
//! and their exchange shows it to them: they give up as well. So all ranks take part in the same
//! number of exchanges, and none waits for a rank that has given up.

use core::ffi::c_int;
use std::sync::{Arc, OnceLock};

use strait::boot::StoreError;

use super::host;
use crate::abi::{self, Handle};

/// What a rank has done, in the first byte of its part of an exchange.
const GOES_ON: u8 = 0;
const JOINED: u8 = 1;
const FAILED: u8 = 2;

/// The exchanges of the ranks of a communicator. Clones are of one agreement.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    comm: Handle,
    ranks: usize,
    /// Why there will be no further exchange.
    failure: Arc<OnceLock<String>>,
}

impl Agreement {
    pub(crate) fn new(comm: Handle, ranks: u32) -> Self {
        Self { comm, ranks: ranks as usize, failure: Arc::default() }
    }

    /// Returns the values of all ranks in rank order.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a rank has given up, or the host fails. Then there is no further
    /// exchange.
    pub(crate) fn exchange(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        self.step(GOES_ON, own)
    }

    /// Ends the exchanges with the outcome of this rank. A failure that follows from another rank's
    /// has no reason.
    ///
    /// # Errors
    ///
    /// The reason of the first rank that could not join.
    pub(crate) fn conclude(&self, outcome: Result<(), &str>) -> Result<(), String> {
        if self.failure.get().is_none() {
            let (what, text) = match outcome {
                Ok(()) => (JOINED, ""),
                Err(why) => (FAILED, why),
            };
            // A failure is kept, and returned below.
            let _ = self.step(what, text.as_bytes());
        }
        self.failure.get().map_or(Ok(()), |why| Err(why.clone()))
    }

    fn step(&self, what: u8, own: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let own = [&[what], own].concat();
        let mut all = self.gather(own).inspect_err(|error| self.fail(error.to_string()))?;
        let mut has_failed = false;
        for (rank, part) in all.iter_mut().enumerate() {
            let theirs = part.first().copied();
            part.drain(..part.len().min(1));
            has_failed |= theirs != Some(what) || what == FAILED;
            if theirs == Some(FAILED) && !part.is_empty() {
                self.fail(format!("rank {rank}: {}", String::from_utf8_lossy(part)));
            }
        }
        if has_failed {
            self.fail("some rank could not join".to_owned());
        }
        if self.failure.get().is_some() { Err(failed("Allgatherv", 0)) } else { Ok(all) }
    }

    /// Keeps the first reason.
    fn fail(&self, why: String) {
        let _ = self.failure.set(why);
    }

    /// Gathers the bytes of all ranks.
    fn gather(&self, mut own: Vec<u8>) -> Result<Vec<Vec<u8>>, StoreError> {
        let length = own.len() as c_int;
        let mut lengths = vec![0_i32; self.ranks];
        // SAFETY: there is a place for the 4 bytes of each rank.
        let code = unsafe {
            let data = (&raw const length).cast_mut().cast();
            let room = lengths.as_mut_ptr().cast();
            host::Allgather(data, 4, abi::byte(), room, 4, abi::byte(), self.comm)
        };
        if code != 0 {
            return Err(failed("Allgather", code));
        }
        let mut offsets = Vec::with_capacity(self.ranks);
        let mut total = 0;
        for length in &lengths {
            offsets.push(total);
            total += length;
        }
        let mut all = vec![0_u8; total as usize];
        // SAFETY: `all` has room for the bytes of each rank at its offset.
        let code = unsafe {
            let (room, counts) = (all.as_mut_ptr().cast(), lengths.as_mut_ptr());
            let (byte, places) = (abi::byte(), offsets.as_mut_ptr());
            let data = own.as_mut_ptr().cast();
            host::Allgatherv(data, length, byte, room, counts, places, byte, self.comm)
        };
        if code != 0 {
            return Err(failed("Allgatherv", code));
        }
        let parts = offsets.iter().zip(&lengths);
        Ok(parts.map(|(at, length)| all[*at as usize..][..*length as usize].to_vec()).collect())
    }

    /// Ends the job.
    pub(crate) fn abort(code: c_int) {
        // SAFETY: `MPI_Abort` may be called while MPI is initialised.
        unsafe { host::Abort(abi::comm_world(), code) };
    }
}

pub(crate) const fn failed(command: &'static str, code: c_int) -> StoreError {
    StoreError::Embedder { command, code }
}
