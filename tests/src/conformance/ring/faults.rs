//! A link that fails: an error that names the peer, for both sides, and no harm to others.

use strait_core::hca::WorkError;

use super::mesh::{Mesh, Rig};
use super::streams::{Stream, Traffic};

/// Plays traffic until some of it has moved, lets `strike` break the link between two ranks, and plays on until every stream has
/// ended.
///
/// A side that has nothing to say to its peer learns of the failure as it would from an embedder that watches its peers.
///
/// # Panics
///
/// When a stream between others does not end whole, or one between these two ends in neither way.
pub fn break_one<R: Rig>(
    mesh: &mut Mesh<R>,
    traffic: &mut Traffic,
    (a, b): (u32, u32),
    turns: u32,
    strike: impl FnOnce(&mut Mesh<R>),
) {
    for _ in 0..turns {
        traffic.turn(mesh);
    }
    strike(mesh);
    while !traffic.streams.iter().all(Stream::has_ended) {
        traffic.turn(mesh);
        if traffic.is_quiet() {
            for (rank, peer) in [(a, b), (b, a)] {
                mesh.end(rank, peer).0.fail(WorkError::Unreachable);
            }
        }
    }
    for stream in &traffic.streams {
        stream.assert_right();
        let concerned = [(a, b), (b, a)].contains(&stream.way);
        assert!(concerned || stream.is_whole(), "{:?} was harmed", stream.way);
        assert!(concerned || stream.put_error.is_none() && stream.get_error.is_none());
    }
}
