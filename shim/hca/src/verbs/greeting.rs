//! The greeting on an iWARP connection: the first write in each direction.
//!
//! The accepting side must not send before it has received something (RFC 5044 §7.1.2). The asking
//! side may not be ready for it yet, and the connection would break. Cards with the extension of
//! RFC 6581 ensure this themselves, and the kernel's soft iWARP does not.
//!
//! So the asking side writes a word to the accepting side, which answers with the same word. Then
//! both are ready.
//!
//! Soft iWARP may overlook data that arrives while it accepts, until more data arrives. That window
//! lasts as long as the accepting process has no processor. So the first word is repeated until it
//! is answered, without a time limit.

use core::mem;
use core::ptr::NonNull;

use rdma_mummy_sys as ibv;
use strait_core::hca::RemoteAddress;
use strait_core::ring::Counter;
use strait_core::sync::Ordering::Relaxed;
use strait_platform::backoff::POLLS_PER_GREETING;
use strait_platform::segment::Mapping;

use super::OpenError;
use super::end::{QueuePair, QueuePairState};
use super::owned::VerbsObject;

/// The words of a device: one for each end, and one that is the source of greetings to peers.
pub(super) struct Greetings {
    // Declared before the memory, so that the region is deregistered first.
    region: VerbsObject<ibv::ibv_mr>,
    /// The memory has pages of its own, because a forked child may not have them and would miss
    /// other data in them.
    memory: Mapping,
    /// Number of ends.
    ends: u32,
    free: Vec<u32>,
}

/// The value of the word.
const HELLO: u64 = 1;
/// Room for greetings in the queues of an end. A greeting that finds no room is refused, and
/// repeated later.
pub(super) const ROOM: u32 = 15;
/// The number of the request. It names a connection that does not exist, so that a flushed greeting
/// is not reported.
const NUMBER: u64 = 1 << 62;

impl Greetings {
    /// Creates the words for `ends` ends.
    ///
    /// # Safety
    ///
    /// The protection domain is live, and ends after the returned value.
    pub(super) unsafe fn new(domain: *mut ibv::ibv_pd, ends: u32) -> Result<Self, OpenError> {
        let length = (ends as usize + 1) * size_of::<Counter>();
        let memory = Mapping::private(length).map_err(|error| OpenError::System {
            what: "taking memory",
            error: std::io::Error::other(error.to_string()),
        })?;
        let access = ibv::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
            | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
        // SAFETY: the memory stays mapped as long as the region, which is dropped first. Devices
        // may write the words at any time, since the words are atomic.
        let region = unsafe {
            let base = memory.base().as_ptr().cast();
            let raw = ibv::ibv_reg_mr(domain, base, length, access.0.cast_signed());
            VerbsObject::new("registering memory", raw, ibv::ibv_dereg_mr)?
        };
        let greetings = Self { region, memory, ends, free: (0..ends).collect() };
        greetings.source().word().store(HELLO, Relaxed);
        Ok(greetings)
    }

    /// Returns all words. Zero means that a greeting has not come.
    fn words(&self) -> &[Counter] {
        let words = self.memory.base().cast::<Counter>();
        // SAFETY: the mapping has room for this number of words, is page-aligned and zero at first,
        // and the words are atomic.
        unsafe { NonNull::slice_from_raw_parts(words, self.ends as usize + 1).as_ref() }
    }

    /// Returns the word that is the source of greetings to peers.
    fn source(&self) -> &Counter {
        &self.words()[self.ends as usize]
    }

    /// Takes a free word for a new end, and clears it.
    pub(super) fn take(&mut self) -> Option<u32> {
        let word = self.free.pop()?;
        self.words()[word as usize].word().store(0, Relaxed);
        Some(word)
    }

    /// Frees the word of an end after its queue pair is gone.
    pub(super) fn give(&mut self, word: u32) {
        self.free.push(word);
    }

    /// Returns the address to which the peer writes.
    pub(super) fn place(&self, word: u32) -> RemoteAddress {
        let address = self.words()[word as usize].word().as_ptr().expose_provenance() as u64;
        // SAFETY: the region is live.
        RemoteAddress { address, key: unsafe { (*self.region.as_ptr()).rkey } }
    }

    /// Returns whether the peer has written the word.
    pub(super) fn has_come(&self, word: Option<u32>) -> bool {
        word.is_some_and(|word| self.words()[word as usize].read() == HELLO)
    }

    /// Exchanges greetings with the peer of a new connection. Returns whether both sides have
    /// theirs.
    pub(super) fn exchange(&self, end: &mut QueuePair, to: RemoteAddress) -> bool {
        match (end.readiness, self.has_come(end.greeting)) {
            (QueuePairState::Greeting, true) => true,
            (QueuePairState::Greeting, false) => {
                end.looks = end.looks.wrapping_add(1);
                if is_time_to_say(end.looks) {
                    self.say(end, to);
                }
                false
            }
            (_, true) => {
                self.say(end, to);
                true
            }
            (_, false) => false,
        }
    }

    /// Writes the word of the peer of `end`. If the device refuses, the connection is lost, and the
    /// next request reports that.
    fn say(&self, end: &QueuePair, to: RemoteAddress) {
        let addr = self.source().word().as_ptr().expose_provenance() as u64;
        // SAFETY: the region is live.
        let lkey = unsafe { (*self.region.as_ptr()).lkey };
        let mut element = ibv::ibv_sge { addr, length: size_of::<u64>() as u32, lkey };
        // SAFETY: the structure consists of integers and pointers, for which zero is a valid value.
        let mut raw: ibv::ibv_send_wr = unsafe { mem::zeroed() };
        raw.wr_id = NUMBER;
        (raw.sg_list, raw.num_sge) = (&raw mut element, 1);
        raw.opcode = ibv::ibv_wr_opcode::IBV_WR_RDMA_WRITE;
        raw.wr.rdma = ibv::rdma_t { remote_addr: to.address, rkey: to.key };
        let mut refused = core::ptr::null_mut();
        // SAFETY: the pair is live, and the library reads the request before the call returns. The
        // source stays as long as the region.
        let _ = unsafe { ibv::ibv_post_send(end.pair(), &raw mut raw, &raw mut refused) };
    }
}

/// Returns whether to repeat the greeting after this number of checks: often at first, and then at
/// equal intervals without end.
const fn is_time_to_say(looks: u32) -> bool {
    looks.is_power_of_two() || looks.is_multiple_of(POLLS_PER_GREETING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_is_repeated_until_it_is_answered() {
        let words =
            |looks: core::ops::Range<u32>| looks.filter(|&looks| is_time_to_say(looks)).count();
        assert!(words(1..POLLS_PER_GREETING) < ROOM as usize);
        // A peer that has no processor may overlook all greetings up to then.
        for looks in [1_u32 << 14, 1 << 15, 1 << 20, 1 << 31] {
            assert_eq!(
                words(looks + 1..looks + 1 + 4 * POLLS_PER_GREETING),
                4,
                "after {looks} looks"
            );
        }
    }
}
