//! The handshake of two processes that connect, in which each proves that it has the key.
//!
//! A process that accepts connections has a key ([`PeerAddress::key`]). Callers get it only
//! together with the process's address. Both sides prove that they have the key by their answers to
//! a random challenge of the other side. The key itself is never sent:
//!
//! ```text
//! caller                                                            called
//!  | OPENING    challenge C                                            |
//!  |------------------------------------------------------------------>|
//!  |                           COUNTER   challenge D, proof of (C, D)  |
//!  |<------------------------------------------------------------------|
//!  | HELLO      universe, rank, addresses, proof of (C, D, these)      |
//!  |------------------------------------------------------------------>|
//!  |                             ANSWER   address, proof of (C, D, it) |
//!  |<------------------------------------------------------------------|
//! ```
//!
//! A proof is an HMAC-SHA-256 under the key, of a word for the step and of the content of the step.
//! A proof is valid for no other step and no other conversation. Data after the handshake are
//! neither encrypted nor proved. All functions here work on bytes; [`listener`](super::listener)
//! sends and receives them.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use strait_core::ring::LinkAddress;
use strait_platform::boot::PeerAddress;

/// A random number that is used for one conversation.
pub(crate) type Challenge = [u8; 16];

/// An HMAC-SHA-256.
type Proof = [u8; 32];

/// `STRdoor` and the version of the handshake.
const MAGIC: [u8; 8] = *b"STRdoor\x02";

/// Bytes of an opening: magic number and challenge.
pub(crate) const OPENING: usize = 8 + size_of::<Challenge>();

/// Bytes of a counter-challenge: challenge and proof.
pub(crate) const COUNTER: usize = size_of::<Challenge>() + size_of::<Proof>();

/// Bytes of a hello, in which a caller identifies itself.
///
/// | offset | size | field                                     |
/// |-------:|-----:|-------------------------------------------|
/// |      0 |    8 | universe of the called process            |
/// |      8 |    4 | rank of the called process there          |
/// |     12 |    4 | zero                                      |
/// |     16 |   56 | peer address of the caller, without key   |
/// |     72 |   96 | link address of the caller's end          |
/// |    168 |   32 | proof                                     |
pub(crate) const HELLO: usize = BODY + size_of::<Proof>();

const BODY: usize = 16 + PeerAddress::BYTES + LinkAddress::LENGTH;

/// Bytes of an answer: link address of the called end, and proof.
pub(crate) const ANSWER: usize = LinkAddress::LENGTH + size_of::<Proof>();

const _: () = assert!(HELLO == 200);

/// The two challenges of a conversation, and the key that both sides have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    key: [u8; 16],
    caller: Challenge,
    called: Challenge,
}

/// Returns the opening with this challenge.
pub(crate) fn open(challenge: &Challenge) -> [u8; OPENING] {
    let mut bytes = [0; OPENING];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(challenge);
    bytes
}

/// Returns the challenge of an opening, or `None` for bytes that are no opening of this version.
pub(crate) fn read_opening(bytes: &[u8; OPENING]) -> Option<Challenge> {
    bytes.strip_prefix(&MAGIC)?.try_into().ok()
}

impl Handshake {
    /// Creates the handshake of the called process with this key, from the caller's challenge and
    /// its own. Also returns the counter-challenge.
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

    /// Creates the handshake of the caller. Returns `None` when the called process has not proved
    /// that it has the key.
    pub(crate) fn read_counter(
        key: [u8; 16],
        caller: Challenge,
        bytes: &[u8; COUNTER],
    ) -> Option<Self> {
        let called = *bytes.first_chunk()?;
        let greeting = Self { key, caller, called };
        greeting.is_proved(b"counter", &[], bytes.last_chunk()?).then_some(greeting)
    }

