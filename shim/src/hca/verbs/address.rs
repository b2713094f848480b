//! What a peer has to know to connect: 64 bytes, of which the device's kind decides the meaning.
//!
//! | offset | size | InfiniBand and RoCE | iWARP                    |
//! |-------:|-----:|---------------------|--------------------------|
//! |      0 |    4 | `STRV`              | `STRV`                   |
//! |      4 |    1 | 1                   | 2                        |
//! |      5 |    1 | path MTU, code      | 4 or 6: version of IP    |
//! |      6 |    2 | LID                 | port                     |
//! |      8 |    4 | queue pair          | the end at the peer      |
//! |     12 |    4 | first packet number | -                        |
//! |     16 |   16 | GID                 | IP address               |
//! |     32 |    1 | reads at a time     | reads at a time          |
//!
//! Numbers are little-endian; the rest is zero.

use core::net::{IpAddr, SocketAddr};

use strait_core::hca::Address;

const MAGIC: [u8; 4] = *b"STRV";
const BY_HAND: u8 = 1;
const BY_CM: u8 = 2;

/// An address, understood.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// A queue pair that is connected by hand.
    Pair(PairPlace),
    /// One that the connection manager reaches.
    Listener(ListenerPlace),
}

/// Where a queue pair on InfiniBand or RoCE is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PairPlace {
    /// Number of the queue pair, 24 bits.
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

/// Where an iWARP device listens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ListenerPlace {
    /// Its address and port.
    pub(super) socket: SocketAddr,
    /// Which end there.
    pub(super) end: u32,
    /// Reads that it answers at a time.
    pub(super) reads: u8,
}

impl Place {
    /// The place as bytes.
    pub(super) fn pack(&self) -> Address {
        let mut bytes = [0; Address::LENGTH];
        bytes[..4].copy_from_slice(&MAGIC);
        match self {
            Self::Pair(place) => {
                (bytes[4], bytes[5]) = (BY_HAND, place.mtu);
                bytes[6..8].copy_from_slice(&place.lid.to_le_bytes());
                bytes[8..12].copy_from_slice(&place.pair.to_le_bytes());
                bytes[12..16].copy_from_slice(&place.first_packet.to_le_bytes());
                bytes[16..32].copy_from_slice(&place.gid);
                bytes[32] = place.reads;
            }
            Self::Listener(place) => {
                bytes[4] = BY_CM;
                match place.socket.ip() {
                    IpAddr::V4(ip) => {
                        bytes[5] = 4;
                        bytes[16..20].copy_from_slice(&ip.octets());
                    }
                    IpAddr::V6(ip) => {
                        bytes[5] = 6;
                        bytes[16..32].copy_from_slice(&ip.octets());
                    }
                }
                bytes[6..8].copy_from_slice(&place.socket.port().to_le_bytes());
                bytes[8..12].copy_from_slice(&place.end.to_le_bytes());
                bytes[32] = place.reads;
            }
        }
        Address(bytes)
    }

    /// The place that a peer's bytes mean, if they mean one.
    pub(super) fn parse(address: &Address) -> Option<Self> {
        let (magic, bytes) = address.0.split_first_chunk::<4>()?;
        let (&[kind, code], bytes) = bytes.split_first_chunk::<2>()?;
        let (&short, bytes) = bytes.split_first_chunk::<2>()?;
        let (&number, bytes) = bytes.split_first_chunk::<4>()?;
        let (&packet, bytes) = bytes.split_first_chunk::<4>()?;
        let (&gid, bytes) = bytes.split_first_chunk::<16>()?;
        let (&reads, rest) = bytes.split_first()?;
        if *magic != MAGIC || reads == 0 || rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        let (short, number) = (u16::from_le_bytes(short), u32::from_le_bytes(number));
        let first_packet = u32::from_le_bytes(packet);
        match (kind, code) {
            (BY_HAND, 1..=5) if number < 1 << 24 && first_packet < 1 << 24 => {
                let place =
                    PairPlace { pair: number, first_packet, lid: short, gid, mtu: code, reads };
                Some(Self::Pair(place))
            }
            (BY_CM, 4 | 6) if short != 0 => {
                let [a, b, c, d, ..] = gid;
                let ip = if code == 4 { IpAddr::from([a, b, c, d]) } else { IpAddr::from(gid) };
                let socket = SocketAddr::new(ip, short);
                Some(Self::Listener(ListenerPlace { socket, end: number, reads }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Place = Place::Pair(PairPlace {
        pair: 0xab_cdef,
        first_packet: 0x12_3456,
        lid: 0x789,
        gid: [7; 16],
        mtu: 3,
        reads: 16,
    });

    #[test]
    fn a_place_survives_the_way() {
        let socket = |text: &str| text.parse().unwrap();
        let listener =
            |text| Place::Listener(ListenerPlace { socket: socket(text), end: 9, reads: 1 });
        for place in [PAIR, listener("10.9.0.1:4711"), listener("[fe80::1]:1")] {
            assert_eq!(Place::parse(&place.pack()), Some(place));
        }
    }

    #[test]
    fn bytes_of_another_device_are_refused() {
        assert_eq!(Place::parse(&Address([0; Address::LENGTH])), None);
        let good = PAIR.pack();
        // Magic, kind, MTU, a queue pair and a packet number of more than 24 bits, no reads, and what must be zero.
        for (offset, value) in [(0, 0), (4, 9), (5, 0), (5, 6), (11, 1), (15, 1), (32, 0), (63, 1)]
        {
            let mut bad = good;
            bad.0[offset] = value;
            assert_eq!(Place::parse(&bad), None, "byte {offset}");
        }
    }
}
