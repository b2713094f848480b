//! The RDMA channel's memory, with the second processor in the role of the peer's device.

use strait_core::ring::{Counter, Landing, LandingHead};
use strait_core::sync::Ordering::Release;

use crate::place::{Flaw, Party, check};

const MESSAGES: u64 = 20_000;
const SLOTS: usize = 4;

/// One direction of a link.
#[repr(C)]
struct LandingSlots {
    landings: [Landing; SLOTS],
    credit: Counter,
}

/// Sends messages into slots and returns credits.
pub(super) fn landing(party: &Party) -> Result<(), Flaw> {
    // SAFETY: flags and credits assign each place to one processor. Zeroed memory is a place where
    // no message has arrived.
    let slots = unsafe { party.shared::<LandingSlots>() };
    for number in 1..=MESSAGES {
        let landing = &slots.landings[number as usize % SLOTS];
        if party.rank == 0 {
            party.wait(|| Ok(landing.holds(number).then_some(())))?;
            // SAFETY: the message has arrived.
            let head = unsafe { landing.head() };
            check("length in a head", head.length, number)?;
            check("credit in a head", head.credit, !number)?;
            slots.credit.word().store(number, Release);
        } else {
            let free = || slots.credit.read() + SLOTS as u64 >= number;
            party.wait(|| Ok(free().then_some(())))?;
            let head = LandingHead { length: party.say(number) as u32, kind: 0, credit: !number };
            // SAFETY: the credit gives the place to the sender.
            landing.cell().with_mut(|place| unsafe { place.write(head) });
            landing.flag().store(number, Release);
        }
    }
    Ok(())
}
