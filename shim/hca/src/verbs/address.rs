//! The address of a connection's end, which a peer needs in order to connect: 64 bytes.
//!
//! On InfiniBand and RoCE it is the address of a queue pair:
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
//! On iWARP it is the address of a listener, and the name of one of its ends:
//!
//! | offset | size |                                 |
//! |-------:|-----:|---------------------------------|
//! |      0 |    4 | `STRV`                          |
//! |      4 |    1 | 2, for this table               |
//! |      6 |    2 | TCP port                        |
//! |      8 |    8 | the end                         |
//! |     16 |   16 | IP address, version 6 or mapped |
//! |     32 |    8 | address of the end's greeting   |
//! |     40 |    4 | its key                         |
//!
//! Numbers are little-endian; all other bytes are zero.

use core::net::{Ipv6Addr, SocketAddr};

use strait_core::hca::{Address, RemoteAddress};

const MAGIC: [u8; 4] = *b"STRV";
const KIND: u8 = 1;
const IWARP: u8 = 2;

/// The address of a queue pair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct QueuePairAddress {
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

impl QueuePairAddress {
    /// Encodes the address.
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

    /// Decodes an address that a peer wrote. Returns `None` when the bytes are not such an address.
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

/// The address at which a device on iWARP listens, and the name of one of its ends.
///
/// Of two listeners that are to be connected, the lesser asks the greater.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct IwarpAddress {
    /// IP version 6, or version 4 mapped to it.
    pub(super) ip: Ipv6Addr,
    pub(super) port: u16,
    pub(super) end: EndName,
    /// The address at which the end waits for its greeting, and the key of that memory.
    pub(super) word: u64,
    pub(super) key: u32,
}

/// The name of an end of a device, with a number that ends of another device or of an earlier run
/// do not have.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct EndName {
    pub(super) connection: u32,
    pub(super) nonce: u32,
}

impl EndName {
    pub(super) const LENGTH: usize = 8;

    /// Encodes the name.
    pub(super) fn pack(self) -> [u8; Self::LENGTH] {
        (u64::from(self.nonce) << 32 | u64::from(self.connection)).to_le_bytes()
    }

    /// Decodes a name.
    pub(super) fn parse(bytes: [u8; Self::LENGTH]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self { connection: both as u32, nonce: (both >> 32) as u32 }
    }
}

impl IwarpAddress {
    /// Encodes the address.
    pub(super) fn pack(&self) -> Address {
        let mut bytes = [0; Address::LENGTH];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = IWARP;
        bytes[6..8].copy_from_slice(&self.port.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.end.pack());
        bytes[16..32].copy_from_slice(&self.ip.octets());
        bytes[32..40].copy_from_slice(&self.word.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.key.to_le_bytes());
        Address(bytes)
    }

    /// Decodes an address that a peer wrote. Returns `None` when the bytes are not such an address.
    pub(super) fn parse(address: &Address) -> Option<Self> {
        let (magic, bytes) = address.0.split_first_chunk::<4>()?;
        let (&[kind, zero], bytes) = bytes.split_first_chunk::<2>()?;
        let (&port, bytes) = bytes.split_first_chunk::<2>()?;
        let (&end, bytes) = bytes.split_first_chunk::<{ EndName::LENGTH }>()?;
        let (&ip, bytes) = bytes.split_first_chunk::<16>()?;
        let (&word, bytes) = bytes.split_first_chunk::<8>()?;
        let (&key, rest) = bytes.split_first_chunk::<4>()?;
        let (word, key) = (u64::from_le_bytes(word), u32::from_le_bytes(key));
        let port = u16::from_le_bytes(port);
        let good = *magic == MAGIC
            && (kind, zero) == (IWARP, 0)
            && port != 0
            && rest.iter().all(|byte| *byte == 0);
        good.then_some(Self { ip: ip.into(), port, end: EndName::parse(end), word, key })
    }

    /// Returns the address of the word in which the end is greeted.
    pub(super) fn greeting(&self) -> RemoteAddress {
        RemoteAddress { address: self.word, key: self.key }
    }

    /// Returns the socket address of the listener.
    pub(super) fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.ip.to_canonical(), self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: QueuePairAddress = QueuePairAddress {
        pair: 0xab_cdef,
        first_packet: 0x12_3456,
        lid: 0x789,
        gid: [7; 16],
        mtu: 3,
        reads: 16,
    };

    #[test]
    fn a_queue_pair_address_survives_encoding() {
        assert_eq!(QueuePairAddress::parse(&PLACE.pack()), Some(PLACE));
    }

    const A_LISTENER: IwarpAddress = IwarpAddress {
        ip: Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x0a09, 0x0001),
        port: 0x1234,
        end: EndName { connection: 7, nonce: 0xfedc_ba98 },
        word: 0x7f00_1234_5678,
        key: 0x9abc,
    };

    #[test]
    fn a_listener_address_survives_encoding() {
        assert_eq!(IwarpAddress::parse(&A_LISTENER.pack()), Some(A_LISTENER));
        assert_eq!(IwarpAddress::parse(&PLACE.pack()), None);
        assert_eq!(QueuePairAddress::parse(&A_LISTENER.pack()), None);
        for offset in [0, 4, 5, 44, 63] {
            let mut bad = A_LISTENER.pack();
            bad.0[offset] ^= 0x40;
            assert_eq!(IwarpAddress::parse(&bad), None, "byte {offset}");
        }
        assert_eq!(IwarpAddress::parse(&IwarpAddress { port: 0, ..A_LISTENER }.pack()), None);
    }

    #[test]
    fn bytes_of_another_device_are_refused() {
        assert_eq!(QueuePairAddress::parse(&Address([0; Address::LENGTH])), None);
        let good = PLACE.pack();
        // Magic, kind, MTU, a queue pair and a packet number of more than 24 bits, no reads, and a
        // byte that must be zero.
        for (offset, value) in [(0, 0), (4, 9), (5, 0), (5, 6), (11, 1), (15, 1), (32, 0), (63, 1)]
        {
            let mut bad = good;
            bad.0[offset] = value;
            assert_eq!(QueuePairAddress::parse(&bad), None, "byte {offset}");
        }
    }
}
