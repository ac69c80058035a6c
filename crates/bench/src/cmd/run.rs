// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath-bench run`: whole programs under `openpath run`, and beside it.

use std::path::PathBuf;
use std::time::Duration;

use crate::harness::Effort;
use crate::row::Row;
use crate::{Ask, Error, programs};
use openpath_fuse::Rings;

use super::timed::paged;
use super::{Common, Outcome, at_least_one, tell, warn};

const ABOUT: &str = "\
Whole programs on the same files: under `openpath run` with its changes in memory (`ours`), on\n\
the bare system with the files on its disk (`native`) and on a tmpfs, under fuse-overlayfs over\n\
the whole tree with its changes on a tmpfs, and under proot, which keeps no changes apart. What\n\
each place takes to set up is in no row. `compile` is gcc, unit by unit; `python imports` a\n\
start of Python that imports 44 modules of its library; `git status` and `find` look at a\n\
repository; `tar` unpacks small files into an empty folder; `sqlite` fills a database of 10,000\n\
rows in 200 transactions without forcing it to the disk. What a load leaves is compared in all\n\
places.";

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Rounds, of which the first is not counted.
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = at_least_one)]
    rounds: u64,
    /// A C project to compile instead of one that is made.
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Where the files are made: a folder on a disk.
    #[arg(long, default_value = "/var/tmp", value_name = "DIR")]
    folder: PathBuf,
    /// The `openpath` program; without it the one beside this program.
    #[arg(long, value_name = "FILE")]
    openpath: Option<PathBuf>,
    /// Files in the repository.
    #[arg(long, default_value_t = 50_000, value_name = "N", value_parser = at_least_one)]
    tracked: u64,
    /// Files in the archive.
    #[arg(long, default_value_t = 30_000, value_name = "N", value_parser = at_least_one)]
    archived: u64,
    /// Write a page of results here.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Draw the results here, as SVG; the page shows a picture beside it.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Worker {
    /// Where scripts start.
    folder: PathBuf,
    /// Where they write.
    out: PathBuf,
}

/// Which way the kernel asks, which is the machine's to say and changes every row.
fn way() -> String {
    let (ways, switch) = if Rings::are_offered() {
        ("by rings", "Y")
    } else {
        ("one by one, by read(2)", "N")
    };
    format!("Requests of the kernel\ncame {ways} (`fuse.enable_uring` is {switch}).")
}

pub(crate) fn run(args: &Run) -> Result<Vec<Row>, Error> {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let exe = std::env::current_exe().map_err(|e| Error::host("find this program", e))?;
    let openpath = args.openpath.clone();
    let openpath = openpath.unwrap_or_else(|| exe.with_file_name("openpath"));
    if !openpath.is_file() {
        return Err(Error::Setup(format!(
            "{} does not exist: build it with `cargo build --release -p openpath-cli`, or name it \
             with --openpath",
            openpath.display()
        )));
    }
    let options = programs::Options {
        ask: Ask {
            effort: Effort {
                rounds: number(args.rounds),
                time: Duration::MAX,
                tell,
            },
            filter: args.common.filter.clone(),
        },
        exe,
        openpath,
        folder: args.folder.clone(),
        project: args.project.clone(),
        tracked: number(args.tracked),
        archived: number(args.archived),
    };
    let picture = args.svg.as_ref().and_then(|svg| svg.file_name());
    let picture = picture.map(|name| {
        let name = name.to_string_lossy();
        format!("\n\n![How many times the bare system's time each took]({name})")
    });
    let way = way();
    warn(&way);
    let about = format!("{ABOUT} {way}{}", picture.unwrap_or_default());
    let words = ["Programs", about.as_str(), "run"];
    paged(args.page.as_deref(), words, || {
        let rows = programs::run(&options)?;
        if let Some(svg) = &args.svg {
            let drawn = std::fs::write(svg, programs::plot(&rows));
            drawn.map_err(|why| Error::setup(&svg.display().to_string(), why))?;
        }
        Ok(rows)
    })
}

pub(crate) fn work(args: &Worker) -> Result<Outcome, Error> {
    programs::serve(&args.folder, &args.out)?;
    Ok(Outcome::Done)
}
