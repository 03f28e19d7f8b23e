//! How a script reaches the interpreter: never by arguments or environment, whose size the kernel
//! bounds and whose content every process of the sandbox could read.

use std::ffi::CString;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use toolbus_scripts::RUN_SCRIPT;

use toolbus_scripts::files::{File, INPUT_FOLDER, OUTPUT_FOLDER};

use crate::c_string::c_string;
use crate::interpreter::Interpreter;

/// The Python bootstrap, which the interpreter runs first.
static BOOTSTRAP: LazyLock<String> =
    LazyLock::new(|| [RUN_SCRIPT, include_str!("bootstrap.py")].concat());

/// The interpreter's command line: read the bootstrap, run it. Without `site`, whose result the
/// bootstrap is told, and deaf to the environment.
pub(crate) fn interpreter_command(interpreter: &Interpreter) -> io::Result<Vec<CString>> {
    let read = format!(
        "import posix\nb=b''\nwhile len(b)<{}:b+=posix.read(3,{}-len(b))or posix._exit(125)\nexec(b,{{}})",
        BOOTSTRAP.len(),
        BOOTSTRAP.len(),
    );

    let executable = interpreter.executable.as_os_str();
    [executable, "-I".as_ref(), "-S".as_ref(), "-B".as_ref(), "-c".as_ref(), read.as_ref()]
        .into_iter()
        .map(c_string)
        .collect()
}

/// The request that the bootstrap reads: itself, then frames. Without `files`, not even none of
/// them, no folders are made for any.
pub(crate) fn bootstrap_request(
    interpreter: &Interpreter,
    packages: Option<&Path>,
    source: &str,
    input: &str,
    files: Option<&[File]>,
) -> Vec<u8> {
    let settings = interpreter.bootstrap_settings(packages);
    let folders = match files {
        None => String::new(),
        Some([]) => OUTPUT_FOLDER.to_owned(),
        Some(_) => [OUTPUT_FOLDER, INPUT_FOLDER].join("\0"),
    };

    let files = files.unwrap_or_default();
    let paths: Vec<String> =
        files.iter().map(|file| format!("{INPUT_FOLDER}/{}", file.name)).collect();
    let mut frames = vec![settings.as_slice(), source.as_bytes(), input.as_bytes()];

    frames.push(folders.as_bytes());

    for (path, file) in paths.iter().zip(files) {
        frames.extend([path.as_bytes(), &file.content]);
    }

    // No file has an empty path.
    frames.push(b"");

    let mut request = Vec::with_capacity(
        BOOTSTRAP.len() + frames.iter().map(|frame| 4 + frame.len()).sum::<usize>(),
    );
    request.extend_from_slice(BOOTSTRAP.as_bytes());

    for frame in frames {
        let length = u32::try_from(frame.len()).expect("the runner bounds scripts and inputs");
        request.extend_from_slice(&length.to_be_bytes());
        request.extend_from_slice(frame);
    }

    request
}
