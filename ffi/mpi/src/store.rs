//! The key-value store through which the ranks of a world find each other.

use std::collections::HashMap;

use strait::boot::{KeyValueStore, StoreError};

use super::agreement::{Agreement, failed};

/// A store that exchanges all values in each fence.
#[derive(Debug)]
pub(crate) struct HostStore {
    agreement: Agreement,
    own: Vec<u8>,
    values: HashMap<String, Vec<u8>>,
}

impl HostStore {
    pub(crate) fn new(agreement: Agreement) -> Self {
        Self { agreement, own: Vec::new(), values: HashMap::new() }
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
        let own = core::mem::take(&mut self.own);
        for part in self.agreement.exchange(&own)? {
            self.read(&part).ok_or_else(|| failed("Allgatherv", 0))?;
        }
        Ok(())
    }

    fn finalize(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn abort(&mut self, code: i32) {
        Agreement::abort(code);
    }

    /// `get` finds what the fences have brought, and calls no function of the host.
    fn serves_until_finalize(&self) -> bool {
        true
    }
}
