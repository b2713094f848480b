//! The configuration of links.

use strait_core::ring::{Design, LinkConfig};
use strait_core::wire::StreamHead;
use strait_platform::{Nodes, Rank};

/// Number of chunks in each direction of a link.
const SLOTS: u32 = 16;

/// Bytes of a chunk, which holds a message of the default `STRAIT_STREAM_MAX` and its head.
const CHUNK: u32 = 16 * 1024 + StreamHead::LENGTH as u32;

/// Returns the configuration of links of `design`, which copy parts of up to `copy_max` bytes
/// through the ring.
pub(crate) const fn config(design: Design, copy_max: u32) -> LinkConfig {
    LinkConfig { design, chunk: CHUNK, slots: SLOTS, large: copy_max + 1 }
}

/// Returns the distance in bytes between the memory of one link and of the next.
pub(crate) const fn stride(config: &LinkConfig) -> usize {
    config.bytes().next_multiple_of(4096)
}

/// Returns the ranks on other nodes than `me`'s.
pub(super) fn peers(me: Rank, nodes: &Nodes) -> impl Iterator<Item = Rank> {
    (0..nodes.ranks()).filter(move |rank| nodes.node_of(*rank) != nodes.node_of(me))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::RING_COPY_DEFAULT;

    #[test]
    fn a_link_has_the_memory_that_the_documents_say() {
        for design in Design::ALL {
            assert!(
                stride(&config(design, RING_COPY_DEFAULT)) <= 532_480,
                "docs/decisions/network.md states it"
            );
        }
    }
}
