//! Simultaneous origins: pairs (`[OneSided04]` §4.4.6, its SMP mode), neighbours (`[HybridLock09]`
//! §5.4.1), windows of one target (`[OneSided04]` §4.4.4) and one lock (`[HybridLock09]` §5.4.2).
//!
//! Each row has the number of device accesses and of requests to lock managers (`[OneSided04]`
//! §4.4.5).

use core::error::Error;
use std::time::Instant;

use strait::{Op, Rank, Window};

use super::lab::{Lab, Point, TARGET, lock_unlock, per};

/// The assignment of locks to ranks.
#[derive(Clone, Copy, Debug)]
enum LockPattern {
    /// The leader of each pair locks its partner.
    Pairs,
    /// Every rank locks the next rank of its node, or of the job if it is alone on its node.
    Neighbours,
    /// This many ranks each lock their own window of the last rank.
    Windows(u32),
    /// This many ranks lock the same window of the last rank.
    OneLock(u32),
}

impl LockPattern {
    fn name(self) -> String {
        match self {
            Self::Pairs => "pairs".to_owned(),
            Self::Neighbours => "neighbours".to_owned(),
            Self::Windows(origins) => format!("windows of {origins}"),
            Self::OneLock(origins) => format!("one lock of {origins}"),
        }
    }

    /// Returns the window and the target of this rank.
    fn choice(self, lab: &Lab<'_>) -> Option<(usize, Rank)> {
        let stage = lab.stage;
        let (rank, last) = (stage.rank(), stage.ranks() - 1);
        match self {
            Self::Pairs => stage.leads().then_some((0, stage.partner)),
            Self::Neighbours => Some((0, neighbour(lab))),
            Self::Windows(origins) => (rank < origins).then_some((rank as usize, last)),
            Self::OneLock(origins) => (rank < origins).then_some((0, last)),
        }
    }
}

fn neighbour(lab: &Lab<'_>) -> Rank {
    let (world, ranks) = (lab.stage.endpoint.world(), lab.stage.ranks());
    let others = (1..ranks).map(|by| (world.rank() + by) % ranks);
    let mut near = others.filter(|rank| world.node_of(*rank) == world.node_of(world.rank()));
    near.next().unwrap_or((world.rank() + 1) % ranks)
}

pub(super) fn points(lab: &Lab<'_>) -> Result<Vec<Point>, Box<dyn Error>> {
    let origins = || (1..lab.stage.ranks()).filter(|n| n.is_power_of_two() || n % 4 == 3);
    let patterns = [LockPattern::Pairs, LockPattern::Neighbours]
        .into_iter()
        .chain(origins().map(LockPattern::Windows))
        .chain(origins().map(LockPattern::OneLock));
    let mut points = Vec::new();
    for pattern in patterns {
        points.extend(measure(lab, pattern)?);
    }
    Ok(points)
}

fn measure(lab: &Lab<'_>, pattern: LockPattern) -> Result<Vec<Point>, Box<dyn Error>> {
    let choice = pattern.choice(lab);
    let run = |rounds| match choice {
        Some((window, target)) => lock_unlock(&lab.windows[window], target, rounds),
        None => Ok(()),
    };
    let rounds = lab.rounds(TARGET, run)?;
    let [took, accesses, requests] = lab.sample(|| {
        let before = asked(lab);
        let start = Instant::now();
        run(rounds)?;
        let took = if choice.is_some() { per(start.elapsed(), rounds) } else { 0.0 };
        let counts = asked(lab).map(|count| count as f64).into_iter();
        let mut sums = [took, 0.0, 0.0, f64::from(u8::from(choice.is_some()))];
        for ((sum, after), before) in sums[1..].iter_mut().zip(counts).zip(before) {
            *sum = (after - before as f64) / rounds as f64;
        }
        lab.stage.endpoint.allreduce(&mut sums, Op::Sum)?;
        let [took, accesses, requests, origins] = sums;
        Ok([took, accesses, requests].map(|sum| sum / origins))
    })?;
    let case = pattern.name();
    let mut points = vec![Point::time(case.clone(), took)];
    if let LockPattern::OneLock(_) = pattern {
        let each = [("accesses", accesses), ("requests", requests)];
        points.extend(each.map(|(metric, figures)| Point {
            case: case.clone(),
            metric,
            unit: "per lock",
            figures,
        }));
    }
    Ok(points)
}

/// Returns the numbers of device accesses and lock manager requests of this rank so far.
fn asked(lab: &Lab<'_>) -> [u64; 2] {
    let counters = lab.windows.iter().map(Window::lock_counters);
    counters.fold([0; 2], |[accesses, requests], counters| {
        [accesses + counters.accesses, requests + counters.requests]
    })
}
