//! System calls that containers refuse: the launcher works without them, or reports which call is
//! refused and the remedy.
#![cfg(target_arch = "x86_64")]

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::thread;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use strait::World;
use strait::boot::Launch;

const SYS_FALLOCATE: i64 = 285;
const SYS_MEMFD_CREATE: i64 = 319;
const SYS_PIDFD_OPEN: i64 = 434;

const NOT_PERMITTED: u32 = 1;

/// Runs `body` in a thread for which the system call with this number is refused, also in the
/// processes that it starts.
fn without<R: Send>(call: i64, body: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let refusing = scope.spawn(|| {
            let rules = BTreeMap::from([(call, Vec::new())]);
            let refuse = SeccompAction::Errno(NOT_PERMITTED);
            let target = ARCH.try_into().unwrap();
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, target).unwrap();
            seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
            body()
        });
        refusing.join().unwrap()
    })
}

fn shell(ranks: u32, script: &str) -> Launch {
    Launch { args: ["-c", script].map(Into::into).to_vec(), ..Launch::new(ranks, "sh") }
}

#[test]
fn a_launcher_without_pidfds_follows_its_ranks_to_their_end() {
    without(SYS_PIDFD_OPEN, || {
        for label in [false, true] {
            let job = Launch { label, ..shell(3, "true") };
            let outcome = job.spawn().unwrap().wait().unwrap();
            assert!(outcome.success(), "{outcome}");
            // Rank 1 fails, and the others would never end.
            let job = Launch { label, ..shell(3, "test $STRAIT_RANK = 1 && exit 3; sleep 1000") };
            let outcome = job.spawn().unwrap().wait().unwrap();
            assert_eq!(outcome.code(), 3, "{outcome}");
            assert_eq!(outcome.exits().len(), 3);
        }
    });
}

#[test]
fn a_refused_call_is_named_with_its_likely_cause() {
    for (call, name) in [(SYS_MEMFD_CREATE, "memfd_create"), (SYS_FALLOCATE, "fallocate")] {
        let errors = without(call, || {
            [
                shell(2, "true").spawn().map(drop).unwrap_err().to_string(),
                World::in_process(2).map(drop).unwrap_err().to_string(),
            ]
        });
        for error in errors {
            assert!(error.contains(name) && error.contains("seccomp"), "{error}");
            assert!(!error.contains("memory is short"), "{error}");
            assert_eq!(error.matches("Operation not permitted").count(), 1, "{error}");
        }
    }
}
