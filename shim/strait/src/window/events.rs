//! Events about the epochs and the locks of a window, for observers (`strait trace`).

use strait_core::layout::{EpochKind, EventKind};
use strait_core::wire::Key;

use super::Window;

impl Window<'_> {
    /// Records that an epoch began, if events are recorded. `members` are its targets or origins.
    #[inline(always)]
    pub(super) fn note_epoch_began(&self, epoch: EpochKind, members: &[u32]) {
        if self.records_events {
            self.write_event(EventKind::EpochBegan, members, epoch as u64);
        }
    }

    /// Records that an epoch ended, if events are recorded. `members` matter for locks alone, of
    /// which a member may hold several.
    #[inline(always)]
    pub(super) fn note_epoch_ended(&self, epoch: EpochKind, members: &[u32]) {
        if self.records_events {
            self.write_event(EventKind::EpochEnded, members, epoch as u64);
        }
    }

    /// Records an event of the target's lock, if events are recorded.
    pub(super) fn note_lock(&self, kind: EventKind, target: u32, exclusive: u64) {
        if self.records_events {
            self.write_event(kind, &[target], exclusive);
        }
    }

    /// Writes an event with its member. An event of several members, or of all, names none.
    #[cold]
    #[inline(never)]
    fn write_event(&self, kind: EventKind, members: &[u32], what: u64) {
        let peer = match members {
            [member] => self.group.ranks()[*member as usize],
            _ => u32::MAX,
        };
        let window = self.group.window().unwrap_or(u32::MAX);
        self.world.lock_progress().note(kind, peer, Key::new(window, u32::MAX), what);
    }
}

#[cfg(test)]
mod tests {
    use strait_core::lock::LockType;

    use super::*;
    use crate::{Assert, Error, World};

    /// Returns the events of this rank about epochs: whether one begins, its kind, and its member.
    fn epochs(world: &World) -> Vec<(bool, u64, u32)> {
        let segment = world.segment();
        let events = segment.rank_record(world.rank()).events.iter();
        let kinds = [EventKind::EpochBegan, EventKind::EpochEnded];
        let epochs = events.filter(|event| kinds.contains(&event.kind));
        epochs.map(|event| (event.kind == kinds[0], event.bytes, event.peer)).collect()
    }

    /// Runs epochs of each kind on two ranks, and returns the events of the first one.
    fn run(records: bool) -> Vec<(bool, u64, u32)> {
        let both = World::run_in_process(2, move |world| {
            if records {
                world.lock_progress().record_events(|| 7);
            }
            let window = Window::builder(world.endpoint()).allocate(64)?;
            window.fence(Assert::NO_PRECEDE)?;
            window.fence(Assert::NONE)?;
            window.fence(Assert::NO_SUCCEED)?;
            let other = 1 - world.rank();
            window.post(&[other], Assert::NONE)?;
            window.start(&[other], Assert::NONE)?;
            window.complete()?;
            window.wait()?;
            for promise in [Assert::NONE, Assert::NO_CHECK] {
                window.lock(LockType::Shared, 1, promise)?;
                window.unlock(1)?;
            }
            window.lock_all(Assert::NONE)?;
            window.unlock_all()?;
            window.free()?;
            Ok::<_, Error>(epochs(world))
        });
        both.unwrap().remove(0)
    }

    #[test]
    fn each_epoch_leaves_its_begin_and_its_end() {
        use EpochKind::{Access, Exposure, Fence, Lock};
        let (none, began, ended) = (u32::MAX, true, false);
        let expected = [
            (began, Fence, none),
            (ended, Fence, none),
            (began, Fence, none),
            (ended, Fence, none),
            (began, Exposure, 1),
            (began, Access, 1),
            (ended, Access, none),
            (ended, Exposure, none),
            (began, Lock, 1),
            (ended, Lock, 1),
            (began, Lock, 1),
            (ended, Lock, 1),
            (began, Lock, none),
            (ended, Lock, none),
        ];
        assert_eq!(run(true), expected.map(|(begins, kind, peer)| (begins, kind as u64, peer)));
        assert_eq!(run(false), []);
    }
}
