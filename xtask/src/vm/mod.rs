//! `cargo xtask vm`: runs libibverbs in a small virtual machine with the kernel's soft RDMA
//! drivers.
//!
//! The guest needs no installation and no privileges: Debian's packages are downloaded once and
//! unpacked, and QEMU emulates the processor. All files lie in `target/vm`.

mod hosts;
mod image;
mod machine;
mod packages;
mod repeat;
mod siw;

use std::path::PathBuf;

use image::Image;
use machine::Task;
pub(crate) use repeat::{Repeat, run as repeat};

use crate::mpi;
use crate::setup::{self, Tool};
use crate::shell::{self, Shell, Step};
use crate::stop::{self, Absence, Stop};

/// Tests of the devices, and of whole jobs.
const DEVICES: &str = include_str!("devices");
/// Tests of a job that another launcher starts.
const LAUNCHED: &str = include_str!("launched");
/// The script before a line of `--run`.
const BEFORE_LINE: &str = include_str!("before_line");

/// The kinds of devices that the guest may have.
pub(crate) const KINDS: [&str; 2] = ["rxe", "siw"];

/// Runs `cargo xtask vm`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    let Guest { folder, image, siw } = guest(shell)?;
    // The tests of the code that only this feature compiles.
    verbs(shell, "test -p strait-hca --lib").arg("verbs").run()?;
    let mut programs = programs(shell)?;
    let mut script = [DEVICES, LAUNCHED].concat();
    let mpich = hosts::programs(shell).map(|more| {
        programs.extend(more);
        script += hosts::SCRIPT;
    });
    script += "\npart end\n";
    let boot = |device| {
        let task = Task::new(device, &script, &programs);
        let said = machine::boot(shell, &folder, &image, &task)?;
        match passed(&said) {
            0 => Err(Stop::Failed(format!("no test ran; output of the guest:\n{said}"))),
            passed => {
                eprintln!("vm: {device}: {passed} tests passed; {}", times(&said));
                Ok(())
            }
        }
    };
    let [rxe, iwarp] = KINDS;
    let booted = boot(rxe);
    let siw = siw.map_err(not_built).and_then(|_| boot(iwarp));
    stop::all(vec![(rxe, booted), (iwarp, siw), ("MPICH on two hosts", mpich)])
}

/// Downloads the parts of the guest, and builds those that are built from them.
pub(crate) fn fetch(shell: &Shell) -> Result<(), Stop> {
    guest(shell).map(drop)
}

/// Runs `cargo xtask vm --run LINE`: prints the guest's output of a line of shell. The guest has
/// devices of this kind.
pub(crate) fn run_line(shell: &Shell, device: &str, line: &str) -> Result<(), Stop> {
    let Guest { folder, image, siw } = guest(shell)?;
    if device == KINDS[1] {
        siw?;
    }
    let programs = [("strait", program(shell, "build --release -p strait-cli --bin strait")?)];
    let script = format!("{BEFORE_LINE}\n{line}");
    let task = Task::new(device, &script, &programs);
    machine::boot(shell, &folder, &image, &task).map(|said| print!("{said}"))
}

/// The parts of a guest.
struct Guest {
    folder: PathBuf,
    image: Image,
    /// The driver of soft iWARP, or the reason why there is none.
    siw: Result<PathBuf, Stop>,
}

/// Makes the parts of the guest.
fn guest(shell: &Shell) -> Result<Guest, Stop> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        let what = "the guest is made of Linux packages for x86-64".to_owned();
        return Err(Stop::NotRun(Absence { what, remedy: None }));
    }
    for tool in [Tool::Qemu, Tool::Cmake, Tool::Libclang] {
        setup::need(shell, tool)?;
    }
    let folder = shell.target().join("vm");
    let packages = packages::fetch(shell, &folder.join("packages"))?;
    let siw = siw::build(shell, &folder.join("siw"), &packages.kernel);
    let image = image::build(shell, &folder, &packages, siw.as_deref().ok())?;
    Ok(Guest { folder, image, siw })
}

/// Reports that the part with soft iWARP was not run.
fn not_built(why: Stop) -> Stop {
    let because = |what: &str| {
        format!("soft iWARP (siw) was left out, because its driver was not built: {what}")
    };
    let absence = match why {
        Stop::NotRun(Absence { what, remedy }) => Absence { what: because(&what), remedy },
        // The kernel's source and the machine's compiler do not fit together.
        Stop::Failed(why) => Absence { what: because(&why), remedy: None },
    };
    eprintln!("vm: siw NOT RUN: {absence}");
    Stop::NotRun(absence)
}

/// The suites that the guest runs: the name of each program in the guest, and that of the suite.
const SUITES: [(&str, &str); 10] = [
    ("verbs", "verbs"),
    ("ring", "ring_verbs"),
    ("network", "network"),
    ("first", "first_use"),
    ("window", "window"),
    ("handed", "handed_over"),
    ("locks", "window_locks"),
    ("registrations", "registrations"),
    ("rendezvous", "rendezvous_nodes"),
    ("composite", "composite"),
];

/// The libraries that the guest's programs load: their names there, and those of their targets.
const LIBRARIES: [(&str, &str); 2] =
    [(mpi::PROVIDER, "strait_fi"), ("libstrait_mpi_mpich.so", "strait_mpi_mpich")];

