//! The processes of other universes that a process knows.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::collections::HashMap;
use std::hash::DefaultHasher;
use std::sync::{Mutex, PoisonError};

use strait_core::layout::Segment;

use super::BootError;
use crate::{Rank, topology};

/// The address of a process, as other processes know it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct PeerAddress {
    /// The nonce of its universe ([`super::Universe::nonce`]).
    pub nonce: u64,
    /// Its rank in that universe.
    pub rank: Rank,
    /// A number that identifies its host.
    pub host: u64,
    /// The address at which it listens for other hosts; `None` when its device reaches only its own
    /// host.
    pub address: Option<SocketAddr>,
    /// A secret of the process and of the processes that may connect to it; zeros where it is not
    /// known. It is no part of the process's identity.
    pub key: [u8; 16],
}

impl PeerAddress {
    /// Bytes of a peer address.
    pub const BYTES: usize = 56;

    /// Encodes a peer address for a message.
    ///
    /// | offset | size | field                                         |
    /// |-------:|-----:|-----------------------------------------------|
    /// |      0 |    8 | `nonce`                                       |
    /// |      8 |    8 | `host`                                        |
    /// |     16 |   16 | the IP of `address`: IPv6, or IPv4-mapped     |
    /// |     32 |    4 | `rank`                                        |
    /// |     36 |    2 | the port of `address`; zero when it has none  |
    /// |     38 |    2 | zero                                          |
    /// |     40 |   16 | `key`                                         |
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.host.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.rank.to_le_bytes());
        bytes[40..].copy_from_slice(&self.key);
        if let Some(address) = self.address {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes[16..32].copy_from_slice(&ip.octets());
            bytes[36..38].copy_from_slice(&address.port().to_le_bytes());
        }
        bytes
    }

    /// Decodes a peer address that another process wrote.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
            bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
        }
        let port = u16::from_le_bytes(part(bytes, 36));
        let ip = Ipv6Addr::from(part::<16>(bytes, 16)).to_canonical();
        Self {
            nonce: u64::from_le_bytes(part(bytes, 0)),
            host: u64::from_le_bytes(part(bytes, 8)),
            rank: u32::from_le_bytes(part(bytes, 32)),
            address: (port > 0).then_some(SocketAddr::new(ip, port)),
            key: part(bytes, 40),
        }
    }

    /// Returns the same peer address without the key, which lets other processes connect to it.
    #[must_use]
    pub const fn without_key(&self) -> Self {
        Self { key: [0; 16], ..*self }
    }
}

/// Largest number that a process may have.
const NUMBER_MAX: Rank = u32::MAX / 2;

/// Returns the number that identifies this host.
pub fn host() -> u64 {
    let mut hasher = DefaultHasher::new();
    topology::host().hash(&mut hasher);
    hasher.finish()
}

/// The numbers that one process gives to processes of other universes. A number is given once, so
/// nothing from a process that has ended can reach another. Memory alone limits how many there are.
#[derive(Debug)]
pub struct Directory {
    /// The number of this process's universe.
    nonce: u64,
    host: u64,
    /// First number of a process elsewhere.
    first: Rank,
    peer_addresses: Mutex<PeerAddresses>,
}

/// The processes elsewhere that have numbers.
#[derive(Debug, Default)]
struct PeerAddresses {
    /// Indexed by number minus the directory's first number.
    all: Vec<PeerAddress>,
    /// Their indices in `all`.
    places: HashMap<PeerAddress, Rank>,
}

impl Directory {
    /// Creates an empty directory for processes of this segment.
    pub(super) fn beside(segment: &Segment) -> Self {
        let (nonce, first, peer_addresses) = (segment.nonce(), segment.ranks(), Mutex::default());
        Self { nonce, host: host(), first, peer_addresses }
    }

    /// Returns the first number of a process elsewhere.
    pub const fn first(&self) -> Rank {
        self.first
    }

