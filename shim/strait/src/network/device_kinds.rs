//! The kinds of the devices of a job's ranks, which must fit before anything relies on them.
//!
//! Each rank publishes its setting and its host. Rank 0 compares them and publishes the verdict,
//! so that each rank asks the store for one value. A job with devices that do not fit ends here, on
//! every rank, with the same error: later, one rank would wait for another with no end.

use strait_hca::soft::SoftMode;
use strait_hca::{DeviceChoice, DeviceKind};
use strait_platform::boot::KeyValueStore;
use strait_platform::{Nodes, Rank, topology};

use super::near_groups::NearGroups;
use crate::{NetworkError, env};

/// The key of the verdict in the store.
const VERDICT: &str = "strait-devices";

/// The word of a rank for which the user chose no device.
const NO_CHOICE: &str = "default";

/// Longest list of ranks or nodes in an error, in runs. A value in a launcher's store is short.
const RUNS_SHOWN: usize = 4;

/// Longest text of a verdict, in bytes.
const TEXT_MAX: usize = 400;

/// What a rank publishes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RankDevice {
    /// The kind that the user chose, if the user chose one.
    pub(super) kind: Option<DeviceKind>,
    pub(super) host: String,
}

impl RankDevice {
    fn bytes(&self) -> Vec<u8> {
        let kind = self.kind.map_or(NO_CHOICE, DeviceKind::name);
        format!("{kind} {}", self.host).into_bytes()
    }

    /// Returns whether the rank has two devices.
    pub(super) fn is_composite(&self) -> bool {
        self.kind.is_some_and(DeviceKind::is_composite)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (kind, host) = str::from_utf8(bytes).ok()?.split_once(' ')?;
        let kind = match kind {
            NO_CHOICE => None,
            name => Some(DeviceKind::named(name)?),
        };
        Some(Self { kind, host: host.to_owned() })
    }
}

/// Whether the devices of all ranks fit.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Verdict {
    /// The devices fit, and all nodes are one host or not.
    Fits { is_one_host: bool },
    /// The kinds differ: the ranks of each kind.
    Kinds(String),
    /// Software devices on several hosts: the nodes of each host.
    Hosts(String),
}

