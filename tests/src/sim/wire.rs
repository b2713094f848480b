//! What things take, in virtual time.

/// The speed of a fabric and of the processors beside it. Times are nanoseconds, speeds bytes in a second.
///
/// Each device has one link out, on which the bytes of its writes, and of what peers read from it, follow each other. A
/// rank's processor is a clock of its own, which posting, polling and copying move on.
///
/// Absent on purpose: what copies and devices take from each other on the bus of the memory, and what registering costs.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Of the processor, for each request that it posts.
    pub post: u64,
    /// Of the processor, for each poll.
    pub poll: u64,
    /// From the end of its posting to a write's effect at the peer, without the time of its bytes.
    pub write: u64,
    /// From the end of its posting until a read's result is here, without the time of its bytes.
    pub read: u64,
    /// From a write's effect to its completion.
    pub acknowledge: u64,
    /// Of the device, from one request to the next at least.
    pub gap: u64,
    /// Of the link.
    pub bandwidth: u64,
    /// Of a processor that copies.
    pub copy: u64,
}

impl Wire {
    /// The cards of `[RdmaChannel04]` §4.2.1 and §4.4: 5.9 µs and 870 MB/s for writes, 800 MB/s for a copy. The paper says
    /// how long a small write takes, not which part of it is whose: here the processor has 0.5 µs of it. Nor does it say
    /// what a small read takes; 12.4 µs is somewhat more than twice a write's way, which is what it goes.
    pub const INFINIBAND_2004: Self = Self {
        post: 500,
        poll: 50,
        write: 5_350,
        read: 11_900,
        acknowledge: 3_000,
        gap: 700,
        bandwidth: 870_000_000,
        copy: 800_000_000,
    };

    /// How long `length` bytes keep the link busy.
    pub(super) fn on_link(&self, length: usize) -> u64 {
        per(length, self.bandwidth)
    }

    /// How long a processor copies `length` bytes.
    pub(super) fn copying(&self, length: usize) -> u64 {
        per(length, self.copy)
    }
}

fn per(bytes: usize, bytes_per_second: u64) -> u64 {
    (bytes as u64 * 1_000_000_000).div_ceil(bytes_per_second)
}
