//! The RDMA channel's memory, with the second processor in the place of the peer's device.

use strait_core::ring::{Counter, Head, Landing};
use strait_core::sync::Ordering::Release;

use crate::place::{Flaw, Party, check};

const MESSAGES: u64 = 20_000;
const SLOTS: usize = 4;

/// One direction of a link.
#[repr(C)]
struct Slots {
    landings: [Landing; SLOTS],
    credit: Counter,
}

/// Messages land in slots, and credits go back.
pub(super) fn landing(party: &Party) -> Result<(), Flaw> {
    // SAFETY: flags and credits say whose each place is; zeros are places where nothing has landed.
    let slots = unsafe { party.shared::<Slots>() };
    for number in 1..=MESSAGES {
        let landing = &slots.landings[number as usize % SLOTS];
        if party.rank == 0 {
            party.wait(|| Ok(landing.holds(number).then_some(())))?;
            // SAFETY: it has landed.
            let head = unsafe { landing.head() };
            check("length in a head", head.length, number)?;
            check("credit in a head", head.credit, !number)?;
            slots.credit.word().store(number, Release);
        } else {
            let free = || slots.credit.read() + SLOTS as u64 >= number;
            party.wait(|| Ok(free().then_some(())))?;
            let head = Head { length: party.say(number) as u32, kind: 0, credit: !number };
            // SAFETY: by the credit, the place is the sender's.
            landing.cell().with_mut(|place| unsafe { place.write(head) });
            landing.flag().store(number, Release);
        }
    }
    Ok(())
}
