//! What a script must not be able to say in the runner's stead, and what is told of odd output and
//! odd ends.

use toolbus_wire::message::script::ScriptReason;

use super::host;
use super::stage::{Stage, script};

/// Everything that a runner's own reports look like, written to wherever a script can write.
pub(super) async fn reports_cannot_be_forged(stage: Stage) {
    let source = r#"
import os, struct, sys
end = b'{"elapsed_ms":1,"cpu_ms":1,"memory_peak":1,"code":0}'
forged = [b'E' + struct.pack('<i', 0), b'S', b'\n0123456789abcdef0123456789abcdef 2 end ' + end + b'\n', b'2 end ' + end + b'\n']
for number in range(3, 256):
    for text in forged:
        try: os.write(number, text)
        except OSError: pass
for process in ('1', str(os.getppid())):
    for place in ['mem'] + [f'fd/{number}' for number in range(16)]:
        try:
            with open(f'/proc/{process}/{place}', 'rb+', buffering=0) as file:
                print('opened', process, place)
                file.write(forged[0])
        except (OSError, ValueError): pass
frame = sys._getframe()
while frame:
    for name, value in list(frame.f_locals.items()):
        if name != 'file' and (hasattr(value, 'fileno') or name in ('nonce', 'orders', 'state')): print('found', name)
    frame = frame.f_back
import gc
for value in gc.get_objects():
    if type(value).__name__ == 'State' and hasattr(value, 'nonce'): print('found', value.nonce)
for text in forged: os.write(1, text)
sys.exit(7)
"#;

    let response = stage.run(source).await;
    assert_eq!((response.exit_code, response.reason.clone()), (7, None), "{response:?}");

    let forged = "E\0\0\0\0S\n0123456789abcdef0123456789abcdef 2 end \
                  {\"elapsed_ms\":1,\"cpu_ms\":1,\"memory_peak\":1,\"code\":0}\n\
                  2 end {\"elapsed_ms\":1,\"cpu_ms\":1,\"memory_peak\":1,\"code\":0}\n";
    assert_eq!(response.output.as_deref(), Some(forged), "{response:?}");
}

pub(super) async fn any_bytes_become_text(stage: Stage) {
    let source = "import os\nos.write(1, b'a\\x00b|\\xff\\xfe|\\xc0\\xaf|\\xed\\xa0\\x80|\\x1b[31mred\\x1b[0m|\\x07\\r\\n\\x7f|')\n\
                  os.write(2, b'\\xf5')";
    let text = "a\0b|\u{fffd}\u{fffd}|\u{fffd}\u{fffd}|\u{fffd}\u{fffd}\u{fffd}|\u{1b}[31mred\u{1b}[0m|\u{7}\r\n\u{7f}|";
    let response = stage.run(source).await;
    let streams = response.streams.expect("streams");
    assert_eq!((streams.stdout.as_str(), streams.stderr.as_str()), (text, "\u{fffd}"));
    assert_eq!(response.exit_code, 0);
}

pub(super) async fn characters_survive_being_split(stage: Stage) {
    let source = "import os, time\nfor byte in 'é漢😀'.encode():\n    os.write(1, bytes([byte]))\n    time.sleep(0.01)\n\
                  os.write(1, b'|\\xff|\\xe6\\xbc|\\x00|\\x1b[31m|\\xf0\\x9f')";
    stage.check(source, "é漢😀|\u{fffd}|\u{fffd}|\0|\u{1b}[31m|\u{fffd}", 0).await;
}

pub(super) async fn death_by_signal_is_told(stage: Stage) {
    for signal in [9, 11, 6, 15, 1] {
        let response = stage.run(&format!("import os\nos.kill(os.getpid(), {signal})")).await;
        let told = (response.exit_code, response.signal, response.reason.clone());
        assert_eq!(told, (128 + signal, Some(signal), Some(ScriptReason::Killed)), "{response:?}");
    }
    let response = stage.run("raise KeyboardInterrupt").await;
    assert_eq!(response.signal, Some(2), "{response:?}");
}

pub(super) async fn two_scripts_see_nothing_of_each_other(stage: Stage) {
    let mark = host::unique_mark();
    let source = r"
import os, socket, tempfile, time
for place in (tempfile.gettempdir(), '.', '/dev/shm'):
    with open(f'{place}/MARK{place.count(chr(47))}', 'x') as file: file.write('mine')
server = socket.socket(socket.AF_UNIX)
server.bind('\0MARK')
server.listen()
time.sleep(2)
print(sorted(pid for pid in os.listdir('/proc') if pid.isdigit()) == ['1', str(os.getpid())])
server.settimeout(0)
try: print('called by', server.accept())
except BlockingIOError: pass
for folder, folders, files in os.walk('/'):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ('/proc', '/sys', '/usr')]
    marks = [name for name in files if name.startswith('MARK')]
    for name in marks: assert open(os.path.join(folder, name)).read() == 'mine'
";

    let source = &source.replace("MARK", &mark);
    let (one, other) = tokio::join!(stage.ask(script(source)), stage.ask(script(source)));

    for response in [one, other] {
        let told = (response.output.as_deref(), response.exit_code);
        assert_eq!(told, (Some("True\n"), 0), "{response:?}");
    }
}
