//! One node: its links, and what it has still to send and receive.

use std::collections::{BTreeMap, VecDeque};

use strait_core::hca::{Completion, Connection, Done, Hca, Readiness};
use strait_core::ring::{LinkAddress, LinkConfig};

use crate::mesh::MeshSide;
use crate::{SimDevice, Step};

/// What a node sends and receives before it goes on: peers, and bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) sends: Vec<(u32, usize)>,
    pub(super) receives: Vec<(u32, usize)>,
}

/// A call of a node, or its answer, on the way to a node outside the device.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) from: u32,
    pub(super) to: u32,
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

impl NodeLink {
    const fn is_ready(&self) -> bool {
        self.connected && self.peer_connected
    }
}

/// A message under way: the bytes that are done.
struct Moving {
    peer: u32,
    bytes: Vec<u8>,
    done: usize,
}

pub(super) struct Node {
    pub(super) rank: u32,
    device: SimDevice,
    config: LinkConfig,
    links: BTreeMap<u32, NodeLink>,
    /// The peer of each connection.
    connections: BTreeMap<u32, u32>,
    rounds: VecDeque<Round>,
    sends: Vec<Moving>,
    receives: Vec<Moving>,
    messages: u64,
    /// Calls and answers that leave.
    calls: Vec<Call>,
}

impl Node {
    pub(super) fn new(
        device: SimDevice,
        rank: u32,
        config: LinkConfig,
        rounds: Vec<Round>,
    ) -> Self {
        Self {
            rank,
            device,
            config,
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            rounds: rounds.into(),
            sends: Vec::new(),
            receives: Vec::new(),
            messages: 0,
            calls: Vec::new(),
        }
    }

    /// Returns the number of links.
    pub(super) fn links(&self) -> usize {
        self.links.len()
    }

    /// Returns the number of messages sent so far, calls and answers included.
    pub(super) const fn messages(&self) -> u64 {
        self.messages
    }

    /// Takes the calls and answers that leave.
    pub(super) fn take_calls(&mut self) -> Vec<Call> {
        core::mem::take(&mut self.calls)
    }

    /// Takes a call or an answer that has arrived.
    pub(super) fn take_call(&mut self, Call { from, address, connected, .. }: Call) {
        let link = self.end(from);
        link.peer = Some(address);
        link.peer_connected |= connected;
    }

    /// Calls `peer`, if there is no link to it.
    fn meet(&mut self, peer: u32) {
        if !self.links.contains_key(&peer) {
            let (from, address) = (self.rank, self.end(peer).side.address);
            self.call(Call { from, to: peer, address, connected: false });
        }
    }

    fn call(&mut self, call: Call) {
        self.calls.push(call);
        self.messages += 1;
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

    /// Makes the progress that is possible now.
    pub(super) fn turn(&mut self) -> Step {
        let mut moved = self.poll();
        moved |= self.connect();
        if self.sends.is_empty() && self.receives.is_empty() {
            let Some(round) = self.rounds.pop_front() else { return Step::Finished };
            self.begin(round);
            moved = true;
        }
        moved |= self.push() | self.pull();
        if moved { Step::Moved } else { Step::Waits }
    }

    fn begin(&mut self, round: Round) {
        for (peer, length) in round.sends {
            self.meet(peer);
            self.messages += 1;
            self.sends.push(Moving { peer, bytes: vec![self.rank as u8; length], done: 0 });
        }
        let receive = |(peer, length)| Moving { peer, bytes: vec![!0; length], done: 0 };
        self.receives.extend(round.receives.into_iter().map(receive));
    }

    /// Passes completions to their links.
    fn poll(&mut self) -> bool {
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
    fn connect(&mut self) -> bool {
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
            self.call(Call { from, to: *to, address: *address, connected: true });
        }
        !connected.is_empty()
    }

    fn push(&mut self) -> bool {
        let (device, links, mut moved) = (&mut self.device, &mut self.links, false);
        self.sends.retain_mut(|Moving { peer, bytes, done }| {
            let Some(link) = links.get_mut(peer).filter(|link| link.is_ready()) else {
                return true;
            };
            let put = |done: usize| link.side.put(device, &bytes[done..]);
            let (some, is_over) = advance(done, bytes.len(), put);
            // A peer's device may read a large message until the link is drained.
            let is_over = is_over && link.side.link.drain(device).expect("the link works");
            moved |= some | is_over;
            !is_over
        });
        moved
    }

    fn pull(&mut self) -> bool {
        let (device, links, mut moved) = (&mut self.device, &mut self.links, false);
        self.receives.retain_mut(|Moving { peer, bytes, done }| {
            let Some(link) = links.get_mut(peer).filter(|link| link.is_ready()) else {
                return true;
            };
            let length = bytes.len();
            let get = |done: usize| link.side.get(device, &mut bytes[done..]);
            let (some, is_over) = advance(done, length, get);
            assert!(!is_over || bytes.iter().all(|byte| *byte == *peer as u8), "damaged bytes");
            moved |= some;
            !is_over
        });
        moved
    }
}

/// Moves the rest of a message. Returns whether bytes moved, and whether it is complete.
fn advance(done: &mut usize, length: usize, go_on: impl FnOnce(usize) -> usize) -> (bool, bool) {
    let bytes = if *done < length { go_on(*done) } else { 0 };
    *done += bytes;
    (bytes > 0, *done == length)
}