impl Verdict {
    /// Compares the devices of all ranks. `None` stands for a rank that died before it published.
    fn of(devices: &[Option<RankDevice>], nodes: &Nodes) -> Self {
        let hosts = grouped((0..).zip(devices).filter_map(|(rank, device)| {
            Some((device.as_ref()?.host.as_str(), nodes.node_of(rank)?))
        }));
        let is_one_host = hosts.len() <= 1;
        let default = if is_one_host { DeviceKind::Soft } else { DeviceKind::Verbs };
        let kinds = grouped((0..).zip(devices).filter_map(|(rank, device)| {
            let chosen = device.as_ref()?.kind;
            Some((chosen.unwrap_or(default), (rank, chosen.is_none())))
        }));
        // Composite devices connect to others by the device that reaches all peers.
        let mut far = kinds.iter().map(|(kind, _)| kind.far());
        let first = far.next().unwrap_or(DeviceKind::None);
        match first {
            _ if far.any(|other| other != first) => Self::Kinds(kinds_in_words(&kinds, nodes)),
            DeviceKind::Soft if !is_one_host => {
                let lists: Vec<_> = hosts
                    .iter()
                    .map(|(_, on_host)| format!("on one host {}", numbers("node", on_host)))
                    .collect();
                Self::Hosts(lists.join(", "))
            }
            _ => Self::Fits { is_one_host },
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let (letter, text) = match self {
            Self::Fits { is_one_host: true } => ('1', ""),
            Self::Fits { is_one_host: false } => ('n', ""),
            Self::Kinds(text) => ('k', &**text),
            Self::Hosts(text) => ('h', &**text),
        };
        let mut text = text.to_owned();
        if text.len() > TEXT_MAX {
            let end = (0..=TEXT_MAX).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
            text.push('…');
        }
        format!("{letter}{text}").into_bytes()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut characters = str::from_utf8(bytes).ok()?.chars();
        let letter = characters.next()?;
        let text = || characters.as_str().to_owned();
        Some(match letter {
            '1' => Self::Fits { is_one_host: true },
            'n' => Self::Fits { is_one_host: false },
            'k' => Self::Kinds(text()),
            'h' => Self::Hosts(text()),
            _ => return None,
        })
    }
}

/// Returns the device that this rank opens when the devices of all ranks fit, and the groups of
/// nodes if it is a composite. Every rank calls it, with the device that its user chose.
pub(super) fn agree(
    choice: Option<DeviceChoice>,
    store: &mut dyn KeyValueStore,
    rank: Rank,
    nodes: &Nodes,
) -> Result<(DeviceChoice, Option<NearGroups>), NetworkError> {
    let kind = choice.as_ref().map(DeviceChoice::kind);
    let own = RankDevice { kind, host: topology::host() };
    store.put(&key(rank), &own.bytes()).map_err(NetworkError::Store)?;
    store.fence().map_err(NetworkError::Store)?;
    if rank == 0 {
        let (verdict, groups) = judge(store, nodes)?;
        groups.map_or(Ok(()), |groups| groups.publish(store))?;
        store.put(VERDICT, &verdict.bytes()).map_err(NetworkError::Store)?;
    }
    store.fence().map_err(NetworkError::Store)?;
    let found = store.get(VERDICT).map_err(NetworkError::Store)?;
    let is_composite = kind.is_some_and(DeviceKind::is_composite);
    let (verdict, groups) = match found.and_then(|bytes| Verdict::parse(&bytes)) {
        Some(verdict @ Verdict::Fits { .. }) if is_composite => {
            (verdict, Some(NearGroups::read(store, nodes)?))
        }
        Some(verdict) => (verdict, None),
        // Rank 0 has died.
        None => judge(store, nodes)?,
    };
    let choice = match verdict {
        Verdict::Fits { is_one_host } => choice.unwrap_or(match is_one_host {
            true => DeviceChoice::Soft(SoftMode::default()),
            false => DeviceChoice::Verbs(Vec::new()),
        }),
        Verdict::Kinds(found) => return Err(NetworkError::Kinds { found }),
        Verdict::Hosts(found) => return Err(NetworkError::Hosts { found }),
    };
    Ok((choice, groups))
}

/// Reads what all ranks have published, and compares it. If a device is a composite, it also
/// returns the groups of nodes.
fn judge(
    store: &mut dyn KeyValueStore,
    nodes: &Nodes,
) -> Result<(Verdict, Option<NearGroups>), NetworkError> {
    let device = |rank| {
        let found = store.get(&key(rank)).map_err(NetworkError::Store)?;
        Ok(found.and_then(|bytes| RankDevice::parse(&bytes)))
    };
    let devices: Result<Vec<_>, NetworkError> = (0..nodes.ranks()).map(device).collect();
    let devices = devices?;
    // The values of variables were checked before.
    let hosts = env::hca_hosts().unwrap_or(1);
    let groups = devices.iter().flatten().any(RankDevice::is_composite);
    let groups = groups.then(|| NearGroups::of(&devices, nodes, hosts));
    Ok((Verdict::of(&devices, nodes), groups))
}

/// Returns the key of what `rank` publishes.
fn key(rank: Rank) -> String {
    format!("strait-device-{rank}")
}

/// Groups values by their names, in the order in which the names appear.
fn grouped<N: PartialEq, V>(all: impl Iterator<Item = (N, V)>) -> Vec<(N, Vec<V>)> {
    let mut groups: Vec<(N, Vec<V>)> = Vec::new();
    for (name, value) in all {
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => groups.push((name, vec![value])),
        }
    }
    groups
}

