//! The Eager-flags of a peer (`[SpecRndv09]` §3.3.2).

use crate::wire::Key;

const TAG_CLASSES: usize = 16;

/// The classes of tags in which a message without a turn went to the peer. There is one flag for
/// each class, so that a short message sets its flag by one store. Another tag of the same class
/// looks like the same envelope and costs an RTR.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EagerFlags {
    set: [bool; TAG_CLASSES],
    /// Number of the last look that found the flag set.
    found: [u64; TAG_CLASSES],
}

impl EagerFlags {
    /// Notes that a message other than a large one goes to the peer: it is eager, or kept because
    /// there is no room.
    #[inline(always)]
    pub(super) const fn set(&mut self, key: Key) {
        self.set[key.tag() as usize % TAG_CLASSES] = true;
    }

    /// Looks at the flag and clears it. `number` is the number of this look. Returns the number of
    /// the last look that found the flag set; zero for none.
    pub(super) const fn look(&mut self, key: Key, number: u64) -> u64 {
        let class = key.tag() as usize % TAG_CLASSES;
        if self.set[class] {
            self.set[class] = false;
            self.found[class] = number;
        }
        self.found[class]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_tells_when_the_flag_was_last_found_set() {
        let (mut flags, key) = (EagerFlags::default(), Key::new(0, 5));
        assert_eq!(flags.look(key, 1), 0);
        flags.set(key);
        assert_eq!([2, 3].map(|number| flags.look(key, number)), [2, 2]);
        flags.set(key);
        assert_eq!(flags.look(key, 4), 4);
    }

    #[test]
    fn tags_of_one_class_share_a_flag_in_all_contexts() {
        let mut flags = EagerFlags::default();
        flags.set(Key::new(0, 5));
        assert_eq!(flags.look(Key::new(0, 6), 1), 0);
        assert_eq!(flags.look(Key::new(3, 5 + TAG_CLASSES as u32), 2), 2);
    }
}
