//! One member: its memory, its lanes, its handler, and its position in the program.

use core::mem::take;
use core::ptr::NonNull;
use std::collections::VecDeque;

use fastrand::Rng;
use strait_core::buffer::Part;
use strait_core::hca::{
    Access, Address, Completion, Connection, Done, Hca as _, RemoteAddress, Sge,
};
use strait_core::rma::{
    AmHandler, AmMemory, AmOrigin, AmSender, LENT, Lane, LaneAccess, LaneError, OperandBuffers,
    Pair, STRIPE, Station, Stripes, WindowBlock, transfer,
};

use super::work::Work;
use super::{Kind, Spot, part_length};
use strait_sim::Block as Memory;
use strait_sim::{SimDevice, SimFabric};

/// A member and its remaining work.
pub(super) struct Member {
    pub(super) place: u32,
    pub(super) kind: Kind,
    pub(super) device: SimDevice,
    /// The lanes by place, including the one of this member to itself.
    pub(super) lanes: Vec<Lane>,
    pub(super) spots: Vec<Spot>,
    /// Operand buffers at each other member, and active messages sent there.
    pub(super) operand_buffers: Vec<OperandBuffers>,
    pub(super) active_messages: Vec<AmSender>,
    /// Private memory for numbers that are changed, and its key.
    pub(super) scratch: (Part, u32),
    pub(super) pairs: Vec<Pair>,
    /// The targets with a post that has not arrived yet.
    pub(super) awaited: Vec<bool>,
    pub(super) works: VecDeque<Work>,
    /// The values that its operations returned.
    pub(super) got: Vec<u64>,
    handler: Option<AmHandler<usize, Vec<AmOrigin<usize>>>>,
    /// Number of receives to be posted.
    owed: usize,
    /// Its part at the end of its wait.
    seen: Option<Vec<u8>>,
    /// Part; block; scratch and slots; operand buffers, images and words.
    memory: [Memory; 4],
    keys: [u32; 4],
}

/// The lanes of a member, for its handler.
struct Ways<'a> {
    lanes: &'a mut [Lane],
    device: &'a mut SimDevice,
}

impl LaneAccess for Ways<'_> {
    type Name = usize;
    type Device = SimDevice;

    fn on<R>(
        &mut self,
        lane: usize,
        act: impl FnOnce(&mut Lane, &mut SimDevice) -> Result<R, LaneError>,
    ) -> Result<R, LaneError> {
        act(&mut self.lanes[lane], self.device)
    }

    fn break_lane(&mut self, lane: usize) {
        panic!("the handler refuses the data of lane {lane}");
    }
}

