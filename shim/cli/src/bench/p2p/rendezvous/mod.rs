//! The benches of the rendezvous ([SpecRndv09] §4). Each measures every [setting](setting::ALL) in
//! turn, in one run.

mod bare;
mod device;
mod exchange;
mod kernels;
mod message;
pub(in crate::bench) mod options;
mod overhead;
mod overlap;
mod progress;
pub(in crate::bench) mod rtrs;
pub(in crate::bench) mod setting;
mod work;

pub(super) use exchange::ExchangeBench;
pub(super) use kernels::KernelsBench;
pub(super) use overhead::OverheadBench;
pub(super) use overlap::OverlapBench;
pub(super) use progress::ProgressBench;
