//! The exchange of the addresses of lanes, between members on several nodes.

use strait_core::hca::Address;
use strait_core::reduce::Op;
use strait_platform::Rank;

use crate::{Error, Group};

impl Group<'_> {
    /// Returns every member's address for this one, once all have opened their lanes. `own` holds
    /// this member's addresses for all members.
    pub(super) fn exchange_addresses(
        &self,
        own: &[Address],
    ) -> Result<Vec<(Rank, Address)>, Error> {
        let (members, place) = (self.ranks().len(), self.place() as usize);
        let mut table = vec![0_u64; members * members * WORDS];
        let (addresses, _) = table.as_chunks_mut::<WORDS>();
        for (to, address) in own.iter().enumerate() {
            addresses[place * members + to] = bytemuck::must_cast(address.0);
        }
        self.allreduce(&mut table, Op::BitOr)?;
        let (addresses, _) = table.as_chunks::<WORDS>();
        let for_this = self.ranks().iter().enumerate().map(|(from, rank)| {
            (*rank, Address(bytemuck::must_cast(addresses[from * members + place])))
        });
        Ok(for_this.collect())
    }
}

/// Number of words in an address.
const WORDS: usize = Address::LENGTH / size_of::<u64>();
