//! The chaos driver: see `strait_tests::chaos`, and `cargo xtask chaos`.

use std::process::ExitCode;

fn main() -> ExitCode {
    strait_tests::chaos::main()
}
