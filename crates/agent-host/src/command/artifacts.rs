//! `artifacts`: shows, saves and removes what is kept apart, of any session at the same store.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use futures_util::StreamExt as _;
use jiff::Timestamp;
use serde_json::Value;
use toolbus_artifacts::{Artifact, Artifacts, Error};
use toolbus_runtime::service::{BoxError, Exit};
use toolbus_tools::ArtifactRef;

use crate::arguments::ArtifactsCommand;
use crate::settings::Settings;
use crate::{state, terminal_text};

/// Why something is not done.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("there is no artifact '{0}'")]
    Unknown(String),
    #[error(transparent)]
    Artifact(#[from] Error),
    #[error("the file cannot be written")]
    File(#[from] io::Error),
}

pub(super) async fn run(command: ArtifactsCommand, settings: &Settings) -> Result<Exit, BoxError> {
    let Some(store) = state::store(settings) else {
        return Err("there is no place for state: set `store`".into());
    };
    // A look makes no file.
    if !store.may_hold_something() {
        return match command {
            ArtifactsCommand::List { json, .. } => print(&[], json),
            ArtifactsCommand::Save { artifact, .. } | ArtifactsCommand::Remove { artifact } => {
                Ok(fail(&Failure::Unknown(artifact)))
            }
        };
    }
    let Some(artifacts) = state::open_artifacts(settings, &store) else {
        return Err("there are no artifacts: artifacts.enabled and artifacts.place".into());
    };

    let done = carry_out(command, &artifacts).await;
    store.close().await;
    match done {
        Ok(done) => done,
        Err(failure) => Ok(fail(&failure)),
    }
}

async fn carry_out(
    command: ArtifactsCommand,
    artifacts: &Artifacts,
) -> Result<Result<Exit, BoxError>, Failure> {
    match command {
        ArtifactsCommand::List { json, limit } => {
            Ok(print(&artifacts.list(None, limit).await?, json))
        }
        ArtifactsCommand::Save { artifact, file } => {
            save(&find(artifacts, &artifact).await?, &file).await?;
            Ok(Ok(Exit::SUCCESS))
        }
        ArtifactsCommand::Remove { artifact } => {
            artifacts.remove_found(&find(artifacts, &artifact).await?).await?;
            Ok(Ok(Exit::SUCCESS))
        }
    }
}

async fn find(artifacts: &Artifacts, name: &str) -> Result<Artifact, Failure> {
    let unknown = || Failure::Unknown(name.to_owned());
    let reference = ArtifactRef::parse(name).map_err(|_| unknown())?;
    artifacts.find_of_any(&reference).await?.ok_or_else(unknown)
}

/// Writes the bytes as they come, so that one of any size takes little memory.
async fn save(artifact: &Artifact, path: &Path) -> Result<(), Failure> {
    let to_output = path == Path::new("-");
    let mut to: Box<dyn Write + Send> = match to_output {
        true => Box::new(io::stdout()),
        false => Box::new(File::create_new(path)?),
    };

    let mut pieces = std::pin::pin!(artifact.stream().await?);
    while let Some(piece) = pieces.next().await {
        let written = match piece {
            Ok(piece) => to.write_all(&piece).map_err(Failure::from),
            Err(error) => Err(error.into()),
        };
        if let Err(failure) = written {
            if !to_output {
                // Half of it looks like the whole.
                let _ = std::fs::remove_file(path);
            }
            return Err(failure);
        }
    }
    to.flush()?;
    Ok(())
}

fn print(artifacts: &[Artifact], json: bool) -> Result<Exit, BoxError> {
    if json {
        let all: Vec<Value> = artifacts.iter().map(Artifact::describe).collect();
        let _ = writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&all)?);
        return Ok(Exit::SUCCESS);
    }

    let mut text = String::new();
    for Artifact { info, tool, stored_ms, .. } in artifacts {
        let stored = Timestamp::from_millisecond(*stored_ms).unwrap_or(Timestamp::MAX);
        let (name, media_type, bytes) = (&info.reference, &info.media_type, info.bytes);
        let _ = writeln!(text, "{name}  {stored:.0}  {bytes:>12}  {media_type}  {tool}");
    }
    // Names are the words of strangers.
    let text = terminal_text::for_stream(&text, &io::stdout());
    let _ = write!(io::stdout(), "{text}");
    Ok(Exit::SUCCESS)
}

fn fail(failure: &Failure) -> Exit {
    super::fail(toolbus_config::on_one_line(failure))
}