impl Member {
    /// Creates the connected members of a window, `per_node` on a node.
    pub(super) fn all(fabric: &SimFabric, ranks: u32, per_node: u32, kind: Kind) -> Vec<Self> {
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

    /// Creates a member with open lanes. Returns it, the description that others need (without its
    /// node), and the addresses of the lanes.
    fn open(
        mut device: SimDevice,
        place: u32,
        ranks: u32,
        kind: Kind,
    ) -> (Self, Spot, Vec<Address>) {
        let members = ranks as usize;
        // The images of operand buffers lie behind the areas of [`AmMemory`].
        let operand_buffers = AmMemory { members }.bytes() + members * AmMemory::IMAGES;
        let memory = [
            part_length(ranks),
            WindowBlock::bytes(ranks),
            STRIPE + members * LENT,
            operand_buffers,
        ]
        .map(Memory::new);
        let regions = [0, 1, 2, 3].map(|at: usize| {
            let access = if at == 2 { Access::LOCAL } else { Access::ALL };
            // SAFETY: the member keeps the memory, and drops it after its device.
            unsafe { device.register(memory[at].base(), memory[at].length(), access) }.unwrap()
        });
        let (mut lanes, mut addresses) = (Vec::new(), Vec::new());
        for peer in 0..ranks {
            // SAFETY: the slots are registered, and only this lane uses them.
            let (lane, address) = unsafe {
                let slots = memory[2].base().add(STRIPE + peer as usize * LENT);
                Lane::open(&mut device, peer, slots, regions[2].local_key)
            }
            .unwrap();
            lanes.push(lane);
            addresses.push(address);
        }
        let remote =
            |at: usize| RemoteAddress { address: regions[at].base, key: regions[at].remote_key };
        let spot = Spot {
            node: 0,
            part: remote(0),
            block: remote(1),
            operand_buffers: remote(3),
            memory: Part { base: memory[0].base(), length: part_length(ranks) },
            // SAFETY: the memory is aligned, zeroed, and lives as long as the member.
            words: unsafe { WindowBlock::new(memory[1].base(), ranks) },
        };
        let scratch = Part { base: memory[2].base(), length: STRIPE };
        let member = Self {
            place,
            kind,
            device,
            lanes,
            spots: Vec::new(),
            operand_buffers: Vec::new(),
            active_messages: vec![AmSender::default(); members],
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

    /// Sets up the state that depends on the other members.
    fn begin(&mut self) {
        let (members, place, key) = (self.spots.len(), self.place as usize, self.keys[3]);
        let layout = AmMemory { members };
        // SAFETY: the offset is within the memory.
        let at = |offset| unsafe { self.memory[3].base().add(offset) };
        let origin = |(peer, spot): (usize, &Spot)| {
            let word = WindowBlock::acknowledgement_offset(members as u32, self.place);
            AmOrigin::new(
                peer,
                spot.operand_buffers.after(layout.answers(place)),
                spot.block.after(word),
            )
        };
        let origins = self.spots.iter().enumerate().map(origin).collect();
        let own = self.spots[place];
        let stripes = match self.kind {
            Kind::Handled => Stripes::Processors(own.words),
            Kind::Device | Kind::Locks { .. } => Stripes::Devices { block: own.block, own: place },
        };
        let (trays, words) = (at(0), at(layout.words()).cast());
        let station = Station { rank: self.place, operand_buffers: trays, words, key, stripes };
        let trays = self.spots.iter().enumerate().map(|(peer, spot)| {
            let images = at(layout.bytes() + peer * AmMemory::IMAGES);
            let answers = at(layout.answers(peer));
            OperandBuffers {
                images,
                answers,
                key,
                there: spot.operand_buffers.after(layout.operand_buffers(place)),
            }
        });
        self.operand_buffers = trays.collect();
        // SAFETY: all of this memory lives as long as the member.
        let handler: AmHandler<usize, Vec<AmOrigin<usize>>> =
            unsafe { AmHandler::new(station, origins) };
        self.owed = handler.room();
        self.handler = Some(handler);
    }

    /// Connects the lanes, once all are open. Returns true if they are connected.
    fn connect(&mut self, addresses: &[Vec<Address>]) -> bool {
        let Self { lanes, device, kind, place, .. } = self;
        let ready = lanes.iter_mut().zip(addresses).zip(0..).map(|((lane, ends), peer)| {
            // iWARP does not connect a member to itself.
            let is_loop = *kind == Kind::Handled && peer == *place;
            is_loop || lane.connect(device, &ends[*place as usize]).unwrap()
        });
        ready.fold(true, |all, ready| all & ready)
    }

    /// Handles completions, and continues the work.
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
        let nothing = Sge { base: NonNull::dangling(), length: 0, key: 0 };
        // SAFETY: a receive without memory needs no validity.
        while self.owed > 0 && unsafe { self.device.post_receive(0, nothing) }.is_ok() {
            self.owed -= 1;
        }
    }

    fn serve(&mut self) {
        let part = self.own().memory;
        let mut ways = Ways { lanes: &mut self.lanes, device: &mut self.device };
        let ground = |name| (name == 0).then_some(part);
        let handler = self.handler.as_mut().expect("it has begun");
        // SAFETY: the part lives as long as the member, and everything runs on one thread.
        unsafe { handler.serve(&mut ways, ground, |_| false) }.expect("valid active messages");
    }

    /// Takes a step of the work. Returns false if it cannot proceed now, or there is none.
    fn go_on(&mut self, rng: &mut Rng) -> bool {
        let Some(mut work) = self.works.pop_front() else { return false };
        let stepped = work.step(self, rng).expect("no lane breaks");
        if stepped != Some(true) {
            self.works.push_front(work);
        }
        stepped.is_some()
    }

    /// Returns the target's memory, if the target is on this node.
    pub(super) fn near(&self, target: u32) -> Option<Spot> {
        let spot = self.spots[target as usize];
        (spot.node == self.own().node).then_some(spot)
    }

    pub(super) fn own(&self) -> Spot {
        self.spots[self.place as usize]
    }

    /// Returns whether the target has posted, if this member waits for that.
    pub(super) fn may_access(&mut self, target: u32) -> bool {
        let (own, at) = (self.own(), target as usize);
        self.awaited[at] &= !self.pairs[at].is_posted(own.words.posts(target));
        !self.awaited[at]
    }

    /// Returns whether the target has carried out all active messages of this member.
    pub(super) fn are_active_messages_done(&self, target: u32) -> bool {
        self.active_messages[target as usize].are_done(self.own().words.acknowledgements(target))
    }

    /// Returns a lane and the device.
    pub(super) fn lane(&mut self, target: u32) -> (&mut Lane, &mut SimDevice) {
        (&mut self.lanes[target as usize], &mut self.device)
    }

    /// Saves the present contents of the part.
    pub(super) fn look(&mut self) {
        self.seen = Some(self.copy_part());
    }

    /// Returns the contents of the part at the end of this member's wait, or else the present
    /// contents.
    pub(super) fn seen(&mut self) -> Vec<u8> {
        take(&mut self.seen).unwrap_or_else(|| self.copy_part())
    }

    fn copy_part(&self) -> Vec<u8> {
        let Part { base, length } = self.own().memory;
        let mut copy = vec![0_u8; length];
        // SAFETY: the copy is as long, and everything runs on this thread.
        unsafe { transfer(base, NonNull::from(&mut copy[..]).cast(), length) };
        copy
    }
}
