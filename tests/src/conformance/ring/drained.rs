//! Checks the promise of [`Link::drain`](strait_core::ring::Link::drain).

use strait_sim::{Mesh, Rig};

/// Puts bytes from rank 0 to rank 1 and drains. Then they are in rank 1's memory, without a further
/// wait. The mesh has room for 300 bytes, and sends none of them as a large part.
///
/// # Panics
///
/// When bytes are missing, or the link never drains.
pub fn is_there<R: Rig>(mesh: &mut Mesh<R>) {
    let (message, mut into) = ([7; 300], [0; 300]);
    let mut rest = &message[..];
    let drained = (0..100_000).any(|_| {
        rest = &rest[mesh.put((0, 1), rest, &[]).unwrap()..];
        let _ = mesh.rig.pass() | mesh.poll(0);
        let (link, device) = mesh.end(0, 1);
        rest.is_empty() && link.drain(device).unwrap()
    });
    assert!(drained, "the link never drains");
    assert_eq!(mesh.get((0, 1), &mut into, &[]), Ok(message.len()));
    assert_eq!(into, message);
}
