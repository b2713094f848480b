//! The settings of a job, drawn from its seed.

use core::fmt;

use strait::boot::SegmentConfig;
use strait::{LockDesign, RemoteTransfer, Rendezvous, Transfer, WindowDesign};

use super::job::Job;
use crate::shape;

/// Settings that `--without NAME` leaves out.
pub(super) const EXCLUSIONS: [(&str, &str); 7] = [
    ("send_recv", "windows by messages"),
    ("mcs", "window locks by queues"),
    ("nodes", "several nodes"),
    ("foreign", "a launcher that knows nothing of Strait"),
    ("thread", "progress threads"),
    ("windows", "windows"),
    ("early", "deaths before the job has started"),
];

/// Exclusions that apply unless the caller passes `--with NAME`: known faults.
pub(super) const KNOWN: [&str; 0] = [];

/// All parameters of a job except its programs.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) seed: u64,
    pub(super) ranks: u32,
    pub(super) nodes: u32,
    pub(super) config: SegmentConfig,
    /// Whether the launcher speaks only PMI-1.
    pub(super) foreign: bool,
    pub(super) variables: Vec<(&'static str, String)>,
    /// Length of the longest message, in bytes.
    pub(super) longest: usize,
    /// Lengths at which Strait changes its protocol.
    thresholds: Vec<usize>,
    /// Number of operations of each rank besides those that it does together with others.
    pub(super) steps: u64,
    pub(super) windows: bool,
    pub(super) early: bool,
    /// The designs from which windows are drawn.
    pub(super) window_designs: Vec<WindowDesign>,
    pub(super) lock_designs: Vec<LockDesign>,
}

fn choose<T: Copy>(random: &mut fastrand::Rng, from: &[T]) -> T {
    from[random.usize(..from.len())]
}

impl Settings {
    /// Draws the settings of a job.
    pub(super) fn draw(job: &Job) -> Self {
        let random = &mut fastrand::Rng::with_seed(job.seed);
        let allowed = |name: &str| !job.excluded.iter().any(|excluded| excluded == name);
        let drawn = choose(random, &[2, 2, 3, 3, 4, 4, 5, 6, 8]);
        let ranks = job.ranks.unwrap_or(drawn);
        let several = random.bool() && allowed("nodes");
        let nodes = if several { random.u32(2..=ranks.min(4)) } else { 1 };
        let config = config(random, ranks);
        let mut settings = Self {
            seed: job.seed,
            ranks,
            nodes,
            config,
            foreign: random.u8(..6) == 0 && allowed("foreign"),
            variables: Vec::new(),
            longest: choose(random, &[4 << 10, 64 << 10, 64 << 10, 300 << 10, 1 << 20, 8 << 20]),
            thresholds: vec![1024, 4096, config.cell_payload as usize],
            steps: random.u64(10..=120),
            windows: allowed("windows"),
            early: allowed("early"),
            window_designs: vec![WindowDesign::Rdma],
            lock_designs: LockDesign::ALL.into_iter().collect(),
        };
        if settings.longest > 1 << 20 {
            settings.steps = settings.steps.min(40);
        }
        if allowed("send_recv") {
            settings.window_designs.push(WindowDesign::SendRecv);
        }
        if !allowed("mcs") {
            settings.lock_designs.retain(|design| *design != LockDesign::Mcs);
        }
        settings.draw_variables(random, allowed("thread"));
        settings
    }

    /// Draws each tuning variable, or leaves it at its default.
    fn draw_variables(&mut self, random: &mut fastrand::Rng, thread: bool) {
        let lengths: [(&'static str, &[usize]); 7] = [
            ("STRAIT_FASTBOX_MAX", &[0, 1, 100, 4095]),
            ("STRAIT_EAGER_MAX", &[0, 1000, 100_000]),
            ("STRAIT_STREAM_MAX", &[0, 64, 1000, 100_000]),
            ("STRAIT_PARCEL_MAX", &[0, 2000, 30_000]),
            ("STRAIT_UNEXPECTED_MAX", &[0, 4096, 100_000]),
            ("STRAIT_ACCUMULATE_MAX", &[0, 8, 64]),
            ("STRAIT_PACK_MAX", &[0, 8, 4096]),
        ];
        for (name, values) in lengths {
            if random.bool() {
                let value = choose(random, values);
                self.thresholds.push(value);
                self.variables.push((name, value.to_string()));
            }
        }
        self.thresholds.extend([2048, 12_288, 16_384, 65_536]);
        let mut word = |name, values: &[&str]| {
            if random.bool() {
                self.variables.push((name, choose(random, values).to_owned()));
            }
        };
        word("STRAIT_LMT", &Transfer::ALL.map(Transfer::name));
        word("STRAIT_NET_LMT", &RemoteTransfer::ALL.map(RemoteTransfer::name));
        word("STRAIT_RENDEZVOUS", &Rendezvous::ALL.map(Rendezvous::name));
        word("STRAIT_RING", &["basic", "piggyback", "pipeline", "zero_copy", "rendezvous_write"]);
        word("STRAIT_HCA", &["soft-inline", "soft-engine", "soft-iwarp"]);
        word("STRAIT_HCA_MODEL", &["0,0,1000000000000", "50000,100000,870000000"]);
        if thread {
            word("STRAIT_PROGRESS", &["calls", "thread"]);
        }
        let designs: Vec<_> = self.window_designs.iter().map(|design| design.name()).collect();
        word("STRAIT_WINDOW", &designs);
        let mut designs: Vec<_> = self.lock_designs.iter().map(|design| design.name()).collect();
        if designs.contains(&"hybrid") {
            designs.extend(["hybrid:hysteresis:2", "hybrid:history:2:4", "hybrid:cost:1:4:8"]);
        }
        word("STRAIT_WINDOW_LOCK", &designs);
    }

    /// Draws a length up to `longest`: of any order of magnitude, or around a change of protocol.
    pub(super) fn length(&self, random: &mut fastrand::Rng, longest: usize) -> usize {
        let length = match random.u8(..8) {
            0 => 0,
            1 | 2 => {
                let near = choose(random, &self.thresholds);
                (near + random.usize(..3)).saturating_sub(1)
            }
            _ => {
                let bits = (longest as f64).log2() * random.f64();
                bits.exp2() as usize
            }
        };
        length.min(longest)
    }
}

/// Formats one line for the shape of the job and one for its variables.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, nodes, foreign, longest, steps, config, .. } = self;
        let by = if *foreign { "PMI-1" } else { "our launcher" };
        writeln!(
            f,
            "{ranks} ranks on {nodes} nodes by {by}, {steps} operations each, \
             messages of up to {longest} bytes, {config:?}"
        )?;
        self.variables.iter().try_for_each(|(name, value)| write!(f, "{name}={value} "))
    }
}

fn config(random: &mut fastrand::Rng, ranks: u32) -> SegmentConfig {
    let common = SegmentConfig { heap_bytes: 64 << 20, ..SegmentConfig::new(ranks) };
    match random.u8(..6) {
        0 => SegmentConfig { heap_bytes: 64 << 20, ..shape::tiny(ranks, 2) },
        1 => SegmentConfig { heap_bytes: 64 << 20, ..shape::tiny(ranks, 20) },
        2 => SegmentConfig { cells_per_rank: 4, cell_payload: 4096, ..common },
        3 => SegmentConfig {
            fastbox_lines: 1,
            baton_lines: 0,
            parcels: 0,
            ring_granules: 0,
            ..common
        },
        _ => common,
    }
}
