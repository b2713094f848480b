//! Links the image with `linker/bare.ld`.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo:rerun-if-changed=../bare.ld");
    println!("cargo:rustc-link-arg-bins=-T{folder}/../bare.ld");
    // The target makes position-independent executables, and nothing in the image would relocate
    // it.
    println!("cargo:rustc-link-arg-bins=--no-pie");
}
