//! Some ranks, each with a link to every other.

use core::ptr::NonNull;

use strait_core::buffer::Part;
use strait_core::hca::{Access, Completion, Connection, Done, Hca, Readiness, Region};
use strait_core::ring::{Link, LinkAddress, LinkConfig, LinkError, LinkMemory, WakeupSource};

use super::block::Block;

/// Devices of several ranks, all driven by one thread.
pub trait Rig {
    /// The type of a rank's device.
    type Device: Hca;

    /// Returns the device of `rank`.
    fn device(&self, rank: u32) -> Self::Device;

    /// Lets an event happen on the devices. Returns false if nothing will happen by itself.
    fn pass(&self) -> bool;
}

/// The ranks of a rig, connected.
#[derive(Debug)]
pub struct Mesh<R: Rig> {
    /// The devices.
    pub rig: R,
    /// The ranks.
    pub nodes: Vec<MeshNode<R::Device>>,
}

/// One rank.
#[derive(Debug)]
pub struct MeshNode<H> {
    /// Its device.
    pub device: H,
    /// Its links, by peer; `None` for itself.
    pub links: Vec<Option<MeshSide>>,
    /// Memory of closed links: still registered, because peers may not know yet.
    closed: Vec<Block>,
}

/// One end of a link, with the memory lent to it.
#[derive(Debug)]
pub struct MeshSide {
    /// The end.
    pub link: Link,
    /// The region of its memory.
    pub region: Region,
    pub(crate) address: LinkAddress,
    memory: Block,
}

impl<R: Rig> Mesh<R> {
    /// Creates links between each two of `ranks` ranks, all connected.
    ///
    /// # Panics
    ///
    /// When that fails.
    pub fn new(rig: R, ranks: u32, config: LinkConfig) -> Self {
        let node = |rank| {
            let mut device = rig.device(rank);
            let mut side = |peer| (peer != rank).then(|| MeshSide::new(&mut device, peer, config));
            let links = (0..ranks).map(&mut side).collect();
            MeshNode { device, links, closed: Vec::new() }
        };
        let nodes = (0..ranks).map(node).collect();
        let mut mesh = Self { rig, nodes };
        while !mesh.connect() {
            let _ = mesh.rig.pass();
        }
        mesh
    }

    /// Connects what is not connected yet. Returns true if everything is.
    fn connect(&mut self) -> bool {
        let mut ready = true;
        for rank in 0..self.nodes.len() {
            for peer in (0..self.nodes.len()).filter(|peer| *peer != rank) {
                let address = self.nodes[peer].links[rank].as_ref().unwrap().address;
                let MeshNode { device, links, .. } = &mut self.nodes[rank];
                let link = &mut links[peer].as_mut().unwrap().link;
                ready &= link.connect(device, &address).unwrap() == Readiness::Ready;
            }
        }
        ready
    }

    /// Returns the end at `rank` of the link between two ranks, and its device.
    pub fn end(&mut self, rank: u32, peer: u32) -> (&mut Link, &mut R::Device) {
        let MeshNode { device, links, .. } = &mut self.nodes[rank as usize];
        (&mut links[peer as usize].as_mut().unwrap().link, device)
    }

    /// Puts bytes, in parts of these lengths.
    ///
    /// # Errors
    ///
    /// Those of [`Link::put`].
    pub fn put(
        &mut self,
        way: (u32, u32),
        bytes: &[u8],
        cuts: &[usize],
    ) -> Result<usize, LinkError> {
        let (link, device) = self.end(way.0, way.1);
        // SAFETY: the bytes lie in a vector of the caller.
        unsafe { link.put(device, &parts(NonNull::from(bytes), cuts)) }
    }

    /// Gets bytes, into parts of these lengths.
    ///
    /// # Errors
    ///
    /// Those of [`Link::get`].
    pub fn get(
        &mut self,
        way: (u32, u32),
        bytes: &mut [u8],
        cuts: &[usize],
    ) -> Result<usize, LinkError> {
        let (link, device) = self.end(way.1, way.0);
        // SAFETY: the bytes lie in a vector of the caller, which lends it for writing.
        unsafe { link.get(device, &parts(NonNull::from(bytes), cuts)) }
    }

