//! The names of messages: source and tag.

use strait_core::matching::ANY_SOURCE;
use strait_platform::Rank;

/// The tag of a message, from 0 to [`TAG_MAX`](crate::TAG_MAX) (MPI-4.1 §3.2.3). In a receive,
/// [`ANY_TAG`](crate::ANY_TAG) takes every tag.
///
/// It is a plain number, as [`Rank`] is. Programs compute with both: with neighbours, roots, and
/// tags that count rounds. A type of its own would need a conversion in nearly every call and find
/// few mistakes. A [`Source`] is a type of its own, because one of its values is no rank.
pub type Tag = u32;

/// The source from which a receive or a probe takes a message (MPI-4.1 §3.2.4).
///
/// A rank is a source, so that both forms read well:
///
/// ```
/// use strait::Source;
///
/// # strait::World::run_in_process(2, |world| {
/// # let endpoint = world.endpoint();
/// if world.rank() == 0 {
///     let mut number = [0_u64];
///     endpoint.recv(&mut number, 1, 7)?;
///     let status = endpoint.recv(&mut number, Source::Any, 7)?;
///     println!("{} from rank {}", number[0], status.source);
/// } else {
///     endpoint.send(&[1_u64], 0, 7)?;
///     endpoint.send(&[2_u64], 0, 7)?;
/// }
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Source {
    /// Every rank: `MPI_ANY_SOURCE`.
    Any,
    /// This rank alone.
    Rank(Rank),
}

impl Source {
    /// Returns the number that stands for the source in matching.
    #[inline(always)]
    pub(crate) const fn number(self) -> Rank {
        match self {
            Self::Any => ANY_SOURCE,
            Self::Rank(rank) => rank,
        }
    }
}

impl From<Rank> for Source {
    #[inline(always)]
    fn from(rank: Rank) -> Self {
        Self::Rank(rank)
    }
}
