// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `openpath` command: one file per verb under `cmd`.
//!
//! Exit status: 0 done; 1 a check found a shortfall; 2 it could not be run. `run` and `exec` end as
//! the command does, and with 125 where it could not be started.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cmd;
mod console;
mod copying;
mod error;
mod scene;
mod summary;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Run a command on a copy-on-write view of the file tree, and keep what you like of its changes.
#[derive(Debug, Parser)]
#[command(name = "openpath", version, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done, 1 a check found a shortfall, 2 it could not be run.")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// `openpath run` by itself. The other verbs have many options, and a run does not wait for the
/// parser of them.
#[derive(Debug, Parser)]
#[command(name = "openpath", version)]
struct Run {
    #[command(subcommand)]
    verb: Start,
}

#[derive(Debug, Subcommand)]
enum Start {
    /// Run a command on a copy-on-write view of the real tree, and say what it changed.
    Run(Box<cmd::run::Args>),
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Start(Start),
    /// Run a further command in a view that runs.
    Exec(cmd::exec::Args),
    /// Show what a kept view changed, as unified diffs to read; `commit` applies the changes.
    Diff(cmd::diff::Args),
    /// Apply what a kept view changed to the real tree, all of it or a part.
    Commit(cmd::commit::Args),
    /// Remove views, with all that their commands changed.
    Discard(cmd::views::Discard),
    /// List the views that run, and those that runs have kept.
    List(cmd::views::List),
    /// Check whether a run is possible here, and say what to do if it is not.
    Doctor(cmd::doctor::Args),
    /// Show what running mounts and views are asked to do, and what they hold in memory.
    Stats(cmd::stats::Args),
    /// List the file locks in running mounts and views, their owners and waiters.
    Locks(cmd::locks::Args),
    /// Mount a tree where any program can use it.
    Mount(cmd::mount::Args),
    /// Take a mount away.
    Umount(cmd::mount::UmountArgs),
    /// Explain a call step by step, in a tree described in text.
    Explain(cmd::explain::Args),
    /// Open a file through a ring, first not cached and then cached, and print what the ring did.
    Ring(cmd::ring::Args),
    /// Measure openpath by `openpath-bench`, where that is installed beside this program.
    Bench(cmd::bench::Args),
    /// Print completions of this command for a shell.
    Completions(cmd::completions::Args),
    /// Write the manual pages into a directory.
    Man(cmd::man::Args),
    /// Print the version.
    Version,
    /// Become a further command in another user's view.
    #[command(hide = true, name = openpath_run::JOIN)]
    RunJoin(cmd::exec::Args),
}

/// How a verb ended, unless it could not be run.
enum Outcome {
    Done,
    Shortfall,
    Status(ExitCode),
}

/// The exit status of `run` and `exec` for what keeps the command from being started.
const NOT_RUN: u8 = 125;

/// Says what is wrong with the arguments, or what was asked about them.
fn misused(why: &clap::Error) -> ExitCode {
    // Whether or not it is read.
    why.print().ok();
    let verb = std::env::args_os().nth(1);
    let starts = verb.is_some_and(|verb| verb == "run" || verb == "exec");
    match u8::try_from(why.exit_code()) {
        Ok(0) => ExitCode::SUCCESS,
        _ if starts => ExitCode::from(NOT_RUN),
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::from(2),
    }
}

fn main() -> ExitCode {
    if let Some(code) = cmd::run::internal(std::env::args_os().skip(1)) {
        return code;
    }
    let runs = std::env::args_os().nth(1).is_some_and(|verb| verb == "run");
    let verb = match runs {
        true => Run::try_parse().map(|run| Verb::Start(run.verb)),
        false => Cli::try_parse().map(|cli| cli.verb),
    };
    let verb = match verb {
        Ok(verb) => verb,
        Err(why) => return misused(&why),
    };
    let done = match verb {
        Verb::Bench(args) => cmd::bench::run(&args),
        Verb::Stats(args) => cmd::stats::run(&args),
        Verb::Locks(args) => cmd::locks::run(&args),
        Verb::Explain(args) => cmd::explain::run(&args),
        Verb::Ring(args) => cmd::ring::run(&args),
        Verb::Mount(args) => cmd::mount::run(&args),
        Verb::Umount(args) => cmd::mount::umount(&args),
        Verb::Start(Start::Run(args)) => cmd::run::run(&args),
        Verb::Exec(args) => Ok(cmd::exec::run(&args)),
        Verb::List(args) => cmd::views::list(&args),
        Verb::Diff(args) => cmd::diff::run(&args),
        Verb::Commit(args) => cmd::commit::run(&args),
        Verb::Discard(args) => cmd::views::discard(&args),
        Verb::Doctor(args) => cmd::doctor::run(&args),
        Verb::Completions(args) => cmd::completions::run(&args, Cli::command()),
        Verb::Man(args) => cmd::man::run(&args, Cli::command()),
        Verb::Version => cmd::version::run(),
        Verb::RunJoin(args) => Ok(cmd::exec::join(&args)),
    };
    match done {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Shortfall) => ExitCode::from(1),
        Ok(Outcome::Status(code)) => code,
        Err(why) => {
            console::warn(&format!("openpath: {why}"));
            ExitCode::from(2)
        }
    }
}
