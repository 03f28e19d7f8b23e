//! The fenced blocks of a page, and the commands of those that a shell runs.

use std::path::{Path, PathBuf};

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// What stands behind the fence, such as `sh`; empty where nothing does.
    pub(crate) kind: String,
    /// The line of the page that its text begins in.
    pub(crate) line: usize,
    /// Its lines.
    pub(crate) text: String,
}

/// A command of a block, with what the page says that it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// The line of the page that it begins in.
    pub(crate) line: usize,
    /// All of its lines, without what stands behind them.
    pub(crate) text: String,
    /// The comment behind it.
    pub(crate) comment: String,
    /// What it prints: standard output alone, or all that a terminal shows.
    pub(crate) expected: Option<Printed>,
}

/// What a page says that a command prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Printed {
    /// On standard output.
    Output(String),
    /// On standard output and standard error.
    Terminal(String),
}

impl Block {
    /// The first line with anything in it, by which lists name the block.
    pub(crate) fn first_line(&self) -> &str {
        self.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
    }

    /// The file that the block is to be kept in, which its first line names in a comment:
    /// `# adder.py`, `// src/main.rs`.
    pub(crate) fn file(&self) -> Option<&str> {
        let first = self.text.lines().next()?;
        let name = first.strip_prefix("# ").or_else(|| first.strip_prefix("// "))?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let is_file = name.chars().all(is_name) && Path::new(name).extension().is_some();
        (is_file && self.kind != "sh").then_some(name)
    }

    /// The commands, where this is a block of them.
    pub(crate) fn commands(&self) -> Vec<Command> {
        match &*self.kind {
            "sh" => shell_commands(self),
            "console" => console_commands(self),
            _ => Vec::new(),
        }
    }
}

/// The pages that are looked at, by their paths in the workspace.
pub(crate) fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    let entries = std::fs::read_dir(root().join("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    pages.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")));
    pages.sort();
    pages
}

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The blocks of a page of the workspace.
pub(crate) fn blocks_of(page: &str) -> Vec<Block> {
    blocks(&std::fs::read_to_string(root().join(page)).unwrap())
}

/// The blocks of a page, in order. One of kind `text` behind commands says what the last of them
/// prints; it is left to [`commands_of`].
fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(page.lines()) {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(kind)) => {
                open = Some(Block { kind: kind.to_owned(), line: number + 1, text: String::new() });
            }
            (Some(_), Some("")) => found.extend(open.take()),
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert_eq!(open, None, "a block has no end");
    found
}

/// What a page has a shell do, in order: each block of commands with its commands.
pub(crate) fn commands_of(blocks: &[Block]) -> Vec<(&Block, Vec<Command>)> {
    let mut found: Vec<(&Block, Vec<Command>)> = Vec::new();
    let mut before: Option<&Block> = None;
    for block in blocks {
        let is_output = block.kind == "text" && before.is_some_and(|block| block.kind == "sh");
        if is_output && let Some(last) = found.last_mut().and_then(|(_, all)| all.last_mut()) {
            last.expected = Some(Printed::Output(block.text.clone()));
        }

        let commands = block.commands();
        if !commands.is_empty() {
            found.push((block, commands));
        }
        before = Some(block);
    }
    found
}

fn shell_commands(block: &Block) -> Vec<Command> {
    let mut found = Vec::new();
    let mut lines = (block.line..).zip(block.text.lines());
    while let Some((line, first)) = lines.next() {
        if first.trim().is_empty() || first.starts_with('#') {
            continue;
        }
        let mut text = first.to_owned();
        while is_open(&text) {
            let (_, next) = lines.next().unwrap_or_else(|| panic!("line {line} has no end"));
            text.push('\n');
            text.push_str(next);
        }
        found.push(command(line, &text));
    }
    found
}

