//! Lanes of windows over the simulated fabric: random requests against a model of the member's
//! memory, with random failures.

use core::ptr::NonNull;

use fastrand::Rng;
use strait_core::buffer::{Direction, Part};
use strait_core::hca::{
    Access, Completion, Connection, Done, Hca, Region, RemoteAddress, Sge, WorkError,
};
use strait_core::rma::{AtomicOp, LENT, Lane, LaneError, SLOT};
use strait_sim::{Model, SimDevice, SimFabric};
use strait_tests::traffic;

/// Bytes of the member's part. The first words are for atomics.
const PART: usize = 24_000;

const WORDS: usize = 8;

/// Aligned memory that only raw pointers access while it is registered.
struct Memory {
    words: Box<[u64]>,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(8)].into() }
    }

    fn base(&mut self) -> NonNull<u8> {
        NonNull::from(&mut self.words[..]).cast()
    }
}

/// An origin, its lane, and the contents that it expects in the member's part.
struct Origin {
    fabric: SimFabric,
    device: SimDevice,
    lane: Lane,
    part: RemoteAddress,
    near: (NonNull<u8>, Region),
    model: Vec<u8>,
    /// The end of the last put.
    behind: usize,
}

impl Origin {
    /// Repeats a request until the lane takes it, and returns the result.
    fn ask<R>(
        &mut self,
        mut what: impl FnMut(&mut Lane, &mut SimDevice) -> Result<Option<R>, LaneError>,
    ) -> Result<R, LaneError> {
        let mut idle = 0;
        loop {
            if let Some(asked) = what(&mut self.lane, &mut self.device)? {
                return Ok(asked);
            }
            let moved = self.fabric.advance();
            let none = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
            let mut completions = [none; 4];
            let count = self.device.poll(&mut completions).unwrap();
            completions[..count].iter().for_each(|completion| self.lane.handle(completion));
            self.lane.go_on(&mut self.device);
            // The lane accepts a request that it refused temporarily when the request is repeated.
            idle = if moved || count > 0 { 0 } else { idle + 1 };
            assert!(idle < 1000, "nothing moves any more");
        }
    }

    fn await_done(&mut self, number: u64) -> Result<(), LaneError> {
        self.ask(|lane, _| Ok(lane.is_done(number)?.then_some(())))
    }

    fn there(&self, offset: usize) -> RemoteAddress {
        RemoteAddress { address: self.part.address + offset as u64, key: self.part.key }
    }

    fn put(&mut self, rng: &mut Rng) -> Result<(), LaneError> {
        let scale = rng.u32(..10);
        let length = rng.usize(1..=SLOT >> scale);
        let anywhere = rng.usize(8 * WORDS..=PART - length);
        // The put begins where the last one ended, or anywhere.
        let offset = match self.behind {
            behind if rng.u32(..3) > 0 && behind + length <= PART => behind,
            _ => anywhere,
        };
        self.behind = offset + length;
        let mut data: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
        let there = self.there(offset);
        let from = Part { base: NonNull::from(&mut data[..]).cast(), length };
        // SAFETY: the memory outlives the call.
        self.ask(|lane, device| Ok(unsafe { lane.put(device, from, there) }?.then_some(())))?;
        self.model[offset..offset + length].copy_from_slice(&data);
        Ok(())
    }

    fn fetch(&mut self, rng: &mut Rng) -> Result<(), LaneError> {
        let length = rng.usize(1..=SLOT);
        let offset = rng.usize(..=PART - length);
        let there = self.there(offset);
        let number = self.ask(|lane, device| lane.fetch(device, length, there))?;
        self.await_done(number)?;
        // SAFETY: the device no longer uses the slot.
        let found =
            unsafe { NonNull::slice_from_raw_parts(self.lane.slot(number), length).as_ref() };
        assert_eq!(found, &self.model[offset..offset + length]);
        Ok(())
    }

    fn change(&mut self, rng: &mut Rng) -> Result<(), LaneError> {
        let offset = 8 * rng.usize(..WORDS);
        let word: [u8; 8] = self.model[offset..offset + 8].try_into().unwrap();
        let old = u64::from_ne_bytes(word);
        let (change, new) = match rng.u32(..3) {
            0 => (AtomicOp::Swap { expected: old, desired: 7 }, 7),
            1 => (AtomicOp::Swap { expected: old ^ 1, desired: 8 }, old),
            _ => (AtomicOp::Add(u64::MAX - 5), old.wrapping_add(u64::MAX - 5)),
        };
        let there = self.there(offset);
        let number = self.ask(|lane, device| lane.change(device, change, there))?;
        self.await_done(number)?;
        assert_eq!(self.lane.found(number), old);
        self.model[offset..offset + 8].copy_from_slice(&new.to_ne_bytes());
        Ok(())
    }

