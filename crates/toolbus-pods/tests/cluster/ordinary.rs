//! What the conformance suite does not ask of pods.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::{Ending, Run, Runner};

use crate::support::{check, client, pods_of, runner, script};

#[tokio::test]
async fn a_cancelled_script_ends_at_once_and_its_pod_is_gone() {
    let Some(runner) = runner().await else { return };
    let client = client().await.expect("a cluster");
    let cancelled = CancellationToken::new();
    let heard = CancellationToken::new();
    let live = {
        let heard = heard.clone();
        move |_, _: &str| heard.cancel()
    };
    let call_id = format!("cancelled {}", std::process::id());
    let run =
        Run { cancelled: cancelled.clone(), live: Some(Arc::new(live)), ..Run::alone(&call_id) };
    let source =
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('here')\ntime.sleep(60)";
    let running = runner.run(script(source), run);
    let cancelling = async {
        heard.cancelled().await;
        assert_eq!(pods_of(&client, &call_id).await.len(), 1);
        cancelled.cancel();
        Instant::now()
    };
    let (outcome, at) = tokio::join!(running, cancelling);
    let outcome = outcome.expect("an outcome");
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("here\n", Ending::Cancelled));
    assert!(at.elapsed() < Duration::from_secs(9), "{:?}", at.elapsed());
    runner.idle().await;
    assert!(pods_of(&client, &call_id).await.is_empty());
}

/// The cluster puts addresses of its services there, and the image what it likes.
#[tokio::test]
async fn the_environment_of_the_first_process_is_forgotten() {
    let Some(runner) = runner().await else { return };
    let source = "print(repr(open('/proc/self/environ').read().strip(chr(0))))";
    check(&runner, source, "''\n", Ending::Exited(0)).await;
    runner.idle().await;
}

/// The node makes one for each container, writable by all and counted by nobody.
#[tokio::test]
async fn the_file_for_last_words_is_out_of_reach() {
    let Some(runner) = runner().await else { return };
    let source = "\
for path in ('/dev/termination-log', '/root/termination-log'):
    try:
        open(path, 'w').write('x')
        print(path)
    except OSError as error:
        print(error.strerror)
";
    check(&runner, source, "Permission denied\nPermission denied\n", Ending::Exited(0)).await;
}
