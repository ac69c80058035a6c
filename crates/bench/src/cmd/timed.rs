// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath-bench failed-open | same-file | create-existing | cached | shapes | fd | many`:
//! changes of Linux and known shapes, reproduced.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::harness::Effort;
use crate::page::{Page, load, write};
use crate::row::Row;
use crate::{Ask, Error, cached, create, failed, fd, locked, many, same, shapes};

use super::{Common, at_least_one, tell};

#[derive(Debug, clap::Args)]
pub(crate) struct Timed {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Clean windows wanted of each variant.
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = at_least_one)]
    rounds: u64,
    /// Time limit of each group of rows that is measured together.
    #[arg(long, default_value_t = 30, value_name = "S")]
    seconds: u64,
    /// Write a page of results here.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SameFile {
    #[command(flatten)]
    pub(crate) timed: Timed,
    /// Time what files pay for locks, by where their inodes lie, and locks themselves.
    #[arg(long)]
    locks: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FailedOpen {
    #[command(flatten)]
    pub(crate) timed: Timed,
    /// Units of the project that is compiled.
    #[arg(long, default_value_t = 45, value_name = "N", value_parser = at_least_one)]
    units: u64,
    /// Replay the recording that is kept instead of recording.
    #[arg(long)]
    kept: bool,
    /// Write the recording here.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Many {
    #[command(flatten)]
    pub(crate) timed: Timed,
    /// Descriptors in one table.
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = at_least_one)]
    descriptors: u64,
    /// Tasks with 64 descriptors each.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = at_least_one)]
    tasks: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateExisting {
    #[command(flatten)]
    pub(crate) timed: Timed,
    /// Numbers of mounts under the root.
    #[arg(long, default_values_t = [64, 1024], value_delimiter = ',', value_name = "N",
          value_parser = at_least_one)]
    mounts: Vec<u64>,
    /// Tasks at once, instead of one for each processor.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    tasks: Option<u64>,
}

