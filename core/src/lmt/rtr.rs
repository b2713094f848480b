//! The payloads of RTR and RTR-ACK packets.

use super::{Home, ReadTime, RemoteBuffer, Span, WireAddress};
use crate::golden;
use crate::layout::Segment;
use crate::wire::{Corrupt, WirePayload};

/// Describes a receive that is posted before its message (`[SpecRndv09]` §3.1.2). It is the payload
/// of an RTR packet, from the receiver to the sender that it names.
///
/// | offset | size | field        | meaning                                                 |
/// |-------:|-----:|--------------|---------------------------------------------------------|
/// |      0 |    8 | `address`    | location in the receiver's memory ([`WireAddress`])     |
/// |      8 |    8 | `capacity`   | size of the buffer, bytes                               |
/// |     16 |    4 | `place`      | the receiver's descriptor of the transfer               |
/// |     20 |    4 | `generation` | which use of that descriptor this is; not zero          |
/// |     24 |    4 | `handle`     | names the receive in heads of granules                  |
/// |     28 |    4 | `lies`       | what `address` means                                    |
/// |     32 |    4 | `turn`       | turn that it asks for ([`crate::wire::Turn`]); not zero |
/// |     36 |    4 | `reads`      | 1: the receiver may read the sender's private memory    |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Rtr {
    /// Location of the buffer in the receiver's memory.
    pub address: u64,
    /// Size of the buffer, in bytes.
    pub capacity: u64,
    /// Number of the receiver's descriptor.
    pub place: u32,
    /// Number of this use of the descriptor; not zero.
    pub generation: u32,
    /// Names the receive in the copy ring.
    pub handle: u32,
    /// The meaning of `address`.
    pub lies: u32,
    /// Turn of the message that the receive asks for.
    pub turn: u32,
    /// 1 if the receiver may read the sender's private memory, otherwise 0.
    pub reads: u32,
}

golden::structure!(Rtr { address, capacity, place, generation, handle, lies, turn, reads });

static_assertions::const_assert_eq!(size_of::<Rtr>(), Rtr::LENGTH);
static_assertions::const_assert!(Rtr::LENGTH <= crate::wire::SHORT_MAX);

// SAFETY: all fields are integers, and there is no padding.
unsafe impl WirePayload for Rtr {}

impl Rtr {
    /// Size in bytes in a packet. It fits the single line of a fastbox.
    pub const LENGTH: usize = 40;

    /// Returns the descriptor, which belongs to `receiver`.
    pub(crate) const fn home(&self, receiver: u32) -> Home {
        Home { owner: receiver, place: self.place, generation: self.generation }
    }

    /// Returns how to write the first `length` bytes of the buffer of `receiver`. Returns `None` if
    /// the buffer is not accessible.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Place`] for an unknown meaning of `address`; [`Corrupt::Heap`] for a buffer
    /// outside the heap.
    pub(crate) fn reach(
        &self,
        segment: &Segment,
        receiver: u32,
        length: usize,
    ) -> Result<Option<RemoteBuffer>, Corrupt> {
        WireAddress::parse(self.address, self.lies)?.reach(segment, receiver, length)
    }

    /// Returns the RTR as the payload of a packet.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Parses an RTR that another process wrote.
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

/// Describes a message that uses an RTR (`[SpecRndv09]` §3.3.1). It is the payload of an RTR-ACK
/// packet.
///
/// | offset | size | field        | meaning                                           |
/// |-------:|-----:|--------------|---------------------------------------------------|
/// |      0 |    8 | `total`      | length of the message, bytes                      |
/// |      8 |    8 | `address`    | location in the sender's memory ([`WireAddress`]) |
/// |     16 |    4 | `place`      | [`Rtr::place`]                                    |
/// |     20 |    4 | `generation` | [`Rtr::generation`]                               |
/// |     24 |    4 | `lies`       | the meaning of `address`, as in an RTS            |
/// |     28 |    4 | `turn`       | [`Rtr::turn`]                                     |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct RtrAck {
    /// Length of the message, in bytes.
    pub total: u64,
    /// Location of the message in the sender's memory.
    pub address: u64,
    /// [`Rtr::place`].
    pub place: u32,
    /// [`Rtr::generation`].
    pub generation: u32,
    /// The meaning of `address`.
    pub lies: u32,
    /// [`Rtr::turn`].
    pub turn: u32,
}

golden::structure!(RtrAck { total, address, place, generation, lies, turn });

static_assertions::const_assert_eq!(size_of::<RtrAck>(), RtrAck::LENGTH);
static_assertions::const_assert!(RtrAck::LENGTH <= crate::wire::SHORT_MAX);

// SAFETY: all fields are integers, and there is no padding.
unsafe impl WirePayload for RtrAck {}

impl RtrAck {
    /// Size in bytes in a packet. It fits the single line of a fastbox.
    pub const LENGTH: usize = 32;

    /// Returns how to read the message of `sender`. Returns `None` if the message is not
    /// accessible.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Place`] for an unknown meaning of `address`; [`Corrupt::Heap`] for a
    /// message outside the heap.
    pub(crate) fn reach(
        &self,
        segment: &Segment,
        sender: u32,
    ) -> Result<Option<RemoteBuffer>, Corrupt> {
        let place = WireAddress::parse(self.address, ReadTime::parse(self.lies).0)?;
        // `parse` checked that the length fits `usize`.
        place.reach(segment, sender, self.total as usize)
    }

    /// Returns when the receiver may read the message.
    pub(crate) const fn read_time(&self) -> ReadTime {
        ReadTime::parse(self.lies).1
    }

    /// Returns the RTR-ACK as the payload of a packet.
    #[must_use]
    pub fn pack(self) -> [u8; Self::LENGTH] {
        self.to_bytes()
    }

    /// Parses an RTR-ACK that another process wrote.
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
    fn impossible_numbers_are_refused() {
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
