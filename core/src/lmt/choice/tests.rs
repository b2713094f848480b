use super::*;

const LENGTH: usize = 1 << 20;

/// Times of a line between cores that share a cache, and between others.
const SHARED: u32 = 60;
const APART: u32 = 200;

/// Sends messages one at a time with candidates of these costs in nanoseconds. A line takes
/// `line` nanoseconds. Returns how often each candidate was chosen.
fn send(
    choice: &mut TransferChoice,
    now: &mut u64,
    messages: u32,
    (line, costs): (u32, [u64; 3]),
) -> [u32; 3] {
    let mut counts = [0; 3];
    for _ in 0..messages {
        choice.line_timed(line, false);
        let (transfer, chosen) = choice.choose(LENGTH);
        let number = CANDIDATES.iter().position(|other| *other == transfer).unwrap();
        counts[number] += 1;
        let met = *now + 10;
        *now = met + costs[number];
        choice.ended(chosen, LENGTH, met, *now);
    }
    counts
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
fn the_cheapest_is_taken_and_the_others_are_tried_seldom() {
    let (mut choice, mut now) = (TransferChoice::default(), 0);
    let counts = send(&mut choice, &mut now, 1000, (SHARED, [45_000, 60_000, 80_000]));
    assert!(counts[0] > 960 && counts[1] >= 3 && counts[2] >= 3, "{counts:?}");
    assert_eq!(choice.ring(LENGTH), Transfer::CopyRing);
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
fn a_fast_ring_is_compared_with_one_copy_only_once_it_is_slow() {
    let (mut choice, mut now) = (TransferChoice::default(), 0);
    let counts = send(&mut choice, &mut now, 1000, (SHARED, [20_000, 60_000, 80_000]));
    assert!(counts[1] >= 3 && counts[2] == 0, "{counts:?}");
    let counts = send(&mut choice, &mut now, 100, (SHARED, [120_000, 120_000, 80_000]));
    assert!(counts[2] > 70, "{counts:?}");
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
fn what_gets_dear_is_left_soon_and_found_again() {
    let (mut choice, mut now) = (TransferChoice::default(), 0);
    send(&mut choice, &mut now, 100, (SHARED, [30_000, 50_000, 80_000]));
    let far = send(&mut choice, &mut now, 1000, (APART, [400_000, 45_000, 80_000]));
    assert!(far[0] < 20 && far[1] > 900, "{far:?}");
    assert_eq!(choice.ring(LENGTH), Transfer::CopyRingStreamed);
    let near = send(&mut choice, &mut now, 1000, (SHARED, [30_000, 50_000, 80_000]));
    assert!(near[0] > 950, "{near:?}");
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
fn a_change_of_place_is_followed_within_a_few_messages() {
    let (mut choice, mut now) = (TransferChoice::default(), 0);
    let near = (SHARED, [30_000, 50_000, 80_000]);
    let far = (APART, [150_000, 65_000, 120_000]);
    for _ in 0..3 {
        send(&mut choice, &mut now, 1000, near);
        let counts = send(&mut choice, &mut now, 1000, far);
        assert!(counts[1] > 940, "{counts:?}");
        let counts = send(&mut choice, &mut now, 1000, near);
        assert!(counts[0] > 940, "{counts:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
fn a_sender_that_often_loses_its_processor_still_finds_the_cheapest() {
    let (mut choice, mut now) = (TransferChoice::default(), 0);
    let mut counts = [0; 3];
    for number in 0..1000 {
        // The lost processor spoils two messages in five.
        let lost = if number % 5 < 2 { 400_000 } else { 0 };
        let costs = [30_000, 50_000, 80_000].map(|cost| cost + lost);
        let sent = send(&mut choice, &mut now, 1, (SHARED, costs));
        counts = core::array::from_fn(|candidate| counts[candidate] + sent[candidate]);
    }
    assert!(counts[0] > 900, "{counts:?}");
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic on tens of messages, no memory")]
fn a_ring_that_is_slow_at_its_place_is_left_after_a_few_messages() {
    let (mut choice, mut now) = (TransferChoice::default(), 0);
    // The lines seem near, and the cores are not.
    let counts = send(&mut choice, &mut now, 20, (SHARED, [350_000, 65_000, 120_000]));
    assert!(counts[0] <= 4 && counts[1] >= 10, "{counts:?}");
    // A trial that is not cheaper costs a few messages.
    let (mut choice, mut now) = (TransferChoice::default(), 0);
    (0..TIMED).for_each(|_| choice.line_timed(SHARED, false));
    let counts = send(&mut choice, &mut now, 100, (SHARED, [220_000, 600_000, 600_000]));
    assert!(counts[0] > 90, "{counts:?}");
}

#[test]
fn one_copy_is_found_by_the_third_measured_message_into_memory_that_was_never_touched() {
    for line in [SHARED, APART] {
        let (mut choice, mut now) = (TransferChoice::default(), 0);
        (0..TIMED).for_each(|_| choice.line_timed(line, false));
        choice.first_pass = FIRST_PASS;
        let counts = send(&mut choice, &mut now, 5, (line, [450_000, 450_000, 210_000]));
        assert_eq!((counts[0].max(counts[1]), counts[2]), (2, 3), "{counts:?}");
        let counts = send(&mut choice, &mut now, 20, (line, [450_000, 450_000, 210_000]));
        assert!(counts[2] >= 14, "{counts:?}");
    }
}

#[test]
fn two_messages_that_were_held_up_do_not_spoil_the_transfer_of_the_place() {
    let (mut choice, mut now) = (TransferChoice::default(), 0);
    send(&mut choice, &mut now, 2, (SHARED, [4_000_000, 4_000_000, 80_000]));
    let counts = send(&mut choice, &mut now, 100, (SHARED, [30_000, 50_000, 80_000]));
    assert!(counts[0] > 70, "{counts:?}");
}

#[test]
fn messages_that_are_under_way_together_are_measured_as_one() {
    let mut choice = TransferChoice { first_pass: FIRST_PASS, ..TransferChoice::default() };
    let chosen: [_; 4] = core::array::from_fn(|_| choice.choose(LENGTH));
    assert!(chosen.iter().all(|(transfer, _)| *transfer == chosen[0].0));
    // Each message takes 100 ns, one after the other. All receives were posted at the start.
    for (number, (_, chosen)) in (1..).zip(chosen) {
        choice.ended(chosen, LENGTH, 1000, 1000 + 100 * number);
    }
    assert_eq!(choice.classes[3].rates[FAR].cost(), 100);
}

#[test]
fn messages_of_a_long_window_that_end_at_once_are_all_measured() {
    let mut choice = TransferChoice { first_pass: FIRST_PASS, ..TransferChoice::default() };
    let chosen: [_; 64] = core::array::from_fn(|_| choice.choose(LENGTH).1);
    // The sender looks for the first time when half of the messages are over.
    chosen[..32].iter().for_each(|chosen| choice.ended(*chosen, LENGTH, 1000, 1000 + 32 * 100));
    assert!(choice.classes[3].rates[FAR].known == 0, "more may have ended by then");
    chosen[32..].iter().for_each(|chosen| choice.ended(*chosen, LENGTH, 1000, 1000 + 64 * 100));
    let rate = &choice.classes[3].rates[FAR];
    assert_eq!((rate.known, rate.cost()), (1, 100));
}

#[test]
fn a_message_that_failed_is_not_measured() {
    let mut choice = TransferChoice::default();
    let (_, chosen) = choice.choose(LENGTH);
    choice.ended(chosen, 0, 0, 1000);
    assert!(choice.classes[3].rates.iter().all(|rate| rate.known == 0));
}

#[test]
fn a_message_that_went_by_two_transfers_spoils_the_measurement_of_its_run() {
    let mut choice = TransferChoice::default();
    let chosen: [_; 2] = core::array::from_fn(|_| choice.choose(LENGTH));
    choice.ended(chosen[0].1, 0, 0, 1000);
    choice.ended(chosen[1].1, LENGTH, 0, 2000);
    assert!(choice.classes[3].rates.iter().all(|rate| rate.known == 0));
}

#[test]
fn the_place_of_the_cores_decides_until_costs_do() {
    let mut choice = TransferChoice::default();
    let first = |choice: &mut TransferChoice| {
        let (transfer, chosen) = choice.choose(LENGTH);
        choice.ended(chosen, 0, 0, 1000);
        transfer
    };
    assert_eq!(first(&mut choice), CANDIDATES[FAR]);
    for _ in 0..TIMED {
        choice.line_timed(SHARED, false);
    }
    assert_eq!(first(&mut choice), CANDIDATES[NEAR]);
    choice.line_timed(10_000, false);
    assert_eq!(first(&mut choice), CANDIDATES[NEAR], "one disturbed line says nothing");
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
fn a_cheaper_transfer_than_that_of_the_place_is_found() {
    let (mut choice, mut now) = (TransferChoice::default(), 0);
    let counts = send(&mut choice, &mut now, 1000, (SHARED, [60_000, 50_000, 40_000]));
    assert!(counts[2] > 900, "{counts:?}");
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic on tens of messages, no memory")]
fn what_one_copy_costs_is_known_when_there_is_a_ring() {
    let costs = |one_copy| (APART, [600_000, 130_000, one_copy]);
    for (one_copy, expected) in [(80_000, 2), (200_000, 1)] {
        let (mut choice, mut now) = (TransferChoice::default(), 0);
        for _ in 0..16 {
            let (transfer, chosen) = choice.choose_one_copy(LENGTH);
            assert_eq!(transfer, CANDIDATES[ONE_COPY]);
            now += one_copy;
            choice.ended(chosen, LENGTH, now - one_copy, now);
        }
        let counts = send(&mut choice, &mut now, 24, costs(one_copy));
        assert!(counts[expected] >= 18, "{counts:?}");
    }
}

#[test]
fn one_copy_comes_first_far_where_the_kernel_copies_fast() {
    let mut choice = TransferChoice::default();
    let first = |choice: &mut TransferChoice| choice.choose(LENGTH).0;
    (0..TIMED).for_each(|_| choice.line_timed(APART, true));
    assert_eq!(first(&mut choice), Transfer::CmaShared);
    assert_eq!(choice.ring(LENGTH), Transfer::CopyRingStreamed);
    let mut choice = TransferChoice::default();
    (0..TIMED).for_each(|_| choice.line_timed(SHARED, true));
    assert_eq!(first(&mut choice), Transfer::CopyRing);
}

#[test]
fn cores_whose_lines_are_at_the_limit_do_not_seem_to_move() {
    let (mut choice, mut now) = (TransferChoice::default(), 0);
    send(&mut choice, &mut now, 100, (NEAR_MOST + 10, [90_000, 90_000, 45_000]));
    let lines = [NEAR_MOST - 20, NEAR_MOST + 30, NEAR_MOST - 10].repeat(20);
    let counts =
        lines.iter().map(|line| send(&mut choice, &mut now, 1, (*line, [90_000, 90_000, 45_000])));
    let of_one_copy: u32 = counts.map(|counts| counts[ONE_COPY]).sum();
    assert!(of_one_copy > 50, "what was measured still counts: {of_one_copy}");
}
