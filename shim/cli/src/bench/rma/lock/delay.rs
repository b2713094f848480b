//! Synchronisation delay (`[OneSided04]` §4.4.3): the time from the release by one origin until the
//! other, which waits, has the lock.

use core::error::Error;

use strait::Op;

use super::lab::{Lab, Point, acquire};
use crate::measure::computation::common_time;
use crate::measure::stage::TAG;

/// The origins, which are first in turn, and the target.
const ORIGINS: [u32; 2] = [0, 1];
const TARGET: u32 = 2;

/// Nanoseconds for which the first origin holds the lock while the second waits: longer than the
/// second takes to request it.
const HELD: f64 = 1e5;

pub(super) fn points(lab: &Lab<'_>) -> Result<Vec<Point>, Box<dyn Error>> {
    if lab.stage.ranks() <= TARGET {
        return Ok(Vec::new());
    }
    let mut round = 0;
    let [delay] = lab.sample(|| {
        round += 1;
        let [first, second] = [ORIGINS[round % 2], ORIGINS[(round + 1) % 2]];
        // The times of the release and of the acquisition.
        let mut times = [0.0, 0.0];
        if lab.stage.rank() == first {
            times[0] = hold(lab, second)?;
        } else if lab.stage.rank() == second {
            times[1] = follow(lab, first)?;
        }
        lab.stage.endpoint.allreduce(&mut times, Op::Max)?;
        Ok([(times[1] - times[0]).max(0.0)])
    })?;
    let target = lab.stage.endpoint.world().node_of(TARGET);
    let crosses = target != lab.stage.endpoint.world().node_of(0);
    let place = if crosses { "between nodes" } else { "on the node" };
    Ok(vec![Point::time(format!("from release to acquisition {place}"), delay)])
}

fn hold(lab: &Lab<'_>, second: u32) -> Result<f64, strait::Error> {
    let window = &lab.windows[0];
    acquire(window, TARGET)?;
    lab.stage.endpoint.send::<[u8]>(&[], second, TAG)?;
    lab.processor.compute(HELD);
    let released = common_time();
    window.unlock(TARGET)?;
    Ok(released as f64)
}

fn follow(lab: &Lab<'_>, first: u32) -> Result<f64, strait::Error> {
    let window = &lab.windows[0];
    lab.stage.endpoint.recv::<[u8]>(&mut [], first, TAG)?;
    acquire(window, TARGET)?;
    let acquired = common_time();
    window.unlock(TARGET)?;
    Ok(acquired as f64)
}
