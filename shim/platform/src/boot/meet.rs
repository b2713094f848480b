//! Shares a segment on a node without Strait's launcher: the node's first rank makes it and passes
//! it to the others.

use strait_core::layout::SegmentConfig;

use super::BootError;
use super::join::adopt;
use super::share::{DescriptorListener, Served, TIMEOUT, fetch};
use super::store::KeyValueStore;
use crate::nodes::Nodes;
use crate::segment::SegmentMap;
use crate::{Rank, liveness, segment};

/// Returns the segment of this rank's node, in which this rank is alive. Every rank of the job
/// calls it.
pub(super) fn meet(
    store: &mut dyn KeyValueStore,
    rank: Rank,
    nodes: &Nodes,
) -> Result<SegmentMap, BootError> {
    let node = nodes.node_of(rank).unwrap_or(0);
    let name = format!("segment-{node}");
    let mut others = nodes.ranks_on(node);
    if others.next() == Some(rank) {
        return host(store, &name, rank, nodes, &others.collect::<Vec<_>>());
    }
    store.fence()?;
    let (reply, file) = fetch(store, &name, rank, TIMEOUT)?;
    adopt(&reply, Some(file), rank, nodes.ranks())
}

/// Makes the segment and gives it to `others`.
fn host(
    store: &mut dyn KeyValueStore,
    name: &str,
    rank: Rank,
    nodes: &Nodes,
    others: &[Rank],
) -> Result<SegmentMap, BootError> {
    let prepared = prepare(store, name, rank, nodes);
    // The ranks that wait at the fence must not wait for ever because there is no memory here.
    store.fence()?;
    let (map, listener, nonce) = prepared?;
    let welcome = (nonce, map.length() as u64, nodes.ranks());
    let segment = map.view();
    // A rank that dies after it received the descriptor was alive, so another process must be able
    // to watch it.
    let watch = |served: Served| {
        if served.has_our_numbers() {
            liveness::attach_other(&segment.rank_block(served.rank).liveness, served.pid);
        }
    };
    listener.serve(map.fd(), welcome, others, TIMEOUT, watch)?;
    liveness::attach_self(&segment.rank_block(rank).liveness);
    Ok(map)
}

fn prepare(
    store: &mut dyn KeyValueStore,
    name: &str,
    rank: Rank,
    nodes: &Nodes,
) -> Result<(SegmentMap, DescriptorListener, u64), BootError> {
    let nonce = segment::nonce().map_err(BootError::Segment)?;
    let node = nodes.node_of(rank).unwrap_or(0);
    let map = SegmentMap::create_on(SegmentConfig::new(nodes.ranks()), nonce, nodes, node)
        .map_err(BootError::Segment)?;
    let listener = DescriptorListener::open(store, name)?;
    Ok((map, listener, nonce))
}

#[cfg(test)]
mod tests;