    /// Transfers the whole part to registered memory, or back.
    fn transfer(&mut self, way: Direction) -> Result<(), LaneError> {
        let (base, region) = self.near;
        let piece = Sge { base, length: PART as u32, key: region.local_key };
        let there = self.part;
        // SAFETY: the memory is registered, and the loop waits for the request.
        let number =
            self.ask(|lane, device| unsafe { lane.transfer(device, way, piece, there) })?;
        self.await_done(number)?;
        // SAFETY: the device no longer uses the memory.
        let near = unsafe { NonNull::slice_from_raw_parts(base, PART).as_ref() };
        match way {
            Direction::Read => assert_eq!(near, &self.model[..]),
            Direction::Write => self.model.copy_from_slice(near),
        }
        Ok(())
    }

    fn step(&mut self, rng: &mut Rng) -> Result<(), LaneError> {
        match rng.u32(..12) {
            0..6 => self.put(rng),
            6..8 => self.fetch(rng),
            8..10 => self.change(rng),
            10 => self.transfer(Direction::Read),
            _ => self.transfer(Direction::Write),
        }
    }

    fn flush(&mut self) -> Result<(), LaneError> {
        let there = self.part;
        self.ask(|lane, device| Ok(lane.is_flushed(device, there)?.then_some(())))
    }
}

/// Plays the program of a seed. `harm` is called at one of its steps, and returns the error with
/// which the lane must end.
fn play(seed: u64, harm: Option<fn(&SimFabric, &Lane) -> LaneError>) {
    let mut rng = Rng::with_seed(seed);
    let mut model = Model::drawn(seed);
    // Unless writes are acknowledged, a read must confirm that they have arrived.
    model.capabilities.acknowledged = harm.is_some() || seed.is_multiple_of(2);
    let fabric = SimFabric::new(seed, 2, model);
    let (mut near, mut slots) = (Memory::new(PART), Memory::new(LENT));
    let (mut part, mut far_slots) = (Memory::new(PART), Memory::new(LENT));
    let (mut device, mut far) = (fabric.device(0), fabric.device(1));
    // SAFETY: all four outlive the devices' use of them, and nothing else accesses them meanwhile.
    let [near_region, slot_region] = [(near.base(), PART), (slots.base(), LENT)]
        .map(|(base, bytes)| unsafe { device.register(base, bytes, Access::LOCAL) }.unwrap());
    // SAFETY: the part outlives the device's use of it, and nothing else accesses it meanwhile.
    let part_region = unsafe { far.register(part.base(), PART, Access::ALL) }.unwrap();
    // SAFETY: the slots outlive the device's use of them, and nothing else accesses them meanwhile.
    let (mut lane, address) =
        unsafe { Lane::open(&mut device, 1, slots.base(), slot_region.local_key) }.unwrap();
    // SAFETY: this end posts no request, so its slots need no key.
    let (mut answer, far_address) =
        unsafe { Lane::open(&mut far, 0, far_slots.base(), 0) }.unwrap();
    while !lane.connect(&mut device, &far_address).unwrap() {}
    while !answer.connect(&mut far, &address).unwrap() {}
    let there = RemoteAddress { address: part_region.base, key: part_region.remote_key };
    let near = (near.base(), near_region);
    let mut origin =
        Origin { fabric, device, lane, part: there, near, model: vec![0; PART], behind: 8 * WORDS };
    let steps = 60;
    let fatal = rng.u32(..steps);
    let mut expected = None;
    for step in 0..steps {
        if let (true, Some(harm)) = (step == fatal, harm) {
            expected = Some(harm(&origin.fabric, &origin.lane));
        }
        match (origin.step(&mut rng), expected) {
            (Ok(()), _) => {}
            (Err(error), Some(expected)) => {
                assert_eq!(error, expected, "seed {seed}");
                assert_eq!(origin.flush(), Err(expected), "seed {seed}");
                let Origin { mut lane, mut device, .. } = origin;
                lane.close(&mut device).unwrap();
                return lane.close(&mut device).unwrap();
            }
            (Err(error), None) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(origin.flush().is_ok() || expected.is_some(), "seed {seed}");
    if expected.is_none() {
        // SAFETY: all requests are complete.
        let found = unsafe { NonNull::slice_from_raw_parts(part.base(), PART).as_ref() };
        assert_eq!(found, &origin.model[..], "seed {seed}");
    }
}

#[test]
fn a_lane_does_to_the_member_what_was_asked() {
    traffic::seeds(1, 60).for_each(|seed| play(seed, None));
}

#[test]
fn a_lane_that_breaks_says_so_for_ever() {
    for seed in traffic::seeds(1000, 60) {
        play(
            seed,
            Some(|fabric, lane| {
                fabric.fail(0, lane.connection(), WorkError::RemoteAccess);
                LaneError::Failed(WorkError::RemoteAccess)
            }),
        );
        play(
            seed,
            Some(|fabric, _| {
                fabric.kill(1);
                LaneError::Failed(WorkError::Unreachable)
            }),
        );
    }
}