    /// Passes a rank's completions to its links.
    ///
    /// # Panics
    ///
    /// When the device fails.
    pub fn poll(&mut self, rank: u32) -> bool {
        let MeshNode { device, links, .. } = &mut self.nodes[rank as usize];
        let nothing = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut completions = [nothing; 8];
        let count = device.poll(&mut completions).unwrap();
        for completion in &completions[..count] {
            let mut links = links.iter_mut().flatten().map(|side| &mut side.link);
            let link = links.find(|link| link.connection() == completion.connection);
            // A completion of a link that was closed meanwhile belongs to no link.
            link.into_iter().for_each(|link| link.handle(completion));
        }
        count > 0
    }
}

impl<R: Rig> Mesh<R> {
    /// Arms a rank's device and requests wake-ups from its peers. Returns whether the rank may
    /// sleep. `hasty`: does not wait for data that the peers had under way.
    ///
    /// # Panics
    ///
    /// When that fails.
    pub fn ask(&mut self, rank: u32, hasty: bool) -> bool {
        let MeshNode { device, links, .. } = &mut self.nodes[rank as usize];
        device.arm().unwrap();
        let links = links.iter_mut().flatten();
        let open = links.filter_map(|side| {
            let watch = side.link.ask(device).unwrap();
            (watch == WakeupSource::Open).then_some(())
        });
        open.count() == 0 || hasty
    }
}

impl<H: Hca> MeshNode<H> {
    /// Closes the link to `peer`. Its memory stays registered.
    ///
    /// # Panics
    ///
    /// When there is none, or the device refuses.
    pub fn close(&mut self, peer: u32) {
        let side = self.links[peer as usize].take().expect("a link is closed once");
        side.link.finalize(&mut self.device).unwrap();
        self.closed.push(side.memory);
    }
}

impl MeshSide {
    /// Makes an end that is not connected.
    pub(crate) fn new<H: Hca>(device: &mut H, peer: u32, config: LinkConfig) -> Self {
        let memory = Block::new(config.bytes());
        // SAFETY: the block lives as long as the side, and only the link and its peer access it.
        let region = unsafe { device.register(memory.base(), memory.length(), Access::ALL) };
        let region = region.unwrap();
        let lent = LinkMemory {
            base: memory.base(),
            local_key: region.local_key,
            remote_key: region.remote_key,
        };
        // SAFETY: the block lives as long as the side, and only the link and its peer access it.
        let (link, address) = unsafe { Link::init(device, peer, config, lent) }.unwrap();
        Self { link, region, address, memory }
    }

    /// Puts bytes, and returns their number. The caller lends them until the link is drained.
    pub(crate) fn put<H: Hca>(&mut self, device: &mut H, bytes: &[u8]) -> usize {
        // SAFETY: the caller keeps the bytes where they are until the link is drained.
        unsafe { self.link.put(device, &parts(NonNull::from(bytes), &[])) }.expect("the link works")
    }

    /// Gets bytes, and returns their number. The caller lends the room until it is full.
    pub(crate) fn get<H: Hca>(&mut self, device: &mut H, bytes: &mut [u8]) -> usize {
        // SAFETY: the caller keeps the bytes where they are until all have arrived.
        unsafe { self.link.get(device, &parts(NonNull::from(bytes), &[])) }.expect("the link works")
    }
}

/// Returns `bytes` in parts of these lengths, and the rest in one more part.
fn parts(bytes: NonNull<[u8]>, cuts: &[usize]) -> Vec<Part> {
    let mut at = 0;
    let mut part = |length| {
        // SAFETY: the parts so far are no longer than the bytes.
        let base = unsafe { bytes.cast::<u8>().add(at) };
        at += length;
        Part { base, length }
    };
    let mut left = bytes.len();
    let mut parts = Vec::with_capacity(cuts.len() + 1);
    for cut in cuts {
        parts.push(part(left.min(*cut)));
        left -= left.min(*cut);
    }
    parts.push(part(left));
    parts
}
