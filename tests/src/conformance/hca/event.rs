//! Checks waiting without polling.

use core::time::Duration;

use strait_core::hca::{Done, Hca, Operation};

use super::side::Side;
use super::{Applicable, Party};

/// The first party sends at intervals. The second sleeps until a message arrives.
pub(super) fn an_armed_device_wakes<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const TURNS: usize = 20;
    let link = side.connect();
    let (buffer, _) = side.shared(64);
    let piece = buffer.whole();
    let mut sleeps = true;
    if side.is_first() {
        for _ in 0..TURNS {
            side.meet();
            // Time for the other to fall asleep. The check also holds if it is not asleep yet.
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(side.perform(link, Operation::Send { from: &[piece] }), Done::Send);
        }
        sleeps = side.party().exchange(&[]) == [1];
    } else {
        for _ in 0..TURNS {
            let id = side.receive(piece);
            side.device().arm().expect("arming");
            side.meet();
            sleeps = sleeps && side.party().wait_for_event();
            // The event means that a completion is there, unless the device was not armed.
            if sleeps {
                side.look();
                assert!(side.has_taken(), "an event, and nothing completed");
            }
            assert_eq!(side.done(link, id), Done::Receive { length: 64 });
        }
        side.party().exchange(&[u8::from(sleeps)]);
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    if sleeps { Ok(()) } else { Err("the device's events cannot be waited for") }
}
