//! The copy ring: chunks of large messages.

use core::ptr::NonNull;

use strait_core::shm::{CopyRingReceiver, CopyRingSender, GRANULE, Granules, RingChunk};

use crate::place::{Flaw, Party, check};

const CHUNKS: u64 = 2_000;
const WANTED: u32 = 2;

/// Sends from the second processor to the first, in chunks that end where the ring does.
pub(super) fn copy_ring(party: &Party) -> Result<(), Flaw> {
    let ring = party.segment.copy_ring(1, 0);
    let (ring, granules) = ring.expect("the segment has copy rings");
    if party.rank == 0 {
        let mut receiver = CopyRingReceiver::new(ring);
        for number in 0..CHUNKS {
            let (room, found) = party.wait(|| Ok(receiver.peek()?))?;
            let expected = chunk(number, room.count);
            check("length of a chunk", found.length, expected.length.into())?;
            check("place of a chunk", found.offset, number)?;
            for place in words(granules, room) {
                // SAFETY: the receiver owns the chunk until it releases it.
                check("word of a chunk", unsafe { place.read() }, number)?;
            }
            receiver.release(room);
        }
        return Ok(());
    }
    let mut sender = CopyRingSender::new(ring);
    for number in 0..CHUNKS {
        let room = party.wait(|| Ok(sender.room(0, WANTED)?))?;
        for place in words(granules, room) {
            // SAFETY: the sender owns the granules until it publishes them.
            unsafe { place.write(party.say(number)) };
        }
        sender.publish(room.count, chunk(number, room.count));
    }
    Ok(())
}

fn chunk(number: u64, granules: u32) -> RingChunk {
    RingChunk {
        handle: 1,
        generation: 2,
        offset: number,
        length: granules * GRANULE as u32,
        streamed: false,
        more: false,
    }
}

/// Returns the address of every word of these granules.
fn words(granules: NonNull<u8>, room: Granules) -> impl Iterator<Item = NonNull<u64>> {
    const WORDS: usize = GRANULE / size_of::<u64>();
    let places = room.first as usize * WORDS..(room.first + room.count) as usize * WORDS;
    // SAFETY: the words are within the ring's granules, which are in the segment.
    places.map(move |at| unsafe { granules.cast().add(at) })
}
