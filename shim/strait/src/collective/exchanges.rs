//! The operations of a group that move blocks between its members.

use core::ops::Range;

use bytemuck::{AnyBitPattern, NoUninit};

use super::blocks::Blocks;
use super::team::bytes_mut;
use super::{Group, run};
use crate::{CollectiveError, Error};

/// What a member contributes to an operation: a slice, or [`InPlace`].
#[derive(Clone, Copy, Debug)]
pub enum Contribution<'a, T> {
    /// These elements.
    Slice(&'a [T]),
    /// The elements that lie where the operation would put them.
    InPlace,
}

/// The contribution of a member with its block in the result already (`MPI_IN_PLACE`).
///
/// ```
/// # strait::World::run_in_process(3, |world| {
/// use strait::InPlace;
///
/// let group = world.endpoint().everyone();
/// let mut ranks = [0; 3];
/// ranks[world.rank() as usize] = world.rank();
/// group.allgather(InPlace, &mut ranks)?;
/// assert_eq!(ranks, [0, 1, 2]);
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct InPlace;

impl<T> From<InPlace> for Contribution<'_, T> {
    fn from(_: InPlace) -> Self {
        Self::InPlace
    }
}

impl<'a, T> From<&'a [T]> for Contribution<'a, T> {
    fn from(slice: &'a [T]) -> Self {
        Self::Slice(slice)
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for Contribution<'a, T> {
    fn from(array: &'a [T; N]) -> Self {
        Self::Slice(array)
    }
}

impl<'a, T> From<&'a Vec<T>> for Contribution<'a, T> {
    fn from(vector: &'a Vec<T>) -> Self {
        Self::Slice(vector)
    }
}

impl<'a, T: NoUninit> Contribution<'a, T> {
    fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Slice(slice) => Some(bytemuck::must_cast_slice(slice)),
            Self::InPlace => None,
        }
    }
}

