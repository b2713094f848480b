//! Links the image by `linker/bare.ld`.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rerun-if-changed=../bare.ld");
    println!("cargo:rustc-link-arg-bins=-T{folder}/../bare.ld");
    // The target makes programs that relocate themselves, and nothing in the image would.
    println!("cargo:rustc-link-arg-bins=--no-pie");
}
