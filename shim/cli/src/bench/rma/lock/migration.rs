//! The cost of migration (`[HybridLock09]` §5.6). One rank of the target's node takes the lock
//! repeatedly, and a rank of another node takes it now and then.

use core::error::Error;
use std::time::Instant;

use strait::{LockDesign, Op};

use super::lab::{Lab, Point, lock_unlock, per};
use crate::measure::stage::TAG;

/// Percentages of the locks on the node that are followed by a lock from another node.
const PERCENT: [u64; 7] = [0, 1, 5, 10, 25, 50, 100];

/// The target.
const TARGET: u32 = 0;

pub(super) fn points(lab: &Lab<'_>) -> Result<Vec<Point>, Box<dyn Error>> {
    let (near, far) = (lab.neighbours().next(), lab.unknown_peers().next());
    let (LockDesign::Hybrid, Some(near), Some(far)) = (lab.design, near, far) else {
        return Ok(Vec::new());
    };
    let mut points = Vec::new();
    for percent in PERCENT {
        let locks = 100_u64.checked_div(percent).unwrap_or(100);
        let [on_node, between] = lab.sample(|| {
            let mut times = [0.0; 2];
            if lab.stage.rank() == near {
                let start = Instant::now();
                lock_unlock(&lab.windows[0], TARGET, locks)?;
                times[0] = per(start.elapsed(), locks);
                lab.stage.endpoint.send::<[u8]>(&[], far, TAG)?;
            } else if lab.stage.rank() == far {
                lab.stage.endpoint.recv::<[u8]>(&mut [], near, TAG)?;
                let start = Instant::now();
                lock_unlock(&lab.windows[0], TARGET, u64::from(percent > 0))?;
                times[1] = per(start.elapsed(), 1);
            }
            lab.stage.endpoint.allreduce(&mut times, Op::Max)?;
            Ok(times)
        })?;
        points.push(Point::time(format!("{percent} %, on the node"), on_node));
        if percent > 0 {
            points.push(Point::time(format!("{percent} %, between nodes"), between));
        }
    }
    Ok(points)
}
