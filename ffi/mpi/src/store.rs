//! How the ranks of a world find each other: by a collective operation of the host.

use core::ffi::c_int;
use std::collections::HashMap;

use strait::boot::{KeyValueStore, StoreError};

use super::host;
use crate::abi::{self, Handle};

/// A store that exchanges all values by two gathers of the host.
#[derive(Debug)]
pub(crate) struct HostStore {
    comm: Handle,
    ranks: usize,
    own: Vec<u8>,
    values: HashMap<String, Vec<u8>>,
}

impl HostStore {
    pub(crate) fn new(comm: Handle, ranks: u32) -> Self {
        Self { comm, ranks: ranks as usize, own: Vec::new(), values: HashMap::new() }
    }

    /// Reads what [`KeyValueStore::put`] wrote, one field after the other.
    fn read(&mut self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let (key, rest) = field(bytes)?;
            let (value, rest) = field(rest)?;
            self.values.insert(String::from_utf8(key.to_vec()).ok()?, value.to_vec());
            bytes = rest;
        }
        Some(())
    }
}

/// Splits off a field: its length in 4 bytes, and its bytes.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_ne_bytes(*length) as usize)
}

const fn failed(command: &'static str, code: c_int) -> StoreError {
    StoreError::Embedder { command, code }
}

impl KeyValueStore for HostStore {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        for part in [key.as_bytes(), value] {
            self.own.extend((part.len() as u32).to_ne_bytes());
            self.own.extend(part);
        }
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.values.get(key).cloned())
    }

    fn fence(&mut self) -> Result<(), StoreError> {
        let own = self.own.len() as c_int;
        let mut lengths = vec![0_i32; self.ranks];
        // SAFETY: there is a place for the 4 bytes of each rank.
        let code = unsafe {
            let data = (&raw const own).cast_mut().cast();
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
            let data = self.own.as_mut_ptr().cast();
            let (byte, offsets) = (abi::byte(), offsets.as_mut_ptr());
            host::Allgatherv(data, own, byte, room, counts, offsets, byte, self.comm)
        };
        if code != 0 {
            return Err(failed("Allgatherv", code));
        }
        self.own.clear();
        self.read(&all).ok_or_else(|| failed("Allgatherv", code))
    }

    fn finalize(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn abort(&mut self, code: i32) {
        // SAFETY: `MPI_Abort` may be called while MPI is initialised.
        unsafe { host::Abort(abi::comm_world(), code) };
    }
}
