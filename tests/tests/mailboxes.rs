//! Mailboxes: in simulated time against queues of messages, and as the way of short messages
//! between the leaders of nodes in collective operations.

use core::ptr::NonNull;
use core::time::Duration;
use std::collections::VecDeque;

use fastrand::Rng;
use strait::{CollectiveError, Error, Group, Op, World};
use strait_core::hca::{Access, Completion, Connection, Done, Hca, RemoteAddress, WorkError};
use strait_core::rma::{LENT, Lane, LaneError, MAIL_MAX, MAILBOX_BYTES, MailError, MailboxPair};
use strait_core::sync::CacheLine;
use strait_sim::{Model, SimDevice, SimFabric};
use strait_tests::collectives::{Twins, VECTOR_OPERATIONS};
use strait_tests::{Ranks, die, report, traffic};

/// Aligned memory of one side: that of the lane, and the mailbox behind it.
type Memory = Vec<CacheLine<[u64; 8]>>;

/// One of two ranks that exchange messages in simulated time.
struct Side {
    device: SimDevice,
    lane: Lane,
    pair: MailboxPair,
    /// Messages that the peer has sent, and this side has not received.
    coming: VecDeque<Vec<u8>>,
}

impl Side {
    fn poll(&mut self) -> usize {
        let none = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut completions = [none; 4];
        let count = self.device.poll(&mut completions).unwrap();
        completions[..count].iter().for_each(|completion| self.lane.handle(completion));
        count
    }

    fn send(&mut self, message: &[u8]) -> Result<bool, MailError> {
        self.pair.send(&mut self.lane, &mut self.device, message)
    }

    /// Receives a message into memory of a random length, if one has arrived.
    fn receive(&mut self, rng: &mut Rng) -> bool {
        let mut into = vec![0; rng.usize(..=MAIL_MAX)];
        let Some(length) = self.pair.receive(&mut into).unwrap() else { return false };
        let expected = self.coming.pop_front().expect("a message that was sent");
        assert_eq!(length, expected.len());
        let copied = length.min(into.len());
        assert!(into[..copied] == expected[..copied], "message of {length} bytes");
        true
    }

    /// Acknowledges what was received, now or at a later call.
    fn acknowledge(&mut self) {
        let Self { device, lane, pair, .. } = self;
        // A lane that breaks says so when it sends.
        let _ = pair.acknowledge(lane, device);
    }
}

/// Makes two ranks with mailboxes for each other in `memory`.
fn sides(fabric: &SimFabric, memory: &mut [Memory; 2]) -> [Side; 2] {
    let ends = [0, 1].map(|rank| {
        let base: NonNull<u8> = NonNull::from(&mut memory[rank as usize][..]).cast();
        let mut device = fabric.device(rank);
        // SAFETY: the memory outlives the devices, and only they and the mailboxes use it.
        let region = unsafe { device.register(base, LENT + MAILBOX_BYTES, Access::ALL) }.unwrap();
        // SAFETY: the lane's memory is registered, and lies before the mailbox.
        let opened = unsafe { Lane::open(&mut device, 1 - rank, base, region.local_key) };
        let (lane, address) = opened.unwrap();
        // SAFETY: the mailbox lies behind the lane's memory.
        (device, lane, address, unsafe { base.add(LENT) }, region)
    });
    let addresses = ends.each_ref().map(|(_, _, address, ..)| *address);
    let theirs = ends.each_ref().map(|(_, _, _, mailbox, region)| RemoteAddress {
        address: mailbox.addr().get() as u64,
        key: region.remote_key,
    });
    let keeps_order = ends[0].0.capabilities().ordered_bytes;
    let mut rank = 0;
    ends.map(|(mut device, mut lane, _, mailbox, _)| {
        let peer = 1 - rank;
        while !lane.connect(&mut device, &addresses[peer]).unwrap() {}
        // SAFETY: the mailbox is aligned, zeroed and registered, and outlives the pair.
        let pair = unsafe { MailboxPair::new(peer as u32, mailbox, theirs[peer], keeps_order) };
        rank += 1;
        Side { device, lane, pair, coming: VecDeque::new() }
    })
}

