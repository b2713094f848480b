//! The first word on a connection over iWARP.
//!
//! The side that was asked may send nothing before it has got something from the side that asked (RFC 5044 §7.1.2), which may not be
//! ready for it: the connection would break. Cards that know the extension of RFC 6581 see to that themselves, and the kernel's
//! soft iWARP does not. So whoever has asked writes a word to the other, who answers with the same; then both are ready.
//!
//! Soft iWARP may overlook what comes in the moment of its accepting until something else comes. That moment lasts as long as the
//! process that accepts is kept from a processor. So the first word is said again until it is answered, however long that takes.

use core::mem;
use core::ptr::NonNull;

use rdma_mummy_sys as ibv;
use strait_core::hca::Remote;
use strait_core::ring::Counter;
use strait_core::sync::Ordering::Relaxed;

use super::OpenError;
use super::end::{End, State};
use super::owned::Owned;
use crate::segment::Mapping;

/// The words of a device: one for each end, and the one that others' are written from.
pub(super) struct Greetings {
    // Before the memory that it is of.
    region: Owned<ibv::ibv_mr>,
    /// Pages of their own: a child that is forked may not have them, and would miss what else is there.
    memory: Mapping,
    /// How many.
    ends: u32,
    free: Vec<u32>,
}

/// What is written.
const HELLO: u64 = 1;
/// Room for words in the queues of an end. One that finds no room is refused, and said again later.
pub(super) const ROOM: u32 = 15;
/// Looks for an answer between two words, once the first few were said.
const LOOKS_PER_WORD: u32 = 1024;
/// The number of the request: that of a connection that does not exist, so that nobody hears if it is flushed.
const NUMBER: u64 = 1 << 62;

impl Greetings {
    /// Words for so many ends.
    ///
    /// # Safety
    ///
    /// The protection domain is live, and ends after this.
    pub(super) unsafe fn new(domain: *mut ibv::ibv_pd, ends: u32) -> Result<Self, OpenError> {
        let length = (ends as usize + 1) * size_of::<Counter>();
        let memory = Mapping::private(length).map_err(|error| OpenError::System {
            what: "taking memory",
            error: std::io::Error::other(error.to_string()),
        })?;
        let access = ibv::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
            | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
        // SAFETY: the words stay where they are as long as the region, and devices may write them at any time: they are atomic.
        let region = unsafe {
            let base = memory.base.as_ptr().cast();
            let raw = ibv::ibv_reg_mr(domain, base, length, access.0.cast_signed());
            Owned::new("registering memory", raw, ibv::ibv_dereg_mr)?
        };
        let greetings = Self { region, memory, ends, free: (0..ends).collect() };
        greetings.source().word().store(HELLO, Relaxed);
        Ok(greetings)
    }

    /// All of them: zeroed memory is a word that has not come.
    fn words(&self) -> &[Counter] {
        let words = self.memory.base.cast::<Counter>();
        // SAFETY: so many words, aligned to a page, zero at first, and atomic.
        unsafe { NonNull::slice_from_raw_parts(words, self.ends as usize + 1).as_ref() }
    }

    /// The one that others' are written from.
    fn source(&self) -> &Counter {
        &self.words()[self.ends as usize]
    }

    /// A word for a new end.
    pub(super) fn take(&mut self) -> Option<u32> {
        let word = self.free.pop()?;
        self.words()[word as usize].word().store(0, Relaxed);
        Some(word)
    }

    /// Gives back the word of an end whose pair is gone.
    pub(super) fn give(&mut self, word: u32) {
        self.free.push(word);
    }

    /// Where the peer writes it.
    pub(super) fn place(&self, word: u32) -> Remote {
        let address = self.words()[word as usize].word().as_ptr().expose_provenance() as u64;
        // SAFETY: the region is live.
        Remote { address, key: unsafe { (*self.region.as_ptr()).rkey } }
    }

    /// Whether the peer has written it.
    pub(super) fn has_come(&self, word: Option<u32>) -> bool {
        word.is_some_and(|word| self.words()[word as usize].read() == HELLO)
    }

    /// Exchanges words with the peer of a connection that was made just now. True: both have theirs.
    pub(super) fn exchange(&self, end: &mut End, to: Remote) -> bool {
        match (end.readiness, self.has_come(end.greeting)) {
            (State::Greeting, true) => true,
            (State::Greeting, false) => {
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

    /// Writes the word of the peer of `end`. A device that refuses has lost the connection, and says so when it is used.
    fn say(&self, end: &End, to: Remote) {
        let addr = self.source().word().as_ptr().expose_provenance() as u64;
        // SAFETY: the region is live.
        let lkey = unsafe { (*self.region.as_ptr()).lkey };
        let mut element = ibv::ibv_sge { addr, length: size_of::<u64>() as u32, lkey };
        // SAFETY: integers and pointers, for which zero is a value.
        let mut raw: ibv::ibv_send_wr = unsafe { mem::zeroed() };
        raw.wr_id = NUMBER;
        (raw.sg_list, raw.num_sge) = (&raw mut element, 1);
        raw.opcode = ibv::ibv_wr_opcode::IBV_WR_RDMA_WRITE;
        raw.wr.rdma = ibv::rdma_t { remote_addr: to.address, rkey: to.key };
        let mut refused = core::ptr::null_mut();
        // SAFETY: the pair is live, and the request read before the call returns; its source stays as long as the region.
        let _ = unsafe { ibv::ibv_post_send(end.pair(), &raw mut raw, &raw mut refused) };
    }
}

/// Whether the first word is said again after so many looks for its answer: soon at first, and then in equal steps for ever.
const fn is_time_to_say(looks: u32) -> bool {
    looks.is_power_of_two() || looks.is_multiple_of(LOOKS_PER_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_said_until_it_is_answered() {
        let words =
            |looks: core::ops::Range<u32>| looks.filter(|&looks| is_time_to_say(looks)).count();
        assert!(words(1..LOOKS_PER_WORD) < ROOM as usize);
        // A peer that is kept from its processor may overlook all that were said by then.
        for looks in [1_u32 << 14, 1 << 15, 1 << 20, 1 << 31] {
            assert_eq!(words(looks + 1..looks + 1 + 4 * LOOKS_PER_WORD), 4, "after {looks} looks");
        }
    }
}
