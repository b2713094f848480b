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

/// Bytes of the first gather of all ranks together, and of one rank: its length, and its bytes if
/// they fit. Mostly all fit, and there is no second gather. Every gather is a wait for all ranks.
const ROOM_OF_ALL: usize = 1 << 16;
const ROOM_MAX: usize = 512;

/// Bytes of a length.
const LENGTH: usize = size_of::<c_int>();

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
    fn gather(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, StoreError> {
        let room = room(self.ranks);
        let mut first = first_part(&own, room);
        let mut all = vec![0_u8; room * self.ranks];
        // SAFETY: there is a place for `room` bytes of each rank.
        let code = unsafe {
            let (data, places) = (first.as_mut_ptr().cast(), all.as_mut_ptr().cast());
            let (count, byte) = (room as c_int, abi::byte());
            host::Allgather(data, count, byte, places, count, byte, self.comm)
        };
        if code != 0 {
            return Err(failed("Allgather", code));
        }
        // All ranks read the same lengths, so all or none go on.
        match whole_parts(&all, room) {
            Ok(parts) => Ok(parts),
            Err(lengths) => self.gather_long(own, &lengths),
        }
    }

    /// Gathers the bytes of all ranks, of these lengths.
    fn gather_long(&self, mut own: Vec<u8>, lengths: &[c_int]) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut offsets = Vec::with_capacity(self.ranks);
        let mut total = 0;
        for length in lengths {
            offsets.push(total);
            total += length;
        }
        let mut all = vec![0_u8; total as usize];
        // SAFETY: `all` has room for the bytes of each rank at its offset.
        let code = unsafe {
            let (room, counts) = (all.as_mut_ptr().cast(), lengths.as_ptr().cast_mut());
            let (byte, places) = (abi::byte(), offsets.as_mut_ptr());
            let (data, length) = (own.as_mut_ptr().cast(), own.len() as c_int);
            host::Allgatherv(data, length, byte, room, counts, places, byte, self.comm)
        };
        if code != 0 {
            return Err(failed("Allgatherv", code));
        }
        let parts = offsets.iter().zip(lengths);
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

/// Returns the bytes that each of so many ranks has in the first gather.
fn room(ranks: usize) -> usize {
    (ROOM_OF_ALL / ranks.max(1)).clamp(LENGTH, ROOM_MAX)
}

/// Returns the length of `own`, and its bytes if they fit.
fn first_part(own: &[u8], room: usize) -> Vec<u8> {
    let mut part = (own.len() as c_int).to_ne_bytes().to_vec();
    if own.len() <= room - LENGTH {
        part.extend(own);
    }
    part.resize(room, 0);
    part
}

/// Returns the bytes of all ranks, or their lengths if those of some rank did not fit.
fn whole_parts(all: &[u8], room: usize) -> Result<Vec<Vec<u8>>, Vec<c_int>> {
    let parts = || {
        all.chunks_exact(room).filter_map(|part| {
            let (length, rest) = part.split_first_chunk::<LENGTH>()?;
            Some((c_int::from_ne_bytes(*length), rest))
        })
    };
    let whole = |(length, rest): (c_int, &[u8])| Some(rest.get(..length as usize)?.to_vec());
    let found: Option<Vec<_>> = parts().map(whole).collect();
    found.ok_or_else(|| parts().map(|(length, _)| length).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_parts_come_in_one_gather() {
        let own = [vec![], vec![7; 3], vec![1; 12]];
        let all: Vec<u8> = own.iter().flat_map(|own| first_part(own, 16)).collect();
        assert_eq!(whole_parts(&all, 16).unwrap(), own);
    }

    #[test]
    fn a_part_that_does_not_fit_sends_all_to_the_second_gather() {
        let own = [vec![5; 2], vec![1; 13]];
        let all: Vec<u8> = own.iter().flat_map(|own| first_part(own, 16)).collect();
        assert_eq!(whole_parts(&all, 16).unwrap_err(), [2, 13]);
    }

    #[test]
    fn many_ranks_have_room_for_their_lengths() {
        assert_eq!((room(1), room(256), room(1 << 20)), (512, 256, 4));
        assert_eq!(whole_parts(&first_part(&[1], 4), 4).unwrap_err(), [1]);
    }
}
