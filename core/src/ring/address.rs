//! The address of a link's end.

use super::config::{LinkConfig, LinkMemory};
use crate::hca::{Address, RemoteAddress};

/// The connection address of an end and the location of its memory, in bytes that the embedder
/// delivers to the peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinkAddress([u8; Self::LENGTH]);

impl LinkAddress {
    /// Size of a card, in bytes.
    pub const LENGTH: usize = Address::LENGTH + 32;

    /// Creates a card from the peer's bytes. [`Link::connect`](super::Link::connect) checks them.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes for the peer.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; Self::LENGTH] {
        self.0
    }

    pub(super) fn new(address: &Address, config: &LinkConfig, lent: &LinkMemory) -> Self {
        let mut bytes = [0; Self::LENGTH];
        bytes[..Address::LENGTH].copy_from_slice(&address.0);
        let memory = (lent.base.addr().get() as u64).to_le_bytes();
        bytes[Address::LENGTH..][..8].copy_from_slice(&memory);
        let words = [lent.remote_key, config.design as u32, config.chunk, config.slots];
        for (to, word) in bytes[Address::LENGTH + 8..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        Self(bytes)
    }

    /// Returns the address to connect to.
    pub(super) fn address(&self) -> Address {
        let mut address = Address([0; Address::LENGTH]);
        address.0.copy_from_slice(&self.0[..Address::LENGTH]);
        address
    }

    /// Returns the peer's memory, or `None` if its end has another configuration.
    pub(super) fn memory(&self, config: &LinkConfig) -> Option<RemoteAddress> {
        let same = self.word(1) == config.design as u32
            && self.word(2) == config.chunk
            && self.word(3) == config.slots;
        let mut address = [0; 8];
        address.copy_from_slice(&self.0[Address::LENGTH..][..8]);
        same.then(|| RemoteAddress { address: u64::from_le_bytes(address), key: self.word(0) })
    }

    fn word(&self, number: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.0[Address::LENGTH + 8 + 4 * number..][..4]);
        u32::from_le_bytes(word)
    }
}
