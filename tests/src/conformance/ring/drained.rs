//! What [`Link::drain`](strait_core::ring::Link::drain) promises.

use super::{Mesh, Rig};

/// Puts something from rank 0 to rank 1 and drains: then it is in rank 1's memory, which need not wait for anything. The mesh has
/// room for 300 bytes, and takes none of it for a large part.
///
/// # Panics
///
/// When something is missing, or it is never drained.
pub fn is_there<R: Rig>(mesh: &mut Mesh<R>) {
    let (message, mut into) = ([7; 300], [0; 300]);
    let mut rest = &message[..];
    let drained = (0..100_000).any(|_| {
        rest = &rest[mesh.put((0, 1), rest, &[]).unwrap()..];
        let _ = mesh.rig.pass() | mesh.poll(0);
        let (link, device) = mesh.end(0, 1);
        rest.is_empty() && link.drain(device).unwrap()
    });
    assert!(drained, "it never is");
    assert_eq!(mesh.get((0, 1), &mut into, &[]), Ok(message.len()));
    assert_eq!(into, message);
}
