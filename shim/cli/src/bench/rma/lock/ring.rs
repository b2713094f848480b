//! A ring of ranks that compute (`[HybridLock09]` §5.5). Each rank locks the window of the next,
//! and puts data and a tag there. The next rank continues when it sees the tag.
//!
//! A target that must be asked is asked after it has computed.

use core::error::Error;
use std::time::Instant;

use strait::{Assert, LockType};

use super::lab::{DATA, Lab, Point, per};
use crate::measure::stats::time;

/// Computation of each rank in nanoseconds, and the part of it between two polls for the tag.
const COMPUTATION: f64 = 1e6;
const LOOK: f64 = 2e4;

pub(super) fn points(lab: &Lab<'_>) -> Result<Vec<Point>, Box<dyn Error>> {
    let mut lap = 0;
    let [took] = lab.sample(|| {
        lap += 1;
        let start = Instant::now();
        go_round(lab, lap)?;
        Ok([per(start.elapsed(), 1)])
    })?;
    let amount = time(COMPUTATION);
    Ok(vec![Point::time(format!("once round, all compute {amount}"), took)])
}

/// Performs this rank's part of a lap, which is complete when it has computed and its tag has
/// arrived.
fn go_round(lab: &Lab<'_>, lap: u64) -> Result<(), strait::Error> {
    let (window, mut left) = (&lab.windows[0], COMPUTATION);
    let mut passed = lab.stage.rank() == 0;
    if passed {
        pass(lab, lap)?;
    }
    loop {
        window.sync();
        let arrived = window.local().load::<u64>(0)? == lap;
        if arrived && !passed {
            pass(lab, lap)?;
            passed = true;
        }
        if left > 0.0 {
            lab.processor.compute(LOOK);
            left -= LOOK;
        } else if arrived {
            return Ok(());
        } else {
            lab.stage.endpoint.progress()?;
            std::thread::yield_now();
        }
    }
}

fn pass(lab: &Lab<'_>, lap: u64) -> Result<(), strait::Error> {
    let (window, next) = (&lab.windows[0], (lab.stage.rank() + 1) % lab.stage.ranks());
    window.lock(LockType::Exclusive, next, Assert::NONE)?;
    window.put(&[lap as u8; DATA], next, DATA)?;
    // The data must be there before the tag.
    window.flush(next)?;
    window.put(&[lap], next, 0)?;
    window.unlock(next)
}
