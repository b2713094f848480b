//! The groups of a rank, and the tags that tell the groups of one context apart.
//!
//! A tag is a hash of the members, so that all members have the same tag without a message. Two
//! groups can therefore have the same tag. Their messages can mix only between two ranks that are
//! both members of both groups. Each of these ranks knows both lists, so it finds the collision
//! without asking its peers.

use std::collections::HashMap;
use std::rc::{Rc, Weak};

use strait_core::matching::TAG_MAX;
use strait_platform::Rank;

use crate::CollectiveError;

/// Returns the tag of a group of these ranks. It is at least 1, since the group of all ranks has 0.
/// It is less than the highest tag, which lock managers use.
fn tag(ranks: &[Rank], edition: u32) -> u32 {
    // One step of FNV-1a.
    let mix = |hash: u32, number: u32| (hash ^ number).wrapping_mul(0x0100_0193);
    let start = if edition == 0 { 0x811c_9dc5 } else { mix(0x811c_9dc5, edition) };
    ranks.iter().copied().fold(start, mix) % (TAG_MAX - 1) + 1
}

/// The groups that this rank has, by context and tag.
#[derive(Debug, Default)]
pub(crate) struct GroupRegistry {
    groups: HashMap<(u32, u32), Registered>,
    /// The highest edition of a group of this rank.
    editions: u32,
}

#[derive(Debug)]
struct Registered {
    members: Weak<[Rank]>,
    edition: u32,
}

impl GroupRegistry {
    /// Adds a group in this context. Returns its members, which equal groups share, and its tag.
    pub(crate) fn add(
        &mut self,
        context: u32,
        ranks: &[Rank],
    ) -> Result<(Rc<[Rank]>, u32), CollectiveError> {
        self.add_edition(context, ranks, 0)
    }

    /// Adds a group. Its messages differ from those of the groups of the same members with other
    /// editions.
    pub(crate) fn add_edition(
        &mut self,
        context: u32,
        ranks: &[Rank],
        edition: u32,
    ) -> Result<(Rc<[Rank]>, u32), CollectiveError> {
        // The table grows to at most twice the number of groups that live.
        if self.groups.len().is_power_of_two() {
            self.groups.retain(|_, group| group.members.strong_count() > 0);
        }
        self.editions = self.editions.max(edition);
        let tag = tag(ranks, edition);
        let found = self.groups.get(&(context, tag));
        let found = found.and_then(|group| Some((group.edition, group.members.upgrade()?)));
        let members = match found {
            Some((other, equal)) if other == edition && *equal == *ranks => equal,
            Some(_) => return Err(CollectiveError::SameTag { context, tag }),
            None => Rc::from(ranks),
        };
        let registered = Registered { members: Rc::downgrade(&members), edition };
        self.groups.insert((context, tag), registered);
        Ok((members, tag))
    }

    /// Returns the highest edition of a group of this rank so far.
    pub(crate) const fn editions(&self) -> u32 {
        self.editions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups of a job of 9 ranks that have the same tag.
    const FIRST: [Rank; 8] = [0, 8, 6, 7, 3, 5, 4, 2];
    const SECOND: [Rank; 8] = [0, 1, 6, 2, 4, 8, 7, 3];

    #[test]
    fn two_groups_with_one_tag_cannot_exist_in_one_context() {
        let mut registry = GroupRegistry::default();
        let (first, tag) = registry.add(7, &FIRST).unwrap();
        let refused = CollectiveError::SameTag { context: 7, tag };
        assert_eq!(registry.add(7, &SECOND), Err(refused));
        assert!(registry.add(8, &SECOND).is_ok());
        drop(first);
        assert!(registry.add(7, &SECOND).is_ok());
    }

    #[test]
    fn equal_groups_share_their_members() {
        let mut registry = GroupRegistry::default();
        let (first, tag) = registry.add(7, &FIRST).unwrap();
        assert_eq!(registry.add(7, &FIRST), Ok((Rc::clone(&first), tag)));
        let (second, _) = registry.add(7, &FIRST).unwrap();
        drop(first);
        assert_eq!(registry.add(7, &SECOND), Err(CollectiveError::SameTag { context: 7, tag }));
        drop(second);
    }

    #[test]
    fn editions_of_a_group_have_names_of_their_own() {
        let mut registry = GroupRegistry::default();
        let (_first, plain) = registry.add(7, &FIRST).unwrap();
        let (_second, other) = registry.add_edition(7, &FIRST, 3).unwrap();
        assert_ne!(plain, other);
        assert_eq!(registry.editions(), 3);
    }

    #[test]
    fn dropped_groups_take_no_room() {
        let mut registry = GroupRegistry::default();
        (0..1000).for_each(|context| drop(registry.add(context, &FIRST).unwrap()));
        assert!(registry.groups.len() <= 2, "{} entries", registry.groups.len());
    }
}