    /// Returns the number of a process, and gives it a new one if it has none.
    ///
    /// # Errors
    ///
    /// [`BootError::NoNumber`], [`BootError::OtherHost`], [`BootError::NoSuchRank`].
    pub fn number(&self, peer_address: PeerAddress) -> Result<Rank, BootError> {
        let PeerAddress { nonce, rank, host, address, key } = peer_address;
        if nonce == self.nonce {
            return if rank < self.first { Ok(rank) } else { Err(BootError::NoSuchRank { rank }) };
        }
        if address.is_none() && host != self.host {
            return Err(BootError::OtherHost);
        }
        let mut peer_addresses = self.peer_addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = peer_addresses.places.get(&peer_address.without_key()).copied() {
            // A process that has connected is known without its key.
            if key != [0; 16] {
                peer_addresses.all[place as usize].key = key;
            }
            return Ok(self.first + place);
        }
        let place = u32::try_from(peer_addresses.all.len()).ok();
        // The last numbers mean "any source".
        let number = place.and_then(|place| self.first.checked_add(place));
        let number = number.filter(|number| *number <= NUMBER_MAX);
        let (number, place) = number.zip(place).ok_or(BootError::NoNumber)?;
        peer_addresses.all.push(peer_address);
        peer_addresses.places.insert(peer_address.without_key(), place);
        Ok(number)
    }

    /// Returns the address of the process elsewhere with this number.
    pub fn peer_address(&self, number: Rank) -> Option<PeerAddress> {
        let peer_addresses = self.peer_addresses.lock().unwrap_or_else(PoisonError::into_inner);
        peer_addresses.all.get(number.checked_sub(self.first)? as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(host: u64) -> Directory {
        Directory { nonce: 7, host, first: 2, peer_addresses: Mutex::default() }
    }

    #[test]
    fn a_process_has_one_number() {
        let (host, directory) = (5, open(5));
        let [own, none, a, b, c] = [(7, 1), (7, 2), (8, 1), (8, 0), (9, 1)]
            .map(|(nonce, rank)| PeerAddress { nonce, rank, host, address: None, key: [0; 16] });
        let abroad = PeerAddress { host: 6, ..c };
        let number = |peer_address| directory.number(peer_address).ok();
        assert_eq!((number(own), number(none)), (Some(1), None));
        let numbers = [a, abroad, b, a, c, b].map(number);
        assert_eq!(numbers, [Some(2), None, Some(3), Some(2), Some(4), Some(3)]);
        let peer_addresses = [1, 2, 3, 5].map(|number| directory.peer_address(number));
        assert_eq!(peer_addresses, [None, Some(a), Some(b), None]);
    }

    #[test]
    fn a_process_may_know_any_number_of_others() {
        let directory = open(5);
        let peer_address =
            |nonce| PeerAddress { nonce, rank: 0, host: 5, address: None, key: [0; 16] };
        for nonce in 0..5000 {
            let number = directory.number(peer_address(u64::MAX - nonce)).unwrap();
            assert_eq!(number, 2 + nonce as u32);
        }
    }

    #[test]
    fn a_process_with_an_address_is_reached_from_other_hosts() {
        let directory = open(5);
        let address = Some(SocketAddr::from(([10, 0, 0, 1], 77)));
        let there = PeerAddress { nonce: 8, rank: 0, host: 6, address, key: [1; 16] };
        assert_eq!(directory.number(there).ok(), Some(2));
    }

    #[test]
    fn a_peer_address_is_read_as_it_is_written() {
        let v4 = SocketAddr::from(([10, 0, 0, 1], 77));
        let v6 = SocketAddr::from(([1, 2, 3, 4, 5, 6, 7, 8], 78));
        for address in [None, Some(v4), Some(v6)] {
            let peer_address =
                PeerAddress { nonce: 1 << 60, rank: 3, host: 1 << 50, address, key: [7; 16] };
            assert_eq!(PeerAddress::from_bytes(&peer_address.to_bytes()), peer_address);
        }
    }
}
