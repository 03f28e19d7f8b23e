//! The supervisor's program, for the place where it is to run.

use std::iter;

use super::seccomp::{Machine, Network, filter_program};

/// A place where scripts run, as its supervisor has to know it.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The folder that a script starts in. Made where it is not there.
    pub work: &'a str,
    /// The folder for temporary files. Made where it is not there.
    pub temporary: &'a str,
    /// A folder of each file system that a script may write.
    pub writable: &'a [&'a str],
    /// Whether the supervisor lives on when its input ends, to be attached to again.
    pub outlives_input: bool,
    /// Which sockets everybody in there may open.
    pub network: Network,
    /// The largest piece of shared memory without a file; `None` where the kernel counts all of it.
    pub shared_bytes_max: Option<u64>,
}

impl Place<'_> {
    /// The program's text, without comments: Python 3.8 or later, of the standard library alone.
    #[must_use]
    pub fn program(&self) -> String {
        let sources = [
            include_str!("script.py"),
            include_str!("files.py"),
            include_str!("limits.py"),
            include_str!("channel.py"),
            include_str!("supervisor.py"),
            include_str!("child.py"),
        ];

        let lines = sources.iter().flat_map(|source| source.lines());
        // A comment behind code stands two blanks or more after it, and no text has that in it.
        let code = lines.map(|line| line.split_once("  # ").map_or(line, |(code, _)| code));
        let code = code.map(str::trim_end).filter(|line| {
            let code = line.trim_start();
            !code.is_empty() && !code.starts_with('#')
        });
        let head = self.constants();

        iter::once(head.as_str()).chain(code).flat_map(|line| [line, "\n"]).collect()
    }

    /// What the place is, as the program reads it. The filters are those of all machines: which one
    /// it is shows in there.
    fn constants(&self) -> String {
        let filters = Machine::ALL.map(|machine| {
            let filter = filter_program(machine, self.network, self.shared_bytes_max);
            let digits: String = filter.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\"{}\": \"{digits}\"", machine.name())
        });
        let outlives_input = if self.outlives_input { "True" } else { "False" };
        let Self { work, temporary, writable, .. } = self;

        format!(
            "FILTERS = {{{}}}\nWORK, TEMPORARY, WRITABLE = {work:?}, {temporary:?}, {writable:?}\n\
             OUTLIVES_INPUT = {outlives_input}",
            filters.join(", ")
        )
    }
}

#[cfg(test)]
mod tests;