/// The packages of the guest's programs. Each build names all of them, so that what they depend on
/// is built once, with one set of features.
const PACKAGES: &str = "-p strait-cli -p strait-ofi -p strait-mpi-mpich -p strait-tests";

/// Builds the programs of the guest and returns them by their names there.
fn programs(shell: &Shell) -> Result<Vec<(&'static str, PathBuf)>, Stop> {
    let suites = SUITES.map(|(_, suite)| format!("--test {suite}")).join(" ");
    let build = |command: &str| verbs(shell, &format!("{command} --message-format json")).stdout();
    let messages = [
        build(&format!("build {PACKAGES} --bin strait --lib"))?,
        build(&format!("test {PACKAGES} --no-run {suites}"))?,
    ]
    .concat();
    let find = |what: &str| {
        made(&messages, what).ok_or_else(|| Stop::Failed(format!("cargo made no {what}")))
    };
    let mut programs = vec![("strait", find("--bin strait")?)];
    for (file, target) in LIBRARIES {
        let made = library(&messages, target);
        let made = made.ok_or_else(|| Stop::Failed(format!("cargo made no library {target}")))?;
        programs.push((file, made));
    }
    for (name, suite) in SUITES {
        programs.push((name, find(&format!("--test {suite}"))?));
    }
    Ok(programs)
}

/// Returns the program that this cargo command makes.
fn program(shell: &Shell, command: &str) -> Result<PathBuf, Stop> {
    let messages = verbs(shell, &format!("{command} --message-format json")).stdout()?;
    made(&messages, command)
        .ok_or_else(|| Stop::Failed(format!("`cargo {command}` made no program")))
}

/// The packages in which the guest spends its time.
const BUSY: [&str; 3] = ["strait", "strait-hca", "strait-platform"];

/// Returns a cargo command with the device of libibverbs. It builds [`BUSY`] with some
/// optimization, since the processor is emulated. What they depend on is what `unit` has built.
fn verbs<'a>(shell: &'a Shell, command: &str) -> Step<'a> {
    let cargo = shell.cargo(&format!("{command} --quiet --features verbs"));
    BUSY.iter().fold(cargo, |cargo, package| {
        cargo.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=1"))
    })
}

/// Returns the shared library of this target. Other shared libraries among the messages are those
/// of macros.
fn library(messages: &str, target: &str) -> Option<PathBuf> {
    let is_wanted = |(name, path): &(String, PathBuf)| {
        name == target && path.extension().is_some_and(|extension| extension == "so")
    };
    shell::artifacts(messages).into_iter().find(is_wanted).map(|(_, path)| path)
}

/// Returns the program that a command names by `--bin` or `--test`. cargo builds the binaries of a
/// package with its tests.
fn made(messages: &str, command: &str) -> Option<PathBuf> {
    let mut words = command.split_whitespace();
    let named = words.find(|word| ["--bin", "--test"].contains(word)).and_then(|_| words.next())?;
    let is_wanted = |(name, path): &(String, PathBuf)| name == named && path.extension().is_none();
    shell::artifacts(messages).into_iter().rfind(is_wanted).map(|(_, path)| path)
}

/// Returns the number of tests that the guest's programs report as passed.
fn passed(said: &str) -> u32 {
    let results = said.lines().filter_map(|line| line.split_once("test result: ok. "));
    results.filter_map(|(_, rest)| rest.split_whitespace().next()?.parse::<u32>().ok()).sum()
}

/// Returns the seconds that each part of the script took. The guest says when a part begins.
fn times(said: &str) -> String {
    let begun: Vec<(f64, &str)> = said
        .lines()
        .filter_map(|line| line.split_once("STRAIT-VM-PART:")?.1.split_once(' '))
        .filter_map(|(at, part)| Some((at.parse().ok()?, part)))
        .collect();
    let took = |pair: &[(f64, &str)]| format!("{} {:.0} s", pair[0].1, pair[1].0 - pair[0].0);
    begun.windows(2).map(took).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_a_command_names_is_chosen() {
        let message = |name, file| {
            let target = format!(r#""target":{{"name":"{name}"}},"executable":"{file}""#);
            format!(r#"{{"reason":"compiler-artifact",{target}}}"#)
        };
        let files = [
            ("derive", "/t/libderive.so"),
            ("strait_fi", "/t/libstrait_fi.so"),
            ("locks", "/t/locks-1"),
            ("chaos", "/t/chaos"),
        ];
        let messages = files.map(|(name, file)| message(name, file)).join("\n");
        let made = |command| made(&messages, command);
        assert_eq!(made("test --test locks --no-run"), Some("/t/locks-1".into()));
        assert_eq!(made("test --test window --no-run"), None);
        assert_eq!(library(&messages, "strait_fi"), Some("/t/libstrait_fi.so".into()));
        assert_eq!(library(&messages, "locks"), None);
    }

    #[test]
    fn a_part_ends_where_the_next_begins() {
        let said = "STRAIT-VM-PART:8.10 verbs\nwell\n[    9.9] STRAIT-VM-PART:20.3 ring\n\
                    STRAIT-VM-PART:21.2 end\n";
        assert_eq!(times(said), "verbs 12 s, ring 1 s");
    }

    #[test]
    fn only_what_passed_is_counted() {
        let said = "test result: ok. 9 passed; 0 failed\n\
                    [    8.9] test result: ok. 2 passed; 0 failed\n\
                    test result: FAILED. 3 passed; 1 failed\n";
        assert_eq!(passed(said), 11);
    }
}
