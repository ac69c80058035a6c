// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses `cargo xtask <command>` and runs the command: a check of this repository, or a program or
//! test of another crate.

#![forbid(unsafe_code)]

mod cmd;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks and drivers of this repository")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run what must pass before a commit: fmt, clippy, tidy, doc, test.
    Check(cmd::check::Which),
    /// Run the tests alone, several binaries at a time.
    Test(cmd::test::Options),
    /// Run `check` for the host of WebAssembly guests, which is not built by default.
    Wasi,
    /// Build real programs for WASI, and compare their results as guests and as processes.
    WasiPrograms,
    /// Check the rules of the house alone.
    Tidy,
    /// Write the index of the differences from Linux.
    Index,
    /// Check that cached calls make no shared writes, by counts (needs valgrind, binutils).
    Gates(cmd::gates::Options),
    /// Compare openpath with the host kernel (needs root, for a mount namespace).
    #[command(disable_help_flag = true)]
    Oracle {
        /// Passed on; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the suite of RESOLVE_CACHED on the running kernel and on openpath (needs root).
    Conformance {
        /// Passed on to the test programs: a filter.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Plant wrong rules, one at a time, and check that the oracle reports each.
    Mutate(cmd::mutate::Options),
    /// Explore every interleaving of the protocols in `sync`, up to LOOM_MAX_PREEMPTIONS (default
    /// 3).
    Loom {
        /// Passed on to the test program: a filter, `--list`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the core under a scheduler that chooses, with threads that die at each step of a call.
    Shuttle {
        /// Passed on to the test program: a filter, `--nocapture`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Change one tree while threads walk it, plain or under a sanitizer.
    Storm(cmd::storm::Options),
    /// Run very many operations through rings and futures, plain or under a sanitizer.
    Soak(cmd::storm::Soak),
    /// Give random entries to the kernel's io_uring and to the ring: every answer must be the same.
    #[command(disable_help_flag = true)]
    Uring {
        /// Passed on; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run suites and stress on a mount of ours, and on the host's tmpfs (needs root).
    Outside(cmd::outside::Options),
    /// Kill processes of a run at random moments, and check what is left (needs root).
    #[command(disable_help_flag = true)]
    Kills {
        /// Passed on; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the commands in the picture of the README, and draw it again.
    Picture,
    /// Run the commands of the README that need this checkout.
    Readme {
        /// Run those of WebAssembly guests instead, which take minutes to build.
        #[arg(long)]
        wasi: bool,
    },
    /// Let a guest exhaust what it can: every bound must hold.
    #[command(disable_help_flag = true)]
    Hostile {
        /// Passed on; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Check SQLite over our locks, which is not built by default, or run many connections on one
    /// database.
    Sqlite {
        /// Run only the connections, for this many seconds; the promise is 600.
        #[arg(long)]
        seconds: Option<u64>,
        /// Seed of their random choices.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Let WebAssembly guests try repeatedly to escape or to exhaust resources.
    HostileWasi {
        /// How many seconds; the promise is 3600.
        #[arg(long, default_value_t = 3600)]
        seconds: u64,
        /// Make a hundred times as many calls, and check other guests' latency.
        #[arg(long)]
        full: bool,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Check(which) => cmd::check::run(which),
        Command::Test(options) => cmd::test::run(&options),
        Command::Wasi => cmd::wasi::run(),
        Command::WasiPrograms => cmd::wasi_programs::run(),
        Command::Tidy => cmd::tidy::run(),
        Command::Index => cmd::index::run(),
        Command::Gates(options) => cmd::gates::run(&options),
        Command::Oracle { args } => cmd::proof::testkit("oracle", &args),
        Command::Conformance { args } => cmd::proof::conformance(&args),
        Command::Mutate(options) => cmd::mutate::run(&options),
        Command::Loom { args } => cmd::proof::loom(&args),
        Command::Shuttle { args } => cmd::proof::shuttle(&args),
        Command::Storm(options) => cmd::storm::run(&options),
        Command::Soak(soak) => cmd::storm::soak(&soak),
        Command::Uring { args } => cmd::proof::testkit("uring", &args),
        Command::Outside(options) => cmd::outside::run(&options),
        Command::Kills { args } => cmd::proof::kills(&args),
        Command::Picture => cmd::picture::run(),
        Command::Readme { wasi } => cmd::readme::run(wasi),
        Command::Hostile { args } => cmd::proof::testkit("hostile", &args),
        Command::Sqlite { seconds, seed } => cmd::sqlite::run(seconds, seed),
        Command::HostileWasi { seconds, full } => cmd::proof::hostile_wasi(seconds, full),
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::FAILURE
    })
}
