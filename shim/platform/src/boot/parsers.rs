//! The parsers of this module for bytes that other processes wrote, as functions for fuzzers.

use super::message::{Hello, Reply};
use super::pmi::{self, client, mapping, server};
use super::registry::{UniverseRegistry, is_key};
use crate::Nodes;

/// Number of ranks in the launcher's job.
const RANKS: u32 = 3;

/// Parses requests of ranks, answers of launchers, and mappings of ranks to nodes.
pub fn pmi(bytes: &[u8]) {
    let mut space = server::Space::new(&Nodes::one(RANKS));
    (0..RANKS).for_each(|_| space.add(None));
    for (number, piece) in (0..).zip(bytes.chunks(97)) {
        let _ = space.take_in(number % RANKS, piece);
    }
    for line in pmi::lines_of(bytes) {
        assert!(!line.contains('\n'));
        if let Some(value) = client::value_in(&line) {
            let first = client::pieces_of(value).map(|(_, first)| first);
            let decoded = first.and_then(client::decode);
            assert!(decoded.is_none_or(|bytes| bytes.len() * 2 <= line.len()));
            if let Ok(nodes) = mapping::parse(value, RANKS) {
                assert_eq!(nodes.ranks(), RANKS);
            }
        }
    }
}

/// Parses the registry of universes, and both messages of the boot exchange.
pub fn join(bytes: &[u8]) {
    let registry = UniverseRegistry::parse(bytes);
    assert!(registry.entries.iter().all(|entry| is_key(&entry.key) && entry.process > 0));
    assert_eq!(UniverseRegistry::parse(&registry.to_bytes()), registry);
    if let Ok(hello) = Hello::parse(bytes) {
        assert_eq!(Hello::parse(&hello.encode()), Ok(hello));
    }
    if let Ok(reply) = Reply::parse(bytes) {
        assert_eq!(Reply::parse(&reply.encode()), Ok(reply));
    }
}
