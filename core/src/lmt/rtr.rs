//! What an RTR packet says, and its answer.

use super::{Home, Place, Remote, Span};
use crate::layout::{Corrupt, Segment, golden};
use crate::wire::Payload;

/// The description of a receive that is there before its message (`[SpecRndv09]` §3.1.2): the payload of an RTR packet, from
/// the receiver to the sender that it names.
///
/// | offset | size | field        | meaning                                              |
/// |-------:|-----:|--------------|------------------------------------------------------|
/// |      0 |    8 | `address`    | where the buffer lies in the receiver ([`Place`])    |
/// |      8 |    8 | `capacity`   | bytes that it has room for                           |
/// |     16 |    4 | `place`      | the receiver's descriptor for it                     |
/// |     20 |    4 | `generation` | which use of that descriptor this is; not zero       |
/// |     24 |    4 | `handle`     | names the receive in heads of granules               |
/// |     28 |    4 | `lies`       | what `address` means                                 |
/// |     32 |    4 | `turn`       | of the message that it asks for ([`crate::rndv::Turn`]); not zero |
/// |     36 |    4 | `reads`      | 1: the receiver may read the sender's private memory |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Rtr {
    /// Where the buffer lies in the receiver's memory.
    pub address: u64,
    /// Bytes that it has room for.
    pub capacity: u64,
    /// Number of the receiver's descriptor.
    pub place: u32,
    /// Which use of the descriptor this is; not zero.
    pub generation: u32,
    /// Names the receive in the copy ring.
    pub handle: u32,
    /// What `address` means.
    pub lies: u32,
    /// Turn of the message that it asks for.
    pub turn: u32,
    /// Whether the receiver may read the sender's private memory.
    pub reads: u32,
}

golden::structure!(Rtr { address, capacity, place, generation, handle, lies, turn, reads });

static_assertions::const_assert_eq!(size_of::<Rtr>(), Rtr::LENGTH);
static_assertions::const_assert!(Rtr::LENGTH <= crate::shm::SHORT_MAX);

// SAFETY: numbers without a gap.
unsafe impl Payload for Rtr {}

impl Rtr {
    /// Bytes in a packet: they fit the one line of a fastbox.
    pub const LENGTH: usize = 40;

    /// The descriptor, one of `receiver`'s.
    pub(crate) const fn home(&self, receiver: u32) -> Home {
        Home { owner: receiver, place: self.place, generation: self.generation }
    }

    /// How to write the first `length` bytes of the buffer, which is `receiver`'s.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Place`] and [`Corrupt::Heap`].
    pub(crate) fn reach(
        &self,
        segment: &Segment,
        receiver: u32,
        length: usize,
    ) -> Result<Option<Remote>, Corrupt> {
        Place::parse(self.address, self.lies)?.reach(segment, receiver, length)
    }

    /// As the payload of a packet.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Reads an RTR that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] for numbers that no receiver writes.
    pub fn parse(packet: [u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let rtr = Self::from_bytes(&packet);
        Home::parse(0, rtr.place, rtr.generation)?;
        if usize::try_from(rtr.capacity).is_ok_and(|capacity| isize::try_from(capacity).is_ok()) {
            Ok(rtr)
        } else {
            Err(Corrupt::Length { found: rtr.capacity, max: isize::MAX as u64 })
        }
    }
}

/// The description of a message that uses an RTR (`[SpecRndv09]` §3.3.1): the payload of an RTR-ACK packet.
///
/// | offset | size | field        | meaning                                |
/// |-------:|-----:|--------------|----------------------------------------|
/// |      0 |    8 | `total`      | length of the message, bytes           |
/// |      8 |    8 | `address`    | where it lies in the sender ([`Place`]) |
/// |     16 |    4 | `place`      | [`Rtr::place`]                         |
/// |     20 |    4 | `generation` | [`Rtr::generation`]                    |
/// |     24 |    4 | `lies`       | what `address` means                   |
/// |     28 |    4 | `turn`       | [`Rtr::turn`]                          |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct RtrAck {
    /// Length of the message, bytes.
    pub total: u64,
    /// Where it lies in the sender's memory.
    pub address: u64,
    /// [`Rtr::place`].
    pub place: u32,
    /// [`Rtr::generation`].
    pub generation: u32,
    /// What `address` means.
    pub lies: u32,
    /// [`Rtr::turn`].
    pub turn: u32,
}

golden::structure!(RtrAck { total, address, place, generation, lies, turn });

static_assertions::const_assert_eq!(size_of::<RtrAck>(), RtrAck::LENGTH);
static_assertions::const_assert!(RtrAck::LENGTH <= crate::shm::SHORT_MAX);

// SAFETY: numbers without a gap.
unsafe impl Payload for RtrAck {}

impl RtrAck {
    /// Bytes in a packet: they fit the one line of a fastbox.
    pub const LENGTH: usize = 32;

    /// How to read the message, which `sender` sends.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Place`] and [`Corrupt::Heap`].
    pub(crate) fn reach(&self, segment: &Segment, sender: u32) -> Result<Option<Remote>, Corrupt> {
        // `parse` checked the length.
        Place::parse(self.address, self.lies)?.reach(segment, sender, self.total as usize)
    }

    /// As the payload of a packet.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Reads an RTR-ACK that another process wrote.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] for numbers that no sender writes.
    pub fn parse(packet: [u8; Self::LENGTH]) -> Result<Self, Corrupt> {
        let ack = Self::from_bytes(&packet);
        Home::parse(0, ack.place, ack.generation)?;
        if usize::try_from(ack.total).is_ok_and(Span::fits) {
            Ok(ack)
        } else {
            Err(Corrupt::Length { found: ack.total, max: isize::MAX as u64 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTR: Rtr = Rtr {
        address: 0x7000,
        capacity: 70_000,
        place: 5,
        generation: 1,
        handle: 3,
        lies: 1,
        turn: u32::MAX,
        reads: 1,
    };
    const ACK: RtrAck =
        RtrAck { total: 70_000, address: 8, place: 63, generation: 9, lies: 2, turn: 4 };

    #[test]
    fn an_rtr_and_its_answer_give_their_numbers_back() {
        assert_eq!(Rtr::parse(RTR.pack()), Ok(RTR));
        assert_eq!(RtrAck::parse(ACK.pack()), Ok(ACK));
    }

    #[test]
    fn numbers_that_nobody_writes_are_refused() {
        for bad in [Rtr { place: 64, ..RTR }, Rtr { generation: 0, ..RTR }] {
            assert!(Rtr::parse(bad.pack()).is_err());
        }
        assert!(Rtr::parse(Rtr { capacity: u64::MAX, ..RTR }.pack()).is_err());
        for bad in [RtrAck { place: 64, ..ACK }, RtrAck { generation: 0, ..ACK }] {
            assert!(RtrAck::parse(bad.pack()).is_err());
        }
        assert!(RtrAck::parse(RtrAck { total: u64::MAX, ..ACK }.pack()).is_err());
    }
}
