//! One member: its memory, its lanes, its handler, and how far it is.

use core::mem::take;
use core::ptr::NonNull;
use std::collections::VecDeque;

use fastrand::Rng;
use strait_core::hca::{Access, Address, Completion, Connection, Done, Hca as _, Piece, Remote};
use strait_core::progress::Part;
use strait_core::rma::{
    Block, ErrandMemory, Errands, Guest, Handler, LENT, Lane, LaneError, Lanes, Pair, STRIPE,
    Station, Stripes, Trays, transfer,
};

use super::work::Work;
use super::{Kind, Spot, part_length};
use crate::conformance::ring::Block as Memory;
use crate::sim::{Device, Fabric};

/// A member, and what it has still to do.
pub(super) struct Member {
    pub(super) place: u32,
    pub(super) kind: Kind,
    pub(super) device: Device,
    /// By place, this member's to itself among them.
    pub(super) lanes: Vec<Lane>,
    pub(super) spots: Vec<Spot>,
    /// Trays at each other member, and errands sent there.
    pub(super) trays: Vec<Trays>,
    pub(super) errands: Vec<Errands>,
    /// Memory of its own for numbers that are changed, and its key.
    pub(super) scratch: (Part, u32),
    pub(super) pairs: Vec<Pair>,
    /// Whose post has not been seen.
    pub(super) awaited: Vec<bool>,
    pub(super) works: VecDeque<Work>,
    /// What its operations gave back.
    pub(super) got: Vec<u64>,
    handler: Option<Handler<usize, Vec<Guest<usize>>>>,
    /// Receives that are to be posted.
    owed: usize,
    /// Its part when it had waited.
    seen: Option<Vec<u8>>,
    /// Part; block; scratch and slots; trays, images and words.
    memory: [Memory; 4],
    keys: [u32; 4],
}

/// The lanes of a member, for its handler.
struct Ways<'a> {
    lanes: &'a mut [Lane],
    device: &'a mut Device,
}

impl Lanes for Ways<'_> {
    type Name = usize;
    type Device = Device;

    fn on<R>(
        &mut self,
        lane: usize,
        act: impl FnOnce(&mut Lane, &mut Device) -> Result<R, LaneError>,
    ) -> Result<R, LaneError> {
        act(&mut self.lanes[lane], self.device)
    }

    fn break_lane(&mut self, lane: usize) {
        panic!("the handler refuses what came on lane {lane}");
    }
}

