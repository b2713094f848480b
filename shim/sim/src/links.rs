//! One node's links, which are made at the first contact.

use std::collections::BTreeMap;

use strait_core::hca::{Completion, Connection, Done, Hca, Readiness};
use strait_core::ring::{LinkAddress, LinkConfig};

use crate::SimDevice;
use crate::mesh::MeshSide;

/// A call of a node, or its answer, on the way to a node outside the device.
#[derive(Debug)]
pub(crate) struct LinkCall {
    pub(crate) from: u32,
    pub(crate) to: u32,
    address: LinkAddress,
    /// Whether the end of `from` is connected.
    connected: bool,
}

/// This node's end of a link. As with the connections of RDMA devices, it may be used when both
/// ends are connected.
struct NodeLink {
    side: MeshSide,
    /// The address of the peer's end, once the peer has called.
    peer: Option<LinkAddress>,
    connected: bool,
    peer_connected: bool,
}

/// The device of a node, and its links by peer.
pub(crate) struct NodeLinks {
    rank: u32,
    device: SimDevice,
    config: LinkConfig,
    links: BTreeMap<u32, NodeLink>,
    /// The peer of each connection.
    connections: BTreeMap<u32, u32>,
    /// Calls and answers that leave.
    calls: Vec<LinkCall>,
    called: u64,
    /// The peers that have called since the last [`NodeLinks::take_callers`].
    callers: Vec<u32>,
}

impl NodeLinks {
    pub(crate) const fn new(device: SimDevice, rank: u32, config: LinkConfig) -> Self {
        Self {
            rank,
            device,
            config,
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            calls: Vec::new(),
            called: 0,
            callers: Vec::new(),
        }
    }

    pub(crate) const fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of links.
    pub(crate) fn count(&self) -> usize {
        self.links.len()
    }

    /// Returns the number of calls and answers so far.
    pub(crate) const fn called(&self) -> u64 {
        self.called
    }

    pub(crate) const fn device(&mut self) -> &mut SimDevice {
        &mut self.device
    }

    /// Takes the calls and answers that leave.
    pub(crate) fn take_calls(&mut self) -> Vec<LinkCall> {
        core::mem::take(&mut self.calls)
    }

    /// Takes a call or an answer that has arrived.
    pub(crate) fn take_call(&mut self, LinkCall { from, address, connected, .. }: LinkCall) {
        let link = self.end(from);
        link.peer = Some(address);
        link.peer_connected |= connected;
        self.callers.push(from);
    }

    /// Takes the peers that have called. One may be among them twice.
    pub(crate) fn take_callers(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.callers)
    }

    /// Calls `peer`, if there is no link to it.
    pub(crate) fn meet(&mut self, peer: u32) {
        if !self.links.contains_key(&peer) {
            let (from, address) = (self.rank, self.end(peer).side.address);
            self.call(LinkCall { from, to: peer, address, connected: false });
        }
    }

    fn call(&mut self, call: LinkCall) {
        self.calls.push(call);
        self.called += 1;
    }

    /// Returns this node's end of the link to `peer`, which it makes if there is none.
    fn end(&mut self, peer: u32) -> &mut NodeLink {
        let Self { device, config, connections, .. } = self;
        self.links.entry(peer).or_insert_with(|| {
            let side = MeshSide::new(device, peer, *config);
            connections.insert(side.link.connection().0, peer);
            NodeLink { side, peer: None, connected: false, peer_connected: false }
        })
    }

    /// Returns whether there is a link to `peer`, or one is being made.
    pub(crate) fn is_linked(&self, peer: u32) -> bool {
        self.links.contains_key(&peer)
    }

    /// Returns the link to `peer` and the device, if both ends are connected.
    pub(crate) fn ready(&mut self, peer: u32) -> Option<(&mut MeshSide, &mut SimDevice)> {
        let link = self.links.get_mut(&peer)?;
        (link.connected && link.peer_connected).then_some((&mut link.side, &mut self.device))
    }

    /// Returns this node's end of the link to `peer`.
    pub(crate) fn side(&self, peer: u32) -> Option<&MeshSide> {
        self.links.get(&peer).map(|link| &link.side)
    }

    /// Passes completions to their links.
    pub(crate) fn poll(&mut self) -> bool {
        let nothing = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut completions = [nothing; 16];
        let count = self.device.poll(&mut completions).expect("the device works");
        for completion in &completions[..count] {
            let peer = self.connections[&completion.connection.0];
            self.links.get_mut(&peer).expect("it was met").side.link.handle(completion);
        }
        count > 0
    }

    /// Connects the ends to which an address has come, and tells the peers.
    pub(crate) fn connect(&mut self) -> bool {
        let mut connected = Vec::new();
        for (peer, link) in self.links.iter_mut().filter(|(_, link)| !link.connected) {
            let Some(address) = &link.peer else { continue };
            while link.side.link.connect(&mut self.device, address).expect("a peer")
                == Readiness::Pending
            {}
            link.connected = true;
            connected.push((*peer, link.side.address));
        }
        let from = self.rank;
        for (to, address) in &connected {
            self.call(LinkCall { from, to: *to, address: *address, connected: true });
        }
        !connected.is_empty()
    }
}
