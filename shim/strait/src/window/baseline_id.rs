//! The numbers of windows that use messages.

use strait_core::buffer::Part as Buffer;
use strait_core::layout::Corrupt;
use strait_core::rma::{NUMBER_MAX, WindowBlock, WindowNumber};
use strait_platform::Rank;

use super::part_descriptor::{PartDescriptor, SEND_RECV};
use crate::progress::windows::baseline::Baselines;
use crate::{Group, WindowDesign, WindowError, World};

/// A member's number of a window among those for which it uses messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct BaselineId(pub(super) WindowNumber);

impl BaselineId {
    /// Returns a number that no window of this rank has had.
    pub(super) fn next(world: &World) -> Self {
        Self(world.with_baselines(Baselines::next_window))
    }

    /// Returns the word for the part descriptor, with the design; 0 means no messages.
    pub(super) fn word(id: Option<Self>, design: WindowDesign) -> u64 {
        let design = if design == WindowDesign::SendRecv { SEND_RECV } else { 0 };
        id.map_or(0, |Self(id)| u64::from(id.word()) | design)
    }

    /// Returns an error for the first member that asks for another design than the first member
    /// does.
    pub(super) fn disagreement(
        descriptors: &[PartDescriptor],
        ranks: &[Rank],
    ) -> Option<WindowError> {
        let first = descriptors.first()?.goes_by_messages();
        let (_, rank) = descriptors
            .iter()
            .zip(ranks)
            .find(|(descriptor, _)| descriptor.goes_by_messages() != first)?;
        Some(WindowError::Design { rank: *rank })
    }

    /// Returns each member's number of the window.
    pub(super) fn of_members(
        descriptors: &[PartDescriptor],
    ) -> Result<Box<[WindowNumber]>, Corrupt> {
        let number = |descriptor: &PartDescriptor| {
            let found = descriptor.baseline as u32;
            let unknown = Corrupt::Length { found: found.into(), max: NUMBER_MAX.into() };
            WindowNumber::parse(found).ok_or(unknown)
        };
        descriptors.iter().map(number).collect()
    }

    /// Opens the window for messages: this member's part and block, and the numbers of the other
    /// members.
    pub(super) fn open(
        self,
        group: &Group<'_>,
        theirs: Box<[WindowNumber]>,
        part: Buffer,
        block: WindowBlock,
    ) {
        group.world().with_baselines(|all| all.open(self.0, (group.ranks(), theirs), part, block));
    }
}
