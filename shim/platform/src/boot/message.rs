//! The two messages of the boot exchange: fixed sizes, little-endian, parsed before any field is
//! used.

use core::fmt;

use strait_core::layout::LAYOUT_VERSION;

/// First bytes of every boot message.
const MAGIC: [u8; 8] = *b"strait\x0b\x07";

/// Version of this exchange. Magic and version keep their offsets in all versions, so that two
/// versions can always report the difference.
pub(super) const PROTOCOL: u32 = 3;

/// The first message of a rank.
///
/// | offset | size | field            |
/// |-------:|-----:|------------------|
/// |      0 |    8 | magic            |
/// |      8 |    4 | protocol version |
/// |     12 |    4 | layout version   |
/// |     16 |    4 | rank             |
/// |     20 |    4 | pid              |
/// |     24 |    8 | nonce            |
///
/// The nonce shows that a rank that came through a public listener
/// ([`super::share::DescriptorListener`]) read it from the job's key-value store. Over the
/// launcher's own socket it is zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Hello {
    pub(super) layout: u32,
    pub(super) rank: u32,
    pub(super) pid: u32,
    pub(super) nonce: u64,
}

impl Hello {
    pub(super) const BYTES: usize = 32;

    /// Returns the greeting of process `pid` of this version, as `rank`, to the launcher.
    pub(super) fn new(rank: u32, pid: u32) -> Self {
        Self { layout: LAYOUT_VERSION, rank, pid, nonce: 0 }
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        for (at, field) in [PROTOCOL, self.layout, self.rank, self.pid].into_iter().enumerate() {
            bytes[8 + 4 * at..][..4].copy_from_slice(&field.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&self.nonce.to_le_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let fields = MessageFields::new(bytes, Self::BYTES)?;
        let (layout, rank, pid) = (fields.u32(12), fields.u32(16), fields.u32(20));
        Ok(Self { layout, rank, pid, nonce: fields.u64(24) })
    }
}

/// The answer of the launcher, or of the rank that shares a descriptor. A welcome comes with the
/// descriptor. The launcher's says on how many nodes the ranks are, in blocks of consecutive ranks.
/// A rank that shares a descriptor says 0 there.
///
/// | offset | size | field            | welcome           | refusal              |
/// |-------:|-----:|------------------|-------------------|----------------------|
/// |      0 |    8 | magic            |                   |                      |
/// |      8 |    4 | protocol version |                   |                      |
/// |     12 |    4 | kind             | 0                 | 1 and up, the reason |
/// |     16 |    8 | nonce            | the job's         | 0                    |
/// |     24 |    8 | length           | bytes to map      | 0                    |
/// |     32 |    4 | detail           | ranks in the job  | the reason's number  |
/// |     36 |    4 | nodes            | nodes of the job  | 0                    |
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reply {
    Welcome { nonce: u64, length: u64, ranks: u32, nodes: u32 },
    Refused(JoinRefusal),
}

/// The reason why the launcher refuses a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum JoinRefusal {
    /// Its boot exchange has another version.
    Protocol {
        /// The launcher's version.
        launcher: u32,
    },
    /// Its segments have another layout.
    Layout {
        /// The launcher's version.
        launcher: u32,
    },
    /// It claims another rank than it was started as.
    Rank {
        /// The rank it was started as.
        expected: u32,
    },
    /// Another process has joined as this rank.
    Taken {
        /// That process.
        pid: u32,
    },
    /// The process does not know the nonce of the descriptor, or its rank does not share it.
    UnknownPeer,
}

impl Reply {
    pub(super) const BYTES: usize = 40;

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let (kind, nonce, length, detail) = match *self {
            Self::Welcome { nonce, length, ranks, .. } => (0, nonce, length, ranks),
            Self::Refused(JoinRefusal::Protocol { launcher }) => (1, 0, 0, launcher),
            Self::Refused(JoinRefusal::Layout { launcher }) => (2, 0, 0, launcher),
            Self::Refused(JoinRefusal::Rank { expected }) => (3, 0, 0, expected),
            Self::Refused(JoinRefusal::Taken { pid }) => (4, 0, 0, pid),
            Self::Refused(JoinRefusal::UnknownPeer) => (5, 0, 0, 0),
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&PROTOCOL.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::to_le_bytes(kind));
        bytes[16..24].copy_from_slice(&nonce.to_le_bytes());
        bytes[24..32].copy_from_slice(&length.to_le_bytes());
        bytes[32..36].copy_from_slice(&detail.to_le_bytes());
        if let Self::Welcome { nodes, .. } = *self {
            bytes[36..].copy_from_slice(&nodes.to_le_bytes());
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let fields = match MessageFields::new(bytes, Self::BYTES) {
            Err(Malformed::Protocol { found }) => {
                return Ok(Self::Refused(JoinRefusal::Protocol { launcher: found }));
            }
            fields => fields?,
        };
        let detail = fields.u32(32);
        Ok(match fields.u32(12) {
            0 => {
                let (nonce, length, nodes) = (fields.u64(16), fields.u64(24), fields.u32(36));
                Self::Welcome { nonce, length, ranks: detail, nodes }
            }
            1 => Self::Refused(JoinRefusal::Protocol { launcher: detail }),
            2 => Self::Refused(JoinRefusal::Layout { launcher: detail }),
            3 => Self::Refused(JoinRefusal::Rank { expected: detail }),
            4 => Self::Refused(JoinRefusal::Taken { pid: detail }),
            5 => Self::Refused(JoinRefusal::UnknownPeer),
            kind => return Err(Malformed::Kind { found: kind }),
        })
    }
}

impl fmt::Display for JoinRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SAME: &str = "use the same version of strait for the launcher and for every rank";
        match self {
            Self::Protocol { launcher } => {
                write!(f, "it speaks boot version {launcher}, this library {PROTOCOL}: {SAME}")
            }
            Self::Layout { launcher } => {
                write!(
                    f,
                    "its layout version is {launcher}, this library's {LAYOUT_VERSION}: {SAME}"
                )
            }
            Self::Rank { expected } => write!(
                f,
                "this process was started as rank {expected}: leave STRAIT_RANK and \
                 STRAIT_BOOT_FD as they are"
            ),
            Self::Taken { pid } => write!(
                f,
                "process {pid} has joined as this rank already: a rank is one process, which \
                 joins once"
            ),
            Self::UnknownPeer => f.write_str(
                "it shares with ranks of its own job alone: this process asked for another rank's \
                 share, or with another job's nonce",
            ),
        }
    }
}

