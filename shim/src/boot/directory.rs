//! Whom a process knows that is not of its universe.

use core::ops::Range;
use std::sync::{Mutex, PoisonError};

use strait_core::layout::Segment;

use crate::Rank;

/// A process as others know it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Contact {
    /// The number of its universe ([`super::Universe::nonce`]).
    pub nonce: u64,
    /// Its rank there.
    pub rank: Rank,
}

/// The numbers that one process gives to others. A number is given once.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The number of this process's universe.
    nonce: u64,
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
        Self { nonce, first: end / 2, end, contacts: Mutex::default() }
    }

    /// All numbers of processes elsewhere.
    pub(crate) const fn numbers(&self) -> Range<Rank> {
        self.first..self.end
    }

    /// The number of a process, a new one if need be. `None`: no number is left, or there is no such process.
    pub(crate) fn number(&self, contact: Contact) -> Option<Rank> {
        if contact.nonce == self.nonce {
            return (contact.rank < self.first).then_some(contact.rank);
        }
        let mut contacts = self.contacts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = contacts.iter().position(|known| *known == contact);
        let place = known.unwrap_or(contacts.len()) as Rank;
        if place >= self.end - self.first {
            return None;
        }
        if known.is_none() {
            contacts.push(contact);
        }
        Some(self.first + place)
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
        let directory = Directory { nonce: 7, first: 2, end: 4, contacts: Mutex::default() };
        let [own, none, a, b, c] =
            [(7, 1), (7, 2), (8, 1), (8, 0), (9, 1)].map(|(nonce, rank)| Contact { nonce, rank });
        assert_eq!((directory.number(own), directory.number(none)), (Some(1), None));
        let numbers = [a, b, a, c, b].map(|contact| directory.number(contact));
        assert_eq!(numbers, [Some(2), Some(3), Some(2), None, Some(3)]);
        let contacts = [1, 2, 3, 4].map(|number| directory.contact(number));
        assert_eq!(contacts, [None, Some(a), Some(b), None]);
    }
}
