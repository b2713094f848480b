//! The designs of the RDMA channel on the cards of the paper, in virtual time (`[RdmaChannel04]`
//! §4, §5).
//!
//! Nothing here depends on the machine: a run is the same everywhere, to the nanosecond. With
//! `--nocapture` it prints the figures that `docs/decisions/ring.md` quotes.

use strait_core::ring::{Design, LinkConfig};
use strait_sim::ring::{BareRequest, Rates, bare_bandwidth};

/// Prints the rates, and returns them.
fn told(bytes: usize, what: &str, rates: Rates) -> Rates {
    let Rates { latency_us, bandwidth_mb_s } = rates;
    println!("{bytes:>8} B  {what:<28} {latency_us:>9.2} µs  {bandwidth_mb_s:>6.1} MB/s");
    rates
}

fn of_bare_writes(bytes: usize) -> Rates {
    told(bytes, "raw", Rates::of_bare_writes(bytes))
}

fn of_config(config: LinkConfig, bytes: usize, ordered_bytes: bool) -> Rates {
    let flag = if ordered_bytes { "" } else { ", flag apart" };
    let what = format!("{} by {} KiB{flag}", config.design.name(), config.chunk >> 10);
    told(bytes, &what, Rates::of_link(config, bytes, ordered_bytes))
}

fn of_designs(bytes: usize, ordered_bytes: bool) -> [Rates; 5] {
    Design::ALL.map(|design| of_config(LinkConfig::new(design), bytes, ordered_bytes))
}

#[test]
fn the_bare_device_is_the_papers() {
    let (small, large) = (of_bare_writes(8), of_bare_writes(1 << 20));
    assert!((5.8..6.0).contains(&small.latency_us), "5.9 µs in the paper: {small:?}");
    assert!((865.0..=870.0).contains(&large.bandwidth_mb_s), "870 MB/s in the paper: {large:?}");
}

/// Checks `[RdmaChannel04]` §4.2.1, §4.3, §5.
#[test]
fn small_messages_cost_what_their_requests_cost() {
    let raw = of_bare_writes(8);
    let [basic, others @ ..] = of_designs(8, true);
    for design in others {
        assert!(design.latency_us * 1.1 < basic.latency_us, "one write is faster than two");
        assert!(
            design.bandwidth_mb_s > 1.5 * basic.bandwidth_mb_s,
            "and takes less of both processors"
        );
        assert!(design.latency_us < 1.05 * raw.latency_us, "one write is all there is");
    }
    let [_, others @ ..] = of_designs(8, false);
    for design in others {
        assert!(
            design.latency_us < basic.latency_us,
            "a flag apart does not wait for an answer either"
        );
        assert!(
            design.latency_us < 1.3 * raw.latency_us,
            "it waits for its turn at the device alone"
        );
    }
}

/// Checks `[RdmaChannel04]` §4.2.1, §4.4, §5, figures 5, 8, 11.
#[test]
fn large_messages_go_as_fast_as_their_copies_overlap() {
    const MESSAGE: usize = 1 << 20;
    let raw = of_bare_writes(MESSAGE);
    for ordered_bytes in [true, false] {
        let [basic, piggyback, pipeline, zero_copy, rendezvous] =
            of_designs(MESSAGE, ordered_bytes);
        assert!((200.0..300.0).contains(&basic.bandwidth_mb_s), "230 MB/s in the paper");
        assert!(piggyback.bandwidth_mb_s > 1.5 * basic.bandwidth_mb_s);
        assert!(
            (500.0..600.0).contains(&pipeline.bandwidth_mb_s),
            "over 500 in the paper: copies and card share the memory bus"
        );
        assert!(
            pipeline.latency_us * 1.5 < piggyback.latency_us,
            "piggyback copies all of it first"
        );
        for direct in [zero_copy, rendezvous] {
            assert!(
                direct.bandwidth_mb_s > 1.5 * pipeline.bandwidth_mb_s,
                "no processor copies faster"
            );
            assert!(
                direct.bandwidth_mb_s > 0.9 * raw.bandwidth_mb_s,
                "857 of 870 MB/s in the paper"
            );
        }
    }
}

/// Checks `[RdmaChannel04]` figures 14 and 15.
#[test]
fn reads_are_behind_writes_for_mid_sized_messages() {
    let of = |bytes| {
        let both = [BareRequest::Write, BareRequest::Read].map(|kind| bare_bandwidth(kind, bytes));
        println!("{bytes:>8} B  write, read  {both:.1?} MB/s");
        both[0] / both[1]
    };
    assert!(of(32 << 10) > 1.15 && of(64 << 10) > 1.05);
    assert!(of(1 << 20) < 1.05, "little of a large read is its request");
    let link = |design| Rates::of_link(LinkConfig::new(design), 64 << 10, true).bandwidth_mb_s;
    assert!(link(Design::RendezvousWrite) > link(Design::ZeroCopy));
}

/// Checks `[RdmaChannel04]` figure 9: the same ring in chunks of 1 to 64 KiB.
#[test]
fn small_chunks_cost_requests_and_large_ones_overlap() {
    const RING: u32 = 128 << 10;
    let of = |chunk| LinkConfig { chunk, slots: RING / chunk, ..LinkConfig::new(Design::Pipeline) };
    let sweep = [1, 2, 4, 8, 16, 32, 64].map(|kib| of_config(of(kib << 10), 1 << 20, true));
    let [smallest, two, four, eight, sixteen, thirty_two, largest] = sweep;
    let best = sweep.iter().map(|figures| figures.bandwidth_mb_s).fold(0.0, f64::max);
    assert!(smallest.bandwidth_mb_s < 0.85 * best, "a request for each KiB");
    assert!(largest.bandwidth_mb_s < 0.95 * best, "two chunks: one is copied while one travels");
    assert!(sixteen.bandwidth_mb_s > 0.99 * best, "16 KiB, the paper's choice");
    let slower = |one: Rates, other: Rates| one.latency_us > other.latency_us;
    assert!(slower(smallest, two) && slower(two, four) && slower(four, eight));
    assert!(slower(eight, sixteen) && slower(thirty_two, sixteen) && slower(largest, thirty_two));
}
