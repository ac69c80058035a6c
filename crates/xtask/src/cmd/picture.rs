// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask picture`: draws `docs/run.svg`, a terminal with the README's commands.
//!
//! The commands run in a directory made for them, and the picture shows their real output.

use super::proof::openpath;
use super::{Done, root};
use anstyle_svg::Term;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The commands, in order.
const TYPED: &[&str] = &[
    "ls",
    "openpath run --name try -- sh -c 'make -s && ./hello; rm notes; sed -i s/hello/bye/ hello.c'",
    "ls",
    "openpath diff try hello.c",
    "openpath commit try hello.c && grep -c bye hello.c",
    "openpath discard try",
];

/// The files of the directory.
const FILES: &[(&str, &str)] = &[
    (
        "hello.c",
        "#include <stdio.h>\n\nint main(void)\n{\n\tputs(\"hello\");\n\treturn 0;\n}\n",
    ),
    ("Makefile", "hello: hello.c\n\tcc -o hello hello.c\n"),
    ("notes", "water the plants\n"),
];

/// Runs the commands and writes the picture.
pub(crate) fn run() -> Done {
    let openpath = openpath()?;
    let bin = openpath.parent().unwrap_or(&openpath);
    let place = std::env::temp_dir().join(format!("openpath-picture-{}", std::process::id()));
    let work = place.join("hello");
    fs::create_dir_all(&work)?;
    for (name, text) in FILES {
        fs::write(work.join(name), text)?;
    }
    let shown = session(bin, &work, &place);
    fs::remove_dir_all(&place)?;
    let term = Term::new();
    fs::write(root().join("docs/run.svg"), term.render_svg(&shown?))?;
    println!("docs/run.svg");
    Ok(ExitCode::SUCCESS)
}

/// The text of a terminal after all commands.
fn session(bin: &Path, work: &Path, home: &Path) -> io::Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shown = String::new();
    for line in TYPED {
        let out = Command::new("sh")
            .args(["-c", &format!("exec 2>&1; {line}")])
            .current_dir(work)
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", home)
            .env_remove("XDG_STATE_HOME")
            .env("CLICOLOR_FORCE", "1")
            .output()?;
        if !out.status.success() {
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            return Err(io::Error::other(format!("{line}: {}: {text}", out.status)));
        }
        let text = String::from_utf8_lossy(&out.stdout);
        let _never_fails = write!(shown, "\x1b[1m$ {line}\x1b[0m\n{text}");
    }
    // The real path of the directory is not shown.
    Ok(shown.replace(&home.display().to_string(), "/home/me"))
}
