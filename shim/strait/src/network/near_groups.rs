//! The nodes that communicate by software devices in a job with composite devices.

use strait_platform::boot::KeyValueStore;
use strait_platform::{Nodes, Rank};

use super::device_kinds::RankDevice;
use crate::NetworkError;

/// Group of a node on which a rank has no composite device.
const NO_GROUP: u16 = 0;

/// Number of nodes with their groups in one value of the store.
const NODES_PER_VALUE: usize = 128;

/// The groups of nodes that communicate by software devices in a job with composite devices, by
/// node. Nodes of [`NO_GROUP`] do not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct NearGroups(Vec<u16>);

impl NearGroups {
    /// Groups the nodes of each host of a job on one host that acts as `hosts` hosts.
    pub(super) fn of_hosts(nodes: &Nodes, hosts: u32) -> Self {
        let count = nodes.count();
        let blocks = Nodes::blocks(count, hosts.min(count));
        let group = |node| blocks.as_ref().and_then(|blocks| blocks.node_of(node)).unwrap_or(0);
        // A job has fewer nodes than 2¹⁶ hosts.
        Self((0..count).map(|node| group(node) as u16 + 1).collect())
    }

    /// Groups the nodes on which all ranks have composite devices.
    pub(super) fn of(devices: &[Option<RankDevice>], nodes: &Nodes, hosts: u32) -> Self {
        let acted = Self::of_hosts(nodes, hosts);
        let mut groups = Vec::new();
        let mut group = |node| {
            let all: Vec<_> =
                nodes.ranks_on(node).filter_map(|rank| devices[rank as usize].as_ref()).collect();
            let first = all.first().filter(|_| all.iter().all(|one| one.is_composite()))?;
            let host = (first.host.as_str(), acted.0[node as usize]);
            let found = groups.iter().position(|known| *known == host);
            let place = found.unwrap_or_else(|| {
                groups.push(host);
                groups.len() - 1
            });
            Some(place as u16 + 1)
        };
        Self((0..nodes.count()).map(|node| group(node).unwrap_or(NO_GROUP)).collect())
    }

    /// Returns for each rank whether `me` communicates with it by software devices.
    pub(super) fn near(&self, me: Rank, nodes: &Nodes) -> Box<[bool]> {
        let group = |rank| nodes.node_of(rank).and_then(|node| self.0.get(node as usize).copied());
        let own = group(me).filter(|own| *own != NO_GROUP);
        (0..nodes.ranks()).map(|rank| own.is_some() && group(rank) == own).collect()
    }

    /// Puts the groups into the store.
    pub(super) fn publish(&self, store: &mut dyn KeyValueStore) -> Result<(), NetworkError> {
        for (number, part) in self.0.chunks(NODES_PER_VALUE).enumerate() {
            let bytes: Vec<_> = part.iter().flat_map(|group| group.to_le_bytes()).collect();
            store.put(&Self::key(number), &bytes).map_err(NetworkError::Store)?;
        }
        Ok(())
    }

    /// Reads the groups in the store.
    pub(super) fn read(store: &mut dyn KeyValueStore, nodes: &Nodes) -> Result<Self, NetworkError> {
        let mut groups = Vec::new();
        for number in 0..(nodes.count() as usize).div_ceil(NODES_PER_VALUE) {
            let found = store.get(&Self::key(number)).map_err(NetworkError::Store)?;
            let bytes = found.ok_or(NetworkError::Address { peer: 0 })?;
            groups.extend(bytes.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])));
        }
        Ok(Self(groups))
    }

    fn key(number: usize) -> String {
        format!("strait-near-{number}")
    }
}

#[cfg(test)]
mod tests {
    use strait_hca::DeviceKind;

    use super::*;

    #[test]
    fn nodes_of_one_host_with_composite_devices_are_near() {
        let device =
            |kind, host: &str| Some(RankDevice { kind: Some(kind), host: host.to_owned() });
        let nodes = Nodes::named([0, 0, 1, 2, 3, 4]);
        let both = |host| device(DeviceKind::SoftAndVerbs, host);
        let verbs = device(DeviceKind::Verbs, "a");
        let all = [both("a"), both("a"), both("a"), verbs, both("b"), both("b")];
        let groups = NearGroups::of(&all, &nodes, 1);
        assert_eq!(groups.0, [1, 1, NO_GROUP, 2, 2]);
        assert_eq!(*groups.near(1, &nodes), [true, true, true, false, false, false]);
        assert_eq!(*groups.near(3, &nodes), [false; 6]);
        assert_eq!(NearGroups::of(&all, &nodes, 5).0, [1, 2, NO_GROUP, 3, 4]);
        assert_eq!(NearGroups::of_hosts(&nodes, 2).0, [1, 1, 1, 2, 2]);
        let mut store = strait_platform::boot::InProcess::new(1);
        let many = NearGroups((1..400).collect());
        many.publish(&mut store).unwrap();
        let read = NearGroups::read(&mut store, &Nodes::blocks(399, 399).unwrap());
        assert_eq!(read.unwrap(), many);
    }
}