fn memory() -> [Memory; 2] {
    let lines = (LENT + MAILBOX_BYTES).div_ceil(64);
    [(); 2].map(|()| (0..lines).map(|_| CacheLine([0; 8])).collect())
}

/// Plays a random schedule in which each side sends some hundreds of messages.
fn play(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let fabric = SimFabric::new(seed, 2, Model::drawn(seed));
    let mut memory = memory();
    let mut sides = sides(&fabric, &mut memory);
    let counts = [rng.usize(1..400), rng.usize(1..400)];
    let (mut sent, mut idle) = ([0; 2], 0);
    let mut waiting: [Option<Vec<u8>>; 2] = [None, None];
    while sides.iter().any(|side| !side.coming.is_empty()) || sent != counts {
        let at = rng.usize(..2);
        let moved = match rng.u32(..5) {
            0 | 1 if sent[at] < counts[at] => {
                let draw = || {
                    let length = rng.choice([0, 1, 8, 9, 500, MAIL_MAX]).unwrap();
                    (0..length).map(|_| rng.u8(..)).collect::<Vec<_>>()
                };
                // A message that was refused is sent again.
                let message = waiting[at].take().unwrap_or_else(draw);
                let is_sent = sides[at].send(&message).unwrap();
                if is_sent {
                    sent[at] += 1;
                    sides[1 - at].coming.push_back(message);
                } else {
                    waiting[at] = Some(message);
                }
                is_sent
            }
            2 => sides[at].receive(&mut rng),
            3 => {
                sides[at].acknowledge();
                sides[at].poll() > 0
            }
            _ => fabric.advance(),
        };
        idle = if moved { 0 } else { idle + 1 };
        assert!(idle < 10_000, "seed {seed}: nothing moves any more, {sent:?} of {counts:?}");
    }
    // No message came that was not sent.
    while fabric.advance() {}
    for side in &mut sides {
        assert_eq!(side.pair.receive(&mut []), Ok(None), "seed {seed}");
    }
}

#[test]
fn messages_arrive_whole_and_in_order() {
    traffic::seeds(1, 60).for_each(play);
}

/// A sender that is not heard stops when the mailbox is full, and goes on when there is room.
#[test]
fn a_full_mailbox_takes_no_message() {
    let fabric = SimFabric::new(1, 2, Model::drawn(1));
    let mut memory = memory();
    let mut sides = sides(&fabric, &mut memory);
    let drain = |sides: &mut [Side; 2]| {
        while fabric.advance() || sides.iter_mut().any(|side| side.poll() > 0) {}
    };
    let mut sent = 0_u64;
    for _ in 0..500 {
        if sides[0].send(&sent.to_ne_bytes()).unwrap() {
            sides[1].coming.push_back(sent.to_ne_bytes().into());
            sent += 1;
        }
        drain(&mut sides);
    }
    assert_eq!(sent, 64);
    let mut rng = Rng::with_seed(1);
    for _ in 0..32 {
        assert!(!sides[0].send(&[]).unwrap());
        assert!(sides[1].receive(&mut rng));
        sides[1].acknowledge();
        drain(&mut sides);
    }
    assert!(sides[0].send(&[]).unwrap());
}

#[test]
fn a_lane_that_breaks_is_reported() {
    let fabric = SimFabric::new(1, 2, Model::drawn(1));
    let mut memory = memory();
    let mut sides = sides(&fabric, &mut memory);
    fabric.kill(1);
    let error = loop {
        match sides[0].send(&[1; 100]) {
            Ok(_) => _ = (fabric.advance(), sides[0].poll()),
            Err(error) => break error,
        }
    };
    assert_eq!(error, MailError::Lane(LaneError::Failed(WorkError::Unreachable)));
}

/// More operations than a group has between nodes before its leaders get mailboxes.
const ENOUGH: usize = 20;

fn has_mailboxes(group: &Group<'_>) -> bool {
    format!("{group:?}").contains("mail: Ready")
}

/// Lengths in numbers of 8 bytes, around the longest message of a mailbox.
const LENGTHS: [usize; 9] = [0, 1, 2, 8, 50, 127, 128, 129, 3000];

