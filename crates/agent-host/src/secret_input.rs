//! A secret from standard input: what is piped there, or what a person types, which is not shown.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use toolbus_vault::VALUE_BYTES_MAX;
use zeroize::Zeroizing;

/// Longest line that a terminal hands on, in bytes; what is typed beyond is lost.
const TYPED_BYTES_MAX: usize = 4_095;
/// Longest line end, in bytes.
const LINE_END_BYTES_MAX: usize = 2;

/// Why there is no secret. None of these texts holds one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretInputError {
    #[error("standard input cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("the value is not UTF-8 text")]
    NotText,
    #[error("the value is empty")]
    Empty,
    #[error("the value has more than {VALUE_BYTES_MAX} bytes")]
    TooLong,
    #[error("the value is too long to be typed: give it on standard input")]
    TooLongToType,
}

/// Reads the secret: all that is piped. At a terminal it is asked for with this prompt. Dropped
/// before it is read, it leaves the terminal as it was, and a thread that waits for a line.
pub(crate) async fn read(prompt: &str) -> Result<Zeroizing<String>, SecretInputError> {
    read_by(prompt, read_piped).await
}

/// Reads one line, as one of several answers.
pub(crate) async fn read_line(prompt: &str) -> Result<Zeroizing<String>, SecretInputError> {
    read_by(prompt, read_piped_line).await
}

async fn read_by(
    prompt: &str,
    read_piped: fn() -> Result<Zeroizing<String>, SecretInputError>,
) -> Result<Zeroizing<String>, SecretInputError> {
    if !io::stdin().is_terminal() {
        return run_blocking(read_piped).await;
    }

    // The guard is here and not on the thread, which goes on after a signal.
    let _quiet = NoEcho::begin()?;
    let _ = write!(io::stderr(), "{prompt}");
    let typed = run_blocking(read_typed).await;
    let _ = writeln!(io::stderr());
    typed
}

async fn run_blocking(
    read: fn() -> Result<Zeroizing<String>, SecretInputError>,
) -> Result<Zeroizing<String>, SecretInputError> {
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}

fn read_piped() -> Result<Zeroizing<String>, SecretInputError> {
    // One byte more than there may be tells that there is more. What a buffer leaves where it was
    // when it grows is not overwritten, so it does not grow.
    let most = VALUE_BYTES_MAX + LINE_END_BYTES_MAX + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * most));
    io::stdin().lock().take(most as u64).read_to_end(&mut bytes)?;
    value_of(&bytes)
}

fn read_piped_line() -> Result<Zeroizing<String>, SecretInputError> {
    let most = VALUE_BYTES_MAX + LINE_END_BYTES_MAX + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * most));
    io::stdin().lock().take(most as u64).read_until(b'\n', &mut bytes)?;
    value_of(&bytes)
}

fn read_typed() -> Result<Zeroizing<String>, SecretInputError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * TYPED_BYTES_MAX));
    io::stdin().lock().take(TYPED_BYTES_MAX as u64 + 1).read_until(b'\n', &mut bytes)?;
    if bytes.len() >= TYPED_BYTES_MAX {
        return Err(SecretInputError::TooLongToType);
    }
    value_of(&bytes)
}

/// The value without the line end behind it, which most programs write.
fn value_of(bytes: &[u8]) -> Result<Zeroizing<String>, SecretInputError> {
    let text = str::from_utf8(bytes).map_err(|_| SecretInputError::NotText)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    match text.len() {
        0 => Err(SecretInputError::Empty),
        length if length > VALUE_BYTES_MAX => Err(SecretInputError::TooLong),
        _ => Ok(Zeroizing::new(text.to_owned())),
    }
}

/// Has the terminal show nothing of what is typed until this is dropped.
struct NoEcho(Termios);

impl NoEcho {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        // What was typed before the question is none of the answer.
        tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        // It fails where the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests;
