//! Compiles the first process of a sandbox (`src/init/main.rs`) into a small static program.
//!
//! Cargo cannot yet build one package's program for embedding into another, so the compiler is
//! called here: the same one, for the same target, with the same linker.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/init/main.rs");
    println!("cargo::rerun-if-changed=src/init/fds.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let variable = |name: &str| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let output = PathBuf::from(variable("OUT_DIR")).join("init");
    let mut compiler = Command::new(variable("RUSTC"));
    compiler
        .args(["--edition=2024", "--crate-type=bin", "--crate-name=toolbus_init"])
        .args(["-Copt-level=s", "-Cpanic=abort", "-Cstrip=symbols", "-Crelocation-model=static"])
        .args(["-Clink-arg=-nostdlib", "-Clink-arg=-nostartfiles", "-Clink-arg=-static"])
        .args(["-Clink-arg=-Wl,--build-id=none", "-Clink-arg=-Wl,-z,norelro"])
        .arg("--target")
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(&output)
        .arg("src/init/main.rs");
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        compiler.arg("-C").arg(format!("linker={}", linker.display()));
    }
    let status = compiler.status().unwrap_or_else(|error| panic!("cannot run rustc: {error}"));
    assert!(status.success(), "src/init/main.rs does not compile: {status}");
}