    /// Returns the hello of `from` to `to`, with the link address of the caller's end.
    pub(crate) fn hello(
        &self,
        from: &PeerAddress,
        to: &PeerAddress,
        address: &LinkAddress,
    ) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[..8].copy_from_slice(&to.nonce.to_le_bytes());
        bytes[8..12].copy_from_slice(&to.rank.to_le_bytes());
        bytes[16..][..PeerAddress::BYTES].copy_from_slice(&from.without_key().to_bytes());
        bytes[16 + PeerAddress::BYTES..BODY].copy_from_slice(&address.to_bytes());
        let proof = self.prove(b"hello", &bytes[..BODY]);
        bytes[BODY..].copy_from_slice(&proof);
        bytes
    }

    /// Returns the caller of `own`, and the link address of its end. Returns `None` when the hello
    /// is for another process, or its proof is invalid.
    pub(crate) fn read_hello(
        &self,
        own: &PeerAddress,
        bytes: &[u8; HELLO],
    ) -> Option<(PeerAddress, LinkAddress)> {
        let (body, proof) = bytes.split_at_checked(BODY)?;
        if !self.is_proved(b"hello", body, proof.first_chunk()?) {
            return None;
        }
        let nonce = u64::from_le_bytes(*body.first_chunk()?);
        let rank = u32::from_le_bytes(*body.get(8..)?.first_chunk()?);
        let from = PeerAddress::from_bytes(body.get(16..)?.first_chunk()?).without_key();
        let address = LinkAddress::from_bytes(*body.last_chunk()?);
        ((nonce, rank) == (own.nonce, own.rank)).then_some((from, address))
    }

    /// Returns the answer, with the link address of the called end.
    pub(crate) fn answer(&self, address: &LinkAddress) -> [u8; ANSWER] {
        let address = address.to_bytes();
        let mut bytes = [0; ANSWER];
        bytes[..LinkAddress::LENGTH].copy_from_slice(&address);
        bytes[LinkAddress::LENGTH..].copy_from_slice(&self.prove(b"answer", &address));
        bytes
    }

    /// Returns the link address of the called end, or `None` when the proof is invalid.
    pub(crate) fn read_answer(&self, bytes: &[u8; ANSWER]) -> Option<LinkAddress> {
        let address = bytes.first_chunk()?;
        self.is_proved(b"answer", address, bytes.last_chunk()?)
            .then(|| LinkAddress::from_bytes(*address))
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

    /// Compares in constant time, so that the time reveals nothing about the proof.
    fn is_proved<const N: usize>(&self, step: &[u8; N], said: &[u8], proof: &Proof) -> bool {
        self.mac(&word(step), said).is_some_and(|mac| mac.verify_slice(proof).is_ok())
    }
}

/// Returns the word for a step in a fixed length, so that the content after it is never taken for a
/// part of the word.
fn word<const N: usize>(step: &[u8; N]) -> [u8; 7] {
    core::array::from_fn(|place| step.get(place).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = [7; 16];

    fn peer_address(rank: u32) -> PeerAddress {
        PeerAddress { nonce: 9, rank, host: 4, address: None, key: [rank as u8; 16] }
    }

    /// Runs both sides of a conversation with these keys.
    fn converse(keys: [[u8; 16]; 2]) -> Option<[Handshake; 2]> {
        let (asked, asks) = ([1; 16], [2; 16]);
        let heard = read_opening(&open(&asked))?;
        let (called, counter) = Handshake::counter(keys[1], heard, asks);
        Some([Handshake::read_counter(keys[0], asked, &counter)?, called])
    }

    #[test]
    fn processes_with_the_key_exchange_their_addresses() {
        let [caller, called] = converse([KEY; 2]).unwrap();
        let addresses = [1, 2].map(|byte| LinkAddress::from_bytes([byte; LinkAddress::LENGTH]));
        let (from, to) = (peer_address(3), peer_address(5));
        let hello = caller.hello(&from, &to, &addresses[0]);
        assert!(!hello.windows(16).any(|bytes| bytes == from.key || bytes == KEY));
        assert_eq!(called.read_hello(&to, &hello), Some((from.without_key(), addresses[0])));
        assert_eq!(called.read_hello(&peer_address(6), &hello), None, "it is for another process");
        assert_eq!(caller.read_answer(&called.answer(&addresses[1])), Some(addresses[1]));
    }

    #[test]
    fn a_process_without_the_key_is_refused_on_either_side() {
        assert!(converse([KEY, [8; 16]]).is_none(), "the called process lacks the key");
        let [_, called] = converse([KEY; 2]).unwrap();
        let liar = Handshake { key: [8; 16], ..called };
        let address = LinkAddress::from_bytes([1; LinkAddress::LENGTH]);
        assert_eq!(
            called.read_hello(
                &peer_address(5),
                &liar.hello(&peer_address(3), &peer_address(5), &address)
            ),
            None
        );
        assert_eq!(called.read_answer(&liar.answer(&address)), None);
    }

    #[test]
    fn what_was_said_once_proves_nothing_in_another_conversation() {
        let [caller, called] = converse([KEY; 2]).unwrap();
        let address = LinkAddress::from_bytes([1; LinkAddress::LENGTH]);
        let hello = caller.hello(&peer_address(3), &peer_address(5), &address);
        let later = Handshake { called: [3; 16], ..called };
        assert_eq!(later.read_hello(&peer_address(5), &hello), None);
        let (_, counter) = Handshake::counter(KEY, [1; 16], [2; 16]);
        assert!(Handshake::read_counter(KEY, [4; 16], &counter).is_none());
    }

    #[test]
    fn a_byte_that_was_changed_is_found() {
        let [caller, called] = converse([KEY; 2]).unwrap();
        let address = LinkAddress::from_bytes([1; LinkAddress::LENGTH]);
        let hello = caller.hello(&peer_address(3), &peer_address(5), &address);
        for place in 0..HELLO {
            let mut changed = hello;
            changed[place] ^= 1;
            assert_eq!(called.read_hello(&peer_address(5), &changed), None, "byte {place}");
        }
    }
}
