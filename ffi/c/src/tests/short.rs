//! Tests of short messages through the exported functions.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use crate::failure::Code;
use crate::handle::Handle;
use crate::options::ABI;
use crate::requests::CStatus;

unsafe extern "C" {
    fn strait_init_in_process(abi: u32, ranks: u32, worlds: *mut Handle) -> c_int;
    fn strait_finalize(world: Handle) -> c_int;
    fn strait_send(
        w: Handle,
        context: u32,
        data: *mut c_void,
        n: usize,
        to: u32,
        tag: u32,
    ) -> c_int;
    fn strait_recv(
        w: Handle,
        c: u32,
        b: *mut c_void,
        n: usize,
        from: u32,
        tag: u32,
        s: *mut CStatus,
    ) -> c_int;
}

const TAG: u32 = 7;

/// Two ranks of one process, in one thread.
struct Pair([Handle; 2]);

impl Pair {
    fn new() -> Self {
        let mut worlds = [Handle::NONE; 2];
        // SAFETY: there is room for two handles.
        assert_eq!(unsafe { strait_init_in_process(ABI, 2, worlds.as_mut_ptr()) }, 0);
        Self(worlds)
    }

    fn send(&self, from: u32, data: &mut [u8]) -> c_int {
        let base = if data.is_empty() { null_mut() } else { data.as_mut_ptr().cast() };
        // SAFETY: the buffer has this many bytes.
        unsafe { strait_send(self.0[from as usize], 0, base, data.len(), 1 - from, TAG) }
    }

    /// Receives a message. Returns the code, and the status after success.
    fn recv(&self, at: u32, buffer: &mut [u8], tag: u32) -> (c_int, CStatus) {
        let mut status = CStatus { source: 9, tag: 9, bytes: 9 };
        let base = if buffer.is_empty() { null_mut() } else { buffer.as_mut_ptr().cast() };
        let (world, bytes) = (self.0[at as usize], buffer.len());
        // SAFETY: there is room for this many bytes, and for a status.
        let code = unsafe { strait_recv(world, 0, base, bytes, 1 - at, tag, &raw mut status) };
        (code, status)
    }

    /// Sends a message of `length` bytes to the other rank, which receives with `room` bytes.
    fn exchange(&self, from: u32, length: usize, room: usize, tag: u32) {
        let mut sent: Vec<u8> = (0..length).map(|at| (at + length) as u8).collect();
        assert_eq!(self.send(from, &mut sent), 0);
        let mut received = vec![0xee; room];
        let (code, status) = self.recv(1 - from, &mut received, tag);
        if length > room {
            assert_eq!(code, Code::Truncated as c_int);
            assert_eq!(received, sent[..room]);
            return;
        }
        assert_eq!(code, 0);
        assert_eq!((status.source, status.tag, status.bytes), (from, TAG, length as u64));
        assert_eq!(received[..length], sent);
        assert!(
            received[length..].iter().all(|byte| *byte == 0xee),
            "nothing behind it is written"
        );
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for world in self.0 {
            // SAFETY: the world is open, and only this thread uses it.
            assert_eq!(unsafe { strait_finalize(world) }, 0);
        }
    }
}

#[test]
fn messages_of_every_short_length_arrive() {
    let _alone = super::alone();
    let pair = Pair::new();
    for length in 0..=64_usize {
        for room in [length, length + 1, length + 40, length.saturating_sub(1)] {
            // One direction first, then both in turn.
            for from in [0, 0, 1, 0] {
                pair.exchange(from, length, room, TAG);
            }
            pair.exchange(0, length, room, shim::ANY_TAG);
        }
    }
}

#[test]
fn bytes_without_memory_are_refused() {
    let _alone = super::alone();
    let pair = Pair::new();
    for bytes in [1, 4, 8, 48, 49] {
        // SAFETY: null is the argument that the call must refuse.
        let codes = unsafe {
            [
                strait_send(pair.0[0], 0, null_mut(), bytes, 1, TAG),
                strait_recv(pair.0[1], 0, null_mut(), bytes, 0, TAG, null_mut()),
            ]
        };
        assert_eq!(codes, [Code::Argument as c_int; 2]);
    }
}
