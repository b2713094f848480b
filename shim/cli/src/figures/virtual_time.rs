//! Figures in virtual time: what `strait-sim` plays for each.

use std::collections::BTreeMap;

use strait::LockDesign;
use strait_core::ring::{Design, LinkConfig};
use strait_sim::barrier::{BarrierDesign, barrier};
use strait_sim::locks::{self, Costs};
use strait_sim::ring::{BareRequest, Rates, bare_bandwidth, crowd_by_messages, crowd_by_writes};
use strait_sim::scale::{self, ScaleCosts, Scenario};

use super::applications::PlayedApplications;
use super::ours;
use super::series::Series;

use LockDesign::{Event, Hybrid, Mcs, TestAndSet, Thread, ThreadPerWindow, TwoSided};

/// Sizes of messages in bytes, in full and with `--quick`.
const SIZES: [usize; 10] =
    [8, 64, 512, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20];
const QUICK_SIZES: [usize; 5] = [8, 4 << 10, 32 << 10, 256 << 10, 1 << 20];

/// The ring of `[RdmaChannel04]` figure 9, in bytes.
const RING: u32 = 128 << 10;

/// Nanoseconds in a microsecond.
const MICRO: f64 = 1e3;

/// Plays scenarios, each once in a run of this program.
#[derive(Debug)]
pub(super) struct Player {
    quick: bool,
    rates: BTreeMap<(Option<&'static str>, usize), Rates>,
    applications: Option<Vec<PlayedApplications>>,
}

impl Player {
    /// Makes a player. `quick`: fewer points.
    pub(super) const fn new(quick: bool) -> Self {
        Self { quick, rates: BTreeMap::new(), applications: None }
    }

    /// Returns the series of a figure, or none if it is not played.
    pub(super) fn series(&mut self, paper: &str, name: &str) -> Vec<Series> {
        match (paper, name) {
            ("Nemesis07", "4") => barriers(),
            ("RdmaChannel04", _) => self.ring(name),
            ("OneSided04", _) => self.thesis(name),
            ("HybridLock09", _) => self.locks_of_2009(name),
            ("SpecRndv09", "17a-4") => self.applications(PlayedApplications::waits),
            ("SpecRndv09", "17b-4") => self.applications(PlayedApplications::rtrs),
            ("Strait", "scale") => self.scale(),
            ("Strait", "engines") => ours::engines(self.quick),
            ("Strait", "locks") => ours::locks(),
            _ => Vec::new(),
        }
    }

    /// Plays the scenarios of large jobs: three series of each.
    fn scale(&self) -> Vec<Series> {
        let nodes: &[u32] = if self.quick { &[100, 1_000] } else { &[100, 1_000, 10_000] };
        let of = |scenario: Scenario| {
            let played = nodes.iter().copied().filter(|nodes| *nodes <= scenario.most_nodes());
            let costs: Vec<_> = played.map(|nodes| (nodes, scale::play(scenario, nodes))).collect();
            let series = |what: &str, number: fn(&ScaleCosts) -> f64| {
                let point = |(nodes, costs): &(u32, ScaleCosts)| [f64::from(*nodes), number(costs)];
                Series::ours(format!("{scenario}, {what}"), costs.iter().map(point).collect())
            };
            [
                series("µs", |costs| costs.time_us),
                series("messages", |costs| costs.messages),
                series("links", |costs| costs.links[0]),
            ]
        };
        Scenario::ALL.into_iter().flat_map(of).collect()
    }

    fn applications(&mut self, of: fn(&PlayedApplications) -> Vec<Series>) -> Vec<Series> {
        let quick = self.quick;
        let played = self.applications.get_or_insert_with(|| PlayedApplications::play(quick));
        played.iter().flat_map(of).collect()
    }

    const fn sizes(&self) -> &'static [usize] {
        if self.quick { &QUICK_SIZES } else { &SIZES }
    }

