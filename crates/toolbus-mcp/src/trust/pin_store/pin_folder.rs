//! A folder of pins, and the room in it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use super::{Error, MARK, PinLimits, PinOwner, PinPaths, remove_file};
use crate::server_name::ServerName;
use crate::small_file;

/// A folder with the files of many servers.
#[derive(Debug)]
pub(super) struct PinFolder {
    pub(super) path: PathBuf,
    pub(super) limits: PinLimits,
}

/// The server of a mark, and when it was listed last.
struct MarkedServer {
    name: OsString,
    listed_at: SystemTime,
}

impl PinFolder {
    /// Makes room for one more server, if this owner may have one more.
    ///
    /// # Errors
    /// When the folder has as many servers of the operator as it may.
    pub(super) fn make_room(&self, owner: PinOwner) -> Result<(), Error> {
        let file_error = |source| Error::File { path: self.path.clone(), source };
        let marked = self.marked_servers().map_err(file_error)?;

        match owner {
            PinOwner::Agent => {
                self.forget_oldest(marked);
                Ok(())
            }
            PinOwner::Operator => {
                let marked: HashSet<OsString> = marked.into_iter().map(|mark| mark.name).collect();
                let documents = self.names_with("json").map_err(file_error)?;
                if documents.iter().filter(|name| !marked.contains(*name)).count()
                    >= self.limits.operators
                {
                    return Err(Error::Full(self.path.clone()));
                }
                Ok(())
            }
        }
    }

    /// Forgets servers of agents until there is room for one more: those that were listed longest
    /// ago, as far as nobody works with their pins.
    fn forget_oldest(&self, mut marked: Vec<MarkedServer>) {
        let excess = (marked.len() + 1).saturating_sub(self.limits.registered);
        marked.sort_by_key(|mark| mark.listed_at);

        let mut left = excess;
        for mark in marked {
            if left == 0 {
                return;
            }
            let name = mark.name.to_str().and_then(|name| ServerName::parse(name).ok());
            let Some(name) = name else { continue };
            match self.try_forget(&name) {
                Ok(true) => left -= 1,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(server = %name, %error, "could not remove the pins of a server");
                }
            }
        }
    }

    /// Removes all files of a server, unless somebody has its lock.
    fn try_forget(&self, server: &ServerName) -> io::Result<bool> {
        let file = PinPaths::new(&self.path, server);
        let lock = small_file::open_private(&file.lock)?;
        if lock.try_lock().is_err() {
            return Ok(false);
        }

        for path in [&file.document, &file.damaged, &file.mark, &file.lock] {
            remove_file(path)?;
        }
        Ok(true)
    }

    fn marked_servers(&self) -> io::Result<Vec<MarkedServer>> {
        let names = self.names_with(MARK)?.into_iter();
        Ok(names
            .filter_map(|name| {
                let mark = self.path.join(&name).with_added_extension(MARK);
                let listed_at = fs::metadata(mark).and_then(|mark| mark.modified()).ok()?;
                Some(MarkedServer { name, listed_at })
            })
            .collect())
    }

    /// The names of all files with this ending, without it.
    fn names_with(&self, ending: &str) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for file in fs::read_dir(&self.path)? {
            let name = PathBuf::from(file?.file_name());
            if name.extension().is_some_and(|extension| extension == ending) {
                names.extend(name.file_stem().map(Into::into));
            }
        }
        Ok(names)
    }
}
