//! The script that becomes a shell.

use super::*;

/// Rule 1 of 2c: a command is one argument, whatever is in it.
#[test]
fn a_command_is_one_argument() {
    let command = "echo \"a\\b\" 'c'\n\t$(d) ä\u{1}";
    let source = script_source(command, Path::new("/srv/a \"b\""));
    let expected = r#"import os, _signal
for number in _signal.SIGPIPE, _signal.SIGXFSZ:
    _signal.signal(number, _signal.SIG_DFL)
for name in 'ROCKBOT_INPUT', 'PYTHONDONTWRITEBYTECODE', 'MALLOC_ARENA_MAX':
    os.environ.pop(name, None)
os.chdir("/srv/a \"b\"")
os.execv('/bin/bash', ['bash', '-c', "echo \"a\\b\" 'c'\n\t$(d) ä\u0001"])
"#;
    assert_eq!(source, expected);
}
