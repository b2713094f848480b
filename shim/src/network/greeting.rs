//! The greeting of two processes that connect: what each says, and how each proves that it may.
//!
//! A process that can be called has a key ([`Contact::key`]), which comes to its callers together with its
//! address and by no other way. Both sides prove that they have it by an answer to a random challenge of
//! the other. The key itself is never sent:
//!
//! ```text
//! caller                                                            called
//!  | OPENING    challenge C                                            |
//!  |------------------------------------------------------------------>|
//!  |                           COUNTER   challenge D, proof of (C, D)  |
//!  |<------------------------------------------------------------------|
//!  | HELLO      universe, rank, contact, card, proof of (C, D, these)  |
//!  |------------------------------------------------------------------>|
//!  |                                ANSWER   card, proof of (C, D, it) |
//!  |<------------------------------------------------------------------|
//! ```
//!
//! A proof is HMAC-SHA-256 under the key, of a word for the step and of what the step says. No step's
//! proof serves for another step, and none for another conversation. What is said afterwards is neither
//! encrypted nor proved. Everything here is a function of bytes; [`door`](super::door) moves the bytes.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use strait_core::ring::Card;

use crate::boot::Contact;

/// A random number that is used for one conversation.
pub(crate) type Challenge = [u8; 16];

/// An HMAC-SHA-256.
type Proof = [u8; 32];

/// `STRdoor` and the version of the greeting.
const MAGIC: [u8; 8] = *b"STRdoor\x02";

/// Bytes of an opening: magic number and challenge.
pub(crate) const OPENING: usize = 8 + size_of::<Challenge>();

/// Bytes of a counter-challenge: challenge and proof.
pub(crate) const COUNTER: usize = size_of::<Challenge>() + size_of::<Proof>();

/// Bytes of what a caller says of itself.
///
/// | offset | size | field                                     |
/// |-------:|-----:|-------------------------------------------|
/// |      0 |    8 | universe of the process that is called    |
/// |      8 |    4 | rank of it there                          |
/// |     12 |    4 | zero                                      |
/// |     16 |   56 | contact of the caller, its key left out   |
/// |     72 |   96 | card of the caller's end                  |
/// |    168 |   32 | proof                                     |
pub(crate) const HELLO: usize = BODY + size_of::<Proof>();

const BODY: usize = 16 + Contact::BYTES + Card::LENGTH;

/// Bytes of an answer: card of the end that is called, and proof.
pub(crate) const ANSWER: usize = Card::LENGTH + size_of::<Proof>();

const _: () = assert!(HELLO == 200);

/// The two challenges of a conversation, and the key that both sides have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greeting {
    key: [u8; 16],
    caller: Challenge,
    called: Challenge,
}

/// The opening with this challenge.
pub(crate) fn open(challenge: &Challenge) -> [u8; OPENING] {
    let mut bytes = [0; OPENING];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(challenge);
    bytes
}

/// The challenge of an opening; `None`: it is no opening of this version.
pub(crate) fn read_opening(bytes: &[u8; OPENING]) -> Option<Challenge> {
    bytes.strip_prefix(&MAGIC)?.try_into().ok()
}

impl Greeting {
    /// The greeting at a process with this key, which was asked `caller` and asks `called`: what it says.
    pub(crate) fn counter(
        key: [u8; 16],
        caller: Challenge,
        called: Challenge,
    ) -> (Self, [u8; COUNTER]) {
        let greeting = Self { key, caller, called };
        let mut bytes = [0; COUNTER];
        bytes[..16].copy_from_slice(&called);
        bytes[16..].copy_from_slice(&greeting.prove(b"counter", &[]));
        (greeting, bytes)
    }

    /// The greeting at the caller of a process with this key. `None`: whatever answered does not have the key.
    pub(crate) fn read_counter(
        key: [u8; 16],
        caller: Challenge,
        bytes: &[u8; COUNTER],
    ) -> Option<Self> {
        let called = *bytes.first_chunk()?;
        let greeting = Self { key, caller, called };
        greeting.is_proved(b"counter", &[], bytes.last_chunk()?).then_some(greeting)
    }