const FAILED: &str = "\
Opens that fail, which Linux 6.7 made cheaper (\"vfs: shave work on failed file open\"):\n\
`openneg` is the loop of that change, one path over and over, and the same for other ways to\n\
fail; `header-search` is the opens and closes of a C compilation, replayed in a tree of empty\n\
files. `switch` rows set ours against ours with the release of a failed open's file deferred,\n\
as before.";
const SAME: &str = "\
Open and close of one and the same file by every thread, the loop by which Linux judged a flag\n\
that tells of lock contexts (\"fs: track the inode having file locks with a flag in\n\
->i_opflags\"). Times are per operation of all threads together. `switch` rows set ours against\n\
ours with the lock context read from its field.";
const LOCKED: &str = "\
What files pay for locks, and what locks cost.\n\
\n\
`opens of an inode at N` is the loop by which Linux judged a flag that tells of lock contexts\n\
(\"fs: track the inode having file locks with a flag in ->i_opflags\"): open and close of one\n\
file by every thread, of an inode that begins N bytes into a line of memory, since there the\n\
flag's worth depends on that. `switch` sets ours against ours with the field read instead,\n\
`locked` is with a file that somebody has locked by fcntl(2) and by flock(2). `lines` are those\n\
of memory at which two tasks meet that open and close the file, counted access by access.\n\
\n\
`locks` are a lock of a whole file and its end: by fcntl(2) for the table (`posix`) and for the\n\
open file (`ofd`), and by flock(2); of one thread that nobody is in the way of, and `in turn`\n\
of several that wait for each other.";
const CREATE: &str = "\
Opens with `O_CREAT` in many mounts under one root (64, 1,024), where Linux tasks met at the\n\
root directory's entry (\"namei: clear nd->root.mnt before O_CREAT unlazy\"):\n\
`create-existing` opens files that exist and closes them; `create-new` creates, closes and\n\
unlinks. `absolute` paths begin at the root, `relative` ones in it. Times are per operation\n\
of all threads together, each thread in mounts of its own.\n\
\n\
`root counted` sets `root_reset_before_unlazy` off: who leaves lock-free mode counts a\n\
reference on the root. `locked first` sets `create_looks_first` off: the directory is locked\n\
before it is known whether the file exists, as in Linux before 6.12. Only with both off do\n\
opens of existing files write the root's entry. `switch` sets the first against its being\n\
off, both with `locked first`.\n\
\n\
Stores are those of one operation to memory that other tasks may use, counted one by one:\n\
`root` to the root directory's entry, `common` to lines of 64 bytes that operations in other\n\
mounts store to as well, `all` with those that only one mount sees. One task does them all,\n\
so `common` has what it or its thread keeps for itself, as the free entries that it uses\n\
again in the next mount.";
const CACHED: &str = "\
Opens by a program that must not wait, of which a part is cached (\"fs: Support for\n\
LOOKUP_CACHED / RESOLVE_CACHED\"). What is cached is one of 64 empty files, opened and\n\
closed; what is not is a name that does not exist and that nobody asked for before, so that\n\
no side can have it cached: a tmpfs keeps no entry of it. Every side gets the same mix.\n\
`host` is a directory of the host's tmpfs under our host backend, `mem` the same tree in our\n\
memory, without complete directories; what the host's own calls open is that tmpfs.\n\
\n\
`ring` attempts each open where it is submitted and asks a worker for what would wait;\n\
`always offloaded` asks a worker for each. `1 at once` waits for each answer, `32 at once`\n\
for 32. `future` is an open awaited on the runtime that `tokio::fs` has, `call` the same\n\
open as a call. Most sides hand work to other threads, so times are wall time, and medians\n\
of short windows.\n\
\n\
`read 4k` are reads of random pages of a file of 128 MiB on ext4, through our host backend, by\n\
a ring with the kernel\'s io_uring below it (feature `io-uring`) against one whose reads workers\n\
make, and against the call. What is `not cached` was dropped from the host\'s cache before.\n\
\n\
The rows with `p50` and more are single opens of cached files, 20,000 of each kind: answered\n\
where they are asked, by a worker, and where they are asked while 64 lookups of another ring\n\
wait for a backend that does not answer.";
const SHAPES: &str = "The shapes of will-it-scale (`open1`, `open2`, `open3`, `dup1`) and FxMark \
(`MRPL`, `MRPM`, `MRPH`),\nwritten anew. Times are per operation of all threads together.";
const FD: &str = "\
What the lowest free descriptor costs, by how many are open.\n\
\n\
The first table is the bitmaps alone, without lock, slots and files: medians in nanoseconds for\n\
one allocation and one release, all sides in one run, window by window. `linux` is the kernel's\n\
two levels as they were before 6.13; `+1`, `+2`, `+3` add its three patches (no \
needless checks, a\n\
conditional summary, a peek at the word of the hint). The first of its checks reads the slot of\n\
the number it found, which an install would read next anyway. `ours -peek` and\n\
`ours -conditional` are ours with a switch off.\n\
\n\
Patterns: `top` opens above all and closes it; `random` closes one at random and opens; `batch`\n\
closes 64 at random and opens as many; `hole` closes 3 and the highest and \
opens both, so that the\n\
second is far from the hint; `above-hole` leaves 3 free and opens from 4 on, which only the\n\
highest answers.\n\
\n\
The second table is whole calls: dup and close of a task (`F_DUPFD` where a \
minimum is asked for),\n\
against the host kernel's in this process with as many descriptors open. Where the host's hard\n\
limit is lower, ours stands alone against ours with ten open: what grows there \
is mostly the cache\n\
misses of random slots.";
const MANY: &str = "Very many descriptors: what they take in memory, and how long single \
operations take while the\ntable grows. Each operation is timed by itself between two serialising \
reads of the processor's\nclock; `control` is the same operation in a table that does not grow, \
chunk by chunk in turn.";

