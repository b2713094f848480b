//! A rank that sleeps until its peer knocks.

use strait_core::hca::Hca;
use strait_core::ring::Vigil;

use super::mesh::{Mesh, Rig};

/// Words go from rank 0 to rank 1, which sleeps before each. `wait` sleeps until the device's event has come, and says whether
/// it did.
///
/// # Panics
///
/// When it did not, or a word is wrong.
pub fn wake_each_time<R: Rig>(mesh: &mut Mesh<R>, wait: impl Fn(&R::Device) -> bool) {
    const WORDS: u64 = 50;
    let arm = |mesh: &mut Mesh<R>| mesh.nodes[1].device.arm().expect("arming");
    let sleep = |mesh: &Mesh<R>| assert!(wait(&mesh.nodes[1].device), "no event has come");
    for word in 0..WORDS {
        let mut room = [0; 8];
        loop {
            let _ = mesh.poll(1);
            arm(mesh);
            let (link, device) = mesh.end(1, 0);
            match link.ask(device).expect("the link") {
                Vigil::Kept => break,
                // What was asked for just now may be done already.
                Vigil::Pending if mesh.poll(1) => {}
                Vigil::Pending => sleep(mesh),
                Vigil::Open => drop(mesh.rig.pass()),
            }
        }
        assert_eq!(mesh.get((0, 1), &mut room, &[]), Ok(0), "nothing was put");
        assert_eq!(mesh.put((0, 1), &word.to_ne_bytes(), &[]), Ok(8));
        while mesh.get((0, 1), &mut room, &[]) == Ok(0) {
            sleep(mesh);
            arm(mesh);
            let _ = mesh.poll(1);
        }
        assert_eq!(room, word.to_ne_bytes());
        let _ = mesh.poll(0);
    }
    assert_eq!(mesh.end(0, 1).0.operations().knocks, WORDS, "a knock for each word");
}
