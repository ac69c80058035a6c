// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks and drivers of this repository: `cargo xtask <command>`.

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
    /// What must pass before a commit: fmt, clippy, tidy, doc, test.
    Check(cmd::check::Which),
    /// The tests alone, several binaries at a time.
    Test(cmd::test::Options),
    /// The same for the host of wasm guests, which is not built by default.
    Wasi,
    /// Build real programs for WASI, and compare what they do as guests with what they do here.
    WasiPrograms,
    /// The rules of the house alone.
    Tidy,
    /// Write the index of the differences from Linux anew.
    Index,
    /// The gates that keep cached calls free of shared writes, by count (needs valgrind, binutils).
    Gates(cmd::gates::Options),
    /// Compare openpath with the host kernel (needs root, for a mount namespace).
    #[command(disable_help_flag = true)]
    Oracle {
        /// Passed on; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// The suite of RESOLVE_CACHED, on the running kernel and on openpath (needs root).
    Conformance {
        /// Passed on to the test programs: a filter.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Plant wrong rules, one at a time, and see that the oracle reports each.
    Mutate(cmd::mutate::Options),
    /// Every interleaving of the protocols in `sync`, up to LOOM_MAX_PREEMPTIONS (3 unless set).
    Loom {
        /// Passed on to the test program: a filter, `--list`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// The core under a scheduler that chooses, and threads that die at each step of a call.
    Shuttle {
        /// Passed on to the test program: a filter, `--nocapture`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Threads that change one tree while others walk it, as it is or under a sanitizer.
    Storm(cmd::storm::Options),
    /// Very many operations through rings and futures, as it is or under a sanitizer.
    Soak(cmd::storm::Soak),
    /// Random entries to the kernel's io_uring and to the ring: every answer must be the same.
    #[command(disable_help_flag = true)]
    Uring {
        /// Passed on; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Suites and stress over a mount of ours, beside the host's tmpfs (needs root).
    Outside(cmd::outside::Options),
    /// Kill processes of a run at random moments, and look what is left (needs root).
    #[command(disable_help_flag = true)]
    Kills {
        /// Passed on; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run what the picture of the README shows, and draw it anew.
    Picture,
    /// Run the commands of the README that need this checkout.
    Readme {
        /// Those of WebAssembly guests instead, which take minutes to build.
        #[arg(long)]
        wasi: bool,
    },
    /// What a guest may try to use up: every bound must hold.
    #[command(disable_help_flag = true)]
    Hostile {
        /// Passed on; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// SQLite over our locks, which is not built by default: what `check` does, or many
    /// connections at one database.
    Sqlite {
        /// Only the connections, for so many seconds; 600 is the promise.
        #[arg(long)]
        seconds: Option<u64>,
        /// What their choices follow from.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// What guests of WebAssembly may try, to get out or to use up, again and again.
    HostileWasi {
        /// So many seconds; 3600 is the promise.
        #[arg(long, default_value_t = 3600)]
        seconds: u64,
        /// A hundred times as many calls, and other guests' latency is judged.
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