impl Timed {
    pub(crate) fn ask(&self) -> Ask {
        Ask {
            effort: Effort {
                rounds: usize::try_from(self.rounds).unwrap_or(usize::MAX),
                time: Duration::from_secs(self.seconds),
                tell,
            },
            filter: self.common.filter.clone(),
        }
    }

    /// Runs it, and writes the page if one is asked for.
    pub(crate) fn page(
        &self,
        words: [&str; 3],
        run: impl FnOnce() -> Result<Vec<Row>, Error>,
    ) -> Result<Vec<Row>, Error> {
        paged(self.page.as_deref(), words, run)
    }
}

/// Runs it, and writes the page if one is asked for.
pub(crate) fn paged(
    file: Option<&Path>,
    [title, about, command]: [&str; 3],
    run: impl FnOnce() -> Result<Vec<Row>, Error>,
) -> Result<Vec<Row>, Error> {
    let load = load();
    let rows = run()?;
    if let Some(file) = file {
        let load = load.as_str();
        let page = Page {
            title,
            about,
            command,
            load,
        };
        write(file, &page, &rows)?;
    }
    Ok(rows)
}

pub(crate) fn failed_open(args: &FailedOpen) -> Result<Vec<Row>, Error> {
    let options = failed::Options {
        ask: args.timed.ask(),
        units: usize::try_from(args.units).unwrap_or(usize::MAX),
        kept: args.kept,
        keep: args.record.clone(),
    };
    let page = ["Opens that fail", FAILED, "failed-open"];
    args.timed.page(page, || failed::run(&options))
}

pub(crate) fn same_file(args: &SameFile) -> Result<Vec<Row>, Error> {
    let timed = &args.timed;
    if args.locks {
        let page = ["Locks of files", LOCKED, "same-file --locks"];
        return timed.page(page, || locked::run(&timed.ask()));
    }
    let page = ["The same file", SAME, "same-file"];
    timed.page(page, || same::run(&timed.ask()))
}

pub(crate) fn create_existing(args: &CreateExisting) -> Result<Vec<Row>, Error> {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let options = create::Options {
        ask: args.timed.ask(),
        mounts: args.mounts.iter().copied().map(number).collect(),
        tasks: args.tasks.map_or(0, number),
    };
    let page = ["Create in many mounts", CREATE, "create-existing"];
    args.timed.page(page, || create::run(&options))
}

pub(crate) fn cached(args: &Timed) -> Result<Vec<Row>, Error> {
    let page = ["Opens that must not wait", CACHED, "cached"];
    args.page(page, || cached::run(&args.ask()))
}

pub(crate) fn shapes(args: &Timed) -> Result<Vec<Row>, Error> {
    let page = ["Shapes", SHAPES, "shapes"];
    args.page(page, || shapes::run(&args.ask()))
}

pub(crate) fn fd(args: &Timed) -> Result<Vec<Row>, Error> {
    let options = fd::Options {
        ask: args.ask(),
        plant: args.common.plant,
    };
    let load = load();
    let rows = fd::run(&options)?;
    if let Some(file) = &args.page {
        let page = Page {
            title: "Descriptors",
            about: &format!("{FD}\n\n{}", fd::matrix(&rows).trim_end()),
            command: "fd",
            load: &load,
        };
        write(file, &page, &fd::others(&rows))?;
    }
    Ok(rows)
}

pub(crate) fn many(args: &Many) -> Result<Vec<Row>, Error> {
    let options = many::Options {
        ask: args.timed.ask(),
        descriptors: usize::try_from(args.descriptors).unwrap_or(usize::MAX),
        tasks: usize::try_from(args.tasks).unwrap_or(usize::MAX),
    };
    let page = ["Many descriptors", MANY, "many"];
    args.timed.page(page, || many::run(&options))
}
