//! `strait bench bandwidth`: how many bytes get through when many messages are under way at once.

use core::error::Error;

use strait::{Endpoint, Request};

use super::report::{Report, Row};
use super::sampling::{Batch, Effort, measure};
use super::stage::{Stage, TAG};
use super::stats::{self, Summary, sum};
use crate::payload::{self, Mismatch};

/// Messages under way at once, at most.
pub(crate) const WINDOW: usize = 64;

/// Bytes under way at once, at most; but two messages always.
const WINDOW_BYTES: usize = 8 << 20;

/// A window of messages one way, and an empty one back when all have arrived. A round is one window.
pub(crate) struct Windows<'world> {
    endpoint: Endpoint<'world>,
    partner: u32,
    bytes: usize,
    window: usize,
    out: Vec<u8>,
    arrived: Vec<u8>,
    /// Whether this side receives.
    receives: bool,
}

impl<'world> Windows<'world> {
    pub(crate) fn new(stage: &Stage<'world>, bytes: usize) -> Self {
        let window = (WINDOW_BYTES / bytes.max(1)).clamp(2, WINDOW);
        let receives = !stage.leads();
        let Stage { endpoint, partner, .. } = *stage;
        let [out, arrived] = if receives { [0, window * bytes] } else { [bytes, 0] };
        let (out, arrived) = (vec![0; out], vec![0; arrived]);
        Self { endpoint, partner, bytes, window, out, arrived, receives }
    }

    /// Messages in a round.
    pub(crate) const fn messages(&self) -> usize {
        self.window
    }

    fn send_window(&self) -> Result<(), strait::Error> {
        self.endpoint.scope(|scope| {
            let mut requests = [const { None }; WINDOW];
            for request in &mut requests[..self.window] {
                *request = Some(scope.isend(&self.out, self.partner, TAG)?);
            }
            wait(&mut requests)
        })
    }

    fn receive_window(&mut self) -> Result<(), strait::Error> {
        let mut rest = &mut self.arrived[..];
        self.endpoint.scope(|scope| {
            let mut requests = [const { None }; WINDOW];
            for request in &mut requests[..self.window] {
                let (buffer, others) = rest.split_at_mut(self.bytes);
                rest = others;
                *request = Some(scope.irecv(buffer, self.partner, TAG)?);
            }
            wait(&mut requests)
        })
    }
}

fn wait(requests: &mut [Option<Request<'_>>]) -> Result<(), strait::Error> {
    requests.iter_mut().filter_map(Option::take).try_for_each(|request| request.wait().map(drop))
}

impl Batch for Windows<'_> {
    fn prepare(&mut self, seed: u64) {
        payload::fill(&mut self.out, seed);
    }

    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.send_window()?;
            self.endpoint.recv::<u8>(&mut [], self.partner, TAG)?;
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            self.receive_window()?;
            self.endpoint.send::<u8>(&[], self.partner, TAG)?;
        }
        Ok(())
    }

    fn verify(&self, seed: u64) -> Result<(), Mismatch> {
        if !self.receives || self.bytes == 0 {
            return Ok(());
        }
        self.arrived.chunks(self.bytes).try_for_each(|message| payload::verify(message, seed))
    }
}

/// Measures messages of `bytes` bytes: GB/s of all pairs together; for rank 0.
pub(crate) fn of(
    stage: &Stage<'_>,
    effort: Effort,
    bytes: usize,
) -> Result<Option<Summary>, Box<dyn Error>> {
    let mut windows = Windows::new(stage, bytes);
    let samples = measure(stage, effort, None, &mut windows)?;
    let round = (windows.messages() * bytes) as f64;
    // Bytes in a nanosecond are gigabytes in a second.
    let rates: Vec<f64> = samples.iter().map(|sample| round / sample.work).collect();
    Ok(Summary::of_gains(&sum(&stage.gather(&rates, stage.pairs())?)))
}

pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    sizes: &[usize],
    way: impl Fn(usize) -> &'static str,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&["bandwidth", "way", "min GB/s", "p50 GB/s", "p99 GB/s"]);
    for &bytes in sizes {
        if let Some(rate) = of(stage, effort, bytes)? {
            report.row(Row::new("bandwidth", bytes, "bandwidth", "GB/s", rate))?;
            let [min, p50, p99] = [rate.min, rate.p50, rate.p99].map(|rate| format!("{rate:.2}"));
            report.line([stats::bytes(bytes), way(bytes).into(), min, p50, p99]);
        }
        report.step();
    }
    Ok(())
}
