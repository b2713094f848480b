//! The values of the table in [`super`], which gives the reason for each.

use core::time::Duration;

/// Polls before the first yield, with a processor for each rank.
pub const POLLS_UNCROWDED: u32 = 20_000;

/// Yields before the first sleep, with a processor for each rank.
pub const YIELDS_UNCROWDED: u32 = 20_000;

/// Yields of another program's time slice, at least, before the first sleep.
pub const YIELDS_OF_SLICES: u32 = 16;

/// Polls before the first yield, with more ranks than processors.
pub const POLLS_CROWDED: u32 = 2;

/// Yields before the first sleep, with more ranks than processors.
pub const YIELDS_CROWDED: u32 = 10;

/// Yields of a wait that looks at lines alone, with more ranks than processors.
pub const YIELDS_IN_LINES: u32 = 4;

/// Polls before the first yield to a device's thread.
pub const POLLS_BESIDE_DEVICES: u32 = 100;

/// Polls of one address before everything else is polled too.
pub const POLLS_SHORT: u32 = 200;

/// Polls of a message's source between two polls of everything else.
pub const POLLS_PER_PROGRESS: u32 = 64;

/// Polls of a message's source between two polls of the receive queue.
pub const POLLS_PER_QUEUE: u32 = 4;

/// Looks of a sender for a free line while its receiver takes nothing.
pub const POLLS_PER_LINE: u32 = 80;

/// Barriers that end at once between two polls of everything else.
pub const BARRIERS_PER_PROGRESS: u32 = 64;

/// Polls between two checks of the socket on which other processes connect.
pub const POLLS_PER_LISTEN: u32 = 64;

/// Polls of an RDMA device between two polls of its connection manager.
pub const POLLS_PER_MANAGER: u32 = 64;

/// Polls for an answer between two greetings on an RDMA connection.
pub const POLLS_PER_GREETING: u32 = 1024;

/// Polls in a wait between two readings of the clock.
pub const POLLS_PER_CLOCK: u32 = 1024;

/// Calls that do not wait between two readings of the clock.
pub const CALLS_PER_CLOCK: u32 = 32;

/// Calls that find nothing between two polls of everything else.
pub const CALLS_PER_PROGRESS: u32 = 32;

/// Such polls of everything else between two readings of the clock.
pub const PROGRESS_PER_CLOCK: u32 = 4;

/// Calls that find nothing before a program that polls by calls yields.
pub const CALLS_PER_YIELD: u32 = 1024;

/// Calls that find nothing before such a program sleeps, with more processes than processors.
pub const CALLS_CROWDED_PER_SLEEP: u32 = 64;

/// Time between two checks which ranks are alive.
pub const LIVENESS_PERIOD: Duration = Duration::from_millis(50);

/// The first sleep while something may come for which no doorbell rings.
pub const SLEEP_MIN: Duration = Duration::from_micros(50);

/// Number of times that such a sleep is doubled at most.
pub const SLEEP_DOUBLINGS: u32 = 5;

/// The longest sleep.
pub const SLEEP_MAX: Duration = Duration::from_millis(50);

/// The longest sleep while a ring may be missed.
pub const SLEEP_MAX_UNSURE: Duration = Duration::from_millis(1);

/// Sleep of a progress thread between the program's calls.
pub const SLEEP_BETWEEN_CALLS: Duration = Duration::from_millis(1);

/// Polls before the first yield in a wait for a lock between processes.
pub const LOCK_POLLS: u32 = 64;

/// Iterations of an empty loop in one unit of a window lock's pause.
pub const WINDOW_LOCK_UNIT: u32 = 16;

/// Pauses for a window's lock between two polls of everything else.
pub const WINDOW_LOCK_PAUSES_PER_PROGRESS: u32 = 16;

/// Yields for the next member of a window lock's queue between two checks that this rank has links
/// to all members.
pub const WINDOW_QUEUE_YIELDS_PER_CHECK: u32 = 16;

/// A wait of a software device's thread that is shorter than this does not sleep.
pub const DEVICE_AWAKE: Duration = Duration::from_micros(60);

/// Time between two polls of its queues while that thread stays awake.
pub const DEVICE_POLL_PERIOD: Duration = Duration::from_micros(1);

/// The time slice that that thread requests from the scheduler.
pub const DEVICE_SLICE: Duration = Duration::from_micros(100);

/// Time between two checks which senders to a software device are alive.
pub const DEVICE_LIVENESS_PERIOD: Duration = Duration::from_millis(20);

/// Time before a software device's second attempt to send to a peer that has no receive posted. It
/// doubles with each attempt.
pub const DEVICE_RETRY_MIN: Duration = Duration::from_millis(1);

/// Number of those further attempts. They take longer if no thread polls in that time.
pub const DEVICE_RETRIES: u32 = 8;

/// Time for which an RDMA device stays open after its owner has dropped it.
pub const DEVICE_LINGER: Duration = Duration::from_millis(5);

/// Sleep between two checks whether all threads of a killed process have ended.
pub const END_PERIOD: Duration = Duration::from_millis(1);

/// Time for which they are awaited.
pub const END_LIMIT: Duration = Duration::from_secs(1);

/// Sleep between two attempts to get a descriptor from another rank.
pub const FETCH_PERIOD: Duration = Duration::from_millis(5);

/// Sleep between two attempts to lock the registry of universes.
pub const REGISTRY_PERIOD: Duration = Duration::from_millis(2);

/// Time between two checks by the launcher of ranks that it cannot watch.
pub const LAUNCHER_PERIOD: Duration = Duration::from_millis(10);