impl Group<'_> {
    /// Gathers the members' vectors of one length in `all` at the root, in the order of the places.
    /// The root alone may contribute [`InPlace`]. Other members pass an empty `all`.
    ///
    /// ```
    /// # strait::World::run_in_process(3, |world| {
    /// let group = world.endpoint().everyone();
    /// let own = [world.rank(), 7];
    /// if world.rank() == 1 {
    ///     let mut all = [0; 6];
    ///     group.gather(&own, &mut all, 1)?;
    ///     assert_eq!(all, [0, 7, 1, 7, 2, 7]);
    /// } else {
    ///     group.gather(&own, &mut [], 1)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::broadcast`] does; [`Error::Collective`] also when `all` at the root has
    /// not the length of all vectors, or another member than the root contributes [`InPlace`].
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.5, `MPI_GATHER`.
    pub fn gather<'a, T: NoUninit + AnyBitPattern>(
        &self,
        own: impl Into<Contribution<'a, T>>,
        all: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        let own = self.contribution(own.into().bytes(), root)?;
        let blocks = match own {
            Some(own) if self.place() != root => Blocks::Equal(own.len()),
            _ => self.equal_blocks_of(own, all)?,
        };
        run(self.team(), Some(root), |team| {
            team.gather(self.meeting(), own, bytes_mut(all), blocks, root)
        })
    }

    /// Gathers the members' vectors in the `ranges` of `all` at the root: one range of elements for
    /// each place. The root alone may contribute [`InPlace`]. Other members pass an empty `all` and
    /// no ranges.
    ///
    /// ```
    /// # strait::World::run_in_process(3, |world| {
    /// let group = world.endpoint().everyone();
    /// let own = vec![world.rank(); world.rank() as usize];
    /// if world.rank() == 0 {
    ///     let mut all = [9; 4];
    ///     group.gatherv(&own, &mut all, &[0..0, 3..4, 0..2], 0)?;
    ///     assert_eq!(all, [2, 2, 9, 1]);
    /// } else {
    ///     group.gatherv(&own, &mut [], &[], 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::gather`] does; [`Error::Collective`] also when a range at the root does
    /// not lie in `all`, or has not the length of the member's vector.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.5, `MPI_GATHERV`.
    pub fn gatherv<'a, T: NoUninit + AnyBitPattern>(
        &self,
        own: impl Into<Contribution<'a, T>>,
        all: &mut [T],
        ranges: &[Range<usize>],
        root: u32,
    ) -> Result<(), Error> {
        let own = self.contribution(own.into().bytes(), root)?;
        let blocks = self.blocks_at_root(own, ranges, all, root)?;
        run(self.team(), Some(root), |team| {
            team.gather(self.meeting(), own, bytes_mut(all), blocks, root)
        })
    }

    /// Scatters `all` of the root: each member receives a part of one length in `own`, in the order
    /// of the places. Other members pass an empty `all`. At the root, `own` may be empty: its part
    /// then stays in `all` alone.
    ///
    /// ```
    /// # strait::World::run_in_process(3, |world| {
    /// let group = world.endpoint().everyone();
    /// let all: &[u32] = if world.rank() == 2 { &[5, 6, 7] } else { &[] };
    /// let mut own = [0];
    /// group.scatter(all, &mut own, 2)?;
    /// assert_eq!(own, [5 + world.rank()]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::broadcast`] does; [`Error::Collective`] also when `all` at the root has
    /// not the length of all parts.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.6, `MPI_SCATTER`.
    pub fn scatter<T: NoUninit + AnyBitPattern>(
        &self,
        all: &[T],
        own: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        let in_place = self.place() == root && own.is_empty();
        let own = (!in_place).then(|| bytes_mut(own));
        let blocks = match &own {
            Some(own) if self.place() != root => Blocks::Equal(own.len()),
            own => self.equal_blocks_of(own.as_deref(), all)?,
        };
        let all = bytemuck::must_cast_slice(all);
        run(self.team(), Some(root), |team| team.scatter(all, own, blocks, root))
    }

    /// Scatters the `ranges` of `all` of the root: one range of elements for each place, which the
    /// member receives in `own`. Other members pass an empty `all` and no ranges. At the root,
    /// `own` may be empty: its part then stays in `all` alone.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// let group = world.endpoint().everyone();
    /// let mut own = vec![0; 1 + world.rank() as usize];
    /// match world.rank() {
    ///     0 => group.scatterv(&[1, 2, 3], &mut own, &[2..3, 0..2], 0)?,
    ///     _ => group.scatterv(&[], &mut own, &[], 0)?,
    /// }
    /// assert_eq!(own, [&[3][..], &[1, 2]][world.rank() as usize]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::scatter`] does; [`Error::Collective`] also when a range at the root does
    /// not lie in `all`, or has not the length of the member's `own`.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.6, `MPI_SCATTERV`.
    pub fn scatterv<T: NoUninit + AnyBitPattern>(
        &self,
        all: &[T],
        own: &mut [T],
        ranges: &[Range<usize>],
        root: u32,
    ) -> Result<(), Error> {
        let in_place = self.place() == root && own.is_empty();
        let own = (!in_place).then(|| bytes_mut(own));
        let blocks = self.blocks_at_root(own.as_deref(), ranges, all, root)?;
        let all = bytemuck::must_cast_slice(all);
        run(self.team(), Some(root), |team| team.scatter(all, own, blocks, root))
    }

    /// Gathers the members' vectors of one length in `all` at every member, in the order of the
    /// places. A member that contributes [`InPlace`] has its vector in `all` already.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// let group = world.endpoint().everyone();
    /// let mut all = [0; 4];
    /// group.allgather(&[10 * world.rank()], &mut all)?;
    /// assert_eq!(all, [0, 10, 20, 30]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::broadcast`] does; [`Error::Collective`] also when `all` has not the length
    /// of all vectors.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.7, `MPI_ALLGATHER`.
    pub fn allgather<'a, T: NoUninit + AnyBitPattern>(
        &self,
        own: impl Into<Contribution<'a, T>>,
        all: &mut [T],
    ) -> Result<(), Error> {
        let own = own.into().bytes();
        let blocks = self.equal_blocks_of(own, all)?;
        run(self.team(), None, |team| {
            team.allgather_all(self.meeting(), own, bytes_mut(all), blocks)
        })
    }

    /// Gathers the members' vectors in the `ranges` of `all` at every member: one range of elements
    /// for each place, with the same lengths at all members. A member that contributes [`InPlace`]
    /// has its vector in `all` already. An element that is in the ranges of several places gets its
    /// value from one of them.
    ///
    /// ```
    /// # strait::World::run_in_process(3, |world| {
    /// let group = world.endpoint().everyone();
    /// let own = vec![world.rank(); world.rank() as usize];
    /// let mut all = [9; 3];
    /// group.allgatherv(&own, &mut all, &[0..0, 0..1, 1..3])?;
    /// assert_eq!(all, [1, 2, 2]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::broadcast`] does; [`Error::Collective`] also when a range does not lie in
    /// `all`, or has not the length of the member's vector.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.7, `MPI_ALLGATHERV`.
    pub fn allgatherv<'a, T: NoUninit + AnyBitPattern>(
        &self,
        own: impl Into<Contribution<'a, T>>,
        all: &mut [T],
        ranges: &[Range<usize>],
    ) -> Result<(), Error> {
        let own = own.into().bytes();
        let blocks = self.blocks(ranges, all)?;
        self.check_own(own, blocks)?;
        run(self.team(), None, |team| {
            team.allgather_all(self.meeting(), own, bytes_mut(all), blocks)
        })
    }

    /// Sends each member an equal part of `out`, and receives the members' parts in `into`, both in
    /// the order of the places. With [`InPlace`], each part of `into` goes to its member, and the
    /// member's part takes its place.
    ///
    /// ```
    /// # strait::World::run_in_process(3, |world| {
    /// let group = world.endpoint().everyone();
    /// let rank = world.rank();
    /// let out = [0, 1, 2].map(|to| 10 * rank + to);
    /// let mut into = [0; 3];
    /// group.alltoall(&out, &mut into)?;
    /// assert_eq!(into, [0, 1, 2].map(|from| 10 * from + rank));
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::broadcast`] does; [`Error::Collective`] also when `into` has another
    /// length than `out`, or one that is no multiple of the number of members.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.8, `MPI_ALLTOALL`.
    pub fn alltoall<'a, T: NoUninit + AnyBitPattern>(
        &self,
        out: impl Into<Contribution<'a, T>>,
        into: &mut [T],
    ) -> Result<(), Error> {
        let blocks = self.equal_blocks(into)?;
        let out = out.into().bytes();
        if let Some(out) = out {
            self.team().check_length(size_of_val(into), out.len())?;
        }
        run(self.team(), None, |team| match out {
            Some(out) => team.alltoall(out, blocks, bytes_mut(into), blocks),
            None => team.alltoall_in_place(bytes_mut(into), blocks),
        })
    }

    /// Sends each member its range of `out`, and receives the members' elements in the ranges of
    /// `into`: `from` and `to` have one range for each place.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// let group = world.endpoint().everyone();
    /// let mut into = [0; 3];
    /// match world.rank() {
    ///     0 => group.alltoallv(&[1, 2, 3], &[0..1, 1..3], &mut into, &[0..1, 1..1])?,
    ///     _ => group.alltoallv(&[4], &[0..0, 0..1], &mut into, &[1..3, 0..1])?,
    /// }
    /// assert_eq!(into, [[1, 0, 0], [4, 2, 3]][world.rank() as usize]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::broadcast`] does; [`Error::Collective`] also when a range does not lie in
    /// its slice, or has not the length of the peer's range.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.8, `MPI_ALLTOALLV`; of bytes, `MPI_ALLTOALLW`.
    pub fn alltoallv<T: NoUninit + AnyBitPattern>(
        &self,
        out: &[T],
        from: &[Range<usize>],
        into: &mut [T],
        to: &[Range<usize>],
    ) -> Result<(), Error> {
        let (from, to) = (self.blocks(from, out)?, self.blocks(to, into)?);
        let out = bytemuck::must_cast_slice(out);
        run(self.team(), None, |team| team.alltoall(out, from, bytes_mut(into), to))
    }

    /// Sends each member its range of `all`, and receives the member's elements in the same range,
    /// which has the same length at that member.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// let group = world.endpoint().everyone();
    /// let mut all = [10 * world.rank(), 10 * world.rank() + 1];
    /// group.alltoallv_in_place(&mut all, &[0..1, 1..2])?;
    /// assert_eq!(all, [[0, 10], [1, 11]][world.rank() as usize]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::alltoallv`] does.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.8, `MPI_ALLTOALLV` with `MPI_IN_PLACE`.
    pub fn alltoallv_in_place<T: NoUninit + AnyBitPattern>(
        &self,
        all: &mut [T],
        ranges: &[Range<usize>],
    ) -> Result<(), Error> {
        let blocks = self.blocks(ranges, all)?;
        run(self.team(), None, |team| team.alltoall_in_place(bytes_mut(all), blocks))
    }

    /// Returns the equal blocks of a vector.
    pub(super) fn equal_blocks<T>(&self, all: &[T]) -> Result<Blocks<'static>, CollectiveError> {
        Blocks::equal(size_of_val(all), size_of::<T>(), self.ranks.len() as u32)
    }

    /// Returns the equal blocks of a vector to which this member contributes `own`.
    fn equal_blocks_of<T>(&self, own: Option<&[u8]>, all: &[T]) -> Result<Blocks<'static>, Error> {
        let blocks = self.equal_blocks(all)?;
        self.check_own(own, blocks)?;
        Ok(blocks)
    }

    /// Returns the blocks that `ranges` gives in a vector.
    pub(super) fn blocks<'a, T>(
        &self,
        ranges: &'a [Range<usize>],
        all: &[T],
    ) -> Result<Blocks<'a>, CollectiveError> {
        Blocks::ranges(ranges, size_of::<T>(), size_of_val(all), self.ranks.len() as u32)
    }

    /// Returns the blocks that `ranges` gives at the root. Other members know none.
    fn blocks_at_root<'a, T>(
        &self,
        own: Option<&[u8]>,
        ranges: &'a [Range<usize>],
        all: &[T],
        root: u32,
    ) -> Result<Blocks<'a>, Error> {
        if self.place() != root {
            return Ok(Blocks::Ranges { ranges: &[], unit: 1 });
        }
        let blocks = self.blocks(ranges, all)?;
        self.check_own(own, blocks)?;
        Ok(blocks)
    }

    /// Refuses a vector of this member that has not the length of its block.
    fn check_own(&self, own: Option<&[u8]>, blocks: Blocks<'_>) -> Result<(), Error> {
        let expected = blocks.length(self.place());
        self.team().check_length(expected, own.map_or(expected, <[u8]>::len))
    }

    /// Refuses a contribution in place of another member than the root.
    fn contribution<'a>(
        &self,
        own: Option<&'a [u8]>,
        root: u32,
    ) -> Result<Option<&'a [u8]>, CollectiveError> {
        match own {
            None if self.place() != root => Err(CollectiveError::InPlace { root }),
            own => Ok(own),
        }
    }
}
