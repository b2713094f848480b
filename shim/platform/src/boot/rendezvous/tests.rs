//! Registries in directories that belong to the tests.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::boot::registry::UniverseEntry;

const SHORT: Duration = Duration::from_millis(20);

fn entry(nonce: u64) -> UniverseEntry {
    UniverseEntry { key: "test".into(), process: std::process::id(), nonce }
}

fn open_in(parent: &Path) -> Result<LockedRegistry, BootError> {
    LockedRegistry::open_in(temporary(parent.into()), SHORT)
}

#[test]
fn what_is_written_is_read_by_the_next_and_an_empty_registry_leaves_no_file() {
    let parent = tempfile::tempdir().unwrap();
    let mut first = open_in(parent.path()).unwrap();
    first.registry.entries.extend([entry(1), entry(2)]);
    first.close().unwrap();
    let mut second = open_in(parent.path()).unwrap();
    assert_eq!(second.registry.entries, [entry(1), entry(2)]);
    second.registry.entries.remove(0);
    second.close().unwrap();
    let mut third = open_in(parent.path()).unwrap();
    assert_eq!(third.registry.entries, [entry(2)]);
    third.registry.entries.clear();
    third.close().unwrap();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_lock_that_is_kept_is_an_error_and_no_hang() {
    let parent = tempfile::tempdir().unwrap();
    let held = open_in(parent.path()).unwrap();
    let error = open_in(parent.path()).unwrap_err();
    assert!(matches!(error, BootError::RendezvousHeld { .. }), "{error}");
    assert!(error.to_string().contains("fuser"), "{error}");
    drop(held);
    open_in(parent.path()).unwrap();
}

/// Another user can make any name in the directory for temporary files before its user does.
#[test]
fn names_that_were_taken_are_passed_over() {
    let parent = tempfile::tempdir().unwrap();
    let names: Vec<_> = temporary(parent.path().into()).take(4).collect();
    fs::write(&names[0], "a file").unwrap();
    symlink("/", &names[1]).unwrap();
    fs::create_dir(&names[2]).unwrap();
    fs::set_permissions(&names[2], fs::Permissions::from_mode(0o777)).unwrap();
    let open = open_in(parent.path()).unwrap();
    assert_eq!(open.path.parent(), Some(&*names[3]));
}

#[test]
fn without_a_directory_the_error_lists_the_attempts() {
    let parent = tempfile::tempdir().unwrap();
    let error = open_in(&parent.path().join("absent")).unwrap_err().to_string();
    assert!(error.contains("absent") && error.contains("XDG_RUNTIME_DIR"), "{error}");
}

#[test]
fn a_registry_of_nonsense_is_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let mut first = open_in(parent.path()).unwrap();
    let path = first.path.clone();
    first.registry.entries.push(entry(1));
    first.close().unwrap();
    fs::write(&path, [0xff; 5000]).unwrap();
    let mut second = open_in(parent.path()).unwrap();
    assert_eq!(second.registry.entries, []);
    second.registry.entries.push(entry(2));
    second.close().unwrap();
    assert_eq!(fs::read(&path).unwrap(), UniverseRegistry { entries: vec![entry(2)] }.to_bytes());
}

#[test]
fn directories_and_files_of_other_users_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let open = open_in(parent.path()).unwrap();
    let [directory, file] = [open.path.parent().unwrap(), &open.path].map(fs::metadata);
    let (directory, file) = (directory.unwrap(), file.unwrap());
    let other = user().wrapping_add(1);
    check_directory(&directory, user()).unwrap();
    check_file(&file, user()).unwrap();
    assert!(check_directory(&directory, other).is_err() && check_file(&file, other).is_err());
    assert!(check_directory(&file, user()).is_err() && check_file(&directory, user()).is_err());
}

/// The registry and its directory may be removed between any two steps.
#[test]
fn a_registry_that_is_removed_by_its_last_user_is_made_again() {
    let parent = tempfile::tempdir().unwrap();
    let stale = open_in(parent.path()).unwrap();
    let path = stale.path.clone();
    // Another process has removed the file, and this one still has the lock on it.
    fs::remove_file(&path).unwrap();
    let mut new = open_in(parent.path()).unwrap();
    new.registry.entries.push(entry(1));
    new.close().unwrap();
    drop(stale);
    assert_eq!(open_in(parent.path()).unwrap().registry.entries, [entry(1)]);
}

#[test]
fn processes_that_come_and_go_at_once_lose_no_entry() {
    const TIMES: u64 = 25;
    let parent = tempfile::tempdir().unwrap();
    let open = || LockedRegistry::open_in(temporary(parent.path().into()), TIMEOUT).unwrap();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let come_and_go = move |nonce| {
                let mut here = open();
                here.registry.entries.push(entry(nonce));
                here.close().unwrap();
                let mut here = open();
                let before = here.registry.entries.len();
                here.registry.entries.retain(|found| *found != entry(nonce));
                assert_eq!(here.registry.entries.len(), before - 1, "its entry was lost");
                here.close().unwrap();
            };
            scope.spawn(move || (0..TIMES).for_each(|time| come_and_go(number * TIMES + time)));
        }
    });
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "the last has removed it");
}

#[test]
fn a_registry_that_is_no_file_is_an_error() {
    for make in [|path: &Path| fs::create_dir(path), |path: &Path| symlink("/dev/null", path)] {
        let parent = tempfile::tempdir().unwrap();
        let path = open_in(parent.path()).unwrap().path.clone();
        fs::remove_file(&path).unwrap();
        make(&path).unwrap();
        let directory = path.parent().unwrap().to_owned();
        let error = LockedRegistry::open_in([directory].into_iter(), SHORT).unwrap_err();
        assert!(matches!(error, BootError::NoRendezvous { .. }), "{error}");
    }
}

#[test]
fn a_registry_longer_than_the_limit_is_read_up_to_it() {
    let parent = tempfile::tempdir().unwrap();
    let path = open_in(parent.path()).unwrap().path.clone();
    let line = UniverseRegistry { entries: vec![entry(7)] }.to_bytes();
    fs::write(&path, line.repeat(LONGEST / line.len() + 9)).unwrap();
    let open = open_in(parent.path()).unwrap();
    assert_eq!(open.registry.entries.len(), LONGEST / line.len());
}
