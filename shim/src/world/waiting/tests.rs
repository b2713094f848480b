//! Ranks on several nodes that sleep until they are woken: here a sleep that nobody ends lasts an hour.

use core::cell::Cell;
use core::time::Duration;
use std::sync::{Arc, mpsc};
use std::thread;

use strait_core::layout::{Call, Config, Wait};
use strait_core::ring::Design;

use crate::hca::Choice;
use crate::hca::soft::Mode;
use crate::patience::Spin;
use crate::{Nodes, World};

/// Ranks, two on each node.
const RANKS: u32 = 4;

/// Runs `rank` in each world of a job whose ranks sleep at once, and until they are woken.
fn sleepers(mode: Mode, design: Design, rank: fn(&World)) {
    let nodes = Nodes::blocks(RANKS, 2).unwrap();
    let kind = (Choice::Soft(mode), design);
    let worlds = World::in_process_by(kind, Config::new(RANKS), &nodes).unwrap();
    let (done, all) = mpsc::channel();
    for mut world in worlds {
        world.spin = Spin::none();
        Arc::get_mut(&mut world.turns).unwrap().place.sleep.for_ever();
        let done = done.clone();
        thread::spawn(move || {
            rank(&world);
            let slept = world.turns.place.sleep.count();
            world.finalize().unwrap();
            done.send(slept).unwrap();
        });
    }
    let slept = (0..RANKS).map(|_| all.recv_timeout(Duration::from_secs(60)));
    let slept: Vec<u32> = slept.map(|slept| slept.expect("everybody to be woken")).collect();
    assert!(slept.iter().sum::<u32>() >= 10, "{design:?}, {mode:?}: {slept:?}");
}

/// A token goes round, short and long in turn; whoever has it lets the others fall asleep.
fn pass_round(world: &World) {
    const ROUNDS: u8 = 20;
    let (endpoint, me) = (world.endpoint(), world.rank());
    let mut token = vec![0; 200_000];
    for round in 0..ROUNDS {
        let length = if round % 4 == 3 { token.len() } else { 8 };
        if me > 0 || round > 0 {
            let expected = if me == 0 { round - 1 } else { round };
            endpoint.recv(&mut token, (me + RANKS - 1) % RANKS, 1).unwrap();
            assert_eq!(token[7], expected);
        }
        thread::sleep(Duration::from_micros(300));
        if me + 1 < RANKS || round + 1 < ROUNDS {
            token[7] = round;
            endpoint.send(&token[..length], (me + 1) % RANKS, 1).unwrap();
        }
    }
}

/// All send to all at once, more than there is room for, and only then receive.
fn flood(world: &World) {
    const COUNT: u32 = 300;
    let (endpoint, me) = (world.endpoint(), world.rank());
    let others = || (0..RANKS).filter(|other| *other != me);
    endpoint.scope(|scope| {
        let data = [7_u8; 5000];
        let data = &*Box::leak(Box::new(data));
        let sends: Vec<_> = others()
            .flat_map(|other| (0..COUNT).map(move |_| other))
            .map(|other| scope.isend(data, other, 2).unwrap())
            .collect();
        let mut room = [0_u8; 5000];
        for _ in 0..COUNT * (RANKS - 1) {
            endpoint.recv(&mut room, crate::ANY_SOURCE, 2).unwrap();
        }
        for send in sends {
            send.wait().unwrap();
        }
    });
    endpoint.barrier().unwrap();
}

#[test]
fn ranks_on_nodes_are_woken() {
    for mode in Mode::ALL {
        Design::ALL.into_iter().for_each(|design| sleepers(mode, design, pass_round));
    }
}

#[test]
fn ranks_on_nodes_are_woken_for_room() {
    for mode in Mode::ALL {
        Design::ALL.into_iter().for_each(|design| sleepers(mode, design, flood));
    }
}

/// Rank 0 of two, the other of which is dead, and something that moves in each progress call: a message to itself.
fn busy_beside_the_dead() -> (World, impl Fn(&World) -> bool) {
    const LOOKS: u32 = 2_000_000;
    let mut worlds = World::in_process(2).unwrap();
    drop(worlds.pop());
    let world = worlds.pop().unwrap();
    let looks = Cell::new(0);
    let knows = move |world: &World| {
        looks.set(looks.get() + 1);
        assert!(looks.get() < LOOKS, "the dead are not looked for while something moves");
        let endpoint = world.endpoint();
        if looks.get() > 1 {
            endpoint.recv(&mut [0_u8; 8], 0, 1).unwrap();
        }
        endpoint.send(&[1_u8; 8], 0, 1).unwrap();
        world.turn().gone(1).is_some()
    };
    (world, knows)
}

#[test]
fn a_wait_in_which_something_always_moves_learns_of_an_end() {
    let (world, knows) = busy_beside_the_dead();
    world.wait_until(|| Wait::new(Call::Request), || knows(&world).then_some(())).unwrap();
}

#[test]
fn calls_that_do_not_wait_and_always_move_something_learn_of_an_end() {
    let (world, knows) = busy_beside_the_dead();
    while !knows(&world) {
        world.poll().unwrap();
    }
}
