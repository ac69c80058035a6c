// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath-bench wasi`: calls of guests in process, here and under wasmtime's own WASI.

use std::path::PathBuf;

use crate::row::Row;
use crate::{Error, wasi};

use super::at_least_one;
use super::timed::Timed;

const ABOUT: &str = "\
Calls of a guest of WebAssembly, preview 1: the same module in the same process, its files under\n\
openpath in memory (`ours`), and under wasmtime-wasi on a tmpfs, which by default gives each call\n\
that may wait to a thread of a pool (`default`), and with `allow_blocking_current_thread` does it\n\
in place (`blocking`). `open-close` is path_open and fd_close of one of 64 files, `failed-open`\n\
path_open of a name that does not exist, `stat` path_filestat_get, `fstat` fd_filestat_get,\n\
`read` path_open, fd_read of 4 KiB and fd_close, `pread` fd_pread of 4 KiB, `readdir` path_open,\n\
fd_readdir by 32 KiB of a directory of 1,000 names, and fd_close; `floor` is fd_prestat_get,\n\
which no file system sees. `dN`: the path has N names. `host backend` rows set our side over the\n\
tmpfs itself against `blocking`. `whole program` is a guest from its making to its end: its\n\
instance, a stat, a read and a miss for each of 64 files, and a listing of 1,000 names.\n\
\n\
`gofmt` and `sqlite` rows, with `--programs`, are of real programs from start to end: gofmt lists\n\
the unformatted among some 200 files of Go, SQLite fills, asks and checks a database. `native` is\n\
the same as a process on the tmpfs; there less is better, and gofmt has all processors.\n\
\n\
`guests` rows are of many guests at once over one image, each with a tenant, a namespace and a\n\
tree of its own to write to: a directory, or an overlay over the image. `bytes` is what\n\
openpath takes for each that is idle; `common stores` are stores to lines of memory to which two\n\
guests store while they open and close one file of the image.";

#[derive(Debug, clap::Args)]
pub(crate) struct Wasi {
    #[command(flatten)]
    pub(crate) timed: Timed,
    /// Where the files of wasmtime's side are made: a directory on a tmpfs.
    #[arg(long, default_value = "/dev/shm", value_name = "DIR")]
    folder: PathBuf,
    /// Guests that live at once.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = at_least_one)]
    guests: u64,
    /// Run real programs too, which `cargo xtask wasi-programs` has put here
    /// (target/wasi-programs).
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Draw the results here, as SVG; the page shows a picture beside it.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: &Wasi) -> Result<Vec<Row>, Error> {
    let options = wasi::Options {
        ask: args.timed.ask(),
        folder: args.folder.clone(),
        guests: usize::try_from(args.guests).unwrap_or(usize::MAX),
        programs: args.programs.clone(),
    };
    let picture = args.svg.as_ref().and_then(|svg| svg.file_name());
    let picture = picture.map(|name| {
        let name = name.to_string_lossy();
        format!("\n\n![How many times what openpath takes each call took]({name})")
    });
    let about = format!("{ABOUT}{}", picture.unwrap_or_default());
    let words = [
        "Guests in process",
        about.as_str(),
        "--features wasi -- wasi",
    ];
    args.timed.page(words, || {
        let rows = wasi::run(&options)?;
        if let Some(svg) = &args.svg {
            let drawn = std::fs::write(svg, wasi::plot(&rows));
            drawn.map_err(|why| Error::setup(&svg.display().to_string(), why))?;
        }
        Ok(rows)
    })
}
