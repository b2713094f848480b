//! A rank that sleeps until its peer sends a wake-up.

use strait_core::hca::Hca;
use strait_core::ring::WakeupSource;

use strait_sim::{Mesh, Rig};

/// Words go from rank 0 to rank 1, which sleeps before each. `wait` sleeps until the device's event
/// has arrived, and returns whether it did.
///
/// # Panics
///
/// When it did not, or a word is wrong.
pub fn wake_each_time<R: Rig>(mesh: &mut Mesh<R>, wait: impl Fn(&R::Device) -> bool) {
    const WORDS: u64 = 50;
    for word in 0..WORDS {
        let (mut room, mut is_put) = ([0; 8], false);
        loop {
            let _ = (mesh.poll(0), mesh.poll(1));
            mesh.nodes[1].device.arm().expect("arming");
            let (link, device) = mesh.end(1, 0);
            let watch = link.ask(device).expect("the link");
            // The last poll before it sleeps.
            let polled = mesh.poll(1);
            if mesh.get((0, 1), &mut room, &[]) == Ok(8) {
                break;
            }
            if watch == WakeupSource::Open || polled {
                let _ = mesh.rig.pass();
                continue;
            }
            if watch == WakeupSource::Kept && !is_put {
                assert_eq!(mesh.put((0, 1), &word.to_ne_bytes(), &[]), Ok(8));
                is_put = true;
            }
            assert!(wait(&mesh.nodes[1].device), "no event has come");
        }
        assert!(is_put, "a word before it was put");
        assert_eq!(room, word.to_ne_bytes());
    }
    let knocks = mesh.end(0, 1).0.operations().wakeups;
    // A late wake-up reaches a rank that has the word already, and that sleeps again.
    assert!((1..=WORDS).contains(&knocks), "{knocks} knocks for {WORDS} words");
}
