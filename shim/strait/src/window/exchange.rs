//! The exchange of the addresses of lanes, between members on several nodes.

use strait_core::hca::Address;
use strait_platform::Rank;

use crate::{Error, Group, InPlace};

impl Group<'_> {
    /// Returns every member's address for this one, once all have opened their lanes. `own` holds
    /// this member's addresses for all members.
    pub(super) fn exchange_addresses(
        &self,
        own: &[Address],
    ) -> Result<Vec<(Rank, Address)>, Error> {
        let mut addresses: Vec<[u64; WORDS]> =
            own.iter().map(|address| bytemuck::must_cast(address.0)).collect();
        // Each address goes to the one member that needs it.
        self.alltoall(InPlace, &mut addresses)?;
        let ranks = self.ranks().iter().copied();
        Ok(ranks
            .zip(addresses.into_iter().map(|words| Address(bytemuck::must_cast(words))))
            .collect())
    }
}

/// Number of words in an address.
const WORDS: usize = Address::LENGTH / size_of::<u64>();
