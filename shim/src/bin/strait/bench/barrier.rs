//! `strait bench barrier`: how long a barrier takes, by each way that it can go.

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use strait::Group;
use strait_core::shm::{FLAGS, Way};

use super::cacheline::{Bounce, HandOver};
use super::report::{Report, Row};
use super::sampling::{Batch, Effort};
use super::stage::{Side, Stage};
use super::stats::{self, Summary, time};

/// How long one half of a sample should take.
const TARGET: Duration = Duration::from_micros(200);

/// The same where ranks take turns on processors: many turns.
const TARGET_IN_TURNS: Duration = Duration::from_millis(20);

/// Samples that are taken before those that count.
const WARM_UP: usize = 3;

/// The first context of the groups that are measured.
const CONTEXT: u32 = 100;

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Variant {
    /// What `Endpoint::barrier` does.
    Chosen,
    By(Way),
    Messages,
}

/// Every variant, under its name.
const VARIANTS: [(Variant, &str); 5] = [
    (Variant::Chosen, "as chosen"),
    (Variant::By(Way::Word), "counter, one word"),
    (Variant::By(Way::Flags), "flags"),
    (Variant::By(Way::Signal), "counter and signal"),
    (Variant::Messages, "messages"),
];

/// Number of measurements.
pub(super) const STEPS: usize = VARIANTS.len();

/// One variant, and the bare line beside it.
struct Meeting<'a> {
    stage: &'a Stage<'a>,
    group: Group<'a>,
    variant: Variant,
    bare: Option<Bounce>,
}

impl<'a> Meeting<'a> {
    fn new(stage: &'a Stage<'a>, number: u32, variant: Variant) -> Result<Self, Box<dyn Error>> {
        let all: Vec<_> = (0..stage.ranks()).collect();
        let group = stage.endpoint.with_context(CONTEXT + number).group(&all)?;
        if variant == Variant::Messages {
            group.meet_by_messages();
        }
        // One line, between rank 0 and its partner.
        let pair = stage.rank() == 0 || stage.partner == 0 && stage.side == Side::Follower;
        let lane = stage.lane.filter(|_| pair && !in_turns(stage));
        Ok(Self {
            stage,
            group,
            variant,
            bare: lane.map(|lane| Bounce::new(lane, HandOver::Store)),
        })
    }

    fn barriers(&self, rounds: u64) -> Result<(), strait::Error> {
        for _ in 0..rounds {
            match self.variant {
                Variant::By(way) => self.group.barrier_by(way)?,
                Variant::Chosen | Variant::Messages => self.group.barrier()?,
            }
        }
        Ok(())
    }

    /// So many hand-overs there and back, and so many barriers: what rank 0 says. How long both took; `None`: rank 0 says
    /// that it is enough.
    fn sample(&mut self, plan: [u64; 2]) -> Result<Option<(f64, f64)>, strait::Error> {
        let mut order = plan;
        self.stage.endpoint.broadcast(&mut order, 0)?;
        let [bare_rounds, rounds] = order;
        if order == [0, 0] {
            return Ok(None);
        }
        self.barriers(2)?;
        let start = Instant::now();
        match (&mut self.bare, self.stage.side) {
            (Some(bare), Side::Leader) => bare.lead(bare_rounds)?,
            (Some(bare), _) => bare.follow(bare_rounds)?,
            (None, _) => {}
        }
        let bare = start.elapsed();
        self.barriers(1)?;
        let start = Instant::now();
        self.barriers(rounds)?;
        let work = start.elapsed();
        let per = |took: Duration, rounds: u64| took.as_nanos() as f64 / rounds.max(1) as f64;
        Ok(Some((per(bare, 2 * bare_rounds), per(work, rounds))))
    }

    /// Rank 0's part.
    fn lead(&mut self, effort: Effort) -> Result<Vec<(f64, f64)>, strait::Error> {
        let target = if in_turns(self.stage) { TARGET_IN_TURNS } else { TARGET };
        let enough = target.as_nanos() as f64;
        let mut plan = [u64::from(self.bare.is_some()), effort.rounds.unwrap_or(1)];
        // Doubling ends: every round takes some time.
        while let Some((bare, work)) = self.sample(plan)? {
            let short = |each: f64, rounds: u64| each * (rounds as f64) < enough;
            let more_bare = self.bare.is_some() && short(2.0 * bare, plan[0]);
            let more_work = effort.rounds.is_none() && short(work, plan[1]);
            if !more_bare && !more_work {
                break;
            }
            plan = [plan[0] << u32::from(more_bare), plan[1] << u32::from(more_work)];
        }
        let deadline = Instant::now() + effort.limit;
        let mut samples = Vec::with_capacity(effort.samples + WARM_UP);
        while samples.len() <= WARM_UP
            || samples.len() < effort.samples + WARM_UP && Instant::now() < deadline
        {
            samples.extend(self.sample(plan)?);
        }
        self.sample([0, 0])?;
        Ok(samples.split_off(WARM_UP))
    }
}

/// True when there are fewer processors than ranks.
fn in_turns(stage: &Stage<'_>) -> bool {
    stage.cpus.len() < stage.ranks() as usize
}

pub(super) fn run(
    stage: &Stage<'_>,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    report.columns(&["barrier", "min", "p50", "p99", "bare line", "× line"]);
    for (number, (variant, name)) in (0..).zip(VARIANTS) {
        if variant == Variant::By(Way::Flags) && stage.ranks() as usize > FLAGS {
            report.step();
            continue;
        }
        let mut meeting = Meeting::new(stage, number, variant)?;
        if stage.rank() == 0 {
            let samples = meeting.lead(effort)?;
            tell(report, name, &samples, meeting.bare.is_some())?;
        } else {
            while meeting.sample([0, 0])?.is_some() {}
        }
        report.step();
    }
    Ok(())
}

fn tell(
    report: &mut Report,
    name: &'static str,
    samples: &[(f64, f64)],
    with_bare: bool,
) -> Result<(), Box<dyn Error>> {
    let of = |what: fn(&(f64, f64)) -> f64| {
        Summary::of_costs(&samples.iter().map(what).collect::<Vec<_>>())
    };
    let against = of(|(line, _)| *line).zip(of(|(line, barrier)| barrier / line));
    let Some(barrier) = of(|(_, barrier)| *barrier) else { return Ok(()) };
    report.row(Row::new("barrier", 0, "time", "ns", barrier).of_variant(name))?;
    let (mut bare, mut times) = Default::default();
    if let Some((line, ratio)) = against.filter(|_| with_bare) {
        report.row(Row::new("barrier", 0, "line", "ns", line).of_variant(name))?;
        report.row(Row::new("barrier", 0, "ratio", "x", ratio).of_variant(name))?;
        (bare, times) = (time(line.p50), stats::ratio(ratio.p50));
    }
    let Summary { min, p50, p99, .. } = barrier;
    report.line([name.to_owned(), time(min), time(p50), time(p99), bare, times]);
    Ok(())
}
