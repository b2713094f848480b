//! The start of ranks: launchers, and the data that a process needs to join a job.

pub use strait_platform::boot::{
    BootError, Job, JobOutcome, JobStart, JoinRefusal, KeyValueStore, Launch, LaunchError,
    Launcher, MappingError, PeerAddress, RankExit, SegmentConfig, SegmentError, Signal, StoreError,
    Universe,
};
