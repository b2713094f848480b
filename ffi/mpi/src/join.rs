//! How the processes of a job join Strait's world, or agree that all messages stay the host's.

use strait::hca::DeviceChoice;
use strait::{Nodes, World, env, topology};

use super::agreement::Agreement;
use super::store::HostStore;
use super::{gpu, reach};
use crate::abi::Handle;

/// Number of ranks on a node up to which the first large messages are prepared when MPI starts. A
/// rank prepares each of the others, and their calls wait for each other in the kernel.
const PREPARED_RANKS: usize = 8;

/// What a rank tells the others before it joins.
struct Introduction {
    host: String,
    /// The virtual node that `STRAIT_NODES` makes of this rank and its neighbours on the host.
    block: String,
    /// The kind of device between nodes that the user chose, or nothing.
    device: String,
    /// Why this rank must not join.
    objection: String,
}

impl Introduction {
    /// Describes this process.
    fn of_process(rank: u32, ranks: u32) -> Self {
        let (block, device) = (block(rank, ranks), device());
        let refused = [block.as_ref().err(), device.as_ref().err()].into_iter().flatten().next();
        Self {
            host: topology::host(),
            objection: refused.cloned().or_else(gpu::objection).unwrap_or_default(),
            block: block.unwrap_or_default().to_string(),
            device: device.unwrap_or_default(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        [&*self.host, &self.block, &self.device, &self.objection].join("\n").into_bytes()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut fields = text.splitn(4, '\n').map(str::to_owned);
        let mut next = || fields.next();
        Some(Self { host: next()?, block: next()?, device: next()?, objection: next()? })
    }
}

/// Returns the virtual node of a rank.
fn block(rank: u32, ranks: u32) -> Result<u32, String> {
    let count = env::nodes().map_err(|error| error.to_string())?.unwrap_or(1);
    let nodes = Nodes::blocks(ranks, count.min(ranks));
    Ok(nodes.and_then(|nodes| nodes.node_of(rank)).unwrap_or(0))
}

/// Returns the kind of the device that the user chose. The names of devices may differ between
/// hosts.
fn device() -> Result<String, String> {
    let choice = env::hca().map_err(|error| error.to_string())?;
    let kind = |choice: DeviceChoice| choice.to_string().split(':').next().map(str::to_owned);
    Ok(choice.and_then(kind).unwrap_or_default())
}

/// Joins the world of all processes. Every process calls it, and all succeed or none.
///
/// # Errors
///
/// Why all messages stay the host's.
pub(crate) fn join(private: Handle, rank: u32, ranks: u32) -> Result<World, String> {
    let agreement = Agreement::new(private, ranks);
    let own = Introduction::of_process(rank, ranks);
    let all = agreement.exchange(&own.bytes()).map_err(|error| error.to_string())?;
    let all: Option<Vec<_>> = all.iter().map(|bytes| Introduction::parse(bytes)).collect();
    // All ranks have read the same, so all find the same reason here.
    let nodes = nodes(&all.unwrap_or_default())?;
    let store = Box::new(HostStore::new(agreement.clone()));
    let joined = World::init_with(rank, ranks, store, Some(nodes));
    let joined = joined.map_err(|error| error.to_string());
    let reached = match &joined {
        Ok(world) => reach::check(world, private),
        Err(why) => Err(why.clone()),
    };
    let concluded = agreement.conclude(reached.as_ref().copied().map_err(|why| &**why));
    if reached.is_err() {
        // Its messages never arrive, so its end would wait for ever.
        core::mem::forget(joined);
        return concluded.and(Err("a rank could not join".to_owned()));
    }
    let joined = concluded.and(joined);
    if let Ok(world) = &joined
        && world.nodes().ranks_on(world.node()).count() <= PREPARED_RANKS
    {
        world.prepare_large_messages();
    }
    joined
}

/// Returns the nodes of the ranks, if messages between all of them can be Strait's.
fn nodes(all: &[Introduction]) -> Result<Nodes, String> {
    let objection = |(rank, it): (usize, &Introduction)| {
        (!it.objection.is_empty()).then(|| format!("rank {rank}: {}", it.objection))
    };
    if let Some(why) = all.iter().enumerate().find_map(objection) {
        return Err(why);
    }
    let nodes = Nodes::named(all.iter().map(|it| (&it.host, &it.block)));
    if nodes.count() == 1 {
        return Ok(nodes);
    }
    let device = &all[0].device;
    if all.iter().any(|it| it.device != *device) {
        return Err("the job spans nodes, and its ranks have different values of STRAIT_HCA".into());
    }
    if *device == DeviceChoice::None.to_string() {
        return Err("the job spans nodes, and STRAIT_HCA is none".into());
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction(host: &str, block: &str, device: &str, objection: &str) -> Introduction {
        let [host, block, device, objection] = [host, block, device, objection].map(str::to_owned);
        Introduction { host, block, device, objection }
    }

    #[test]
    fn ranks_of_one_host_may_be_on_several_nodes() {
        let rank = |host, block| introduction(host, block, "soft-inline", "");
        let all = [rank("a", "0"), rank("a", "0"), rank("a", "1"), rank("b", "1")];
        assert_eq!(nodes(&all).unwrap().to_string(), "4 ranks on 3 nodes: 0-1, 2, 3");
    }

    #[test]
    fn an_objection_of_any_rank_counts() {
        let all = [introduction("a", "0", "", ""), introduction("a", "0", "", "a GPU\nor two")];
        let read: Vec<_> = all.iter().filter_map(|one| Introduction::parse(&one.bytes())).collect();
        assert_eq!(nodes(&read).unwrap_err(), "rank 1: a GPU\nor two");
    }

    #[test]
    fn nodes_need_one_kind_of_device() {
        let pair = |one: &str, other: &str| {
            nodes(&[introduction("a", "0", one, ""), introduction("b", "0", other, "")])
        };
        assert!(pair("verbs", "verbs").is_ok());
        assert!(pair("verbs", "").unwrap_err().contains("different values of STRAIT_HCA"));
        assert!(pair("none", "none").unwrap_err().contains("STRAIT_HCA is none"));
        let near = [introduction("a", "0", "none", ""), introduction("a", "0", "", "")];
        assert!(nodes(&near).is_ok(), "one node needs no device");
    }
}
