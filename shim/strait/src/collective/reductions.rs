//! The operations of a group that combine the members' vectors.

use core::ops::Range;

use bytemuck::{AnyBitPattern, NoUninit};

use strait_core::shm::EXCHANGE_MAX;

use super::operation::{Operator, Reduction, TypedOperator};
use super::team::{Team, bytes_mut};
use super::{Group, Meeting, run};
use crate::{CollectiveError, Error};

impl Group<'_> {
    /// Combines the vectors of all members, as [`crate::Endpoint::reduce`] does.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// # if ![1, 3].contains(&world.rank()) { return Ok(()); }
    /// # use strait::Op;
    /// let group = endpoint.group(&[1, 3])?;
    /// let mut sum = [world.rank()];
    /// group.reduce(&mut sum, Op::Sum, 0)?;
    /// if group.place() == 0 {
    ///     assert_eq!(sum, [4]);
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`crate::Endpoint::reduce`] does.
    pub fn reduce<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        op: impl Reduction<T>,
        root: u32,
    ) -> Result<(), Error> {
        let op = TypedOperator::new(op)?;
        reduce(self.team(), self.meeting(), bytes_mut(data), &op, root)
    }

    /// Combines the vectors of all members, with the result at all of them, as
    /// [`crate::Endpoint::allreduce`] does.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// # if ![1, 3].contains(&world.rank()) { return Ok(()); }
    /// # use strait::Op;
    /// let group = endpoint.group(&[1, 3])?;
    /// let mut sum = [world.rank()];
    /// group.allreduce(&mut sum, Op::Sum)?;
    /// assert_eq!(sum, [4]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`crate::Endpoint::reduce`] does.
    pub fn allreduce<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        op: impl Reduction<T>,
    ) -> Result<(), Error> {
        self.allreduce_bytes(bytes_mut(data), &TypedOperator::new(op)?)
    }

    /// Reduces vectors of bytes for all members.
    pub(super) fn allreduce_bytes(&self, data: &mut [u8], op: &dyn Operator) -> Result<(), Error> {
        allreduce(self.team(), self.meeting(), None, data, op)
    }

    /// Combines the vectors of all members, and leaves each member an equal part of the result, at
    /// the start of its `data`. The rest of `data` is undefined afterwards.
    ///
    /// ```
    /// # strait::World::run_in_process(3, |world| {
    /// use strait::Op;
    ///
    /// let group = world.endpoint().everyone();
    /// let mut data = [1, 10, 100];
    /// group.reduce_scatter_block(&mut data, Op::Sum)?;
    /// assert_eq!(data[0], [3, 30, 300][world.rank() as usize]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::reduce`] does; [`Error::Collective`] also when the length is no multiple
    /// of the number of members.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.10.1, `MPI_REDUCE_SCATTER_BLOCK` with `MPI_IN_PLACE`.
    pub fn reduce_scatter_block<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        op: impl Reduction<T>,
    ) -> Result<(), Error> {
        let op = TypedOperator::new(op)?;
        let blocks = self.equal_blocks(data)?;
        run(self.team(), None, |team| {
            team.reduce_scatter(self.meeting(), bytes_mut(data), blocks, &op)
        })
    }

    /// Combines the vectors of all members, and leaves each member the elements of its range of
    /// the result, at the start of its `data`. The rest of `data` is undefined afterwards. All
    /// members give the same `ranges`, one for each place.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// use strait::Op;
    ///
    /// let group = world.endpoint().everyone();
    /// let mut data = [1.0, 10.0, 100.0];
    /// group.reduce_scatter(&mut data, &[0..1, 1..3], Op::Sum)?;
    /// match world.rank() {
    ///     0 => assert_eq!(data[..1], [2.0]),
    ///     _ => assert_eq!(data[..2], [20.0, 200.0]),
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::reduce`] does; [`Error::Collective`] also when a range does not lie in
    /// `data`, or there is not one for each member.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.10.2, `MPI_REDUCE_SCATTER` with `MPI_IN_PLACE`.
    pub fn reduce_scatter<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        ranges: &[Range<usize>],
        op: impl Reduction<T>,
    ) -> Result<(), Error> {
        let op = TypedOperator::new(op)?;
        let blocks = self.blocks(ranges, data)?;
        run(self.team(), None, |team| {
            team.reduce_scatter(self.meeting(), bytes_mut(data), blocks, &op)
        })
    }

    /// Replaces the vector of each member by the combination of the vectors of the places up to and
    /// with its own.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// use strait::Op;
    ///
    /// let group = world.endpoint().everyone();
    /// let mut sum = [1_u64];
    /// group.scan(&mut sum, Op::Sum)?;
    /// assert_eq!(sum, [u64::from(world.rank()) + 1]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::reduce`] does.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.11.1, `MPI_SCAN` with `MPI_IN_PLACE`.
    pub fn scan<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        op: impl Reduction<T>,
    ) -> Result<(), Error> {
        let op = TypedOperator::new(op)?;
        run(self.team(), None, |team| team.scan(bytes_mut(data), &op))
    }

    /// Replaces the vector of each member by the combination of the vectors of the places before
    /// its own. Place 0 keeps its vector.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// use strait::Op;
    ///
    /// // Where each member's part begins, if the parts lie one after the other.
    /// let group = world.endpoint().everyone();
    /// let mut begin = [u64::from(world.rank()) + 1];
    /// group.exscan(&mut begin, Op::Sum)?;
    /// assert_eq!(begin, [[1], [1], [3], [6]][world.rank() as usize]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::reduce`] does.
    ///
    /// # Source
    ///
    /// MPI-5.0 §6.11.2, `MPI_EXSCAN` with `MPI_IN_PLACE`.
    pub fn exscan<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        op: impl Reduction<T>,
    ) -> Result<(), Error> {
        let op = TypedOperator::new(op)?;
        run(self.team(), None, |team| team.exscan(None, bytes_mut(data), &op))
    }
}

/// Reduces to the root, through the segment or by messages.
pub(super) fn reduce(
    team: Team<'_>,
    meeting: Meeting<'_>,
    data: &mut [u8],
    op: &dyn Operator,
    root: u32,
) -> Result<(), Error> {
    run(team, Some(root), |team| team.reduce(meeting, data, op, root))
}

/// Reduces for all members: by words of the slot of a group of two, through collective buffers, or
/// by messages. The member's vector is `own`, of the same length as `data`, or is in `data`.
pub(super) fn allreduce(
    team: Team<'_>,
    meeting: Meeting<'_>,
    own: Option<&[u8]>,
    data: &mut [u8],
    op: &dyn Operator,
) -> Result<(), Error> {
    if team.count() != 2 || data.len() > EXCHANGE_MAX {
        return run(team, None, |team| team.allreduce(meeting, own, data, op));
    }
    if let Some(own) = own {
        data.copy_from_slice(own);
    }
    let mut theirs = Aligned([0; EXCHANGE_MAX]);
    let theirs = &mut theirs.0[..data.len()];
    let Some(found) = meeting.with(|point| point.exchange(team, data, theirs))? else {
        return run(team, None, |team| team.allreduce(meeting, None, data, op));
    };
    if found != data.len() {
        let (rank, expected) = (team.rank(1 - team.place), data.len());
        return Err(CollectiveError::Length { rank, found, expected }.into());
    }
    match team.place {
        0 => op.with_higher(data, theirs),
        _ => op.with_lower(data, theirs),
    }
    Ok(())
}

/// Memory that is aligned for the elements of a reduction.
#[repr(C, align(64))]
struct Aligned([u8; EXCHANGE_MAX]);