/// Names the ranks of each kind, and their nodes. The flag of a rank says that its user chose no
/// device.
fn kinds_in_words(kinds: &[(DeviceKind, Vec<(Rank, bool)>)], nodes: &Nodes) -> String {
    let words = |(kind, members): &(DeviceKind, Vec<(Rank, bool)>)| {
        let ranks: Vec<_> = members.iter().map(|(rank, _)| *rank).collect();
        let on: Vec<_> = ranks.iter().filter_map(|rank| nodes.node_of(*rank)).collect();
        let is_default = members.iter().all(|(_, is_default)| *is_default);
        let default = if is_default { " because it is not set" } else { "" };
        format!("{kind}{default} on {} ({})", numbers("node", &on), numbers("rank", &ranks))
    };
    kinds.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// Writes numbers in short form, such as `nodes 0-2, 4`.
fn numbers(name: &str, all: &[u32]) -> String {
    let mut all = all.to_vec();
    all.sort_unstable();
    all.dedup();
    let run = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(ToString::to_string).collect(),
    };
    let mut runs: Vec<_> = all.chunk_by(|one, next| one + 1 == *next).map(run).collect();
    if runs.len() > RUNS_SHOWN {
        runs.truncate(RUNS_SHOWN);
        runs.push("…".to_owned());
    }
    format!("{name}{} {}", if all.len() == 1 { "" } else { "s" }, runs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(kind: Option<DeviceKind>, host: &str) -> Option<RankDevice> {
        Some(RankDevice { kind, host: host.to_owned() })
    }

    fn verdict(devices: &[Option<RankDevice>]) -> Verdict {
        let nodes = Nodes::blocks(devices.len() as u32, 2).unwrap();
        let verdict = Verdict::of(devices, &nodes);
        assert_eq!(Verdict::parse(&verdict.bytes()), Some(verdict.clone()));
        verdict
    }

    #[test]
    fn a_rank_is_read_as_it_is_written() {
        for one in [device(None, "a-1"), device(Some(DeviceKind::Verbs), "a b")].iter().flatten() {
            assert_eq!(RankDevice::parse(&one.bytes()).as_ref(), Some(one));
        }
        assert_eq!(RankDevice::parse(b"bluetooth a"), None);
    }

    #[test]
    fn devices_of_one_kind_fit() {
        use DeviceKind::{None as Nothing, Soft, Verbs};
        let pair = |kinds: [Option<DeviceKind>; 2], hosts: [&str; 2]| {
            verdict(&[device(kinds[0], hosts[0]), device(kinds[1], hosts[1])])
        };
        let (one, two) = (["a", "a"], ["a", "b"]);
        let here = Verdict::Fits { is_one_host: true };
        let apart = Verdict::Fits { is_one_host: false };
        assert_eq!(pair([None, None], one), here);
        assert_eq!(pair([None, Some(Soft)], one), here);
        assert_eq!(pair([Some(Verbs); 2], one), here);
        assert_eq!(pair([Some(Nothing); 2], one), here);
        assert_eq!(pair([None, Some(Verbs)], two), apart);
        assert_eq!(
            pair([Some(Soft); 2], two),
            Verdict::Hosts("on one host node 0, on one host node 1".into())
        );
        assert_eq!(
            pair([None, Some(Verbs)], one),
            Verdict::Kinds(
                "soft because it is not set on node 0 (rank 0), verbs on node 1 (rank 1)".into()
            )
        );
    }

    #[test]
    fn ranks_that_differ_are_named() {
        use DeviceKind::{None as Nothing, Soft};
        let all =
            [Nothing, Soft, Nothing, Nothing, Nothing, Soft].map(|kind| device(Some(kind), "a"));
        let found = "none on nodes 0-1 (ranks 0, 2-4), soft on nodes 0-1 (ranks 1, 5)";
        assert_eq!(verdict(&all), Verdict::Kinds(found.into()));
    }

    #[test]
    fn composite_devices_fit_each_other_and_their_far_kind() {
        use DeviceKind::{Soft, SoftAndSoft, SoftAndVerbs, Verbs};
        let pair = |kinds: [DeviceKind; 2], hosts: [&str; 2]| {
            verdict(&[device(Some(kinds[0]), hosts[0]), device(Some(kinds[1]), hosts[1])])
        };
        let apart = Verdict::Fits { is_one_host: false };
        assert_eq!(pair([SoftAndVerbs; 2], ["a", "b"]), apart);
        assert_eq!(pair([SoftAndVerbs, Verbs], ["a", "b"]), apart);
        assert_eq!(pair([SoftAndSoft, Soft], ["a"; 2]), Verdict::Fits { is_one_host: true });
        assert!(matches!(pair([SoftAndSoft; 2], ["a", "b"]), Verdict::Hosts(_)));
        assert!(matches!(pair([SoftAndVerbs, Soft], ["a"; 2]), Verdict::Kinds(_)));
    }

    #[test]
    fn the_dead_have_no_device() {
        let soft = || device(Some(DeviceKind::Soft), "a");
        assert_eq!(verdict(&[soft(), None, soft()]), Verdict::Fits { is_one_host: true });
    }

    #[test]
    fn a_verdict_is_short() {
        let kinds = [DeviceKind::Soft, DeviceKind::Verbs];
        let all: Vec<_> =
            (0..4096).map(|rank| device(Some(kinds[rank % 2]), &rank.to_string())).collect();
        let nodes = Nodes::named(0..4096);
        assert!(Verdict::of(&all, &nodes).bytes().len() < 300);
        let soft: Vec<_> =
            (0..4096).map(|rank| device(Some(DeviceKind::Soft), &rank.to_string())).collect();
        let bytes = Verdict::of(&soft, &nodes).bytes();
        assert!(bytes.len() <= TEXT_MAX + 4, "{}", bytes.len());
        assert!(Verdict::parse(&bytes).is_some());
    }
}
