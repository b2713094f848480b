//! A link that fails: both sides get an error that names the peer, and other links are not
//! affected.

use strait_core::hca::WorkError;

use super::streams::{Stream, Traffic};
use strait_sim::{Mesh, Rig};

/// Plays traffic until some of it has moved, lets `strike` break the link between two ranks, and
/// plays on until every stream has ended.
///
/// A side with no data for its peer learns of the failure as it would from an embedder that watches
/// its peers.
///
/// # Panics
///
/// When a stream between others is incomplete, or one between these two does not end.
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
    play_on(mesh, traffic, &[(a, b), (b, a)]);
}

/// Plays traffic like [`break_one`] with a `strike` that ends the rank `lost`.
///
/// # Panics
///
/// When a stream between the others is incomplete, or one with this rank does not end.
pub fn lose_one<R: Rig>(
    mesh: &mut Mesh<R>,
    traffic: &mut Traffic,
    lost: u32,
    turns: u32,
    strike: impl FnOnce(&mut Mesh<R>),
) {
    for _ in 0..turns {
        traffic.turn(mesh);
    }
    strike(mesh);
    let others = (0..mesh.nodes.len() as u32).filter(|rank| *rank != lost);
    let ways: Vec<_> = others.flat_map(|other| [(other, lost), (lost, other)]).collect();
    play_on(mesh, traffic, &ways);
}

/// Plays until every stream has ended. The streams of `ways` may fail.
fn play_on<R: Rig>(mesh: &mut Mesh<R>, traffic: &mut Traffic, ways: &[(u32, u32)]) {
    while !traffic.streams.iter().all(Stream::has_ended) {
        traffic.turn(mesh);
        if traffic.is_quiet() {
            for (rank, peer) in ways {
                mesh.end(*rank, *peer).0.fail(WorkError::Unreachable);
            }
        }
    }
    for stream in &traffic.streams {
        stream.assert_right();
        let concerned = ways.contains(&stream.way);
        assert!(concerned || stream.is_whole(), "{:?} was harmed", stream.way);
        assert!(concerned || stream.put_error.is_none() && stream.get_error.is_none());
    }
}