    /// What `from` says when it calls `to`, and shows the card of its end.
    pub(crate) fn hello(&self, from: &Contact, to: &Contact, card: &Card) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[..8].copy_from_slice(&to.nonce.to_le_bytes());
        bytes[8..12].copy_from_slice(&to.rank.to_le_bytes());
        bytes[16..][..Contact::BYTES].copy_from_slice(&from.without_key().to_bytes());
        bytes[16 + Contact::BYTES..BODY].copy_from_slice(&card.to_bytes());
        let proof = self.prove(b"hello", &bytes[..BODY]);
        bytes[BODY..].copy_from_slice(&proof);
        bytes
    }

    /// The caller of `own`, and the card of its end. `None`: it means another process, or does not have the key.
    pub(crate) fn read_hello(&self, own: &Contact, bytes: &[u8; HELLO]) -> Option<(Contact, Card)> {
        let (body, proof) = bytes.split_at_checked(BODY)?;
        if !self.is_proved(b"hello", body, proof.first_chunk()?) {
            return None;
        }
        let nonce = u64::from_le_bytes(*body.first_chunk()?);
        let rank = u32::from_le_bytes(*body.get(8..)?.first_chunk()?);
        let from = Contact::from_bytes(body.get(16..)?.first_chunk()?).without_key();
        let card = Card::from_bytes(*body.last_chunk()?);
        ((nonce, rank) == (own.nonce, own.rank)).then_some((from, card))
    }

    /// What a process says that shows the card of its end.
    pub(crate) fn answer(&self, card: &Card) -> [u8; ANSWER] {
        let card = card.to_bytes();
        let mut bytes = [0; ANSWER];
        bytes[..Card::LENGTH].copy_from_slice(&card);
        bytes[Card::LENGTH..].copy_from_slice(&self.prove(b"answer", &card));
        bytes
    }

    /// The card of the end that was called. `None`: whatever answered does not have the key.
    pub(crate) fn read_answer(&self, bytes: &[u8; ANSWER]) -> Option<Card> {
        let card = bytes.first_chunk()?;
        self.is_proved(b"answer", card, bytes.last_chunk()?).then(|| Card::from_bytes(*card))
    }

    fn mac(&self, step: &[u8; 7], said: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        for part in [step.as_slice(), &self.caller, &self.called, said] {
            mac.update(part);
        }
        Some(mac)
    }

    fn prove<const N: usize>(&self, step: &[u8; N], said: &[u8]) -> Proof {
        // HMAC takes keys of every length.
        self.mac(&word(step), said).map_or([0; 32], |mac| mac.finalize().into_bytes().into())
    }

    /// Compares in a time that says nothing of the proof.
    fn is_proved<const N: usize>(&self, step: &[u8; N], said: &[u8], proof: &Proof) -> bool {
        self.mac(&word(step), said).is_some_and(|mac| mac.verify_slice(proof).is_ok())
    }
}

/// The word for a step, in a fixed length, so that what follows is not mistaken for a part of it.
fn word<const N: usize>(step: &[u8; N]) -> [u8; 7] {
    core::array::from_fn(|place| step.get(place).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = [7; 16];

    fn contact(rank: u32) -> Contact {
        Contact { nonce: 9, rank, host: 4, address: None, key: [rank as u8; 16] }
    }

    /// Both sides of a conversation in which each has a key.
    fn converse(keys: [[u8; 16]; 2]) -> Option<[Greeting; 2]> {
        let (asked, asks) = ([1; 16], [2; 16]);
        let heard = read_opening(&open(&asked))?;
        let (called, counter) = Greeting::counter(keys[1], heard, asks);
        Some([Greeting::read_counter(keys[0], asked, &counter)?, called])
    }

    #[test]
    fn processes_with_the_key_exchange_their_cards() {
        let [caller, called] = converse([KEY; 2]).unwrap();
        let cards = [1, 2].map(|byte| Card::from_bytes([byte; Card::LENGTH]));
        let (from, to) = (contact(3), contact(5));
        let hello = caller.hello(&from, &to, &cards[0]);
        assert!(!hello.windows(16).any(|bytes| bytes == from.key || bytes == KEY));
        assert_eq!(called.read_hello(&to, &hello), Some((from.without_key(), cards[0])));
        assert_eq!(called.read_hello(&contact(6), &hello), None, "it means another");
        assert_eq!(caller.read_answer(&called.answer(&cards[1])), Some(cards[1]));
    }

    #[test]
    fn a_process_without_the_key_is_refused_on_either_side() {
        assert!(converse([KEY, [8; 16]]).is_none(), "the called one lacks it");
        let [_, called] = converse([KEY; 2]).unwrap();
        let liar = Greeting { key: [8; 16], ..called };
        let card = Card::from_bytes([1; Card::LENGTH]);
        assert_eq!(
            called.read_hello(&contact(5), &liar.hello(&contact(3), &contact(5), &card)),
            None
        );
        assert_eq!(called.read_answer(&liar.answer(&card)), None);
    }

    #[test]
    fn what_was_said_once_proves_nothing_in_another_conversation() {
        let [caller, called] = converse([KEY; 2]).unwrap();
        let card = Card::from_bytes([1; Card::LENGTH]);
        let hello = caller.hello(&contact(3), &contact(5), &card);
        let later = Greeting { called: [3; 16], ..called };
        assert_eq!(later.read_hello(&contact(5), &hello), None);
        let (_, counter) = Greeting::counter(KEY, [1; 16], [2; 16]);
        assert!(Greeting::read_counter(KEY, [4; 16], &counter).is_none());
    }

    #[test]
    fn a_byte_that_was_changed_is_found() {
        let [caller, called] = converse([KEY; 2]).unwrap();
        let card = Card::from_bytes([1; Card::LENGTH]);
        let hello = caller.hello(&contact(3), &contact(5), &card);
        for place in 0..HELLO {
            let mut changed = hello;
            changed[place] ^= 1;
            assert_eq!(called.read_hello(&contact(5), &changed), None, "byte {place}");
        }
    }
}
