//! Both ends of a link in one memory, small enough for Miri. Every pointer that the channel passes
//! to a device is used here as a device uses it, while the ranks continue. The peer's device may
//! also write garbage.

mod device;
mod direct;

use core::ptr::NonNull;
use std::boxed::Box;
use std::vec::Vec;

use device::{Device, Wires};
use proptest::prelude::*;

use super::config::{GRANT, RING};
use super::{Design, Link, LinkConfig, LinkMemory};
use crate::buffer::Part;
use crate::hca::{Access, Hca, Readiness};
use crate::sync::CACHE_LINE;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "accessed only through pointers")] [u8; CACHE_LINE]);

/// Memory that ranks and devices access through one pointer.
struct Block(NonNull<[Line]>);

impl Block {
    fn new(bytes: usize) -> Self {
        let lines: Box<[Line]> =
            std::vec![Line([0; CACHE_LINE]); bytes.div_ceil(CACHE_LINE)].into();
        Self(NonNull::from(Box::leak(lines)))
    }

    fn base(&self) -> NonNull<u8> {
        self.0.cast()
    }

    fn part(&self, offset: usize, length: usize) -> Part {
        // SAFETY: callers stay within the block.
        Part { base: unsafe { self.base().add(offset) }, length }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the memory is the box that `new` leaked.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// One rank: its end of the link, and a stream each way.
struct Side {
    device: Device,
    link: Link,
    lent: Block,
    out: Stream,
    into: Stream,
}

/// Bytes that go through the link in calls of these lengths, repeatedly.
struct Stream {
    bytes: Block,
    calls: &'static [usize],
    call: usize,
    /// Where the call started, and how much of it is done.
    begin: usize,
    done: usize,
}

/// Number of bytes in a stream. Each ring wraps several times.
const STREAM: usize = if cfg!(miri) { 320 } else { 900 };

impl Stream {
    fn new(calls: &'static [usize]) -> Self {
        Self { bytes: Block::new(STREAM), calls, call: 0, begin: 0, done: 0 }
    }

    /// Returns the part that the next call names.
    fn next(&self) -> Part {
        let length = self.calls[self.call % self.calls.len()].min(STREAM - self.begin);
        self.bytes.part(self.begin + self.done, length - self.done)
    }

    fn count(&mut self, bytes: usize) {
        self.done += bytes;
        if self.next().length == 0 {
            self.begin += self.done;
            (self.call, self.done) = (self.call + 1, 0);
        }
    }

    const fn is_over(&self) -> bool {
        self.begin == STREAM
    }

    fn contents(&self) -> Vec<u8> {
        // SAFETY: the block has these bytes, and nothing writes them now.
        unsafe { NonNull::slice_from_raw_parts(self.bytes.base(), STREAM).as_ref() }.to_vec()
    }
}

/// A small ring, with large parts of 100 bytes.
fn config(design: Design) -> LinkConfig {
    LinkConfig { design, chunk: 32, slots: 3, large: 100 }
}

/// Creates two connected ranks.
fn sides(wires: &Wires, config: LinkConfig) -> [Side; 2] {
    let mut opened = [0, 1].map(|rank| {
        let mut device = wires.device(rank);
        let lent = Block::new(config.bytes());
        // SAFETY: the block lives as long as the side, and only the link uses it.
        let region = unsafe { device.register(lent.base(), config.bytes(), Access::ALL) }.unwrap();
        let (local_key, remote_key) = (region.local_key, region.remote_key);
        let memory = LinkMemory { base: lent.base(), local_key, remote_key };
        // SAFETY: the memory is valid, zero, aligned and registered, and only the link uses it.
        let (link, address) = unsafe { Link::init(&mut device, 1 - rank, config, memory) }.unwrap();
        Some((device, link, lent, address))
    });
    let addresses = opened.each_ref().map(|side| side.as_ref().unwrap().3);
    [0, 1].map(|rank| {
        let (mut device, mut link, lent, _) = opened[rank].take().unwrap();
        assert_eq!(link.connect(&mut device, &addresses[1 - rank]), Ok(Readiness::Ready));
        let (out, into) = (Stream::new(&[8, 150, 33, 120]), Stream::new(&[70, 200, 5]));
        Side { device, link, lent, out, into }
    })
}

impl Side {
    /// Calls `put` and `get` once each and handles all completions.
    fn turn(&mut self) -> Result<(), super::LinkError> {
        let Self { device, link, out, into, .. } = self;
        if !out.is_over() {
            // SAFETY: the stream's bytes stay valid and are not written.
            out.count(unsafe { link.put(device, &[out.next()]) }?);
        }
        let parts = [into.next()];
        // SAFETY: the stream's bytes stay valid, and nothing else accesses them.
        let got = unsafe { link.get(device, &parts[usize::from(into.is_over())..]) }?;
        into.count(got);
        for completion in device.completions() {
            link.handle(&completion);
        }
        Ok(())
    }
}

#[test]
fn a_device_reaches_what_it_may_and_no_more() {
    for (design, ordered_bytes) in Design::ALL.into_iter().flat_map(|d| [(d, true), (d, false)]) {
        let wires = Wires::new(ordered_bytes);
        let mut sides = sides(&wires, config(design));
        for (rank, side) in (0_u8..).zip(&sides) {
            let bytes: Vec<u8> = (0..STREAM).map(|at| at as u8 ^ rank << 7).collect();
            let from = NonNull::from(bytes.as_slice()).cast();
            // SAFETY: the block has these bytes, and no device reads them yet.
            unsafe { side.out.bytes.base().copy_from_nonoverlapping(from, STREAM) };
        }
        while !sides.iter().all(|side| side.out.is_over() && side.into.is_over()) {
            sides.iter_mut().for_each(|side| side.turn().unwrap());
            wires.carry_one();
        }
        for side in &mut sides {
            while !side.link.drain(&mut side.device).unwrap() {
                wires.carry_one();
                for completion in side.device.completions() {
                    side.link.handle(&completion);
                }
            }
        }
        let [one, other] = &sides;
        assert_eq!(one.out.contents(), other.into.contents(), "{}", design.name());
        assert_eq!(other.out.contents(), one.into.contents(), "{}", design.name());
        for Side { mut device, link, lent, .. } in sides {
            link.finalize(&mut device).unwrap();
            drop(lent);
        }
        assert_eq!(wires.regions(), 2, "users' memory is still registered");
    }
}

/// Something that a faulty peer may have its device write.
#[derive(Clone, Copy, Debug)]
enum Forgery {
    /// One of the words for pointers and counters.
    Word(usize, u64),
    /// The next message in a slot: payload, length and kind, credit.
    Slot([u64; 5]),
    /// The next grant.
    Grant([u64; 5]),
}

impl Forgery {
    /// Writes the forgery into the memory lent to `side`.
    fn write(self, side: &Side, config: &LinkConfig) {
        // SAFETY: the places of `config` are in the lent memory and aligned; no other code accesses
        // them now.
        let at = |offset: usize| unsafe { side.lent.base().add(offset).cast::<u64>() };
        // SAFETY: the message lies before `end`, in the lent memory. The flag of the last message
        // that arrived there is also in that place.
        let land = |end: usize, number: u64, words: [u64; 5]| unsafe {
            for (place, word) in words.into_iter().chain([number]).enumerate() {
                at(end - 48 + 8 * place).write(word);
            }
        };
        // SAFETY: `end` is the end of a place in the lent memory.
        let flag = |end: usize| unsafe { at(end - 8).read() };
        let slot = |number: usize| RING + (number + 1) * config.stride();
        match self {
            // SAFETY: `place` is one of the words at the start of the lent memory.
            Self::Word(place, word) => unsafe { at(8 * place).write(word) },
            Self::Slot(words) => {
                let slots = config.slots as usize;
                let last = (0..slots).map(|number| flag(slot(number))).max().unwrap_or(0);
                land(slot(last as usize % slots), last.wrapping_add(1), words);
            }
            Self::Grant(words) => {
                let end = GRANT + CACHE_LINE;
                land(end, flag(end).wrapping_add(1), words);
            }
        }
    }
}

fn forgery() -> impl Strategy<Value = Forgery> {
    /// Returns words that may have a meaning: small numbers, the heads of an announcement and of
    /// its end.
    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![0..40_u64, Just(24 | 1 << 32), Just(2 << 32), any::<u64>(), Just(u64::MAX)]
    }
    let words = || core::array::from_fn::<_, 5, _>(|_| word());
    prop_oneof![
        (0..3_usize, word()).prop_map(|(place, word)| Forgery::Word(place, word)),
        words().prop_map(Forgery::Slot),
        words().prop_map(Forgery::Grant),
    ]
}

proptest! {
    #[test]
    fn what_a_device_wrote_is_parsed(
        design in 0..Design::ALL.len(),
        turns in 0..20_usize,
        forgeries in prop::collection::vec((0..3_usize, forgery()), 1..8),
    ) {
        let wires = Wires::new(true);
        let config = config(Design::ALL[design]);
        let mut sides = sides(&wires, config);
        for _ in 0..turns {
            sides.iter_mut().for_each(|side| side.turn().unwrap());
            wires.carry_one();
        }
        for (pause, forgery) in forgeries {
            forgery.write(&sides[0], &config);
            for _ in 0..=pause {
                // A link that fails returns an error.
                let _ = sides.each_mut().map(Side::turn);
                wires.carry_one();
            }
        }
    }
}
