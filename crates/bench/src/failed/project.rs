// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a C project to compile, and its build script: its units include many headers of the
//! toolchain and some of the project, with several search directories, so that a part of the search
//! fails.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::host;
use crate::paths::Rng;

/// How many headers the project has, in the directory that is searched last.
const OWN: usize = 7;
const OWN_DIR: &str = "include/generated/config";
/// Headers of the toolchain that can be included together, where they exist.
const HEADERS: &str = "stdio.h stdlib.h string.h unistd.h fcntl.h errno.h signal.h pthread.h \
    time.h math.h poll.h dirent.h ctype.h limits.h stdint.h stddef.h stdarg.h wchar.h locale.h \
    sys/stat.h sys/mman.h sys/socket.h sys/wait.h sys/epoll.h sys/uio.h sys/time.h sys/resource.h \
    netinet/in.h netinet/tcp.h arpa/inet.h netdb.h linux/fs.h linux/stat.h";
/// How many of each ten headers a unit includes.
const OF_TEN: usize = 9;

/// Writes the project into `dir`, with `units` units; returns the build script.
pub(crate) fn write(dir: &Path, units: usize) -> io::Result<String> {
    let places = search_list()?;
    fs::create_dir_all(dir.join(OWN_DIR))?;
    fs::create_dir_all(dir.join("tmp"))?;
    for i in 0..OWN {
        fs::write(dir.join(OWN_DIR).join(own(i)), header(i))?;
    }
    let found = |name: &&str| places.iter().any(|place| place.join(name).exists());
    let headers: Vec<&str> = HEADERS.split(' ').filter(found).collect();
    let mut flags = String::from("-nostdinc -O0");
    for place in &places {
        let _ = write!(flags, " -I{}", place.display());
    }
    let _ = write!(flags, " -Iinclude -Iinclude/generated -I{OWN_DIR}");
    let (mut rng, mut script) = (Rng::new(crate::SEED), String::from("set -e\n"));
    for i in 0..units {
        let picked = headers.iter().filter(|_| rng.below(10) < OF_TEN);
        fs::write(dir.join(format!("unit{i}.c")), unit(i, picked.copied()))?;
        let _ = writeln!(script, "gcc {flags} -c unit{i}.c -o unit{i}.o");
    }
    Ok(script)
}

pub(super) fn compiler() -> Option<String> {
    let [version, _] = host::run(Command::new("gcc").arg("-dumpfullversion")).ok()?;
    Some(format!("gcc {version}"))
}

/// The compiler's search list for headers, the most used first: those of this architecture, the
/// common ones, the compiler's own.
fn search_list() -> io::Result<Vec<PathBuf>> {
    let mut ask = Command::new("gcc");
    ask.args(["-xc", "-E", "-v", "-"]).env("LC_ALL", "C");
    let [_, text] = host::run(&mut ask)?;
    let list = text.lines();
    let list = list.skip_while(|line| !line.starts_with("#include <"));
    let mut places: Vec<PathBuf> = list
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .map(|line| PathBuf::from(line.trim()))
        .filter(|place| place != Path::new("/usr/local/include"))
        .collect();
    places.sort_by_key(|place| {
        let has = |name| place.join(name).exists();
        (
            !place.starts_with("/usr/include"),
            has("stdio.h"),
            has("stddef.h"),
        )
    });
    match places.is_empty() {
        true => Err(io::Error::other("gcc names no directory of headers")),
        false => Ok(places),
    }
}

fn own(i: usize) -> String {
    format!("part_{i}.h")
}

fn header(i: usize) -> String {
    let struct_i = format!("struct part_{i}");
    let mut out = format!("#ifndef PART_{i}\n#define PART_{i}\n{struct_i} {{ long at, len; }};\n");
    for j in 0..20 {
        let name = format!("static inline long part_{i}_{j}({struct_i} *p)");
        let _ = writeln!(out, "{name} {{ return p->at * {j} + p->len; }}");
    }
    out + "#endif\n"
}

fn unit<'a>(i: usize, headers: impl Iterator<Item = &'a str>) -> String {
    let headers = headers.map(str::to_owned).chain((0..OWN).map(own));
    let mut out: String = headers.map(|name| format!("#include <{name}>\n")).collect();
    for j in 0..20 {
        let _ = writeln!(
            out,
            "long unit{i}_{j}(long at, long len) {{ struct part_{k} p = {{ at, len }};\n\
             \x20 long sum = 0; for (long n = at; n < len; n++) sum += part_{k}_{j}(&p) ^ n;\n\
             \x20 return sum; }}",
            k = j % OWN
        );
    }
    out
}
