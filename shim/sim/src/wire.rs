//! The times of operations, in virtual time.

/// The speed of a fabric and of its processors. Times are in nanoseconds, speeds in bytes per
/// second.
///
/// Each device has one outgoing link, which carries the bytes of its writes, and of the peers'
/// reads from it, one after the other. Each rank's processor has its own clock, which posting,
/// polling and copying advance.
///
/// Copies and the device of a rank share its memory bus, which serves one after the other: a copy
/// moves each byte over it twice, a device once. Bytes for a rank pass its incoming link one after
/// the other, too.
///
/// The model leaves out on purpose that registration costs time.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Time of the processor for each request that it posts.
    pub post: u64,
    /// Time of the processor for each poll.
    pub poll: u64,
    /// Time from the end of its posting to a write's effect at the peer, without the time of its
    /// bytes.
    pub write: u64,
    /// Time from the end of its posting to the arrival of a read's result, without the time of its
    /// bytes.
    pub read: u64,
    /// Time from a write's effect to its completion.
    pub acknowledge: u64,
    /// The least time of the device from one request to the next.
    pub gap: u64,
    /// Speed of the link.
    pub bandwidth: u64,
    /// Speed of a processor that copies while the device is idle.
    pub copy: u64,
    /// Speed of the memory bus, which a copy crosses twice and a device once.
    pub bus: u64,
    /// Longest message in bytes that passes the links between the packets of longer ones, and does
    /// not wait for their ends.
    pub packet: usize,
}

impl Wire {
    /// The cards of `[RdmaChannel04]` §4.2.1 and §4.4: 5.9 µs and 870 MB/s for writes, 800 MB/s for
    /// a copy. The paper gives the time of a small write, but not its parts: here the processor
    /// takes 0.5 µs of it. It gives no time for a small read, either. The model takes 12.4 µs,
    /// somewhat more than twice a write's time, because a read crosses the link twice.
    /// The paper's copies fill the memory bus, and cross it twice: 1.6 GB/s.
    pub const INFINIBAND_2004: Self = Self {
        post: 500,
        poll: 50,
        write: 5_350,
        read: 11_900,
        acknowledge: 3_000,
        gap: 700,
        bandwidth: 870_000_000,
        copy: 800_000_000,
        bus: 1_600_000_000,
        packet: 0,
    };

    /// The machines of `[SpecRndv09]` §4.1, as far as a rendezvous notices.
    ///
    /// The paper gives no times of its cards, which have 10 Gbit/s as those of 2004. Their memory
    /// is faster than they are: no head is copied later because a card moves a large message.
    /// Control messages pass between the packets of large ones of other connections and of reads.
    pub const CLUSTER_2009: Self =
        Self { bus: 1_000_000_000_000, packet: 2048, ..Self::INFINIBAND_2004 };

    /// Returns the time for which `length` bytes keep the link busy.
    pub(super) fn on_link(&self, length: usize) -> u64 {
        per(length, self.bandwidth)
    }

    /// Returns the time for which a device keeps the memory bus busy with `length` bytes.
    pub(super) fn on_bus(&self, length: usize) -> u64 {
        per(length, self.bus)
    }

    /// Returns the time in which a processor copies `length` bytes.
    pub(super) fn copying(&self, length: usize) -> u64 {
        per(length, self.copy)
    }
}

fn per(bytes: usize, bytes_per_second: u64) -> u64 {
    (bytes as u64 * 1_000_000_000).div_ceil(bytes_per_second)
}
