//! One target under libFuzzer, named by `FUZZ_TARGET`; the arguments are those of libFuzzer.
//!
//! With `list` as the name it prints all names and runs nothing.
#![no_main]

use std::process::exit;
use std::sync::OnceLock;

use fuzz::{TARGETS, Target, find_target};

static TARGET: OnceLock<&'static Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
        if name == "list" {
            for target in TARGETS {
                println!("{}", target.name);
            }
            exit(0);
        }

        let target = find_target(&name).unwrap_or_else(|| panic!("there is no target {name}"));
        TARGET.get_or_init(|| target);
        // The hook of libFuzzer ends the process also where a parser catches the panic of a
        // library. One that leaves a target ends it without the hook.
        drop(std::panic::take_hook());
    },
    |bytes: &[u8]| {
        let target = TARGET.get().expect("it was set at the start");
        (target.run)(bytes);
    }
);
