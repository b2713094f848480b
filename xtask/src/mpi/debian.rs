//! Runs the tests with Debian's own Open MPI and libfabric, which are older than Python's packages,
//! and with the programs that come with them.
//!
//! Debian has no package of libfabric's own tests. It has `fi_pingpong`, in `libfabric-bin`.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;

use super::{LIMIT, route};
use crate::setup::{self, Tool};
use crate::shell::{Shell, Step};
use crate::stop::{self, Stop};

/// Runs all tests with Debian's packages.
pub(super) fn run(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    stop::all(vec![
        ("NetPIPE", netpipe(shell, provider)),
        ("fi_info", info(shell, provider)),
        ("fi_pingpong", pingpong(shell, provider)),
    ])
}

/// Runs NetPIPE's integrity check over Open MPI: messages of 1 byte to 192 KiB, most of odd length.
fn netpipe(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    setup::need(shell, Tool::NetPipe)?;
    let report = shell.target().join("mpi/netpipe.out");
    let options = format!("-k 5 {LIMIT} mpirun.openmpi --oversubscribe -n 2 NPopenmpi");
    let job = route(shell, shell.step("timeout", &options), "openmpi", provider)?;
    // The job exchanges each length once, and also lengths a byte longer and a byte shorter.
    let job = "-i -n 1 -p 1 -u 262144 -o".split_whitespace().fold(job, Step::arg);
    let said = job.arg(report).output()?;
    let said = [said.stdout, said.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    if said.contains("Integrity check passed") && !said.contains("failed") {
        return Ok(());
    }
    Err(Stop::Failed(format!("NetPIPE says:\n{said}")))
}

/// Checks that libfabric finds the provider.
fn info(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    setup::need(shell, Tool::FabricPrograms)?;
    let asked = shell.step("fi_info", "-p strait").env("FI_PROVIDER_PATH", provider);
    let said = asked.stdout()?;
    if said.contains("provider: strait") && said.contains("FI_EP_RDM") {
        return Ok(());
    }
    Err(Stop::Failed(format!("fi_info says:\n{said}")))
}

/// Sends messages of 64 bytes to 1 MiB back and forth, and checks each, between two processes that
/// find each other by TCP.
fn pingpong(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    setup::need(shell, Tool::FabricPrograms)?;
    let port = free_port()?;
    let side = |option: &str| {
        let options = format!("-k 5 {LIMIT} fi_pingpong -p strait -e rdm -c -I 20 {option} {port}");
        let step = shell.step("timeout", &options).env("FI_PROVIDER_PATH", provider);
        // The universe in which these two processes meet, and no other process.
        step.env("STRAIT_UNIVERSE", format!("pingpong-{port}"))
    };
    let log = shell.target().join("mpi/pingpong.log");
    let failed = |error| Stop::io(&log, &error);
    let serves = File::create(&log).and_then(|log| side("-B").spawn_into(log));
    let mut server = serves.map_err(failed)?;
    let answer = loop {
        match side("-P").arg("127.0.0.1").output() {
            // The server does not listen yet.
            Err(Stop::Failed(why)) if why.contains("Connection refused") => {
                if server.try_wait().map_err(failed)?.is_some() {
                    break Err(Stop::Failed("the server has ended".to_owned()));
                }
            }
            answer => break answer,
        }
    };
    if answer.is_err() {
        let _ = server.kill();
    }
    let status = server.wait().map_err(failed)?;
    let said = answer?.stdout;
    let said = String::from_utf8_lossy(&said);
    if status.success() && said.lines().any(|line| line.starts_with("1m")) {
        return Ok(());
    }
    let log = fs::read_to_string(&log).map_err(failed)?;
    Err(Stop::Failed(format!("output of the client:\n{said}\noutput of the server:\n{log}")))
}

/// Returns a free TCP port.
fn free_port() -> Result<u16, Stop> {
    let found = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let failed = |error| Stop::Failed(format!("no TCP port is free: {error}"));
    found.map(|address| address.port()).map_err(failed)
}
