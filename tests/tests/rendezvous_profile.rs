//! A run that follows the profile of an earlier one (`[SpecRndv09]` §3.6, static adaptation).

use std::path::{Path, PathBuf};
use std::{env, fs};

use strait::{Error, ErrorKind, Rtrs, World};
use strait_core::rndv::{SAMPLES, USAGE_MIN};
use strait_tests::{Ranks, payload};

/// A length, in bytes, above that of eager messages and of messages through the ring.
const LARGE: usize = 600_000;

/// The tag of an envelope in which every second message is short, so that its RTR is missed.
const WASTED: u32 = 2;

/// The tag of an envelope in which every message is large.
const USED: u32 = 3;

/// Number of messages of each envelope.
const MESSAGES: u64 = 12;

/// Number of unused RTRs that stop an envelope.
const TOO_MANY: u64 = (SAMPLES * (100 - USAGE_MIN) / 100 + 1) as u64;

const IN: &str = "STRAIT_RENDEZVOUS_PROFILE";
const OUT: &str = "STRAIT_RENDEZVOUS_PROFILE_OUT";

/// Returns the directory of a profile. The runs of a test share it, and the next test run replaces
/// its files.
fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Sends one message from rank 0 to rank 1, which has posted its receive before.
fn meet(world: &World, tag: u32, length: usize) {
    let endpoint = world.endpoint();
    if world.rank() == 0 {
        endpoint.recv(&mut [0_u8], 1, 1).unwrap();
        return endpoint.send(&payload::of(7, length), 1, tag).unwrap();
    }
    let mut bytes = vec![0; LARGE];
    endpoint.scope(|scope| {
        let receive = scope.irecv(&mut bytes, 0, tag).unwrap();
        endpoint.send(&[0_u8], 0, 1).unwrap();
        assert_eq!(receive.wait().unwrap().bytes, length);
    });
    assert_eq!(payload::first_difference(7, &bytes[..length]), None);
}

fn all_messages(world: &World) {
    for number in 0..MESSAGES {
        meet(world, USED, LARGE);
        meet(world, WASTED, if number % 2 == 0 { LARGE } else { 8 });
    }
}

#[test]
fn a_second_run_wastes_no_rtr_and_uses_one_for_each_first_message() {
    let name = "a_second_run_wastes_no_rtr_and_uses_one_for_each_first_message";
    for nodes in [1, 2] {
        for variable in [OUT, IN] {
            let path = directory(&format!("profile.of.{nodes}"));
            let job = Ranks::new(2, name).on_nodes(nodes).with(variable, path.display());
            job.run(|world| {
                all_messages(&world);
                let (missed, first) = match env::var_os(IN) {
                    None => (TOO_MANY, 0),
                    Some(_) => (0, 1),
                };
                let used = MESSAGES - 1 + first;
                let Rtrs { sent, missed: wasted, used: by, .. } = world.rtrs();
                let expected =
                    if world.rank() == 1 { [used + missed, missed, 0] } else { [0, 0, used] };
                assert_eq!([sent, wasted, by], expected);
                world.finalize().unwrap();
            });
        }
    }
}

/// Writes a profile of two ranks, of which only rank `with` has the envelope.
fn write_profile_of_one_side(directory: &Path, with: usize) {
    fs::create_dir_all(directory).unwrap();
    for (rank, side) in ["sender", "receiver"].into_iter().enumerate() {
        let mut lines = format!("strait rendezvous profile 1: rank {rank} of 2\n");
        if rank == with {
            lines += &format!("{side} {} 0 {USED} 9 9\n", 1 - rank);
        }
        fs::write(directory.join(format!("rank.{rank}")), lines).unwrap();
    }
}

/// Without the profile, the sender drops the RTRs of a receiver that asks for a first message.
#[test]
fn ranks_without_the_same_profile_communicate() {
    let name = "ranks_without_the_same_profile_communicate";
    for nodes in [1, 2] {
        let path = directory(&format!("profile.of.one.side.{nodes}"));
        for with in [0, 1] {
            // The ranks run this function, too.
            if env::var_os("STRAIT_TEST_DIRECTORY").is_none() {
                write_profile_of_one_side(&path, with);
            }
            let job = Ranks::new(2, name).on_nodes(nodes).with(IN, path.display());
            job.with("STRAIT_TEST_SIDE", with).run(|world| {
                // The short message takes the first receive. The sender must not write the next
                // one into the buffer of that receive, or of a later one.
                meet(&world, USED, 8);
                (0..4).for_each(|_| meet(&world, USED, LARGE));
                let asked_first = env::var("STRAIT_TEST_SIDE").unwrap() == "1";
                let missed = u64::from(asked_first && world.rank() == 1);
                assert_eq!(world.rtrs().missed, missed);
                world.finalize().unwrap();
            });
        }
    }
}

#[test]
fn a_profile_with_a_wrong_line_starts_nothing() {
    Ranks::new(1, "a_profile_with_a_wrong_line_starts_nothing").run(|world| {
        let path = PathBuf::from(env::var_os("STRAIT_TEST_DIRECTORY").unwrap());
        let file = path.join("rank.0");
        let lines = "strait rendezvous profile 1: rank 0 of 1\nsender 0 0 seven 1 1\n";
        fs::write(&file, lines).unwrap();
        // SAFETY: the process of a rank has no other thread that reads the environment.
        unsafe { env::set_var(IN, &path) };
        let error = World::in_process(1).unwrap_err();
        assert!(matches!(error, Error::Profile(_)));
        assert_eq!(error.kind(), ErrorKind::Environment);
        let cause = "the tag is \"seven\"; expected a number";
        let expected = format!("rendezvous profile {}, line 2: {cause}", file.display());
        assert_eq!(error.to_string(), expected);
        // The program's choice is refused for the same line. A user's choice wins over it.
        let by_program = || World::builder().rendezvous_profile(&path).in_process(1);
        // SAFETY: as above.
        unsafe { env::remove_var(IN) };
        assert_eq!(by_program().unwrap_err().to_string(), expected);
        let other = path.join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("rank.0"), "strait rendezvous profile 1: rank 0 of 1\n").unwrap();
        // SAFETY: as above.
        unsafe { env::set_var(IN, &other) };
        assert_eq!(by_program().unwrap().len(), 1);
        world.finalize().unwrap();
    });
}
