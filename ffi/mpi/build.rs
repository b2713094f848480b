//! Gives the library two entries that `strait mpi` fills in: its name, and the library that it
//! needs, which is the host's (`shim/cli/src/mpi/front.rs`).

fn main() {
    println!("cargo::rerun-if-changed=../build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libstrait-mpi.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,/nowhere");
}