/// Bytes that are not a boot message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Malformed {
    Length { found: usize, expected: usize },
    Magic { found: [u8; 8] },
    Protocol { found: u32 },
    Kind { found: u32 },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found, expected } => {
                write!(f, "a message of {found} bytes where {expected} were expected")
            }
            Self::Magic { found } => {
                write!(f, "a message that begins with {:?}", found.escape_ascii())
            }
            Self::Protocol { found } => write!(f, "a message of boot version {found}"),
            Self::Kind { found } => write!(f, "a message of the unknown kind {found}"),
        }
    }
}

/// The fields of a message of this version, with the right first bytes and the right length.
struct MessageFields<'a>(&'a [u8]);

impl<'a> MessageFields<'a> {
    fn new(bytes: &'a [u8], expected: usize) -> Result<Self, Malformed> {
        let length = Malformed::Length { found: bytes.len(), expected };
        if bytes.len() < 12 {
            return Err(length);
        }
        let fields = Self(bytes);
        match (fields.array(0), fields.u32(8)) {
            (MAGIC, PROTOCOL) if bytes.len() == expected => Ok(fields),
            (MAGIC, PROTOCOL) => Err(length),
            (MAGIC, found) => Err(Malformed::Protocol { found }),
            (found, _) => Err(Malformed::Magic { found }),
        }
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        core::array::from_fn(|byte| self.0[at + byte])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELCOME: Reply =
        Reply::Welcome { nonce: 0x0123_4567_89ab_cdef, length: 1 << 40, ranks: 256, nodes: 3 };

    #[test]
    fn messages_survive_the_wire() {
        let hello = Hello::new(3, 4711);
        assert_eq!(Hello::parse(&hello.encode()), Ok(hello));
        for reply in [
            WELCOME,
            Reply::Refused(JoinRefusal::Protocol { launcher: 9 }),
            Reply::Refused(JoinRefusal::Layout { launcher: 8 }),
            Reply::Refused(JoinRefusal::Rank { expected: 7 }),
            Reply::Refused(JoinRefusal::Taken { pid: 6 }),
            Reply::Refused(JoinRefusal::UnknownPeer),
        ] {
            assert_eq!(Reply::parse(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn the_bytes_are_fixed() {
        let hello = Hello { layout: 2, rank: 3, pid: 0x0405, nonce: 6 };
        let expected =
            b"strait\x0b\x07\x03\0\0\0\x02\0\0\0\x03\0\0\0\x05\x04\0\0\x06\0\0\0\0\0\0\0";
        assert_eq!(&hello.encode(), expected);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let good = WELCOME.encode();
        assert_eq!(Reply::parse(&good[..39]), Err(Malformed::Length { found: 39, expected: 40 }));
        assert_eq!(Reply::parse(&[]), Err(Malformed::Length { found: 0, expected: 40 }));
        let mut magic = good;
        magic[0] = b'S';
        assert!(matches!(Reply::parse(&magic), Err(Malformed::Magic { .. })));
        let mut kind = good;
        kind[12] = 200;
        assert_eq!(Reply::parse(&kind), Err(Malformed::Kind { found: 200 }));
        let mut version = good;
        version[8] = 4;
        for later in [&version[..], &version[..20], &[version, version].concat()] {
            assert_eq!(
                Reply::parse(later),
                Ok(Reply::Refused(JoinRefusal::Protocol { launcher: 4 })),
                "a later version is reported as such, not as corrupt"
            );
            assert_eq!(Hello::parse(later), Err(Malformed::Protocol { found: 4 }));
        }
    }
}
