//! The parsers of this crate for data that other processes wrote, as functions of bytes, for
//! fuzzers.
//!
//! Each function asserts the properties of the values that its parser accepts.

use strait_core::ring::LinkAddress;
use strait_platform::boot::{self, PeerAddress};

use crate::network::handshake::{self, ANSWER, COUNTER, HELLO, Handshake, OPENING};

/// Parses lines of PMI-1, both as a launcher of this project and as a rank reads them.
pub fn pmi(bytes: &[u8]) {
    boot::parsers::pmi(bytes);
}

/// Parses the messages of a process that joins: the registry of universes, and the boot exchange.
pub fn join(bytes: &[u8]) {
    boot::parsers::join(bytes);
}

/// Parses the handshake of two processes that connect. They get the parts of `bytes` one after the
/// other.
pub fn greeting(bytes: &[u8]) {
    const KEY: [u8; 16] = [7; 16];
    let mut rest = bytes;
    let own = PeerAddress::from_bytes(&next(&mut rest));
    let [caller, called] = [next(&mut rest), next(&mut rest)];
    let opening: [u8; OPENING] = next(&mut rest);
    if let Some(challenge) = handshake::read_opening(&opening) {
        assert_eq!(handshake::open(&challenge), opening);
    }
    let (counter, hello): ([u8; COUNTER], [u8; HELLO]) = (next(&mut rest), next(&mut rest));
    let answer: [u8; ANSWER] = next(&mut rest);
    let (greeting, sent) = Handshake::counter(KEY, caller, called);
    // Only the holder of the key can produce a valid proof.
    assert!(Handshake::read_counter(KEY, caller, &counter).is_none() || counter == sent);
    assert_eq!(greeting.read_hello(&own, &hello), None);
    assert_eq!(greeting.read_answer(&answer), None);
    let link = LinkAddress::from_bytes(next(&mut rest));
    let hello = greeting.hello(&own, &own, &link);
    assert_eq!(greeting.read_hello(&own, &hello), Some((own.without_key(), link)));
    assert_eq!(greeting.read_answer(&greeting.answer(&link)), Some(link));
}

/// Returns the next bytes, with zeros where no more bytes are left.
fn next<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (part, behind) = rest.split_at(N.min(rest.len()));
    *rest = behind;
    core::array::from_fn(|place| part.get(place).copied().unwrap_or(0))
}
