//! Operations that several ranks do together, at meetings: collective operations, and the steps of
//! a window's life.

use strait::Error;

use super::plan::{Meeting, Together};
use super::rank::Rank;
use crate::collectives::{Kind, Operation};

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

    fn collective(&mut self, meeting: &Meeting, group: usize, operation: Operation) {
        let members = self.plan.members(meeting.what, self.ranks);
        self.begin("collective", [meeting.number, group as u64, operation.kind as u64]);
        let endpoint = self.world.endpoint().with_context(GROUPS + group as u32);
        if let Some(none @ None) = self.groups.get_mut(group) {
            *none = Some(endpoint.group(&members).expect("a group with this rank"));
        }
        let made = self.groups.get(group).and_then(Option::as_ref);
        let ended = match made {
            Some(group) => operation.perform(group),
            // The barriers of the endpoint have a slot for all ranks; those of a new group do not.
            None if operation.kind == Kind::Barrier => endpoint.barrier(),
            None => operation.perform(&endpoint.everyone()),
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
}