impl Member {
    /// The members of a window, `per_node` on a node, connected.
    pub(super) fn all(fabric: &Fabric, ranks: u32, per_node: u32, kind: Kind) -> Vec<Self> {
        let (mut members, mut spots, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for place in 0..ranks {
            let (member, spot, ends) = Self::open(fabric.device(place), place, ranks, kind);
            spots.push(Spot { node: place / per_node, ..spot });
            addresses.push(ends);
            members.push(member);
        }
        for member in &mut members {
            member.spots.clone_from(&spots);
            member.begin();
        }
        while !members.iter_mut().all(|member| member.connect(&addresses)) {
            let _ = fabric.advance();
        }
        members
    }

    /// A member whose lanes are open; what others know of it, but its node; and the addresses of the lanes.
    fn open(mut device: Device, place: u32, ranks: u32, kind: Kind) -> (Self, Spot, Vec<Address>) {
        let members = ranks as usize;
        let trays = ErrandMemory { members }.bytes();
        let memory = [part_length(ranks), Block::bytes(ranks), STRIPE + members * LENT, trays]
            .map(Memory::new);
        let regions = [0, 1, 2, 3].map(|at: usize| {
            let access = if at == 2 { Access::LOCAL } else { Access::ALL };
            // SAFETY: the member keeps it, behind its device.
            unsafe { device.register(memory[at].base(), memory[at].length(), access) }.unwrap()
        });
        let (mut lanes, mut addresses) = (Vec::new(), Vec::new());
        for peer in 0..ranks {
            // SAFETY: registered, and this lane's alone.
            let (lane, address) = unsafe {
                let slots = memory[2].base().add(STRIPE + peer as usize * LENT);
                Lane::open(&mut device, peer, slots, regions[2].local_key)
            }
            .unwrap();
            lanes.push(lane);
            addresses.push(address);
        }
        let remote = |at: usize| Remote { address: regions[at].base, key: regions[at].remote_key };
        let spot = Spot {
            node: 0,
            part: remote(0),
            block: remote(1),
            trays: remote(3),
            memory: Part { base: memory[0].base(), length: part_length(ranks) },
            // SAFETY: aligned, zeroed, and kept as long as the member.
            words: unsafe { Block::new(memory[1].base(), ranks) },
        };
        let scratch = Part { base: memory[2].base(), length: STRIPE };
        let member = Self {
            place,
            kind,
            device,
            lanes,
            spots: Vec::new(),
            trays: Vec::new(),
            errands: vec![Errands::default(); members],
            scratch: (scratch, regions[2].local_key),
            pairs: vec![Pair::default(); members],
            awaited: vec![false; members],
            works: VecDeque::new(),
            got: Vec::new(),
            handler: None,
            owed: 0,
            seen: None,
            memory,
            keys: regions.map(|region| region.local_key),
        };
        (member, spot, addresses)
    }

    /// What needs to know the others.
    fn begin(&mut self) {
        let (members, place, key) = (self.spots.len(), self.place as usize, self.keys[3]);
        let layout = ErrandMemory { members };
        // SAFETY: within the memory.
        let at = |offset| unsafe { self.memory[3].base().add(offset) };
        let guest = |(peer, spot): (usize, &Spot)| {
            let word = Block::acknowledgement_offset(members as u32, self.place);
            Guest::new(peer, spot.trays.after(layout.answers(place)), spot.block.after(word))
        };
        let guests = self.spots.iter().enumerate().map(guest).collect();
        let own = self.spots[place];
        let stripes = match self.kind {
            Kind::Handled => Stripes::Processors(own.words),
            Kind::Device | Kind::Locks { .. } => Stripes::Devices { block: own.block, own: place },
        };
        let (trays, words) = (at(0), at(layout.words()).cast());
        let station = Station { rank: self.place, trays, words, key, stripes };
        let trays = self.spots.iter().enumerate().map(|(peer, spot)| {
            let (images, answers) = (at(layout.images(peer)), at(layout.answers(peer)));
            Trays { images, answers, key, there: spot.trays.after(layout.trays(place)) }
        });
        self.trays = trays.collect();
        // SAFETY: all of it is kept as long as the member.
        let handler: Handler<usize, Vec<Guest<usize>>> = unsafe { Handler::new(station, guests) };
        self.owed = handler.room();
        self.handler = Some(handler);
    }

    /// Connects the lanes, once all are open. True: they are.
    fn connect(&mut self, addresses: &[Vec<Address>]) -> bool {
        let Self { lanes, device, kind, place, .. } = self;
        let ready = lanes.iter_mut().zip(addresses).zip(0..).map(|((lane, ends), peer)| {
            // As on iWARP.
            let is_loop = *kind == Kind::Handled && peer == *place;
            is_loop || lane.connect(device, &ends[*place as usize]).unwrap()
        });
        ready.fold(true, |all, ready| all & ready)
    }

    /// Takes in what has come, and goes on.
    pub(super) fn turn(&mut self, rng: &mut Rng) {
        self.poll();
        self.serve();
        while rng.u32(..4) > 0 && self.go_on(rng) {}
    }

    fn poll(&mut self) {
        let nothing = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut completions = [nothing; 8];
        let count = self.device.poll(&mut completions).unwrap();
        for completion in &completions[..count] {
            let is_it = |lane: &Lane| lane.connection() == completion.connection;
            let place = self.lanes.iter().position(is_it).expect("a lane of the member's");
            if let Ok(Done::Receive { .. }) = completion.result {
                assert!(self.handler.as_mut().is_some_and(|handler| handler.handle(place)));
                self.owed += 1;
            } else {
                self.lanes[place].handle(completion);
            }
        }
        self.lanes.iter_mut().for_each(|lane| lane.go_on(&mut self.device));
        let nothing = Piece { base: NonNull::dangling(), length: 0, key: 0 };
        // SAFETY: there is nothing to keep valid.
        while self.owed > 0 && unsafe { self.device.post_receive(0, nothing) }.is_ok() {
            self.owed -= 1;
        }
    }

    fn serve(&mut self) {
        let part = self.own().memory;
        let mut ways = Ways { lanes: &mut self.lanes, device: &mut self.device };
        let ground = |name| (name == 0).then_some(part);
        let handler = self.handler.as_mut().expect("it has begun");
        // SAFETY: the part is kept as long as the member; everything is on one thread.
        unsafe { handler.serve(&mut ways, ground, |_| false) }.expect("errands as they are sent");
    }

    /// A step of what is to be done. False: not now, or there is nothing.
    fn go_on(&mut self, rng: &mut Rng) -> bool {
        let Some(mut work) = self.works.pop_front() else { return false };
        let stepped = work.step(self, rng).expect("no lane breaks");
        if stepped != Some(true) {
            self.works.push_front(work);
        }
        stepped.is_some()
    }

    /// What a processor of this node reaches.
    pub(super) fn near(&self, target: u32) -> Option<Spot> {
        let spot = self.spots[target as usize];
        (spot.node == self.own().node).then_some(spot)
    }

    pub(super) fn own(&self) -> Spot {
        self.spots[self.place as usize]
    }

    /// Whether the target has posted, if that is waited for.
    pub(super) fn may_access(&mut self, target: u32) -> bool {
        let (own, at) = (self.own(), target as usize);
        self.awaited[at] &= !self.pairs[at].is_posted(own.words.posts(target));
        !self.awaited[at]
    }

    /// Whether the target has carried out all errands of this member.
    pub(super) fn are_errands_done(&self, target: u32) -> bool {
        self.errands[target as usize].are_done(self.own().words.acknowledgements(target))
    }

    /// Has a lane and the device at hand.
    pub(super) fn lane(&mut self, target: u32) -> (&mut Lane, &mut Device) {
        (&mut self.lanes[target as usize], &mut self.device)
    }

    /// Keeps what the part is now.
    pub(super) fn look(&mut self) {
        self.seen = Some(self.copy_part());
    }

    /// The part as it was when this member had waited, or else as it is.
    pub(super) fn seen(&mut self) -> Vec<u8> {
        take(&mut self.seen).unwrap_or_else(|| self.copy_part())
    }

    fn copy_part(&self) -> Vec<u8> {
        let Part { base, length } = self.own().memory;
        let mut copy = vec![0_u8; length];
        // SAFETY: as long, and everything happens on this thread.
        unsafe { transfer(base, NonNull::from(&mut copy[..]).cast(), length) };
        copy
    }
}
