//! Shares a segment on a node without Strait's launcher: the node's first rank makes it and passes
//! it to the others.

use core::time::Duration;

use strait_core::layout::{Call, SegmentConfig, Wait};

use super::BootError;
use super::join::adopt;
use super::share::{DescriptorListener, Served, TIMEOUT, fetch, has_died, introduce};
use super::store::KeyValueStore;
use crate::nodes::Nodes;
use crate::record::{RecordPlace, WaitRecorder};
use crate::segment::SegmentMap;
use crate::{Rank, liveness, segment};

/// Returns the segment of this rank's node, in which this rank is alive. Every rank of the job
/// calls it.
pub(super) fn meet(
    store: &mut dyn KeyValueStore,
    rank: Rank,
    nodes: &Nodes,
) -> Result<SegmentMap, BootError> {
    meet_within(store, rank, nodes, TIMEOUT)
}

/// Meets the ranks of the node, each of which must come before the time limit.
fn meet_within(
    store: &mut dyn KeyValueStore,
    rank: Rank,
    nodes: &Nodes,
    limit: Duration,
) -> Result<SegmentMap, BootError> {
    let node = nodes.node_of(rank).unwrap_or(0);
    let name = format!("segment-{node}");
    let mut others = nodes.ranks_on(node);
    if others.next() == Some(rank) {
        let prepared = prepare(store, &name, rank, nodes);
        // The ranks that wait at the fence must not wait for ever because there is no memory here.
        store.fence()?;
        let (map, listener, nonce) = prepared?;
        let others: Vec<_> = others.collect();
        let is_dead = |rank| has_died(store, &name, rank);
        share(&map, &listener, nonce, rank, (&others, limit), is_dead)?;
        return Ok(map);
    }
    introduce(store, &name, rank)?;
    store.fence()?;
    let (reply, file) = fetch(store, &name, rank, limit)?;
    adopt(&reply, Some(file), rank, nodes.ranks())
}

/// Gives the segment to `others`. In it this rank is alive from the start, so that the ranks that
/// have it learn of its death.
///
/// A rank that has died instead of coming is marked as dead. If a rank does not come in time, the
/// ranks that have the segment must not wait for ever for it, or for this rank, which gives up. So
/// both are marked as dead.
fn share(
    map: &SegmentMap,
    listener: &DescriptorListener,
    nonce: u64,
    rank: Rank,
    (others, limit): (&[Rank], Duration),
    is_dead: impl FnMut(Rank) -> bool,
) -> Result<(), BootError> {
    let segment = map.view();
    let word = |rank| &segment.rank_block(rank).liveness;
    liveness::attach_self(word(rank));
    let mut came = vec![];
    // A rank that dies after it received the descriptor was alive, so another process must be able
    // to watch it.
    let watch = |served: Served| {
        came.push(served.rank);
        if served.has_our_numbers() {
            liveness::attach_other(word(served.rank), served.pid);
        }
    };
    let mut record = WaitRecorder::new(RecordPlace::of(map, rank));
    record.renew_alone(Wait::new(Call::Start));
    let welcome = (nonce, map.length() as u64, segment.ranks());
    let served = listener.serve(map.fd(), welcome, others, limit, is_dead, watch);
    let absent = others.iter().filter(|rank| !came.contains(rank));
    absent.for_each(|&rank| liveness::mark_dead(word(rank)));
    if served.is_err() {
        liveness::mark_dead(word(rank));
    }
    served
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