    fn ring(&mut self, name: &str) -> Vec<Series> {
        use Design::{Basic, Piggyback, Pipeline, RendezvousWrite, ZeroCopy};
        let latency = |rates: Rates| rates.latency_us;
        let bandwidth = |rates: Rates| rates.bandwidth_mb_s;
        match name {
            "4" => self.designs(&[None, Some(Basic)], latency),
            "5" => self.designs(&[None, Some(Basic)], bandwidth),
            "6" => self.designs(&[Some(Basic), Some(Piggyback)], latency),
            "7" => {
                let mut all = self.designs(&[Some(Basic), Some(Piggyback)], bandwidth);
                all.iter_mut().for_each(|series| series.points.retain(|[x, _]| *x <= 4096.0));
                all
            }
            "8" => self.designs(&[Some(Basic), Some(Pipeline)], bandwidth),
            "9" => vec![self.chunks()],
            "11" => self.designs(&[None, Some(Pipeline), Some(ZeroCopy)], bandwidth),
            "13" => self.designs(&[Some(ZeroCopy), Some(RendezvousWrite)], latency),
            "14" => self.designs(&[Some(ZeroCopy), Some(RendezvousWrite)], bandwidth),
            "15" => [("write", BareRequest::Write), ("read", BareRequest::Read)]
                .map(|(name, kind)| {
                    let point = |bytes: &usize| [*bytes as f64, bare_bandwidth(kind, *bytes)];
                    Series::ours(name, self.sizes().iter().map(point).collect())
                })
                .into(),
            _ => Vec::new(),
        }
    }

    /// Plays designs, or bare writes for `None`, for all sizes.
    fn designs(&mut self, designs: &[Option<Design>], of: fn(Rates) -> f64) -> Vec<Series> {
        let sizes = self.sizes();
        let series = |design: &Option<Design>| {
            let name = design.map(Design::name);
            let points = sizes.iter().map(|&bytes| {
                let rates = self.rates.entry((name, bytes)).or_insert_with(|| match design {
                    None => Rates::of_bare_writes(bytes),
                    Some(design) => Rates::of_link(LinkConfig::new(*design), bytes, true),
                });
                [bytes as f64, of(*rates)]
            });
            Series::ours(name.unwrap_or("raw"), points.collect())
        };
        designs.iter().map(series).collect()
    }

    fn chunks(&self) -> Series {
        let kib: &[u32] = if self.quick { &[1, 2, 16, 32] } else { &[1, 2, 4, 8, 16, 32, 64] };
        let point = |kib: &u32| {
            let chunk = kib << 10;
            let base = LinkConfig::new(Design::Pipeline);
            let config = LinkConfig { chunk, slots: RING / chunk, ..base };
            [f64::from(chunk), Rates::of_link(config, 1 << 20, true).bandwidth_mb_s]
        };
        Series::ours("pipeline", kib.iter().map(point).collect())
    }

