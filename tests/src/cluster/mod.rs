//! The engines of a job on several nodes, on one thread, over the simulated fabric: everything is drawn from a seed, and who
//! gets what is judged by the oracle.

mod plan;
mod play;

pub use plan::Plan;
pub use play::play;

use core::ops::Range;

use fastrand::Rng;
use strait_core::lmt::Transfer;
use strait_core::progress::{Broken, Channel, Engine, Part, Taken, Tuning};
use strait_core::ring::{self, Design};

use crate::conformance::ring::{Mesh, Node, Rig};
use crate::sim::{Device, Fabric, Model};
use crate::{Arena, Ledger, shape};

/// The simulated fabric as a rig.
#[derive(Debug)]
pub struct Simulated(pub Fabric);

impl Rig for Simulated {
    type Device = Device;

    fn device(&self, rank: u32) -> Device {
        self.0.device(rank)
    }

    fn pass(&self) -> bool {
        self.0.advance()
    }
}

/// One rank's links, as its engine sees them.
struct Port<'a>(&'a mut Node<Device>);

impl Channel for Port<'_> {
    unsafe fn put(&mut self, peer: u32, from: &[Part]) -> Result<Taken, Broken> {
        let Node { device, links, .. } = &mut *self.0;
        let link = &mut links[peer as usize].as_mut().ok_or(Broken)?.link;
        // SAFETY: by the contract.
        let bytes = unsafe { link.put(device, from) }.map_err(|_| Broken)?;
        Ok(Taken { bytes, holds: link.holds_put() })
    }

    unsafe fn get(&mut self, peer: u32, into: &[Part]) -> Result<Taken, Broken> {
        let Node { device, links, .. } = &mut *self.0;
        let link = &mut links[peer as usize].as_mut().ok_or(Broken)?.link;
        // SAFETY: by the contract.
        let bytes = unsafe { link.get(device, into) }.map_err(|_| Broken)?;
        Ok(Taken { bytes, holds: link.holds_get() })
    }

    fn close(&mut self, peer: u32) {
        self.0.close(peer);
    }
}

/// Ranks in consecutive pairs on a node each, and the fabric between the nodes.
#[derive(Debug)]
pub struct Cluster {
    /// One for each rank. Dropped before what they point to.
    engines: Vec<Engine<Ledger>>,
    mesh: Mesh<Simulated>,
    dead: Option<u32>,
    /// The segment of each node.
    _arenas: Vec<Arena>,
    ledger: Ledger,
}

impl Cluster {
    /// A cluster of `ranks` ranks whose fabric and numbers are drawn from `seed`.
    ///
    /// # Panics
    ///
    /// When there is no memory.
    #[must_use]
    pub fn drawn(seed: u64, ranks: u32, design: Design) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x0c15);
        let (chunk, slots) = (8 * rng.u32(3..32), rng.u32(1..9));
        let links = ring::Config { design, chunk, slots, large: rng.u32(33..400) };
        let mesh = Mesh::new(Simulated(Fabric::new(seed, ranks, Model::drawn(seed))), ranks, links);
        let per_node = rng.u32(1..3);
        let (ledger, mut arenas) = (Ledger::default(), Vec::new());
        for _ in 0..ranks.div_ceil(per_node) {
            arenas.push(Arena::new(shape::tiny(ranks, 2)));
        }
        let engine = |rank: u32| {
            let tuning = Tuning {
                eager_max: rng.usize(0..600),
                unexpected_max: *rng.choice(&[300, 2000, 1 << 20]).expect("one of them"),
                transfer: Transfer::CopyRing,
                ..Tuning::default()
            };
            let node = rank / per_node;
            let mut engine = arenas[node as usize].engine_with(rank, &ledger, tuning);
            for peer in 0..ranks {
                if peer / per_node == node {
                    engine.parcels_backed(peer, true);
                    engine.ring_backed(peer, true);
                } else {
                    engine.set_remote(peer).expect("memory");
                }
            }
            engine
        };
        let engines = (0..ranks).map(engine).collect();
        Self { engines, mesh, dead: None, _arenas: arenas, ledger }
    }

    fn ranks(&self) -> Range<u32> {
        0..self.engines.len() as u32
    }

    /// The ranks that live.
    fn living(&self) -> impl Iterator<Item = u32> {
        let dead = self.dead;
        self.ranks().filter(move |rank| Some(*rank) != dead)
    }

    /// Ends a rank: its engine makes no call any more, its device does nothing.
    fn kill(&mut self, rank: u32) {
        self.mesh.rig.0.kill(rank);
        self.dead = Some(rank);
    }

    /// One rank makes progress. Says whether anything moved.
    fn turn(&mut self, rank: u32) -> bool {
        let polled = self.mesh.poll(rank);
        let engine = &mut self.engines[rank as usize];
        let moved = engine.progress().expect("memory, and a sound segment");
        while let Some(peer) = engine.poll_want() {
            engine.fastbox_backed(peer, true);
        }
        let far = engine.poll_network(&mut Port(&mut self.mesh.nodes[rank as usize]));
        polled | moved | far.expect("memory")
    }

    /// Something happens on the fabric. False: nothing is under way there.
    fn pass(&self) -> bool {
        self.mesh.rig.pass()
    }

    /// Whether everything that `rank` put has reached its peers, or never will.
    fn is_drained(&mut self, rank: u32) -> bool {
        let Node { device, links, .. } = &mut self.mesh.nodes[rank as usize];
        let busy = links.iter_mut().flatten().filter_map(|side| {
            let drained = side.link.drain(device).unwrap_or(true);
            (!drained).then_some(())
        });
        busy.count() == 0
    }
}
