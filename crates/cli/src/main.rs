// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the command line of `openpath` and runs its subcommand, each from a module under `cmd`,
//! or one of the internal processes of a run.
//!
//! Exit status: 0 success; 1 `doctor` or `commit` found a problem; 2 any other failure. `run` and
//! `exec` end as their command does, and with 125 if it could not be started.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bars;
mod cmd;
mod console;
mod copying;
mod error;
mod line_diff;
mod outcome;
mod scene;
mod summary;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use outcome::Outcome;

/// Run a command on a copy-on-write view of the file tree, and keep the changes that you want.
#[derive(Debug, Parser)]
#[command(name = "openpath", version, arg_required_else_help = true)]
#[command(after_help = STATUS)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// The command line of `openpath run` alone: building the parser of all verbs would delay the run.
#[derive(Debug, Parser)]
#[command(name = "openpath", version)]
struct Run {
    #[command(subcommand)]
    verb: Start,
}

#[derive(Debug, Subcommand)]
enum Start {
    /// Run a command on a copy-on-write view of the real tree, and list what it changed.
    Run(Box<cmd::run::Args>),
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Start(Start),
    /// Run another command in a running view.
    Exec(cmd::exec::Args),
    /// Show the changes of a kept view as unified diffs to read; `commit` applies the changes.
    Diff(cmd::diff::Args),
    /// Apply the changes of a kept view to the real tree, all of them or those at some paths.
    Commit(cmd::commit::Args),
    /// Remove views with all their changes.
    Discard(cmd::views::Discard),
    /// List the running views and the kept ones.
    List(cmd::views::List),
    /// Check whether a run is possible here, and say what to do if it is not.
    Doctor(cmd::doctor::Args),
    /// Show the requests to running mounts and views, and what they hold in memory.
    Stats(cmd::stats::Args),
    /// List the file locks in running mounts and views, with their owners and waiters.
    Locks(cmd::locks::Args),
    /// Mount a tree at a directory, where any program can use it.
    Mount(cmd::mount::Args),
    /// Unmount a tree.
    Umount(cmd::mount::UmountArgs),
    /// Explain step by step what a call does in a tree that is described in text.
    Explain(cmd::explain::Args),
    /// Open a file through a ring, first not cached and then cached, and print what the ring did.
    Ring(cmd::ring::Args),
    /// Run the benchmarks: `openpath-bench`, if it is installed beside this program.
    Bench(cmd::bench::Args),
    /// Print the completion script of this command for a shell.
    Completions(cmd::completions::Args),
    /// Write the manual pages to a directory.
    Man(cmd::man::Args),
    /// Print the version.
    Version,
    /// Become another command in another user's view.
    #[command(hide = true, name = openpath_run::JOIN)]
    RunJoin(cmd::exec::Args),
}

/// The exit statuses, for the help.
const STATUS: &str = "Exit status: 0 success; 1 `doctor` or `commit` found a problem; 2 any other \
    failure. `run` and `exec` end as their command does.";
/// The exit status of `run` and `exec` if the command cannot be started.
const NOT_RUN: u8 = 125;

/// Prints what is wrong with the arguments, or the help that they ask for; the exit status.
fn misused(why: &clap::Error) -> ExitCode {
    // The status is the same if nothing reads it.
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
