//! Whom a process knows that is not of its universe.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::ops::Range;
use std::hash::DefaultHasher;
use std::sync::{Mutex, PoisonError};

use strait_core::layout::Segment;

use super::BootError;
use crate::{Rank, topology};

/// A process as others know it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Contact {
    /// The number of its universe ([`super::Universe::nonce`]).
    pub nonce: u64,
    /// Its rank there.
    pub rank: Rank,
    /// A number of its host's.
    pub host: u64,
    /// Where it is called from other hosts; `None`: its device reaches its own host alone.
    pub address: Option<SocketAddr>,
}

impl Contact {
    /// Bytes of a contact.
    pub const BYTES: usize = 40;

    /// A contact as it travels.
    ///
    /// | offset | size | field                                         |
    /// |-------:|-----:|-----------------------------------------------|
    /// |      0 |    8 | `nonce`                                       |
    /// |      8 |    8 | `host`                                        |
    /// |     16 |   16 | of `address`, IPv6 or IPv4 within that        |
    /// |     32 |    4 | `rank`                                        |
    /// |     36 |    2 | the port of `address`; zero: there is none    |
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.host.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.rank.to_le_bytes());
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

    /// What another process wrote.
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
        }
    }
}

/// The number of this host.
pub(crate) fn host() -> u64 {
    let mut hasher = DefaultHasher::new();
    topology::host().hash(&mut hasher);
    hasher.finish()
}

/// The numbers that one process gives to others. A number is given once.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The number of this process's universe.
    nonce: u64,
    host: u64,
    /// First number of a process elsewhere, and the number after the last.
    first: Rank,
    end: Rank,
    /// By number.
    contacts: Mutex<Vec<Contact>>,
}

impl Directory {
    /// An empty one, for processes of this segment.
    pub(super) fn beside(segment: &Segment) -> Self {
        let (nonce, end) = (segment.nonce(), segment.ranks());
        Self { nonce, host: host(), first: end / 2, end, contacts: Mutex::default() }
    }

    /// That of `own`, a rank of a job: it knows all that there are, by their ranks, and each is a universe of its own.
    pub(crate) const fn of_job(own: Contact, contacts: Vec<Contact>) -> Self {
        let (Contact { nonce, host, .. }, end) = (own, contacts.len() as Rank);
        Self { nonce, host, first: 0, end, contacts: Mutex::new(contacts) }
    }

    /// All numbers of processes elsewhere.
    pub(crate) const fn numbers(&self) -> Range<Rank> {
        self.first..self.end
    }

    /// The number of a process, a new one if need be.
    ///
    /// # Errors
    ///
    /// [`BootError::Acquaintances`], [`BootError::OtherHost`], [`BootError::NoSuchRank`].
    pub(crate) fn number(&self, contact: Contact) -> Result<Rank, BootError> {
        let Contact { nonce, rank, host, address } = contact;
        if nonce == self.nonce {
            return if rank < self.first { Ok(rank) } else { Err(BootError::NoSuchRank { rank }) };
        }
        if address.is_none() && host != self.host {
            return Err(BootError::OtherHost);
        }
        let mut contacts = self.contacts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = contacts.iter().position(|known| *known == contact);
        let place = known.unwrap_or(contacts.len()) as Rank;
        let most = self.end - self.first;
        if place >= most {
            return Err(BootError::Acquaintances { most });
        }
        if known.is_none() {
            contacts.push(contact);
        }
        Ok(self.first + place)
    }

    /// The process elsewhere that has this number.
    pub(crate) fn contact(&self, number: Rank) -> Option<Contact> {
        let contacts = self.contacts.lock().unwrap_or_else(PoisonError::into_inner);
        contacts.get(number.checked_sub(self.first)? as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_number() {
        let (contacts, host) = (Mutex::default(), 5);
        let directory = Directory { nonce: 7, host, first: 2, end: 4, contacts };
        let [own, none, a, b, c] = [(7, 1), (7, 2), (8, 1), (8, 0), (9, 1)]
            .map(|(nonce, rank)| Contact { nonce, rank, host, address: None });
        let abroad = Contact { host: 6, ..c };
        let number = |contact| directory.number(contact).ok();
        assert_eq!((number(own), number(none)), (Some(1), None));
        let numbers = [a, abroad, b, a, c, b].map(number);
        assert_eq!(numbers, [Some(2), None, Some(3), Some(2), None, Some(3)]);
        let contacts = [1, 2, 3, 4].map(|number| directory.contact(number));
        assert_eq!(contacts, [None, Some(a), Some(b), None]);
    }

    #[test]
    fn ranks_of_a_job_have_their_ranks_and_nobody_else_gets_in() {
        let contact = |rank| Contact { nonce: 7 + u64::from(rank), rank, host: 5, address: None };
        let directory = Directory::of_job(contact(1), (0..4).map(contact).collect());
        let numbers = [0, 1, 2, 3, 4].map(|rank| directory.number(contact(rank)).ok());
        assert_eq!(numbers, [Some(0), None, Some(2), Some(3), None]);
    }

    #[test]
    fn who_has_an_address_is_reached_from_other_hosts() {
        let directory =
            Directory { nonce: 7, host: 5, first: 2, end: 4, contacts: Mutex::default() };
        let address = Some(SocketAddr::from(([10, 0, 0, 1], 77)));
        let there = Contact { nonce: 8, rank: 0, host: 6, address };
        assert_eq!(directory.number(there).ok(), Some(2));
    }

    #[test]
    fn a_contact_is_read_as_it_is_written() {
        let v4 = SocketAddr::from(([10, 0, 0, 1], 77));
        let v6 = SocketAddr::from(([1, 2, 3, 4, 5, 6, 7, 8], 78));
        for address in [None, Some(v4), Some(v6)] {
            let contact = Contact { nonce: 1 << 60, rank: 3, host: 1 << 50, address };
            assert_eq!(Contact::from_bytes(&contact.to_bytes()), contact);
        }
    }
}
