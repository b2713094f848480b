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
