use super::*;

/// Each row of the table in the module's page has the value of its constant.
#[test]
fn the_table_has_every_value() {
    let page = include_str!("mod.rs");
    let values = include_str!("values.rs").lines().filter(|line| line.starts_with("pub const "));
    let mut rows =
        page.lines().filter_map(|line| line.strip_prefix("//! | [`")?.split_once("`] | "));
    for line in values {
        let (name, value) = line["pub const ".len()..].split_once(": ").unwrap();
        let (row, cells) = rows.next().unwrap();
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let (_, value) = value.split_once(" = ").unwrap();
        let shown = cells.split_once(" |").unwrap().0;
        assert_eq!((row, digits(shown)), (name, digits(value)));
        let unit = |text: &str| {
            [("millis", "ms"), ("micros", "µs")].into_iter().find_map(|(long, short)| {
                (text.contains(long) || text.contains(short)).then_some(short)
            })
        };
        assert_eq!(unit(shown), unit(value), "{name}");
    }
    assert_eq!(rows.next(), None);
}

#[test]
fn ranks_beside_device_threads_yield_early_and_sleep_late() {
    for (cpus, sooner) in [(2, true), (3, true), (4, false)] {
        let alone = SpinLimits::new(1, cpus);
        let spin = alone.beside_devices(2, cpus);
        assert_eq!(spin.polls < alone.polls, sooner);
        assert_eq!(spin.polls + spin.yields, alone.polls + alone.yields);
    }
    let crowded = SpinLimits::new(3, 2);
    assert_eq!(crowded.beside_devices(3, 2).polls, crowded.polls);
}

#[test]
fn a_wait_spins_then_yields_then_sleeps() {
    for (ranks, cpus) in [(2, 2), (3, 2)] {
        let spin = SpinLimits::new(ranks, cpus);
        let mut backoff = Backoff::new(spin);
        let mut polls = 0;
        while backoff.pause() != Next::Sleep {
            polls += 1;
        }
        // A long yield counts as some, and with more ranks than processors as one.
        let yields = if ranks > cpus as u32 { spin.yields } else { YIELDS_OF_SLICES };
        assert!(polls >= spin.polls + yields);
        assert_ne!(backoff.pause(), Next::Poll, "until something moves");
        backoff.reset();
        assert_ne!(backoff.pause(), Next::Sleep);
    }
}

#[test]
fn a_wait_that_stays_awake_checks_liveness_soon_and_then_seldom() {
    let mut backoff = Backoff::new(SpinLimits::brief());
    let checks =
        |backoff: &mut Backoff| (0..POLLS_PER_CLOCK).filter(|_| backoff.pause_awake()).count();
    assert_eq!(checks(&mut backoff), 1);
    let begin = Instant::now();
    let further = checks(&mut backoff);
    assert!(further == 0 || begin.elapsed() >= LIVENESS_PERIOD, "{further}");
}

#[test]
fn a_wait_continues_from_the_last_check_of_an_earlier_one() {
    let begin = Instant::now();
    let mut backoff = Backoff::new(SpinLimits::brief()).checked_at(Some(begin));
    let checks = (0..POLLS_PER_CLOCK).filter(|_| backoff.pause_awake()).count();
    assert!(checks == 0 || begin.elapsed() >= LIVENESS_PERIOD, "{checks}");
    assert_eq!(backoff.checked().is_some_and(|last| last > begin), checks > 0);
}

#[test]
fn sleeps_grow_until_something_moves() {
    let mut backoff = Backoff::new(SpinLimits::none());
    let times: Vec<_> = (0..10).map(|_| backoff.sleep_time()).collect();
    assert!(times.is_sorted() && times[0] == SLEEP_MIN && times[9] == SLEEP_MIN * 32, "{times:?}");
    backoff.reset();
    assert_eq!(backoff.sleep_time(), SLEEP_MIN);
}

#[test]
fn a_call_that_finds_something_delays_the_sleep() {
    let mut backoff = CallBackoff::new(true);
    let until_progress = |backoff: &mut CallBackoff| (1..).find(|_| backoff.missed());
    assert_eq!(until_progress(&mut backoff), Some(CALLS_PER_PROGRESS));
    let crowded = || panic!("it is not time for this question");
    backoff.pause(crowded);
    backoff.missed();
    backoff.moved();
    assert_eq!(until_progress(&mut backoff), Some(CALLS_PER_PROGRESS), "the count starts over");
    let mut asked = 0;
    for _ in 1..=CALLS_PER_YIELD {
        if backoff.missed() {
            backoff.pause(|| {
                asked += 1;
                false
            });
        }
    }
    assert_eq!(asked, 1);
}

#[test]
fn liveness_is_checked_before_the_next_sleep() {
    let mut backoff = Backoff::new(SpinLimits::none());
    assert_eq!(backoff.pause(), Next::Sleep);
    backoff.check_next();
    assert_eq!(backoff.pause(), Next::CheckLiveness);
    assert_eq!(backoff.pause(), Next::Sleep);
}
