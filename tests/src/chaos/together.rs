//! Operations that several ranks do together, at meetings: collective operations, and the steps of
//! a window's life.

use strait::{Endpoint, Error, Group, Op};

use super::plan::{Collective, Meeting, Together};
use super::rank::Rank;
use crate::payload;

/// The first contexts of groups, and of windows.
const GROUPS: u32 = 100;
pub(super) const WINDOWS: u32 = 200;

impl Rank<'_> {
    /// Takes part in a meeting.
    pub(super) fn meet(&mut self, meeting: &Meeting) {
        match meeting.what {
            Together::Collective { group, operation } => {
                self.collective(meeting, group, operation);
            }
            Together::Create(window) => self.create_window(window),
            Together::Fence(window) => self.fence(window),
            Together::Epochs(window) => self.epochs(window, meeting.number),
            Together::Close(window) => self.close_window(window),
        }
    }

    fn collective(&mut self, meeting: &Meeting, group: usize, operation: Collective) {
        let members = self.plan.members(meeting.what, self.ranks);
        self.begin("collective", [meeting.number, group as u64, operation.kind()]);
        let endpoint = self.world.endpoint().with_context(GROUPS + group as u32);
        if let Some(none @ None) = self.groups.get_mut(group) {
            *none = Some(endpoint.group(&members).expect("a group with this rank"));
        }
        let made = self.groups.get(group).and_then(Option::as_ref);
        let team = made.map_or(Team::All(endpoint), Team::Some);
        let place = members.iter().position(|rank| *rank == self.me).map(|place| place as u32);
        let ended = match operation {
            Collective::Barrier => team.barrier(),
            Collective::Broadcast(root, length) => {
                let id = self.settings.seed ^ meeting.number << 8 ^ u64::from(root);
                let mut data = vec![0; length];
                if place == Some(root) {
                    data = payload::of(id, length);
                }
                team.broadcast(&mut data, root).inspect(|()| {
                    assert_eq!(payload::first_difference(id, &data), None, "a broadcast");
                })
            }
            Collective::Reduce(root, numbers, op) => {
                let mut data = self.numbers(meeting, self.me, numbers);
                let right = |data| {
                    place != Some(root) || data == self.combined(meeting, &members, op, numbers)
                };
                team.reduce(&mut data, op, root).inspect(|()| assert!(right(data), "a reduction"))
            }
            Collective::Allreduce(numbers, op) => {
                let mut data = self.numbers(meeting, self.me, numbers);
                let right = |data| data == self.combined(meeting, &members, op, numbers);
                team.allreduce(&mut data, op)
                    .inspect(|()| assert!(right(data), "a reduction for all"))
            }
        };
        if let Err(error) = ended {
            self.excuse_among(&error, &members, "a collective operation");
        }
    }

    /// Fails unless the death of a member explains the error.
    #[track_caller]
    pub(super) fn excuse_among(&self, error: &Error, members: &[u32], about: &str) {
        self.excuse(error, about);
        let named = error.gone_peer();
        assert!(
            named.is_some_and(|peer| members.contains(&peer)),
            "{about} of {members:?}: {error}"
        );
    }

    /// Returns the contribution of a rank to a reduction.
    fn numbers(&self, meeting: &Meeting, rank: u32, numbers: usize) -> Vec<u64> {
        let bytes =
            payload::of(self.settings.seed ^ meeting.number << 16 ^ u64::from(rank), numbers * 8);
        let number = |bytes: &[u8]| u64::from_le_bytes(core::array::from_fn(|at| bytes[at])) >> 8;
        bytes.chunks(8).map(number).collect()
    }

    /// Returns the expected result of a reduction over all members.
    fn combined(&self, meeting: &Meeting, members: &[u32], op: Op, numbers: usize) -> Vec<u64> {
        let mut all = members.iter().map(|rank| self.numbers(meeting, *rank, numbers));
        let mut result = all.next().expect("a member");
        for others in all {
            for (mine, other) in result.iter_mut().zip(others) {
                *mine = combine(op, *mine, other);
            }
        }
        result
    }
}

impl Collective {
    const fn kind(self) -> u64 {
        match self {
            Self::Barrier => 0,
            Self::Broadcast(..) => 1,
            Self::Reduce(..) => 2,
            Self::Allreduce(..) => 3,
        }
    }
}

fn combine(op: Op, a: u64, b: u64) -> u64 {
    match op {
        Op::Sum => a + b,
        Op::Max => a.max(b),
        _ => a ^ b,
    }
}

/// All ranks of the job, or those of a group.
#[derive(Clone, Copy)]
enum Team<'a, 'w> {
    All(Endpoint<'w>),
    Some(&'a Group<'w>),
}

impl Team<'_, '_> {
    fn barrier(self) -> Result<(), Error> {
        match self {
            Self::All(endpoint) => endpoint.barrier(),
            Self::Some(group) => group.barrier(),
        }
    }

    fn broadcast(self, data: &mut [u8], root: u32) -> Result<(), Error> {
        match self {
            Self::All(endpoint) => endpoint.broadcast(data, root),
            Self::Some(group) => group.broadcast(data, root),
        }
    }

    fn reduce(self, data: &mut [u64], op: Op, root: u32) -> Result<(), Error> {
        match self {
            Self::All(endpoint) => endpoint.reduce(data, op, root),
            Self::Some(group) => group.reduce(data, op, root),
        }
    }

    fn allreduce(self, data: &mut [u64], op: Op) -> Result<(), Error> {
        match self {
            Self::All(endpoint) => endpoint.allreduce(data, op),
            Self::Some(group) => group.allreduce(data, op),
        }
    }
}
