//! Real libibverbs, in a small virtual machine with the kernel's soft RDMA drivers: `cargo xtask vm`.
//!
//! Nothing is installed for the guest and no rights are needed: Debian's packages are downloaded once and unpacked, QEMU
//! emulates the processor. Everything is kept in `target/vm`.

mod image;
mod machine;
mod packages;
mod siw;

use std::path::PathBuf;

use machine::Task;

use crate::setup::{self, Tool};
use crate::shell::{self, Shell};
use crate::stop::{self, Absence, Stop};

/// What is tried on soft RoCE, where nobody asks to be connected.
const RXE: &str = "
    cd /tmp
    /user/strait info | grep rxe || exit 98
    /user/verbs --include-ignored --test-threads=1 --nocapture --skip refuses || exit
    /user/ring --include-ignored --test-threads=1 --nocapture
";
/// And on soft iWARP, which has no atomics.
const SIW: &str = "
    cd /tmp
    /user/strait info | grep siw || exit 98
    /user/verbs --include-ignored --test-threads=1 --nocapture --skip atomics || exit
    /user/ring --include-ignored --test-threads=1 --nocapture
";

/// `cargo xtask vm`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        let what = "the guest is made of Linux packages for x86-64".to_owned();
        return Err(Stop::NotRun(Absence { what, remedy: None }));
    }
    for tool in [Tool::Qemu, Tool::Cmake, Tool::Libclang] {
        setup::need(shell, tool)?;
    }
    // What only this feature compiles.
    shell.cargo("test --quiet -p strait --features verbs --lib hca::verbs").run()?;
    let folder = shell.target().join("vm");
    let packages = packages::fetch(shell, &folder.join("packages"))?;
    let siw = siw::build(shell, &folder.join("siw"), &packages.kernel);
    let image = image::build(shell, &folder, &packages, siw.as_deref().ok())?;
    let programs = [
        ("strait", program(shell, "build -p strait --bin strait")?),
        ("verbs", program(shell, "test -p strait-tests --test verbs --no-run")?),
        ("ring", program(shell, "test -p strait-tests --test ring_verbs --no-run")?),
    ];
    let boot = |device, script| {
        let task = Task { device, script, programs: &programs };
        let said = machine::boot(shell, &folder, &image, &task)?;
        match passed(&said) {
            0 => Err(Stop::Failed(format!("no test ran; the guest said:\n{said}"))),
            passed => {
                eprintln!("vm: {device}: {passed} tests passed");
                Ok(())
            }
        }
    };
    let rxe = boot("rxe", RXE);
    let siw = siw.map_err(not_built).and_then(|_| boot("siw", SIW));
    stop::all(vec![("rxe", rxe), ("siw", siw)])
}

/// Says that it is the part with soft iWARP that was not run.
fn not_built(why: Stop) -> Stop {
    let because =
        |what: &str| format!("soft iWARP (siw) was left out, its driver not being built: {what}");
    let absence = match why {
        Stop::NotRun(Absence { what, remedy }) => Absence { what: because(&what), remedy },
        // It is the kernel's source and the machine's compiler that do not go together.
        Stop::Failed(why) => Absence { what: because(&why), remedy: None },
    };
    eprintln!("vm: siw NOT RUN: {absence}");
    Stop::NotRun(absence)
}

/// The program that this cargo command makes, with the device of libibverbs.
fn program(shell: &Shell, command: &str) -> Result<PathBuf, Stop> {
    let arguments = format!("{command} --quiet --features verbs --message-format json");
    let messages = shell.cargo(&arguments).stdout()?;
    let mut made = shell::artifacts(&messages).into_iter().map(|(_, path)| path);
    // The one that is run, not linked, and was made last.
    made.rfind(|path| path.extension().is_none())
        .ok_or_else(|| Stop::Failed(format!("`cargo {arguments}` made no program")))
}

/// How many tests the guest's programs say have passed.
fn passed(said: &str) -> u32 {
    let results = said.lines().filter_map(|line| line.split_once("test result: ok. "));
    results.filter_map(|(_, rest)| rest.split_whitespace().next()?.parse::<u32>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passed_is_counted() {
        let said = "test result: ok. 9 passed; 0 failed\n\
                    [    8.9] test result: ok. 2 passed; 0 failed\n\
                    test result: FAILED. 3 passed; 1 failed\n";
        assert_eq!(passed(said), 11);
    }
}
