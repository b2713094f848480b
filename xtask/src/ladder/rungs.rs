//! The rungs, and what may run beside each.

/// What a rung has beside it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Lane {
    /// It runs jobs of processes that wait for each other, or a virtual machine. A second rung of
    /// this kind would take the processors from ranks that spin.
    Jobs,
    /// It compiles, interprets, or runs programs of one process.
    Computation,
}

/// A command that proves something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rung {
    pub(super) name: &'static str,
    /// The words after `cargo xtask`.
    pub(super) command: &'static str,
    pub(super) lane: Lane,
    pub(super) proves: &'static str,
    /// Whether it needs what [`fetch`](crate::fetch) downloads.
    pub(super) downloads: bool,
}

const fn rung(lane: Lane, name: &'static str, proves: &'static str) -> Rung {
    Rung { name, command: name, lane, proves, downloads: false }
}

/// Every rung, in the order in which its lane runs it.
///
/// `ffi`, `icount` and `library` use the same files of `target/library`, so they are in one lane.
pub(super) const RUNGS: [Rung; 19] = [
    rung(Lane::Jobs, "unit", "every native test"),
    rung(Lane::Jobs, "launchers", "programs start under launchers that know nothing of Strait"),
    Rung { downloads: true, ..rung(Lane::Jobs, "mpi", "other MPIs run on Strait, unmodified") },
    rung(
        Lane::Jobs,
        "figures",
        "the papers' figures are made, and the page has those in virtual time",
    ),
    Rung {
        // The limit of three minutes for a job allows for slow machines.
        command: "chaos --seconds 60 --limit 180",
        ..rung(Lane::Jobs, "chaos", "survivors of any death go on, with all their data")
    },
    Rung { downloads: true, ..rung(Lane::Jobs, "vm", "real libibverbs, in a virtual machine") },
    rung(Lane::Jobs, "sanitize", "no memory errors"),
    // These two have a target directory of their own. So they compile while `unit` does.
    rung(Lane::Computation, "loom", "the atomic algorithms, interleaving by interleaving"),
    rung(Lane::Computation, "mutants", "every memory ordering is needed"),
    rung(Lane::Computation, "check", "formatting, lints, documentation, tidy"),
    rung(Lane::Computation, "no-std", "the core needs no system and no allocator"),
    rung(Lane::Computation, "bare", "the core works without a system"),
    rung(Lane::Computation, "library", "the C library is linked as promised"),
    rung(Lane::Computation, "ffi", "the C interface, from C and C++"),
    Rung { downloads: true, ..rung(Lane::Computation, "icount", "instructions per operation") },
    rung(Lane::Computation, "miri", "the core has no undefined behaviour"),
    rung(Lane::Computation, "fuzz", "no bytes of another process do harm"),
    // Its ranks are threads of one process, and most of the time is that of the compiler.
    rung(Lane::Computation, "races", "no races between threads"),
    rung(Lane::Computation, "package", "the published crates are whole, and old Rust builds them"),
];

/// The rungs of the inner loop, without the parts that take long.
pub(super) const QUICK: [Rung; 2] = [
    Rung {
        command: "unit --quick",
        ..rung(Lane::Jobs, "unit", "the tests of every crate, and messages between processes")
    },
    Rung {
        command: "check --quick",
        ..rung(Lane::Computation, "check", "formatting, lints, tidy")
    },
];
