//! The engines of a job on several nodes, on one thread, over the simulated fabric. Everything is
//! drawn from a seed, and the oracle judges the matching.

mod announced;
mod plan;
mod play;
mod scattered;
mod scripted;
mod several_parts;
mod windows;

pub use announced::{Windows, come_late, drop_receives, refuse_nonsense, time};
pub use plan::Plan;
pub use play::play;
pub use scripted::{hear_of_a_death, overtake, write};
pub use several_parts::{come_scattered, refuse_lies};
pub use windows::{Contexts, play_windows};

use core::ops::Range;
use std::collections::BTreeSet;

use fastrand::Rng;
use strait_core::buffer::Part;
use strait_core::engine::{
    Begun, Broken, Channel, ChannelProgress, Direct, Engine, FailureCause, Tuning,
};
use strait_core::hca::{Access, Hca as _, Region};
use strait_core::layout::RingPart;
use strait_core::lmt::{RemoteTransfer, Transfer};
use strait_core::ring::{self, Design};
use strait_core::rndv::Rendezvous;
use strait_core::shm::ParcelSet;
use strait_core::wire::StreamHead;

use crate::{Arena, Ledger, shape};
use strait_sim::{Mesh, MeshNode, Model, Rig, SimDevice, SimFabric};

/// The simulated fabric as a rig.
#[derive(Debug)]
pub struct Simulated(pub SimFabric);

impl Rig for Simulated {
    type Device = SimDevice;

    fn device(&self, rank: u32) -> SimDevice {
        self.0.device(rank)
    }

    fn pass(&self) -> bool {
        self.0.advance()
    }
}

/// One rank's links, as its engine sees them.
struct Port<'a> {
    node: &'a mut MeshNode<SimDevice>,
    rng: &'a mut Rng,
    /// Percentage of registrations of users' memory that are refused.
    refuse: u32,
    /// Nanoseconds that have passed beside virtual time.
    clock: u64,
    /// Peers to which something was put.
    called: &'a mut BTreeSet<u32>,
}

impl Channel for Port<'_> {
    unsafe fn put(&mut self, peer: u32, from: &[Part]) -> Result<ChannelProgress, Broken> {
        let MeshNode { device, links, .. } = &mut *self.node;
        let link = &mut links[peer as usize].as_mut().ok_or(Broken(FailureCause::Ended))?.link;
        self.called.insert(peer);
        // SAFETY: the caller guarantees that the parts are valid as long as `Link::put` needs them
        // (contract of `put`).
        let bytes = unsafe { link.put(device, from) }.map_err(|error| Broken(error.sign()))?;
        Ok(ChannelProgress { bytes, holds: link.holds_put() })
    }

    unsafe fn get(&mut self, peer: u32, into: &[Part]) -> Result<ChannelProgress, Broken> {
        let MeshNode { device, links, .. } = &mut *self.node;
        let link = &mut links[peer as usize].as_mut().ok_or(Broken(FailureCause::Ended))?.link;
        // SAFETY: the caller guarantees that the parts are valid and unused as long as `Link::get`
        // needs them (contract of `get`).
        let bytes = unsafe { link.get(device, into) }.map_err(|error| Broken(error.sign()))?;
        Ok(ChannelProgress { bytes, holds: link.holds_get() })
    }

    unsafe fn register(&mut self, part: Part, access: Access) -> Option<Region> {
        if self.rng.u32(..100) < self.refuse {
            return None;
        }
        // A cache may also answer with the registration of a longer part.
        let (before, after) = (self.rng.usize(..64), self.rng.usize(..64));
        let base = part.base.map_addr(|base| base.get().saturating_sub(before).try_into().unwrap());
        let length = before + part.length + after;
        // SAFETY: the caller guarantees that the part is valid until `release` (contract of
        // `register`). No request accesses the memory before or behind the part.
        unsafe { self.node.device.register(base, length, access) }.ok()
    }

    fn release(&mut self, region: Region) {
        self.node.device.deregister(region).expect("a region is given back once");
    }

    unsafe fn transfer(&mut self, peer: u32, direct: &Direct) -> Result<Option<Begun>, Broken> {
        let MeshNode { device, links, .. } = &mut *self.node;
        let link = &mut links[peer as usize].as_mut().ok_or(Broken(FailureCause::Ended))?.link;
        // SAFETY: the caller guarantees that the memory is valid until the transfer is done
        // (contract of `transfer`).
        unsafe { link.transfer(device, direct) }.map_err(|error| Broken(error.sign()))
    }

    fn is_done(&self, peer: u32, number: u64) -> bool {
        self.node.links[peer as usize].as_ref().is_some_and(|side| side.link.is_done(number))
    }

    fn is_linked(&self, peer: u32) -> bool {
        self.node.links[peer as usize].is_some()
    }

    fn now(&self) -> u64 {
        self.clock + self.node.device.clock()
    }

    fn close(&mut self, peer: u32) {
        self.node.close(peer);
    }
}

/// Consecutive ranks on nodes of one or two ranks each, and the fabric between the nodes.
#[derive(Debug)]
pub struct Cluster {
    /// One engine for each rank. Dropped before the memory that they point to.
    engines: Vec<Engine<Ledger>>,
    mesh: Mesh<Simulated>,
    /// The peers to which each rank has put something. As a link's call does in the library, the
    /// first put makes the peer's engine expect more.
    called: Vec<BTreeSet<u32>>,
    dead: Option<u32>,
    rng: Rng,
    refuse: u32,
    /// Nanoseconds that have passed beside virtual time. In a drawn cluster they pass at random, so
    /// that either way of a large message seems the cheaper one for a while.
    clock: u64,
    /// The most bits of the nanoseconds that pass in a turn.
    clock_bits: u32,
    /// The segment of each node.
    _arenas: Vec<Arena>,
    ledger: Ledger,
}