/// Performs random operations in two groups of the same members, of which one has no mailboxes, and
/// compares.
fn agree(world: &World, seed: u64, count: usize) {
    let mut twins = Twins::new(world, seed);
    for _ in 0..count {
        let choose = |random: &mut Rng| random.usize(..=VECTOR_OPERATIONS);
        twins.compare(&LENGTHS, choose, |group, _, _, _| group.barrier().unwrap());
    }
    let mailed = &twins.tested;
    assert_eq!(has_mailboxes(mailed), leads(world, mailed), "{mailed:?}");
}

/// Returns whether this rank is the first member of its node.
fn leads(world: &World, group: &Group<'_>) -> bool {
    let is_here = |rank: &&u32| world.nodes().node_of(**rank) == Some(world.node());
    group.ranks().iter().find(is_here) == Some(&world.rank())
}

fn results_are_those_of_messages(name: &'static str, device: &'static str) {
    for (ranks, nodes) in [(2, 2), (3, 3), (5, 2), (4, 4)] {
        let job = Ranks::new(ranks, name).on_nodes(nodes).with("STRAIT_HCA", device);
        job.run(|world| {
            agree(&world, u64::from(ranks) * 10 + u64::from(nodes), 150);
            world.finalize().unwrap();
        });
    }
}

#[test]
fn results_are_those_of_messages_by_the_poster() {
    results_are_those_of_messages("results_are_those_of_messages_by_the_poster", "soft-inline");
}

#[test]
fn results_are_those_of_messages_by_an_engine() {
    results_are_those_of_messages("results_are_those_of_messages_by_an_engine", "soft-engine");
}

#[test]
fn results_are_those_of_messages_without_acknowledgements() {
    let name = "results_are_those_of_messages_without_acknowledgements";
    results_are_those_of_messages(name, "soft-iwarp");
}

