// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds names for addresses: data by the spans that the program reported, code by `addr2line`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A loaded file.
#[derive(Clone, Debug)]
struct Object {
    bias: u64,
    start: u64,
    end: u64,
    file: PathBuf,
}

/// The program's report about its memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    spans: Vec<(String, u64, u64)>,
    objects: Vec<Object>,
    /// The pairs, in the order of their rounds.
    pub(super) pairs: Vec<String>,
}

impl Map {
    /// Parses the program's report; the first object is `program` itself.
    pub(super) fn parse(text: &str, program: &Path) -> Self {
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut map = Self::default();
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            let words: Vec<&str> = rest.splitn(4, ' ').collect();
            match (kind, &words[..]) {
                ("pair", _) => map.pairs.push(rest.to_owned()),
                ("span", [name, start, bytes]) => {
                    if let (Some(start), Some(bytes)) = (hex(start), hex(bytes)) {
                        map.spans.push(((*name).to_owned(), start, bytes));
                    }
                }
                ("object", [bias, start, end, file @ ..]) => {
                    let file = file.first().map_or("", |file| file.trim());
                    let file = if file.is_empty() {
                        program
                    } else {
                        Path::new(file)
                    };
                    if let (Some(bias), Some(start), Some(end)) = (hex(bias), hex(start), hex(end))
                    {
                        map.objects.push(Object {
                            bias,
                            start,
                            end,
                            file: file.to_owned(),
                        });
                    }
                }
                _ => {}
            }
        }
        map
    }

    /// The name of an address of data.
    pub(super) fn data(&self, at: u64) -> String {
        let inside = |span: &&(String, u64, u64)| (span.1..span.1 + span.2).contains(&at);
        match self.spans.iter().find(inside) {
            Some((name, start, _)) => format!("{name}+{:#x}", at - start),
            None => format!("{at:#x}"),
        }
    }

    /// Function and line of an instruction, with the functions that it is inlined into.
    pub(super) fn code(&self, at: u64) -> String {
        const CALLERS: usize = 3;
        let inside = |object: &&Object| (object.start..object.end).contains(&at);
        let Some(object) = self.objects.iter().find(inside) else {
            return format!("{at:#x}");
        };
        let offset = at - object.bias;
        let mut command = Command::new("addr2line");
        command.args(["-f", "-C", "-i", "-e"]).arg(&object.file);
        let out = command.arg(format!("{offset:#x}")).output();
        let text = out.map_or_else(|_| String::new(), |out| text(&out.stdout));
        let lines: Vec<&str> = text.lines().collect();
        let callers = lines.chunks(2).filter(|pair| !pair[0].starts_with('?'));
        let callers: Vec<String> = callers.take(CALLERS).map(caller).collect();
        if callers.is_empty() {
            let file = object
                .file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
            return format!("{file}+{offset:#x}");
        }
        callers.join(" < ")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `name (crates/x/src/y.rs:7)` from a name and a place.
fn caller(pair: &[&str]) -> String {
    let place = pair.get(1).copied().unwrap_or_default();
    let place = place.split(" (").next().unwrap_or_default();
    let short = match place.find("crates/") {
        Some(at) => &place[at..],
        None => place.rsplit('/').next().unwrap_or_default(),
    };
    format!("{} ({short})", pair[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_report_is_parsed() {
        let text = "span dentries 1000 100\nobject 400000 401000 402000 \n\
                    object 7000 8000 9000 /lib/c.so\npair a | b, same d1\n";
        let map = Map::parse(text, Path::new("/bin/openpath-bench"));
        assert_eq!(map.pairs, ["a | b, same d1"]);
        assert_eq!(map.data(0x10ff), "dentries+0xff");
        assert_eq!(map.data(0x1100), "0x1100");
        let files: Vec<&Path> = map.objects.iter().map(|o| o.file.as_path()).collect();
        assert_eq!(
            files,
            [Path::new("/bin/openpath-bench"), Path::new("/lib/c.so")]
        );
        assert_eq!(map.code(0x6fff), "0x6fff");
    }

    #[test]
    fn caller_is_named_briefly() {
        let pair = ["take", "/x/crates/vfs/src/a.rs:7 (discriminator 2)"];
        assert_eq!(caller(&pair), "take (crates/vfs/src/a.rs:7)");
        assert_eq!(
            caller(&["free", "./malloc/malloc.c:3"]),
            "free (malloc.c:3)"
        );
    }
}
