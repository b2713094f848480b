//! Whom a process knows that is not of its universe.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::collections::HashMap;
use std::hash::DefaultHasher;
use std::sync::{Mutex, PoisonError};

use strait_core::layout::Segment;

use super::BootError;
use crate::{Rank, topology};

/// A process as others know it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Contact {
    /// The number of its universe ([`super::Universe::nonce`]).
    pub nonce: u64,
    /// Its rank there.
    pub rank: Rank,
    /// A number of its host's.
    pub host: u64,
    /// Where it is called from other hosts; `None`: its device reaches its own host alone.
    pub address: Option<SocketAddr>,
    /// A secret of the process and of those that may call it; zeros where it is not known. It says
    /// nothing about which process it is.
    pub key: [u8; 16],
}

impl Contact {
    /// Bytes of a contact.
    pub const BYTES: usize = 56;

    /// A contact as it travels.
    ///
    /// | offset | size | field                                         |
    /// |-------:|-----:|-----------------------------------------------|
    /// |      0 |    8 | `nonce`                                       |
    /// |      8 |    8 | `host`                                        |
    /// |     16 |   16 | of `address`, IPv6 or IPv4 within that        |
    /// |     32 |    4 | `rank`                                        |
    /// |     36 |    2 | the port of `address`; zero: there is none    |
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
            key: part(bytes, 40),
        }
    }

    /// The same process, without what lets others call it.
    #[must_use]
    pub const fn without_key(&self) -> Self {
        Self { key: [0; 16], ..*self }
    }
}

/// Greatest number that a process may have.
const NUMBER_MAX: Rank = u32::MAX / 2;

/// The number of this host.
pub(crate) fn host() -> u64 {
    let mut hasher = DefaultHasher::new();
    topology::host().hash(&mut hasher);
    hasher.finish()
}

/// The numbers that one process gives to others. A number is given once, so nothing of a process that has ended can
/// reach another; there are as many as there is memory for.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The number of this process's universe.
    nonce: u64,
    host: u64,
    /// First number of a process elsewhere.
    first: Rank,
    /// Whether processes may be added.
    open: bool,
    contacts: Mutex<Contacts>,
}

/// The processes elsewhere that have numbers.
#[derive(Debug, Default)]
struct Contacts {
    /// By number, from the directory's first on.
    all: Vec<Contact>,
    /// Their places in `all`.
    places: HashMap<Contact, Rank>,
}

impl Contacts {
    fn new(all: Vec<Contact>) -> Self {
        let places = all.iter().map(Contact::without_key).zip(0..).collect();
        Self { all, places }
    }
}

impl Directory {
    /// An empty one, for processes of this segment.
    pub(super) fn beside(segment: &Segment) -> Self {
        let (nonce, first, contacts) = (segment.nonce(), segment.ranks(), Mutex::default());
        Self { nonce, host: host(), first, open: true, contacts }
    }

    /// That of `own`, a rank of a job: it knows all that there are, by their ranks, and each is a universe of its own.
    pub(crate) fn of_job(own: Contact, contacts: Vec<Contact>) -> Self {
        let Contact { nonce, host, .. } = own;
        Self { nonce, host, first: 0, open: false, contacts: Mutex::new(Contacts::new(contacts)) }
    }

    /// First number of a process elsewhere.
    pub(crate) const fn first(&self) -> Rank {
        self.first
    }

    /// The number of a process, a new one if need be.
    ///
    /// # Errors
    ///
    /// [`BootError::NotOfJob`], [`BootError::OtherHost`], [`BootError::NoSuchRank`].
    pub(crate) fn number(&self, contact: Contact) -> Result<Rank, BootError> {
        let Contact { nonce, rank, host, address, key } = contact;
        if nonce == self.nonce {
            return if rank < self.first { Ok(rank) } else { Err(BootError::NoSuchRank { rank }) };
        }
        if address.is_none() && host != self.host {
            return Err(BootError::OtherHost);
        }
        let mut contacts = self.contacts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = contacts.places.get(&contact.without_key()).copied() {
            // A process that has called is known without its key.
            if key != [0; 16] {
                contacts.all[place as usize].key = key;
            }
            return Ok(self.first + place);
        }
        let place = u32::try_from(contacts.all.len()).ok();
        // The last numbers stand for any source.
        let number = place.and_then(|place| self.first.checked_add(place));
        let number = number.filter(|number| self.open && *number <= NUMBER_MAX);
        let (number, place) = number.zip(place).ok_or(BootError::NotOfJob)?;
        contacts.all.push(contact);
        contacts.places.insert(contact.without_key(), place);
        Ok(number)
    }

    /// The process elsewhere that has this number.
    pub(crate) fn contact(&self, number: Rank) -> Option<Contact> {
        let contacts = self.contacts.lock().unwrap_or_else(PoisonError::into_inner);
        contacts.all.get(number.checked_sub(self.first)? as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(host: u64) -> Directory {
        Directory { nonce: 7, host, first: 2, open: true, contacts: Mutex::default() }
    }

    #[test]
    fn a_process_has_one_number() {
        let (host, directory) = (5, open(5));
        let [own, none, a, b, c] = [(7, 1), (7, 2), (8, 1), (8, 0), (9, 1)]
            .map(|(nonce, rank)| Contact { nonce, rank, host, address: None, key: [0; 16] });
        let abroad = Contact { host: 6, ..c };
        let number = |contact| directory.number(contact).ok();
        assert_eq!((number(own), number(none)), (Some(1), None));
        let numbers = [a, abroad, b, a, c, b].map(number);
        assert_eq!(numbers, [Some(2), None, Some(3), Some(2), Some(4), Some(3)]);
        let contacts = [1, 2, 3, 5].map(|number| directory.contact(number));
        assert_eq!(contacts, [None, Some(a), Some(b), None]);
    }

    #[test]
    fn a_process_may_know_any_number_of_others() {
        let directory = open(5);
        let contact = |nonce| Contact { nonce, rank: 0, host: 5, address: None, key: [0; 16] };
        for nonce in 0..5000 {
            let number = directory.number(contact(u64::MAX - nonce)).unwrap();
            assert_eq!(number, 2 + nonce as u32);
        }
    }

    #[test]
    fn ranks_of_a_job_have_their_ranks_and_nobody_else_gets_in() {
        let contact = |rank| Contact {
            nonce: 7 + u64::from(rank),
            rank,
            host: 5,
            address: None,
            key: [0; 16],
        };
        let directory = Directory::of_job(contact(1), (0..4).map(contact).collect());
        let numbers = [0, 1, 2, 3, 4].map(|rank| directory.number(contact(rank)).ok());
        assert_eq!(numbers, [Some(0), None, Some(2), Some(3), None]);
    }

    #[test]
    fn who_has_an_address_is_reached_from_other_hosts() {
        let directory = open(5);
        let address = Some(SocketAddr::from(([10, 0, 0, 1], 77)));
        let there = Contact { nonce: 8, rank: 0, host: 6, address, key: [1; 16] };
        assert_eq!(directory.number(there).ok(), Some(2));
    }

    #[test]
    fn a_contact_is_read_as_it_is_written() {
        let v4 = SocketAddr::from(([10, 0, 0, 1], 77));
        let v6 = SocketAddr::from(([1, 2, 3, 4, 5, 6, 7, 8], 78));
        for address in [None, Some(v4), Some(v6)] {
            let contact = Contact { nonce: 1 << 60, rank: 3, host: 1 << 50, address, key: [7; 16] };
            assert_eq!(Contact::from_bytes(&contact.to_bytes()), contact);
        }
    }
}
