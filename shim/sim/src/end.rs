//! One side's end of a connection.

use std::collections::VecDeque;

use strait_core::hca::WorkError;

use super::request::{SimRequest, Stage};

/// An end, and the requests posted on it.
#[derive(Debug)]
pub(super) struct End {
    /// The rank at the other side.
    pub(super) peer: u32,
    pub(super) state: Standing,
    pub(super) queue: VecDeque<SimRequest>,
    /// Number of requests posted so far.
    pub(super) posted: u64,
    /// Number of requests with a free place in the queue: up to the last one with a polled
    /// completion.
    pub(super) freed: u64,
    /// The error with which the request that starts next fails.
    pub(super) fault: Option<WorkError>,
    /// Number of failed attempts to start the first request.
    pub(super) tries: u32,
    /// The time of the end's next step, if that is among the events.
    pub(super) stepping: Option<u64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    /// Not yet connected.
    Open,
    /// Connected to this end of the peer.
    Connected(u32),
    /// A request failed.
    Broken,
    Closed,
}

/// The next step of an end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Starts the request at this place of the queue.
    Start(usize),
    /// Moves a run of the request at this place.
    Carry(usize),
}

impl End {
    pub(super) const fn new(peer: u32) -> Self {
        Self {
            peer,
            state: Standing::Open,
            queue: VecDeque::new(),
            posted: 0,
            freed: 0,
            fault: None,
            tries: 0,
            stepping: None,
        }
    }

    /// Returns all possible next steps and their times. Requests start in the order of posting, and
    /// writes land one after the other. A write may pass the reads before it unless it is fenced.
    pub(super) fn steps(&self, reads_max: u32) -> Vec<(u64, Step)> {
        let (mut steps, mut writes, mut reads) = (Vec::new(), 0, 0);
        for (place, request) in self.queue.iter().enumerate() {
            match &request.stage {
                Stage::Landed(_) => {}
                Stage::Failed(_) => break,
                Stage::Moving(moving) => {
                    steps.push((moving.not_before, Step::Carry(place)));
                    *if request.is_write() { &mut writes } else { &mut reads } += 1;
                }
                Stage::Posted => {
                    let waits = writes > 0
                        || request.fenced && reads > 0
                        || !request.is_write() && reads >= reads_max;
                    if !waits {
                        steps.push((request.not_before, Step::Start(place)));
                    }
                    break;
                }
            }
        }
        steps
    }
}
