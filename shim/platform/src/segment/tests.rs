use super::pair_lines::PairLines;
use super::*;
use strait_core::layout::{AttachError, Life, PlanError};
use strait_core::shm::{FastboxReceiver, FastboxSender};
use strait_core::wire::{Key, PacketKind, Sequence};

const NONCE: u64 = 0x5eed;

fn small() -> SegmentConfig {
    SegmentConfig { cells_per_rank: 4, cell_payload: 1024, ..SegmentConfig::new(2) }
}

fn duplicate(map: &SegmentMap) -> OwnedFd {
    map.fd().try_clone_to_owned().unwrap()
}

#[test]
fn two_mappings_show_the_same_memory() {
    let made = SegmentMap::create(small(), NONCE).unwrap();
    let attached = SegmentMap::attach(duplicate(&made), NONCE, 1).unwrap();
    assert_eq!(made.view().plan(), attached.view().plan());

    let (ours, theirs) = (made.view(), attached.view());
    assert_eq!(theirs.rank_block(1).liveness.state(), Life::Unborn);
    ours.rank_block(1).liveness.attach(77, 88);
    assert_eq!(theirs.rank_block(1).liveness.state(), Life::Alive);
    assert_eq!(theirs.rank_block(1).liveness.process(), (77, 88));
}

#[test]
fn what_is_touched_is_backed_first() {
    let map = SegmentMap::create(small(), NONCE).unwrap();
    let plan = *map.view().plan();
    assert_eq!(map.backed_bytes(), plan.resident_bytes());
    map.back_fastbox(0, 1).unwrap();
    map.back_fastbox(0, 1).unwrap();
    assert_eq!(map.backed_bytes(), plan.bytes_with_active_pairs(1));
}

#[test]
fn the_length_cannot_change() {
    let map = SegmentMap::create(small(), NONCE).unwrap();
    let length = map.length() as u64;
    assert_eq!(rustix::fs::ftruncate(map.fd(), length - 4096), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(map.fd(), length + 4096), Err(Errno::PERM));
}

#[test]
fn an_absurd_size_is_an_error_with_the_remedy() {
    let petabytes =
        SegmentConfig { cells_per_rank: 1 << 20, cell_payload: 1 << 24, ..SegmentConfig::new(256) };
    let error = SegmentMap::create(petabytes, NONCE).unwrap_err();
    assert!(matches!(error, SegmentError::NoMemory { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("MiB needed") && text.contains("MiB available"), "{text}");
    assert!(text.contains("256 ranks") && text.contains("fewer or smaller cells"), "{text}");

    let no_ranks = SegmentMap::create(SegmentConfig::new(0), NONCE).unwrap_err();
    assert_eq!(no_ranks, SegmentError::Plan(PlanError::NoRanks));
}

#[test]
fn a_foreign_file_is_refused() {
    let map = SegmentMap::create(small(), NONCE).unwrap();
    let refused = |file, nonce, rank| SegmentMap::attach(file, nonce, rank).unwrap_err();
    assert_eq!(
        refused(duplicate(&map), NONCE + 1, 0),
        SegmentError::Attach(AttachError::Nonce { found: NONCE, expected: NONCE + 1 })
    );
    assert_eq!(
        refused(duplicate(&map), NONCE, 2),
        SegmentError::Attach(AttachError::Rank { rank: 2, ranks: 2 })
    );

    let open = rustix::fs::memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap();
    assert_eq!(refused(open, NONCE, 0), SegmentError::NotSealed);

    let zeros = rustix::fs::memfd_create("zeros", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&zeros, 4096).unwrap();
    rustix::fs::fcntl_add_seals(&zeros, SealFlags::SHRINK).unwrap();
    let no_header = SegmentError::Attach(AttachError::Magic { found: 0 });
    assert_eq!(refused(zeros, NONCE, 0), no_header);

    let pipe = rustix::pipe::pipe().unwrap().0;
    assert_eq!(refused(pipe, NONCE, 0), SegmentError::NotSealed);
}

#[test]
fn the_mapping_may_be_used_by_many_threads() {
    let map = SegmentMap::create(small(), NONCE).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| map.rank_block(0).liveness.end(Life::Finished));
    });
    assert_eq!(map.rank_block(0).liveness.state(), Life::Finished);
}

#[test]
fn the_lines_of_a_fastbox_are_counted_from_outside() {
    let map = SegmentMap::create(small(), NONCE).unwrap();
    let backed = map.backed_bytes();
    let idle = PairLines { latest: [0; 2], fastbox_lines: [Some(0); 2] };
    assert_eq!((map.pair_lines(0, 1), map.backed_bytes()), (idle, backed));

    map.back_fastbox(0, 1).unwrap();
    let mut sender = FastboxSender::new(map.view().fastbox(1, 0));
    let mut receiver = FastboxReceiver::new(map.view().fastbox(1, 0));
    for packet in 0..100 {
        let mut sequence = Sequence::first(1, 0);
        sequence += packet;
        // Two lines each.
        let key = Key::new(0, 7);
        assert_eq!(sender.send(sequence, PacketKind::Eager, key, 60, |_, _, _| ()), Ok(true));
        receiver.release(receiver.peek(sequence).unwrap().length());
    }
    let seen = PairLines { latest: [0, 100], fastbox_lines: [Some(0), Some(200)] };
    assert_eq!(map.pair_lines(0, 1), seen);
}

#[test]
fn lines_with_garbage_are_not_counted() {
    let map = SegmentMap::create(small(), NONCE).unwrap();
    map.back_fastbox(0, 1).unwrap();
    let (offset, length) = map.view().plan().pair_range(0, 1);
    for byte in [0xff, 0xa5, 0x01] {
        map.view_file().write_all_at(&vec![byte; length], offset as u64).unwrap();
        assert_eq!(map.pair_lines(0, 1).fastbox_lines, [None; 2], "{byte:#x}");
    }
}
