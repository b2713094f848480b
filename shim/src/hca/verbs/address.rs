//! What a peer has to know to connect: 64 bytes.
//!
//! | offset | size |                                 |
//! |-------:|-----:|---------------------------------|
//! |      0 |    4 | `STRV`                          |
//! |      4 |    1 | 1, for this table               |
//! |      5 |    1 | code of the longest packet      |
//! |      6 |    2 | LID                             |
//! |      8 |    4 | queue pair                      |
//! |     12 |    4 | first packet                    |
//! |     16 |   16 | GID                             |
//! |     32 |    1 | reads and atomics at a time     |
//!
//! Numbers are little-endian; the rest is zero.

use strait_core::hca::Address;

const MAGIC: [u8; 4] = *b"STRV";
const KIND: u8 = 1;

/// Where a queue pair is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    /// Its number, 24 bits.
    pub(super) pair: u32,
    /// Number of the first packet that it sends, 24 bits.
    pub(super) first_packet: u32,
    /// Local identifier of its port; zero on RoCE.
    pub(super) lid: u16,
    /// Global identifier of its port.
    pub(super) gid: [u8; 16],
    /// Code of the longest packet that its port takes: 1 is 256 bytes, 5 is 4096.
    pub(super) mtu: u8,
    /// Reads and atomics that it answers at a time.
    pub(super) reads: u8,
}

impl Place {
    /// The place as bytes.
    pub(super) fn pack(&self) -> Address {
        let mut bytes = [0; Address::LENGTH];
        bytes[..4].copy_from_slice(&MAGIC);
        (bytes[4], bytes[5]) = (KIND, self.mtu);
        bytes[6..8].copy_from_slice(&self.lid.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.pair.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.first_packet.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.gid);
        bytes[32] = self.reads;
        Address(bytes)
    }

    /// The place that a peer's bytes mean, if they mean one.
    pub(super) fn parse(address: &Address) -> Option<Self> {
        let (magic, bytes) = address.0.split_first_chunk::<4>()?;
        let (&[kind, mtu], bytes) = bytes.split_first_chunk::<2>()?;
        let (&lid, bytes) = bytes.split_first_chunk::<2>()?;
        let (&pair, bytes) = bytes.split_first_chunk::<4>()?;
        let (&packet, bytes) = bytes.split_first_chunk::<4>()?;
        let (&gid, bytes) = bytes.split_first_chunk::<16>()?;
        let (&reads, rest) = bytes.split_first()?;
        let (pair, first_packet) = (u32::from_le_bytes(pair), u32::from_le_bytes(packet));
        let good = *magic == MAGIC
            && kind == KIND
            && (1..=5).contains(&mtu)
            && pair < 1 << 24
            && first_packet < 1 << 24
            && reads != 0
            && rest.iter().all(|byte| *byte == 0);
        let lid = u16::from_le_bytes(lid);
        good.then_some(Self { pair, first_packet, lid, gid, mtu, reads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        pair: 0xab_cdef,
        first_packet: 0x12_3456,
        lid: 0x789,
        gid: [7; 16],
        mtu: 3,
        reads: 16,
    };

    #[test]
    fn a_place_survives_the_way() {
        assert_eq!(Place::parse(&PLACE.pack()), Some(PLACE));
    }

    #[test]
    fn bytes_of_another_device_are_refused() {
        assert_eq!(Place::parse(&Address([0; Address::LENGTH])), None);
        let good = PLACE.pack();
        // Magic, kind, MTU, a queue pair and a packet number of more than 24 bits, no reads, and what must be zero.
        for (offset, value) in [(0, 0), (4, 9), (5, 0), (5, 6), (11, 1), (15, 1), (32, 0), (63, 1)]
        {
            let mut bad = good;
            bad.0[offset] = value;
            assert_eq!(Place::parse(&bad), None, "byte {offset}");
        }
    }
}
