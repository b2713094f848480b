//! Everything of this crate that parses what other processes wrote, as functions of bytes: for fuzzers.
//!
//! Each function asserts what holds of whatever was accepted.

use strait_core::ring::Card;

use crate::boot::{self, Contact};
use crate::network::greeting::{self, ANSWER, COUNTER, Greeting, HELLO, OPENING};

/// Lines of PMI-1, as a launcher of ours reads them and as a rank reads the answers.
pub fn pmi(bytes: &[u8]) {
    boot::parsers::pmi(bytes);
}

/// What processes say to each other when one joins: the registry of universes, and the boot exchange.
pub fn join(bytes: &[u8]) {
    boot::parsers::join(bytes);
}

/// The greeting of two processes that connect, which get the parts of `bytes` one after the other.
pub fn greeting(bytes: &[u8]) {
    const KEY: [u8; 16] = [7; 16];
    let mut rest = bytes;
    let own = Contact::from_bytes(&next(&mut rest));
    let [caller, called] = [next(&mut rest), next(&mut rest)];
    let opening: [u8; OPENING] = next(&mut rest);
    if let Some(challenge) = greeting::read_opening(&opening) {
        assert_eq!(greeting::open(&challenge), opening);
    }
    let (counter, hello): ([u8; COUNTER], [u8; HELLO]) = (next(&mut rest), next(&mut rest));
    let answer: [u8; ANSWER] = next(&mut rest);
    let (greeting, sent) = Greeting::counter(KEY, caller, called);
    // No bytes are proofs, unless the key made them.
    assert!(Greeting::read_counter(KEY, caller, &counter).is_none() || counter == sent);
    assert_eq!(greeting.read_hello(&own, &hello), None);
    assert_eq!(greeting.read_answer(&answer), None);
    let card = Card::from_bytes(next(&mut rest));
    let hello = greeting.hello(&own, &own, &card);
    assert_eq!(greeting.read_hello(&own, &hello), Some((own.without_key(), card)));
    assert_eq!(greeting.read_answer(&greeting.answer(&card)), Some(card));
}

/// The next bytes; zeros where there are no more.
fn next<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (part, behind) = rest.split_at(N.min(rest.len()));
    *rest = behind;
    core::array::from_fn(|place| part.get(place).copied().unwrap_or(0))
}