/// A root that sends to members of other nodes runs ahead of them until their mailboxes are full.
#[test]
fn a_root_that_is_ahead_overwrites_nothing() {
    let job = Ranks::new(3, "a_root_that_is_ahead_overwrites_nothing").on_nodes(3);
    job.run(|world| {
        let group = with_mailboxes(&world, 1);
        for length in [1_usize, 128] {
            for round in 0..300 {
                let mut data = vec![if group.place() == 0 { round } else { u64::MAX }; length];
                group.broadcast(&mut data, 0).unwrap();
                assert_eq!(data, vec![round; length]);
                if round % 140 == 10 * u64::from(group.place()) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        drop(group);
        world.finalize().unwrap();
    });
}

/// Leaders that sleep wake up for a message, though no device makes an event for it.
#[test]
fn a_leader_that_sleeps_gets_its_message() {
    let job = Ranks::new(2, "a_leader_that_sleeps_gets_its_message").on_nodes(2);
    job.run(|world| {
        let group = with_mailboxes(&world, 1);
        for round in 0..6 {
            if round % 2 == world.rank() {
                std::thread::sleep(Duration::from_millis(100));
            }
            group.barrier().unwrap();
        }
        drop(group);
        world.finalize().unwrap();
    });
}

#[test]
fn lengths_that_differ_are_named_and_the_group_goes_on() {
    let job = Ranks::new(2, "lengths_that_differ_are_named_and_the_group_goes_on").on_nodes(2);
    job.run(|world| {
        let group = with_mailboxes(&world, 1);
        for _ in 0..40 {
            let mut data = vec![1_u8; if group.place() == 1 { 100 } else { 10 }];
            let outcome = group.broadcast(&mut data, 0);
            if group.place() == 1 {
                let expected = CollectiveError::Length { rank: 0, found: 10, expected: 100 };
                let error = outcome.unwrap_err();
                assert!(matches!(error, Error::Collective(found) if found == expected), "{error}");
            } else {
                outcome.unwrap();
            }
            let mut sum = [group.place() + 1];
            group.allreduce(&mut sum, Op::Sum).unwrap();
            assert_eq!(sum, [3]);
        }
        drop(group);
        world.finalize().unwrap();
    });
}

/// A rank has mailboxes for some groups at a time. Others use messages, and get them later.
#[test]
fn mailboxes_serve_some_groups_and_are_given_back() {
    let job = Ranks::new(2, "mailboxes_serve_some_groups_and_are_given_back").on_nodes(2);
    job.run(|world| {
        let use_it = |context| {
            let group = world.endpoint().with_context(context).everyone();
            for round in 0..2 * ENOUGH as u64 {
                let mut sum = [u64::from(group.place()) + round];
                group.allreduce(&mut sum, Op::Sum).unwrap();
                assert_eq!(sum, [1 + 2 * round]);
            }
            group
        };
        for context in 0..100 {
            assert!(has_mailboxes(&use_it(context)), "group {context}");
        }
        let groups: Vec<_> = (0..6).map(use_it).collect();
        assert_eq!(groups.iter().filter(|group| has_mailboxes(group)).count(), 4);
        drop(groups);
        let group = use_it(0);
        assert!(has_mailboxes(&group));
        drop(group);
        world.finalize().unwrap();
    });
}

/// Makes a group of all ranks of which the leaders have mailboxes.
fn with_mailboxes(world: &World, context: u32) -> Group<'_> {
    let group = world.endpoint().with_context(context).everyone();
    for _ in 0..ENOUGH {
        group.barrier().unwrap();
    }
    assert_eq!(has_mailboxes(&group), leads(world, &group), "{group:?}");
    group
}

/// Performs operations until the last rank dies before or after one of them. The survivors learn of
/// it, and later operations fail, too.
fn survive(name: &'static str, device: &'static str) {
    const RANKS: u32 = 4;
    const VICTIM: u32 = RANKS - 1;
    for (seed, nodes) in [(1, 4), (2, 2), (3, 4), (4, 2), (5, 4), (6, 4)] {
        let job = Ranks::new(RANKS, name).on_nodes(nodes).with("STRAIT_HCA", device);
        // Without a launcher that reports deaths, the links show them.
        let job = if seed % 3 == 0 { job.by_pmi() } else { job };
        job.with_deaths(&[VICTIM]).within(Duration::from_secs(30)).run(|world| {
            let mut random = Rng::with_seed(seed);
            // Some die while the leaders open their mailboxes, some in the middle of an operation.
            let last = if seed % 2 == 0 { random.u32(..60) } else { u32::MAX };
            if world.rank() == VICTIM && last == u32::MAX {
                let after = Duration::from_micros(fastrand::u64(..20_000));
                std::thread::spawn(move || {
                    std::thread::sleep(after);
                    die();
                });
            }
            let group = world.endpoint().with_context(1).everyone();
            let again = |operation: u32, root: u32| match operation {
                0 => group.broadcast(&mut [1_u64; 100], root),
                1 => group.reduce(&mut [1_u64; 20], Op::Sum, root),
                2 => group.allreduce(&mut [1_u64; 20], Op::Sum),
                _ => group.barrier(),
            };
            for round in 0.. {
                if world.rank() == VICTIM && round == last {
                    report("dying");
                    die();
                }
                let (operation, root) = (random.u32(..4), random.u32(..RANKS));
                let Err(error) = again(operation, root) else { continue };
                report(&error);
                assert_eq!(error.gone_peer(), Some(VICTIM), "{error:?}");
                break;
            }
            for operation in 0..4 {
                assert_eq!(again(operation, 0).unwrap_err().gone_peer(), Some(VICTIM));
            }
            // A rank that waits for one that has left would report that instead.
            let survivors = world.endpoint().with_context(2).group(&[0, 1, 2]);
            survivors.into_iter().for_each(|survivors| survivors.barrier().unwrap());
            drop(group);
            world.finalize().unwrap();
        });
    }
}

#[test]
fn a_death_ends_operations_by_the_poster() {
    survive("a_death_ends_operations_by_the_poster", "soft-inline");
}

#[test]
fn a_death_ends_operations_by_an_engine() {
    survive("a_death_ends_operations_by_an_engine", "soft-engine");
}

#[test]
fn a_death_ends_operations_without_acknowledgements() {
    survive("a_death_ends_operations_without_acknowledgements", "soft-iwarp");
}