/// A command with the comment behind it, which says what it prints where it begins with `prints`.
fn command(line: usize, text: &str) -> Command {
    let (text, comment) = split_comment(text);
    let printed = comment.strip_prefix("prints ");
    let expected = printed.map(|text| Printed::Output(format!("{text}\n")));
    Command { line, text: text.to_owned(), comment: comment.to_owned(), expected }
}

/// As a terminal shows it: commands behind `$ `, and what each of them prints.
fn console_commands(block: &Block) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    for (line, text) in (block.line..).zip(block.text.lines()) {
        if let Some(text) = text.strip_prefix("$ ") {
            let expected = Some(Printed::Terminal(String::new()));
            found.push(Command { expected, ..command(line, text) });
            continue;
        }
        let last = found.last_mut().unwrap_or_else(|| panic!("line {line}: of no command"));
        match &mut last.expected {
            Some(Printed::Terminal(expected)) if !is_open(&last.text) => {
                expected.push_str(text);
                expected.push('\n');
            }
            // The command goes on.
            _ => {
                last.text.push('\n');
                last.text.push_str(text.strip_prefix("> ").unwrap_or(text));
            }
        }
    }
    found
}

/// Whether a command goes on in the next line: behind a backslash, within quotes, and up to the end
/// of a text that is in place (`<<'EOF'`).
fn is_open(text: &str) -> bool {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    if let Some((_, rest)) = first.split_once("<<'") {
        let end = rest.split('\'').next().unwrap_or_default();
        return !lines.any(|line| line == end);
    }
    text.ends_with('\\') || scan(text).1
}

/// Cuts a comment off, which stands behind a blank and outside of quotes.
fn split_comment(text: &str) -> (&str, &str) {
    match scan(text).0 {
        Some(at) if !text.contains('\n') => {
            (text[..at].trim_end(), text[at..].trim_start_matches('#').trim())
        }
        _ => (text, ""),
    }
}

/// Where a comment begins, and whether a quote is open at the end.
fn scan(text: &str) -> (Option<usize>, bool) {
    let mut quote = None;
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, '#') if before == ' ' => return (Some(at), false),
            (None, '\'' | '"') if before != '\\' => quote = Some(character),
            (Some(open), _) if open == character && !(open == '"' && before == '\\') => {
                quote = None;
            }
            _ => {}
        }
        before = character;
    }
    (None, quote.is_some())
}

#[test]
fn pages_are_split_into_blocks_and_commands() {
    let page = "\
text
```sh
# what follows
a 'b # c' \\
  d           # prints 42
export E=\"f
g\"
cat > h <<'END'
i
END
j             # why
```

```text
k
```
```console
$ l m # exits 1
n
$ o
```
```python
# p.py
q
```
";
    let blocks = blocks(page);
    let kinds: Vec<_> = blocks.iter().map(|block| &*block.kind).collect();
    assert_eq!(kinds, ["sh", "text", "console", "python"]);
    assert_eq!((blocks[0].line, blocks[3].file(), blocks[0].file()), (3, Some("p.py"), None));

    let found = commands_of(&blocks);
    let shell: Vec<_> = found[0].1.iter().map(|command| (command.line, &*command.text)).collect();
    let expected = [
        (4, "a 'b # c' \\\n  d           # prints 42"),
        (6, "export E=\"f\ng\""),
        (8, "cat > h <<'END'\ni\nEND"),
        (11, "j"),
    ];
    assert_eq!(shell, expected);
    assert_eq!(found[0].1[3].comment, "why");
    assert_eq!(found[0].1[3].expected, Some(Printed::Output("k\n".to_owned())));

    let terminal: Vec<_> = found[1].1.iter().map(|command| &command.expected).collect();
    let shown = |text: &str| Some(Printed::Terminal(text.to_owned()));
    assert_eq!(terminal, [&shown("n\n"), &shown("")]);
    assert_eq!((&*found[1].1[0].text, &*found[1].1[0].comment), ("l m", "exits 1"));
}