impl Cluster {
    /// Creates a cluster of `ranks` ranks. Its fabric and settings are drawn from `seed`.
    ///
    /// # Panics
    ///
    /// When there is no memory.
    #[must_use]
    pub fn drawn(seed: u64, ranks: u32, design: Design) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x0c15);
        let (chunk, slots) = (8 * rng.u32(3..32), rng.u32(1..9));
        let large = rng.u32(StreamHead::LENGTH as u32 + 1..400);
        let links = ring::LinkConfig { design, chunk, slots, large };
        let mut model = Model::drawn(seed);
        model.capabilities.message = *rng.choice(&[2000, 1 << 30]).expect("one of them");
        let fabric = SimFabric::new(seed, ranks, model);
        // Two ranks on one node would not use the network.
        let per_node = if ranks > 2 { rng.u32(1..3) } else { 1 };
        let refuse = *rng.choice(&[0, 0, 0, 20]).expect("one of them");
        let mut draws = rng.fork();
        let tuning = || Tuning {
            eager_max: draws.usize(0..600),
            stream_max: draws.usize(0..600),
            unexpected_max: *draws.choice(&[300, 2000, 1 << 20]).expect("one of them"),
            transfer: Transfer::CopyRing,
            remote_transfer: *draws.choice(&RemoteTransfer::ALL).expect("one of them"),
            rendezvous: *draws.choice(&Rendezvous::ALL).expect("one of them"),
            ..Tuning::default()
        };
        let cluster = Self::on(fabric, links, (ranks, per_node), tuning, (rng, refuse));
        Self { clock_bits: 12, ..cluster }
    }

    /// Creates a cluster on `fabric`, of `ranks` ranks with `per_node` on a node.
    fn on(
        fabric: SimFabric,
        links: ring::LinkConfig,
        (ranks, per_node): (u32, u32),
        mut tuning: impl FnMut() -> Tuning,
        (rng, refuse): (Rng, u32),
    ) -> Self {
        let mesh = Mesh::new(Simulated(fabric), ranks, links);
        let (ledger, mut arenas) = (Ledger::default(), Vec::new());
        for _ in 0..ranks.div_ceil(per_node) {
            arenas.push(Arena::new(shape::tiny(ranks, 2)));
        }
        let engine = |rank: u32| {
            let node = rank / per_node;
            let mut engine = arenas[node as usize].engine_with(rank, &ledger, tuning());
            for peer in 0..ranks {
                if peer / per_node == node {
                    for set in ParcelSet::ALL {
                        engine.parcels_backed(peer, set, true);
                    }
                    for part in RingPart::ALL {
                        engine.ring_backed(peer, part, true);
                    }
                } else {
                    engine.set_remote(peer).expect("memory");
                }
            }
            engine
        };
        let engines: Vec<_> = (0..ranks).map(engine).collect();
        Self {
            called: vec![BTreeSet::new(); engines.len()],
            engines,
            mesh,
            dead: None,
            rng,
            refuse,
            clock: 0,
            clock_bits: 0,
            _arenas: arenas,
            ledger,
        }
    }

    fn ranks(&self) -> Range<u32> {
        0..self.engines.len() as u32
    }

    /// Returns the ranks that live.
    fn living(&self) -> impl Iterator<Item = u32> {
        let dead = self.dead;
        self.ranks().filter(move |rank| Some(*rank) != dead)
    }

    /// Ends a rank: its engine makes no more calls, and its device does nothing.
    fn kill(&mut self, rank: u32) {
        self.mesh.rig.0.kill(rank);
        self.dead = Some(rank);
    }

    /// Lets one rank make progress. Returns whether anything moved.
    fn turn(&mut self, rank: u32) -> bool {
        let polled = self.mesh.poll(rank);
        let engine = &mut self.engines[rank as usize];
        for (peer, called) in (0..).zip(&self.called) {
            if called.contains(&rank) {
                engine.linked(peer).expect("memory");
            }
        }
        let moved = engine.progress().expect("memory, and a sound segment");
        while let Some(peer) = engine.poll_want() {
            engine.fastbox_backed(peer, true);
        }
        let node = &mut self.mesh.nodes[rank as usize];
        let bits = self.rng.u32(0..=self.clock_bits);
        self.clock += self.rng.u64(0..1 << bits);
        let (refuse, clock) = (self.refuse, self.clock);
        let called = &mut self.called[rank as usize];
        let far =
            engine.poll_network(&mut Port { node, rng: &mut self.rng, refuse, clock, called });
        polled | moved | far.expect("memory")
    }

    /// Lets an event happen on the fabric. Returns false if nothing is under way there.
    fn pass(&self) -> bool {
        self.mesh.rig.pass()
    }

    /// Returns whether all bytes that `rank` put have reached its peers, or never will.
    fn is_drained(&mut self, rank: u32) -> bool {
        let MeshNode { device, links, .. } = &mut self.mesh.nodes[rank as usize];
        let busy = links.iter_mut().flatten().filter_map(|side| {
            let drained = side.link.drain(device).unwrap_or(true);
            (!drained).then_some(())
        });
        busy.count() == 0
    }
}
