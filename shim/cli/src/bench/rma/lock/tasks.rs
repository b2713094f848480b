//! Hierarchical task sharing (`[HybridLock09]` §5.7). The leader of each node locks, puts and
//! unlocks at the other ranks of its node, then at the leaders of the other nodes, then at its own
//! again.

use core::error::Error;
use std::time::Instant;

use strait::{Assert, LockType, Rank, Window};

use super::lab::{Lab, Point, per};

/// Default number of consecutive locks of each target. The paper has 1000.
const TIMES: u64 = 100;

pub(super) fn points(lab: &Lab<'_>) -> Result<Vec<Point>, Box<dyn Error>> {
    let world = lab.stage.endpoint.world();
    let (own, ranks) = (world.node_of(world.rank()), lab.stage.ranks());
    let of_node = |node| (0..ranks).filter(move |rank| world.node_of(*rank) == node);
    let leads = |rank: Rank| of_node(world.node_of(rank)).next() == Some(rank);
    let locals = || of_node(own).filter(|rank| *rank != world.rank());
    let leaders = (0..ranks).filter(|rank| leads(*rank) && *rank != world.rank());
    let targets: Vec<Rank> = match leads(world.rank()) {
        true => locals().chain(leaders).chain(locals()).collect(),
        false => Vec::new(),
    };
    let times = lab.effort.rounds.unwrap_or(TIMES);
    let [took] = lab.sample(|| {
        let start = Instant::now();
        for target in &targets {
            lock_put_unlock(&lab.windows[0], *target, times)?;
        }
        Ok([per(start.elapsed(), times * targets.len() as u64)])
    })?;
    Ok(vec![Point::time(format!("lock, put and unlock of {ranks} ranks"), took)])
}

fn lock_put_unlock(window: &Window<'_>, target: Rank, times: u64) -> Result<(), strait::Error> {
    for time in 0..times {
        window.lock(LockType::Exclusive, target, Assert::NONE)?;
        window.put(&[time], target, 0)?;
        window.unlock(target)?;
    }
    Ok(())
}
