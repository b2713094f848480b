//! The holders of a lock for which a member waits: how observers are told of them, and how this
//! member learns of their deaths.

use strait_core::layout::{Call, RankSet, Wait};
use strait_core::lock::{Coding, LockState, LockWords, WordAccess};

use super::remote::Reached;
use super::steps::Blame;
use crate::window::Window;

impl Window<'_> {
    /// Describes the wait for the lock of `target`: for the holder, or the holders that share it,
    /// where words name them.
    pub(super) fn lock_wait(&self, target: u32, blame: Blame) -> Wait {
        let rank = |place: u32| self.group.ranks().get(place as usize).copied();
        let (peer, others) = match blame {
            Blame::Word(LockState::One(place)) | Blame::Queue(Some(place)) => {
                let holder = rank(place);
                (holder, RankSet::of(holder))
            }
            _ => (None, self.sharers(target)),
        };
        Wait { peer, others, target: rank(target), ..self.wait_in(Call::WindowLock) }
    }

    /// Describes the wait for an answer of the target's manager: for the holders, where this member
    /// can see the words in which the manager names them, and for the manager's rank otherwise.
    pub(super) fn wait_for_manager(&self, target: u32) -> Wait {
        let state = match self.lock_word(target, LockWords::CPU) {
            Ok(Reached::Near(word)) => Coding::Signed.state(word.access(WordAccess::Read)),
            _ => LockState::Free,
        };
        // The manager has granted the lock, and its answer is on its way to this member.
        let is_own = state == LockState::One(self.group.place());
        let state = if is_own { LockState::Free } else { state };
        let wait = self.lock_wait(target, Blame::Word(state));
        match (wait.peer, wait.others) {
            (None, None) => Wait { peer: wait.target, ..wait },
            _ => wait,
        }
    }

    /// Returns the other members that share the target's lock, if this member can see them.
    fn sharers(&self, target: u32) -> Option<RankSet> {
        let mut sharers = RankSet::default();
        let own = self.group.place();
        for (place, rank) in (0..).zip(self.group.ranks()).filter(|(place, _)| *place != own) {
            match self.lock_word(target, LockWords::share_offset(place)).ok()? {
                Reached::Near(word) if word.access(WordAccess::Read) != 0 => {
                    sharers = sharers.with(*rank)?;
                }
                Reached::Near(_) => {}
                Reached::Far(_) => return None,
            }
        }
        (sharers != RankSet::default()).then_some(sharers)
    }

    /// Watches over all members where no word names the holders.
    pub(super) fn watch_over_holders(&self, blame: Blame) {
        if let Blame::Word(LockState::Sharers(_)) | Blame::Queue(None) = blame {
            self.watch_over_members();
        }
    }

    /// Watches over all members, so that this member learns of their deaths.
    pub(super) fn watch_over_members(&self) {
        self.group.ranks().iter().for_each(|rank| self.world.watch_over(*rank));
    }
}
