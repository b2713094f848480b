//! The embedder's own key-value exchange, through callbacks.

use core::ffi::{c_char, c_int, c_void};
use std::ffi::CString;

use shim::Nodes;
use shim::boot::{KeyValueStore, StoreError};

use crate::border::Structure;
use crate::failure::{Called, Failure};

/// `strait_exchange` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CExchange {
    pub(crate) size: usize,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) nodes: *const u32,
    pub(crate) context: *mut c_void,
    pub(crate) put:
        Option<unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, usize) -> c_int>,
    pub(crate) get: Option<
        unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void, usize, *mut usize) -> c_int,
    >,
    pub(crate) fence: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub(crate) abort: Option<unsafe extern "C" fn(*mut c_void, c_int)>,
}

// SAFETY: `repr(C)`, the first field is a size, and all-zero bytes are a value.
unsafe impl Structure for CExchange {}

/// The answer of `get` when no value was put under the key: `STRAIT_NO_KEY`.
const NO_KEY: c_int = -1;

/// Initial room in bytes for a value of `get`. Strait's values are shorter, except those that
/// describe many connections.
const ROOM: usize = 1024;

impl CExchange {
    /// Checks what can be checked, and returns the node of each rank if the embedder gives it.
    ///
    /// # Safety
    ///
    /// `nodes` is null, or leads to as many numbers as there are ranks.
    pub(crate) unsafe fn nodes(&self) -> Called<Option<Nodes>> {
        if self.rank >= self.ranks {
            let text = format!("rank {} of {} ranks: ranks go from 0", self.rank, self.ranks);
            return Err(Failure::argument(text));
        }
        if self.put.is_none() || self.get.is_none() || self.fence.is_none() {
            return Err(Failure::argument("strait_exchange lacks put, get or fence"));
        }
        if self.nodes.is_null() {
            return Ok(None);
        }
        // SAFETY: it is not null, so there is a number for each rank (contract of `nodes`).
        let nodes = unsafe { core::slice::from_raw_parts(self.nodes, self.ranks as usize) };
        Ok(Some(Nodes::named(nodes)))
    }
}

/// A store that consists of the embedder's callbacks.
#[derive(Debug)]
pub(crate) struct Callbacks(CExchange);

// SAFETY: any thread that uses the world may call the embedder's functions, as `strait.h` says.
unsafe impl Send for Callbacks {}

impl Callbacks {
    /// Makes a store of an exchange that has been checked.
    pub(crate) const fn new(exchange: CExchange) -> Self {
        Self(exchange)
    }
}

/// Converts the answer of a C callback to a result.
const fn succeeded(answer: c_int) -> Result<(), i32> {
    if answer == 0 { Ok(()) } else { Err(answer) }
}

fn failed(command: &'static str) -> impl FnOnce(i32) -> StoreError {
    move |code| StoreError::Embedder { command, code }
}

fn word(key: &str) -> Result<CString, StoreError> {
    CString::new(key).map_err(|_| StoreError::Key { key: key.into(), max: usize::MAX })
}

impl KeyValueStore for Callbacks {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let (key, Some(put)) = (word(key)?, self.0.put) else { return Err(StoreError::Shut) };
        // SAFETY: the embedder's function takes these arguments.
        let answer =
            unsafe { put(self.0.context, key.as_ptr(), value.as_ptr().cast(), value.len()) };
        succeeded(answer).map_err(failed("put"))
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (key, Some(get)) = (word(key)?, self.0.get) else { return Err(StoreError::Shut) };
        let mut value = vec![0; ROOM];
        loop {
            let mut length = 0;
            let (room, place) = (value.len(), value.as_mut_ptr().cast());
            // SAFETY: the embedder's function takes these arguments, and writes at most `room`
            // bytes.
            match unsafe { get(self.0.context, key.as_ptr(), place, room, &raw mut length) } {
                0 if length <= room => {
                    value.truncate(length);
                    return Ok(Some(value));
                }
                // The value is longer than the room for it.
                0 => value.resize(length, 0),
                NO_KEY => return Ok(None),
                code => return Err(failed("get")(code)),
            }
        }
    }

    fn fence(&mut self) -> Result<(), StoreError> {
        let Some(fence) = self.0.fence else { return Err(StoreError::Shut) };
        // SAFETY: the embedder's function takes this argument.
        succeeded(unsafe { fence(self.0.context) }).map_err(failed("fence"))
    }

    fn finalize(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn abort(&mut self, code: i32) {
        if let Some(abort) = self.0.abort {
            // SAFETY: the embedder's function takes these arguments.
            unsafe { abort(self.0.context, code) };
        }
    }
}
