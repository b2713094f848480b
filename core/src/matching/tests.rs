//! Both queues, with both selectors, against a list that is searched from the front: random calls,
//! wildcards, masks, and memory that runs out. Further tests check that no call searches.

use core::fmt::Debug;
use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::matching::envelope::WildcardClass;
use crate::matching::selector::Filing as _;
use crate::matching::steps;
use crate::memory::OutOfMemory;
use crate::memory::counted::Counted;

/// A selector and envelopes that the random programs draw. Both come from a small space, so that
/// many match.
trait Drawn: Selector<Envelope: Debug> + 'static {
    fn selector() -> BoxedStrategy<Self>;
    fn envelope() -> BoxedStrategy<Self::Envelope>;
}

impl Drawn for Pattern {
    fn selector() -> BoxedStrategy<Self> {
        let with_wildcards = prop_oneof![2 => 0..3_u32, 1 => Just(u32::MAX)];
        let fields = (0..2_u32, with_wildcards.clone(), with_wildcards);
        fields.prop_map(|(context, source, tag)| Self { context, source, tag }).boxed()
    }

    fn envelope() -> BoxedStrategy<Envelope> {
        let rank_or_tag = prop_oneof![9 => 0..3_u32, 1 => Just(u32::MAX)];
        let fields = (0..2_u32, rank_or_tag.clone(), rank_or_tag);
        fields.prop_map(|(context, source, tag)| Envelope { context, source, tag }).boxed()
    }
}

/// Tags that differ in the lowest and the highest bits.
fn long_tag() -> impl Strategy<Value = u64> {
    (0..4_u64, 0..2_u64).prop_map(|(low, high)| low | high << 63)
}

impl Drawn for MaskedPattern {
    fn selector() -> BoxedStrategy<Self> {
        let source = prop_oneof![2 => 0..3_u32, 1 => Just(ANY_SOURCE)];
        let ignore = prop_oneof![2 => Just(0), 2 => long_tag(), 1 => Just(u64::MAX)];
        let fields = (source, long_tag(), ignore);
        fields.prop_map(|(source, tag, ignore)| Self { source, tag, ignore }).boxed()
    }

    fn envelope() -> BoxedStrategy<MaskedEnvelope> {
        let fields = (prop_oneof![9 => 0..3_u32, 1 => Just(u32::MAX)], long_tag());
        fields.prop_map(|(source, tag)| MaskedEnvelope { source, tag }).boxed()
    }
}

/// One call, whatever the queue.
#[derive(Clone, Copy, Debug)]
enum Call<P: Selector> {
    /// A receive is posted, or looks for an unexpected message and takes it.
    Receive(P),
    /// A receive is posted, or looks for an unexpected message and leaves it.
    Probe(P),
    /// A message arrives.
    Arrive(P::Envelope),
    /// The entry at a handle is withdrawn, if there is one.
    Withdraw(u32),
    /// One of the messages that were received comes back, if there is one.
    PutBack(usize),
    /// From here on there is no more memory, or there is again.
    Refuse(bool),
}

fn call<P: Drawn>() -> impl Strategy<Value = Call<P>> {
    prop_oneof![
        8 => P::selector().prop_map(Call::Receive),
        2 => P::selector().prop_map(Call::Probe),
        8 => P::envelope().prop_map(Call::Arrive),
        3 => (0..48_u32).prop_map(Call::Withdraw),
        2 => any::<usize>().prop_map(Call::PutBack),
        1 => any::<bool>().prop_map(Call::Refuse),
    ]
}

fn calls<P: Drawn>() -> impl Strategy<Value = Vec<Call<P>>> {
    vec(call(), 0..CALLS)
}

fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 3 } else { 1000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// An entry of either queue as the model keeps it, oldest first: handle, selector or envelope, the
/// caller's value.
type Model<K> = Vec<(u32, K, u32)>;

/// Takes the oldest entry that fits out of the model.
fn take<K: Copy>(model: &mut Model<K>, fits: impl Fn(u32, &K) -> bool) -> Option<(u32, K, u32)> {
    let oldest = model.iter().position(|(handle, key, _)| fits(*handle, key))?;
    Some(model.remove(oldest))
}

/// Adds to the model what the queue accepted, or checks that it refused only for lack of memory.
fn add<K>(
    model: &mut Model<K>,
    refusing: bool,
    added: Result<u32, OutOfMemory>,
    key: K,
    number: u32,
) {
    match added {
        Ok(handle) => {
            assert!(model.iter().all(|entry| entry.0 != handle), "handle {handle} given twice");
            model.push((handle, key, number));
        }
        Err(_) => assert!(refusing, "refused although there was memory"),
    }
}

/// Returns the expected result of [`PostedQueue::ahead_of`].
fn ahead_in(model: &Model<Pattern>, exact: &Pattern) -> Ahead {
    let Pattern { context, source, tag } = *exact;
    let envelope = Envelope { context, source, tag };
    let mut ahead = Ahead::Nothing;
    for (_, pattern, number) in model.iter().filter(|entry| entry.1.matches(&envelope)) {
        if pattern != exact {
            return Ahead::Wildcard;
        }
        ahead = Ahead::Same(*number);
    }
    ahead
}

fn by_handle<K: Copy>(model: &Model<K>) -> Model<K> {
    let mut sorted = model.clone();
    sorted.sort_by_key(|entry| entry.0);
    sorted
}

/// Plays the calls against receives that wait for messages.
fn play_posted<P: Drawn>(calls: Vec<Call<P>>) {
    Counted::lend(|memory| {
        let mut posted = PostedQueue::<_, P>::new(memory.clone());
        let (mut model, mut refusing) = (Model::<P>::new(), false);
        for (call, number) in calls.into_iter().zip(1000..) {
            match call {
                Call::Receive(selector) | Call::Probe(selector) => {
                    let added = posted.post(selector, number);
                    add(&mut model, refusing, added, selector, number);
                }
                Call::Arrive(envelope) => {
                    let oldest = model.iter().find(|(_, selector, _)| selector.matches(&envelope));
                    let oldest = oldest.map(|&(handle, _, number)| (handle, number));
                    assert_eq!(posted.find(&envelope), oldest);
                    let expected = take(&mut model, |_, selector| selector.matches(&envelope));
                    assert_eq!(posted.take(&envelope), expected.map(|entry| entry.2));
                }
                Call::Withdraw(handle) => {
                    let expected = take(&mut model, |its, _| its == handle);
                    assert_eq!(posted.cancel(handle), expected.map(|entry| entry.2));
                }
                Call::PutBack(_) => {}
                Call::Refuse(refuse) => {
                    refusing = refuse;
                    memory.refuse(refuse);
                }
            }
            assert_eq!(posted.len() as usize, model.len());
            assert_eq!(posted.is_empty(), model.is_empty());
        }
        assert_eq!(posted.patterns().collect::<Model<_>>(), by_handle(&model));
    });
}

/// Plays the calls against messages that wait for receives.
fn play_unexpected<P: Drawn>(calls: Vec<Call<P>>) {
    Counted::lend(|memory| {
        let mut unexpected = UnexpectedQueue::<_, P>::new(memory.clone());
        let (mut model, mut refusing) = (Model::<P::Envelope>::new(), false);
        let mut received = Vec::new();
        for (call, number) in calls.into_iter().zip(1000..) {
            match call {
                Call::Arrive(envelope) => {
                    let added = unexpected.insert(envelope, number);
                    add(&mut model, refusing, added, envelope, number);
                }
                Call::Receive(selector) | Call::Probe(selector) => {
                    let oldest = model.iter().find(|(_, envelope, _)| selector.matches(envelope));
                    let expected = oldest.map(|&(handle, envelope, message)| Found {
                        handle,
                        envelope,
                        message,
                    });
                    assert_eq!(unexpected.find(&selector), expected);
                    if let (Call::Receive(_), Some(found)) = (call, expected) {
                        assert_eq!(unexpected.remove(found.handle), Some(found.message));
                        take(&mut model, |its, _| its == found.handle);
                        received.push((found.envelope, found.message));
                    }
                }
                Call::PutBack(which) if !received.is_empty() => {
                    let (envelope, message) = received.swap_remove(which % received.len());
                    // Messages are numbered in the order of arrival.
                    let added = unexpected.put_back(envelope, message, |other| other < message);
                    add(&mut model, refusing, added, envelope, message);
                    model.sort_by_key(|(_, _, number)| *number);
                }
                Call::PutBack(_) => {}
                Call::Withdraw(handle) => {
                    let expected = take(&mut model, |its, _| its == handle);
                    assert_eq!(unexpected.remove(handle), expected.map(|entry| entry.2));
                }
                Call::Refuse(refuse) => {
                    refusing = refuse;
                    memory.refuse(refuse);
                }
            }
            assert_eq!(unexpected.len() as usize, model.len());
            assert_eq!(unexpected.is_empty(), model.is_empty());
        }
        let found = unexpected.iter().map(|found| (found.handle, found.envelope, found.message));
        assert_eq!(found.collect::<Model<_>>(), by_handle(&model));
    });
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn posted_is_a_list_searched_from_the_front(calls in calls::<Pattern>()) {
        play_posted(calls);
    }

    #[test]
    fn posted_under_masks_is_a_list_searched_from_the_front(calls in calls::<MaskedPattern>()) {
        play_posted(calls);
    }

    #[test]
    fn unexpected_is_a_list_searched_from_the_front(calls in calls::<Pattern>()) {
        play_unexpected(calls);
    }

    #[test]
    fn unexpected_under_masks_is_a_list_searched_from_the_front(
        calls in calls::<MaskedPattern>()
    ) {
        play_unexpected(calls);
    }

    #[test]
    fn what_is_ahead_of_a_receive_is_found_without_a_search(calls in vec(call(), 0..CALLS / 2)) {
        Counted::lend(|memory| {
            let mut posted = PostedQueue::new(memory);
            let mut model = Model::<Pattern>::new();
            for (call, number) in calls.into_iter().zip(1000..) {
                match call {
                    Call::Receive(pattern) => {
                        let handle = posted.post(pattern, number).unwrap();
                        model.push((handle, pattern, number));
                    }
                    Call::Arrive(envelope) => {
                        let Envelope { context, source, tag } = envelope;
                        let exact = Pattern { context, source, tag };
                        if source != ANY_SOURCE && tag != ANY_TAG {
                            assert_eq!(posted.ahead_of(&exact), ahead_in(&model, &exact));
                        }
                        posted.take(&envelope);
                        take(&mut model, |_, pattern| pattern.matches(&envelope));
                    }
                    Call::Withdraw(handle) => {
                        posted.cancel(handle);
                        take(&mut model, |its, _| its == handle);
                    }
                    Call::Probe(pattern) => {
                        let same = model.iter().rev().filter(|entry| entry.1 == pattern);
                        let same = same.map(|&(handle, _, number)| (handle, number));
                        assert!(posted.youngest_first(&pattern).eq(same));
                    }
                    Call::PutBack(_) | Call::Refuse(_) => {}
                }
            }
        });
    }
}

/// Largest number of calls in one random program.
const CALLS: usize = if cfg!(miri) { 60 } else { 200 };

const ENTRIES: u32 = if cfg!(miri) { 24 } else { 10_000 };

/// Upper bound on the steps of one call without a rehash. It is far below `ENTRIES`.
const STEPS_A_CALL: u64 = 64;
const MEAN_STEPS: u64 = 20;

/// Returns the pattern of the `i`-th entry. All entries have the same context and, except for
/// wildcards, the same source.
type Shape = fn(u32) -> Pattern;

const SHAPES: [(&str, Shape); 6] = [
    ("all equal", |_| Pattern { context: 1, source: 2, tag: 3 }),
    ("one tag each", |tag| Pattern { context: 1, source: 2, tag }),
    ("any source, one tag each", |tag| Pattern { context: 1, source: ANY_SOURCE, tag }),
    ("any tag", |_| Pattern { context: 1, source: 2, tag: ANY_TAG }),
    ("any source, any tag", |_| Pattern { context: 1, source: ANY_SOURCE, tag: ANY_TAG }),
    ("all of these", |i| match i % 4 {
        0 => Pattern { context: 1, source: 2, tag: i },
        1 => Pattern { context: 1, source: ANY_SOURCE, tag: i },
        2 => Pattern { context: 1, source: 2, tag: ANY_TAG },
        _ => Pattern { context: 1, source: ANY_SOURCE, tag: ANY_TAG },
    }),
];

/// Returns a message that the pattern matches.
fn message_for(i: u32, pattern: Pattern) -> Envelope {
    Envelope { context: 1, source: 2, tag: if pattern.tag == ANY_TAG { i } else { pattern.tag } }
}

/// Makes one call for each entry and checks its steps.
fn bounded(what: &str, order: impl Iterator<Item = u32>, mut call: impl FnMut(u32)) {
    let (mut sum, mut most) = (0, 0);
    for i in order {
        let ((), steps) = steps::count(|| call(i));
        (sum, most) = (sum + steps, most.max(steps));
    }
    assert!(sum >= u64::from(ENTRIES), "{what}: the steps are not counted");
    assert!(sum <= MEAN_STEPS * u64::from(ENTRIES), "{what}: {sum} steps");
    assert!(most <= STEPS_A_CALL, "{what}: {most} steps for one call");
}

/// Checks only the sum, since a call in which the queue grows moves every bin.
fn amortised(what: &str, mut call: impl FnMut(u32)) {
    let ((), sum) = steps::count(|| (0..ENTRIES).for_each(&mut call));
    assert!(sum >= u64::from(ENTRIES), "{what}: the steps are not counted");
    assert!(sum <= MEAN_STEPS * u64::from(ENTRIES), "{what}: {sum} steps");
}

/// Counts from the middle to both ends, so that a search from either end would be long.
fn outwards() -> impl Iterator<Item = u32> {
    (0..ENTRIES / 2).flat_map(|i| [ENTRIES / 2 - 1 - i, ENTRIES / 2 + i])
}

#[test]
fn ten_thousand_receives_are_not_searched() {
    for (what, pattern) in SHAPES {
        Counted::lend(|memory| {
            let mut posted = PostedQueue::new(memory);
            let fill = |posted: &mut PostedQueue<_>| {
                let mut handles = Vec::new();
                amortised(what, |i| handles.push(posted.post(pattern(i), i).unwrap()));
                handles
            };
            fill(&mut posted);
            bounded(what, 0..ENTRIES, |i| {
                assert_eq!(posted.take(&message_for(i, pattern(i))), Some(i));
            });
            let handles = fill(&mut posted);
            bounded(what, outwards(), |i| {
                assert_eq!(posted.cancel(handles[i as usize]), Some(i));
            });
            assert!(posted.is_empty());

            // Youngest first: wildcards now take messages of others, so some messages find nothing.
            fill(&mut posted);
            bounded(what, (0..ENTRIES).rev(), |i| {
                posted.take(&message_for(i, pattern(i)));
            });
            assert!(posted.len() < ENTRIES / 2);
        });
    }
}

#[test]
fn ten_thousand_messages_are_not_searched() {
    for (what, pattern) in SHAPES {
        Counted::lend(|memory| {
            let mut unexpected = UnexpectedQueue::new(memory);
            let fill = |unexpected: &mut UnexpectedQueue<_>| {
                let mut handles = Vec::new();
                amortised(what, |i| {
                    let envelope = message_for(i, pattern(i));
                    handles.push(unexpected.insert(envelope, i).unwrap());
                });
                if (0..4).any(|i| pattern(i).class() != WildcardClass::Exact) {
                    // The first look by a wildcard files all messages by wildcards.
                    let any = WildcardClass::AnyBoth.pattern(&message_for(0, pattern(0)));
                    let (found, steps) = steps::count(|| unexpected.find(&any).unwrap());
                    assert_eq!(found.message, 0, "{what}");
                    assert!(steps <= MEAN_STEPS * u64::from(ENTRIES), "{what}: {steps} steps");
                }
                handles
            };
            fill(&mut unexpected);
            bounded(what, 0..ENTRIES, |i| {
                let found = unexpected.find(&pattern(i)).unwrap();
                assert_eq!(found.message, i);
                assert_eq!(unexpected.remove(found.handle), Some(i));
            });
            let handles = fill(&mut unexpected);
            bounded(what, outwards(), |i| {
                assert_eq!(unexpected.remove(handles[i as usize]), Some(i));
            });
            assert!(unexpected.is_empty());

            // Youngest first: wildcards now take messages of others, so some receives find nothing.
            fill(&mut unexpected);
            bounded(what, (0..ENTRIES).rev(), |i| {
                if let Some(found) = unexpected.find(&pattern(i)) {
                    unexpected.remove(found.handle);
                }
            });
            assert!(unexpected.len() < ENTRIES / 2);
        });
    }
}

/// Under masks the oldest entry is found at once, however many are behind it.
#[test]
fn the_oldest_of_ten_thousand_is_not_searched_for_under_masks() {
    let selector = |i: u32| MaskedPattern { source: 2, tag: u64::from(i), ignore: 1 << 63 };
    let envelope = |i: u32| MaskedEnvelope { source: 2, tag: u64::from(i) | 1 << 63 };
    Counted::lend(|memory| {
        let mut posted = PostedQueue::new(memory.clone());
        amortised("posted", |i| assert!(posted.post(selector(i), i).is_ok()));
        bounded("posted", 0..ENTRIES, |i| assert_eq!(posted.take(&envelope(i)), Some(i)));

        let mut unexpected = UnexpectedQueue::new(memory);
        amortised("unexpected", |i| assert_eq!(unexpected.insert(envelope(i), i), Ok(i)));
        bounded("unexpected", 0..ENTRIES, |i| {
            let found = unexpected.find(&selector(i)).unwrap();
            assert_eq!(unexpected.remove(found.handle), Some(i));
        });
        assert!(posted.is_empty() && unexpected.is_empty());
    });
}

/// A queue that refused must be as it was, at every place where memory can run out.
#[test]
fn the_queues_are_whole_after_every_refusal() {
    Counted::lend(|memory| {
        let (mut posted, mut unexpected) =
            (PostedQueue::new(memory.clone()), UnexpectedQueue::new(memory.clone()));
        let (mut refused_posts, mut refused_messages) = (0, 0);
        for i in 0..100 {
            let pattern = Pattern { context: 1, source: 2, tag: i };
            let envelope = message_for(i, pattern);
            memory.refuse(true);
            refused_posts += u32::from(posted.post(pattern, i).map(|h| posted.cancel(h)).is_err());
            refused_messages +=
                u32::from(unexpected.insert(envelope, i).map(|h| unexpected.remove(h)).is_err());
            assert_eq!((posted.len(), unexpected.len()), (i, i));
            assert_eq!((posted.take(&envelope), unexpected.find(&pattern)), (None, None));
            memory.refuse(false);
            posted.post(pattern, i).unwrap();
            unexpected.insert(envelope, i).unwrap();
        }
        assert!(refused_posts >= 6 && refused_messages >= 6, "memory never ran out");
        for i in (0..100).rev() {
            let pattern = Pattern { context: 1, source: 2, tag: i };
            assert_eq!(unexpected.find(&pattern).map(|found| found.message), Some(i));
            assert_eq!(posted.take(&message_for(i, pattern)), Some(i));
        }
    });
}