    /// Returns the numbers of origins to play.
    const fn origins(&self) -> &'static [u32] {
        if self.quick { &[1, 4, 7] } else { &[1, 2, 3, 4, 5, 6, 7] }
    }

    fn thesis(&self, name: &str) -> Vec<Series> {
        let all = [Thread, Event, TestAndSet, Mcs];
        let none = Costs::WITHOUT_BACKOFF;
        match name {
            "3.12" => {
                let by_messages = |origins| crowd_by_messages(origins, Design::ZeroCopy);
                vec![
                    self.by_origins("by RDMA".to_owned(), crowd_by_writes),
                    self.by_origins("by messages".to_owned(), by_messages),
                ]
            }
            "4.4" => of_each(&all, |design| {
                let times = locks::overhead(design, locks::apart(2));
                Series::of_cases(design.to_string(), &times.map(|time| time / MICRO))
            }),
            "4.5" => of_each(&all, |design| {
                Series::of_cases(design.to_string(), &[locks::delay(none, design) / MICRO])
            }),
            "4.6" => of_each(&[&all[..], &[ThreadPerWindow]].concat(), |design| {
                self.by_origins(design.to_string(), |origins| {
                    locks::windows(design, origins) / MICRO
                })
            }),
            "4.7" => {
                let of = |costs, design, name: String| {
                    self.by_origins(name, |origins| locks::complexity(costs, design, origins))
                };
                let mut series = of_each(&all, |design| of(none, design, design.to_string()));
                let name = "test_and_set, back-off".to_owned();
                series.push(of(Costs::OF_2004, TestAndSet, name));
                series
            }
            "4.8" => of_each(&all, |design| {
                let time = |threads| locks::beside_threads(design, threads) / MICRO;
                let points = (0..=4).map(|threads| [f64::from(threads), time(threads)]);
                Series::ours(design.to_string(), points.collect())
            }),
            "4.9" => of_each(&all, |design| {
                let times = [1, 2].map(|pairs| locks::pairs_on_nodes(design, pairs) / MICRO);
                Series::of_cases(design.to_string(), &times)
            }),
            _ => Vec::new(),
        }
    }

    fn by_origins(&self, name: String, of: impl Fn(u32) -> f64) -> Series {
        let point = |origins: &u32| [f64::from(*origins), of(*origins)];
        Series::ours(name, self.origins().iter().map(point).collect())
    }

    fn locks_of_2009(&self, name: &str) -> Vec<Series> {
        let all = [TwoSided, TestAndSet, Hybrid];
        let by = |values: &[u32], of: &dyn Fn(LockDesign, u32) -> f64| {
            let point = |design, value: &u32| [f64::from(*value), of(design, *value) / MICRO];
            of_each(&all, |design| {
                let points = values.iter().map(|value| point(design, value)).collect();
                Series::ours(name_of_2009(design), points)
            })
        };
        match name {
            "6" => of_each(&all, |design| {
                let [time, ..] = locks::overhead(design, locks::nodes(1, 2));
                Series::of_cases(name_of_2009(design), &[time / MICRO])
            }),
            "7" => by(&[0, 10, 100, 1000], &|design, micros| {
                locks::target_computes(design, u64::from(micros) * 1000)
            }),
            "8" => by(&[2, 4, 8, 16], &locks::neighbours),
            "9" => self.contention(),
            "10" => by(&[2, 8, 16, 64], &locks::ring),
            "11" => migration(),
            "12" => by(&[16, 32, 64], &|design, ranks| locks::tasks(design, ranks / 4)),
            _ => Vec::new(),
        }
    }

    fn contention(&self) -> Vec<Series> {
        let contenders: &[u32] = if self.quick { &[1, 3, 5, 8] } else { &[1, 2, 3, 4, 5, 6, 7, 8] };
        let of = |costs, design, name: &str| {
            let point = |number: &u32| {
                [f64::from(*number), locks::contention(costs, design, *number) / MICRO]
            };
            Series::ours(name, contenders.iter().map(point).collect())
        };
        let none = Costs::WITHOUT_BACKOFF;
        vec![
            of(none, TwoSided, "two_sided"),
            of(none, TestAndSet, "one_sided"),
            of(none, Hybrid, "hybrid, no back-off"),
            of(Costs::OF_2004, Hybrid, "hybrid"),
        ]
    }
}

fn of_each(designs: &[LockDesign], of: impl Fn(LockDesign) -> Series) -> Vec<Series> {
    designs.iter().map(|design| of(*design)).collect()
}

/// Returns the name of `[HybridLock09]`, which calls test-and-set by the device one-sided.
fn name_of_2009(design: LockDesign) -> String {
    if design == TestAndSet { "one_sided".to_owned() } else { design.to_string() }
}

fn migration() -> Vec<Series> {
    let percents = [0, 1, 5, 10, 25, 50, 100];
    let times = percents.map(locks::migration);
    let points = |at: usize, from: usize| {
        let all = percents.iter().zip(&times).skip(from);
        all.map(|(percent, times)| [*percent as f64, times[at] / MICRO]).collect()
    };
    vec![Series::ours("on the node", points(0, 0)), Series::ours("between nodes", points(1, 1))]
}

fn barriers() -> Vec<Series> {
    let designs = [
        (BarrierDesign::Messages, "default (messages)"),
        (BarrierDesign::Leaders, "shared-memory barrier"),
    ];
    designs
        .map(|(design, name)| {
            let point = |nodes: u32| [f64::from(4 * nodes), barrier(design, nodes, 4) / MICRO];
            Series::ours(name, [1, 2, 4, 8].map(point).into())
        })
        .into()
}
