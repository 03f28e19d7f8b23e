//! Effects of scripts: what sandboxed scripts tell of themselves, in the ledger of the effects
//! server.
//!
//! A script has no network. It reaches one socket, which is in the tree of its interpreter
//! ([`ScriptPython`]), and waits there until its start is on disk, and then its end. A script that
//! is killed closes its connection, which leaves `aborted` instead of an end.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio_util::task::TaskTracker;
use toolbus_testkit::script_python::ScriptPython;

use crate::ledger::Ledger;
use crate::random::hash;
use crate::record::{EffectEvent, EffectRecord, ToolKind, now_ms};

#[cfg(test)]
mod tests;

/// Serves scripts until it is dropped.
///
/// # Errors
/// When the socket cannot be made, or takes no more connections.
pub async fn serve(socket: &Path, ledger: Arc<Ledger>) -> anyhow::Result<()> {
    let listener = ScriptPython::listen(socket)?;
    let scripts = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await.context("waiting for scripts")?;
        let ledger = Arc::clone(&ledger);
        scripts.spawn(async move {
            let mut effect = None;
            // Whether it ended, was killed or told nonsense: an effect without an end was aborted.
            let _ = record_script(stream, &ledger, &mut effect).await;
            if let Some(record) = effect {
                let aborted = EffectRecord { event: EffectEvent::Aborted, ..stamp(record) };
                let _ = ledger.append(&aborted).await;
            }
        });
    }
}

/// Writes down what one script tells. Leaves in `effect` what started and has not ended.
async fn record_script(
    mut stream: UnixStream,
    ledger: &Ledger,
    effect: &mut Option<EffectRecord>,
) -> anyhow::Result<()> {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<_> = line.split(' ').collect();
        let [event, id, worker] = words[..] else { anyhow::bail!("no event: {line}") };
        let record = stamp(EffectRecord {
            id: id.to_owned(),
            tool: ToolKind::Script,
            event: if event == "start" { EffectEvent::Start } else { EffectEvent::End },
            at_ms: 0,
            worker: worker.to_owned(),
        });

        if record.event == EffectEvent::Start {
            *effect = Some(record.clone());
        } else {
            ensure!(effect.take().is_some(), "{id} ends and has not started");
        }
        ledger.append(&record).await?;
        write.write_all(b"ok\n").await?;
    }
    Ok(())
}

fn stamp(record: EffectRecord) -> EffectRecord {
    EffectRecord { at_ms: now_ms(), ..record }
}

/// The script with this effect, which prints what [`reply_text`](crate::record::reply_text) is.
#[must_use]
pub fn write_script(id: &str, sleep_ms: u64, reply_bytes: usize) -> String {
    let first_letter = hash(id.as_bytes()) % 26;
    ScriptPython::script(&format!(
        "tell('start', '{id}')\n\
         time.sleep({sleep_ms} / 1000)\n\
         tell('end', '{id}')\n\
         letters = ''.join(chr(97 + ({first_letter} + at * 7) % 26) for at in range(26))\n\
         rest = max(0, {reply_bytes} - len('{id}:'))\n\
         sys.stdout.write('{id}:' + (letters * (rest // 26 + 1))[:rest])\n"
    ))
}
