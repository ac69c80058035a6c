// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath run`: runs a command on a copy-on-write view of the real tree, and prints what it
//! changed. Starts the internal processes of a run as well.

mod argv;
mod config;
mod kept;
mod magic;
mod output;
mod rules;
#[cfg(feature = "wasi")]
mod wasm;

use crate::console;
use crate::copying::Bar;
use crate::error::Error;
use crate::outcome::Outcome;
use crate::summary::{self, text_of};
use config::{Config, Mount};
use kept::AddedRules;
use openpath_run::{
    Engine, KeptRules, KeptView, Limit, LogFile, Net, Plan, Refusal, Reporting, RunOutcome,
    ServedByKernel, Share, Upper, printable,
};
use output::{Report, Written};
use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The exit statuses besides those of the command itself.
const STATUS: &str = "Exit status: that of the command, and if a signal killed the command, the \
    same signal kills this program; 124 a limit on time ended it, 125 the run failed, 126 the \
    command cannot be executed, 127 there is no such command, 134 a WebAssembly guest trapped.";

#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct Args {
    /// Write changes below this directory to the real tree at once. File locks there hold only
    /// within the view: use --pass for files that processes outside lock too, such as a database or
    /// a package cache.
    #[arg(long, value_name = "PATH")]
    rw: Vec<PathBuf>,
    /// Refuse changes below this path, except where --rw, --pass or --mount names a path in it: the
    /// innermost rule wins.
    #[arg(long, value_name = "PATH")]
    ro: Vec<PathBuf>,
    /// Like --ro, but the path need not exist: if it does not, nothing can be made there.
    #[arg(long, value_name = "PATH")]
    ro_try: Vec<PathBuf>,
    /// Hide this path: the command does not find it and cannot make it. A symbolic link is hidden
    /// with its target.
    #[arg(long, value_name = "PATH")]
    hide: Vec<PathBuf>,
    /// Like --hide, but the path need not exist: the command cannot make it in either case.
    #[arg(long, value_name = "PATH")]
    hide_try: Vec<PathBuf>,
    /// Hide all names that match this pattern: the command does not find them and cannot make them.
    /// A pattern with a slash matches paths, relative to the working directory, or to the root if
    /// it begins with a slash. `*`, `?`, `[a-z]` and `[!a]` match within a name; `**` between
    /// slashes matches any number of directories; `{a,b}` matches either; `\` makes the next
    /// character literal. The pattern does not hold in what passes (see --pass).
    #[arg(long, value_name = "GLOB")]
    absent: Vec<String>,
    /// Pass this path through from the host, with its sockets and mounts: changes there are real.
    /// Rules for paths in it are refused.
    #[arg(long, value_name = "PATH")]
    pass: Vec<PathBuf>,
    /// Mount another tree at a directory: `DIR=mem,size=64M`, `DIR=host:PATH,ro` or
    /// `DIR=overlay,lower=PATH,lower=PATH,upper=UPPER`, topmost layer first, with UPPER as in
    /// --upper.
    #[arg(long, value_name = "SPEC", value_parser = Mount::parse)]
    mount: Vec<Mount>,
    /// Where to keep the changes: `memory`, `memory:SIZE`, or a directory, which keeps the view as
    /// with --name. Excludes --name, on the command line and in the file of --config.
    #[arg(long, value_name = "UPPER")]
    upper: Option<String>,
    /// What serves the view. `fuse` is this program, which holds every rule and shows changes of
    /// the real tree at once. `kernel` is the kernel's overlayfs, which is quicker. For an ordinary
    /// user, and with rules of names, it serves a directory at or above the working directory, and
    /// this program the rest. Rules that it cannot hold are refused. `auto`, the default, is the
    /// kernel's for root where it can serve the whole view, else this program.
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,
    /// Show at once what others change in the real tree while the command runs. The engine `fuse`
    /// does so anyway; with `--engine auto` this chooses it.
    #[arg(long)]
    live: bool,
    /// Let the kernel keep writes back, as for a disk: many small writes are faster, reading many
    /// files is slower, and close(2) instead of write(2) reports a full view. Refused with --rw and
    /// with any other writable directory of the host.
    #[arg(long)]
    write_back: bool,
    /// Handle file locks in the server of the view instead of in the kernel, so that `openpath
    /// locks` shows them. Each open is slower.
    #[arg(long)]
    locks: bool,
    /// Read requests from `/dev/fuse` even where the kernel offers rings for them.
    #[arg(long)]
    no_rings: bool,
    /// Share a resource of the host with the command instead of giving it one of its own: `pid`
    /// (processes and /proc), `ipc` (System V IPC and message queues), `shm` (/dev/shm), `abstract`
    /// (abstract UNIX sockets), `keyring` (keys, and the session keyring). Can be repeated or
    /// separated by commas.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    share: Vec<Share>,
    /// The network of the command: `host`, or `none` for nothing but a loopback device.
    #[arg(long, value_name = "NET")]
    net: Option<Net>,
    /// Leave this descriptor open to the command, whatever it refers to. Other sockets, directories
    /// and most kernel objects are closed, because the command could reach all of the real tree
    /// through them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    keep_fd: Vec<i32>,
    /// Limit what all processes of the view use together: `memory=SIZE` (such as 512M), `cpu=CORES`
    /// (such as 0.5), `pids=N` processes and threads, or `time=DURATION` (such as 90s, 10m or 2h),
    /// after which they are ended with exit status 124. Can be repeated or separated by commas; of
    /// two limits on one resource the smaller holds. Memory and cpu need a delegated control group.
    #[arg(long, value_name = "LIMIT", value_delimiter = ',')]
    limit: Vec<Limit>,
    /// Keep the changes and the rules as a view, under this name or in this directory; if the view
    /// exists, go on with it. New rules add to the kept ones.
    #[arg(long, value_name = "VIEW")]
    name: Option<String>,
    /// Replace the rules that are kept with the view by the rules of this run.
    #[arg(long)]
    replace_rules: bool,
    /// Read options from this TOML file. Its paths and patterns are relative to the directory of
    /// the file, those of options to the working directory. Rules of options add to its rules, of
    /// two limits the smaller holds, and --net, --engine, --upper and --name replace its `net`,
    /// `engine`, `upper` and `name`. Refused if the command could change the file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the run as a file for --config, and do not run the command.
    #[arg(long)]
    dry_run: bool,
    /// Write the summary as one JSON object.
    #[arg(long)]
    json: bool,
    /// Write the summary to this file instead of standard error. The file is opened before the
    /// command starts, and its content is replaced after the command has ended.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Log every open that is refused, or that leads elsewhere than the command expects, with the
    /// reason, as a line in this file (`-` for standard error). The lines are text, or JSON with
    /// --json or if the name ends in `.jsonl`. The command runs slower.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Print no summary on standard error, except what was lost. A file of --report is written.
    #[arg(long, short)]
    quiet: bool,
    #[cfg(feature = "wasi")]
    #[command(flatten)]
    wasm: wasm::Options,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// The open file of the log.
    fn log_file(&self) -> Result<Option<LogFile>, Refusal> {
        let Some(path) = &self.log else {
            return Ok(None);
        };
        let file = if path.as_os_str() == "-" {
            let file = std::io::stderr().as_fd().try_clone_to_owned();
            file.map_err(|why| Refusal::step("--log -", why))?
        } else {
            output::open_log(path)?
        };
        let json = self.json || path.extension().is_some_and(|end| end == "jsonl");
        Ok(Some(LogFile::new(file, json)))
    }

    /// Whether a progress bar may be shown.
    fn shows_progress(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }

    /// The file and the options together.
    fn config(&self, cwd: &Path) -> Result<Config, Refusal> {
        let mut config = match &self.config {
            Some(file) => Config::read(file).map_err(Refusal::usage)?,
            None => Config::default(),
        };
        self.refuse_upper_with_name(&config)?;
        config.rw.extend_from_slice(&self.rw);
        config.ro.extend_from_slice(&self.ro);
        config.ro_try.extend_from_slice(&self.ro_try);
        config.hide.extend_from_slice(&self.hide);
        config.hide_try.extend_from_slice(&self.hide_try);
        config.absent.extend_from_slice(&self.absent);
        config.pass.extend_from_slice(&self.pass);
        config.mounts.extend_from_slice(&self.mount);
        config.engine = self.engine.unwrap_or(config.engine);
        config.write_back |= self.write_back;
        config.live |= self.live;
        config.locks |= self.locks;
        config.no_rings |= self.no_rings;
        config.share.extend_from_slice(&self.share);
        config.limit.extend_from_slice(&self.limit);
        config.net = self.net.unwrap_or(config.net);
        config.upper = self.upper.clone().or(config.upper);
        config.name = self.name.clone().or(config.name);
        config.settle(cwd)?;
        Ok(config)
    }

    /// Refuses `upper` and `name` together, each from the command line or from the file. One of
    /// them would be ignored, and with `upper` the bound on memory.
    fn refuse_upper_with_name(&self, file: &Config) -> Result<(), Refusal> {
        let origin = |key: &str, option: &Option<String>, in_file: &Option<String>| {
            let file = self.config.as_ref().filter(|_| in_file.is_some());
            let file = file.map(|file| format!("`{key}` of {}", file.display()));
            option.as_ref().map(|_| format!("--{key}")).or(file)
        };
        let upper = origin("upper", &self.upper, &file.upper);
        let name = origin("name", &self.name, &file.name);
        match (upper, name) {
            (Some(upper), Some(name)) => Err(Refusal::usage(format!(
                "{upper} and {name} exclude each other, because a named view keeps its changes in \
                 its own directory: leave one out"
            ))),
            _ => Ok(()),
        }
    }

    /// Says where `--engine kernel` comes from if nobody typed it.
    fn explain_engine(&self, why: Refusal) -> Refusal {
        match &self.config {
            Some(file) if self.engine.is_none() && why.to_string().contains("--engine kernel") => {
                let file = file.display();
                let text = format!("{why} (`engine = \"kernel\"` is in {file})");
                Refusal::new(why.kind(), text)
            }
            _ => why,
        }
    }

    /// Refuses `--quiet --json` where nothing is written as JSON.
    fn check_quiet(&self) -> Result<(), Refusal> {
        if self.quiet && self.json && self.report.is_none() && self.log.is_none() {
            let text = "--quiet --json writes nothing: add --report FILE, or leave one of both out";
            return Err(Refusal::usage(text));
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    let code = attempt(args).unwrap_or_else(|refusal| {
        say(&refusal);
        refusal.exit_code()
    });
    Ok(Outcome::Status(ExitCode::from(code)))
}

fn attempt(args: &Args) -> Result<u8, Refusal> {
    args.check_quiet()?;
    argv::conceal()?;
    let cwd = std::env::current_dir()
        .map_err(|why| Refusal::step("there is no working directory", why))?;
    let mut config = args.config(&cwd)?;
    let named = config.resolve()?;
    let kept = view_of(args, &config, &cwd)?;
    let done = run_in(args, config, named, &cwd, kept.as_ref());
    if let (Err(_), Some(View::Made(kept))) = (&done, kept) {
        kept.discard_if_unused();
    }
    done
}

/// Runs the command, in a kept view if there is one; returns its exit status. `named` are the
/// directories that options name, with those options.
fn run_in(
    args: &Args,
    mut config: Config,
    mut named: Vec<(&'static str, PathBuf)>,
    cwd: &Path,
    kept: Option<&View>,
) -> Result<u8, Refusal> {
    let before = match kept {
        _ if args.replace_rules => None,
        Some(View::Made(kept)) => kept.rules()?,
        Some(View::Named(name)) => openpath_run::rules_of(name)?,
        None => None,
    };
    let mut added = None;
    if let (Some(view), Some(text)) = (kept, &before) {
        let rules = Config::from_rules(view.name(), text)?;
        named.extend(rules.uppers());
        added = Some(AddedRules::new(view.name(), &config, &rules));
        config.add_kept(view.name(), rules)?;
        if args.net == Some(Net::Host) && config.net == Net::None {
            return Err(Refusal::usage(format!(
                "--net host loosens `--net none`, which is kept with the view {}: give all rules \
                 again with --replace-rules",
                view.name()
            )));
        }
    }
    let mut plan = config.plan(cwd)?;
    plan.keep_fds.clone_from(&args.keep_fd);
    for (option, path) in &named {
        plan.check_links(option, path)?;
    }
    if let Some(file) = &args.config {
        plan.check_file("--config", &cwd.join(file))?;
    }
    let told = plan.check();
    let told = told.map_err(|why| added.map_or(why.clone(), |added| added.explain(cwd, why)));
    for told in told.map_err(|why| args.explain_engine(why))? {
        say(told);
    }
    plan.check_working_directory(cwd)?;
    if args.dry_run {
        let reason = plan.reason_for_fuse(args.log.is_some());
        let part = match config.engine {
            Engine::Kernel => plan.served_by_kernel()?,
            _ => ServedByKernel::Nothing,
        };
        return dry_run(args, &config, reason.as_deref(), &part);
    }
    if let Some(View::Made(kept)) = kept {
        plan.rules = Some(KeptRules {
            before,
            replaces: args.replace_rules,
            now: config.as_rules()?,
            command: openpath_run::command_line(&args.command),
        });
        plan.keep_changes_in(kept);
    }
    start(args, &plan, cwd)
}

/// The view that a run keeps its changes in.
enum View {
    /// It exists, and is locked.
    Made(KeptView),
    /// It may not exist, and must not be made.
    Named(String),
}

impl View {
    fn name(&self) -> &str {
        match self {
            View::Made(kept) => &kept.name,
            View::Named(name) => name,
        }
    }
}

/// The view of a configuration, if it keeps its changes.
fn view_of(args: &Args, config: &Config, cwd: &Path) -> Result<Option<View>, Refusal> {
    let upper = config.upper.as_deref();
    let upper = upper.map(|upper| openpath_run::spec::upper(cwd, upper));
    let name = match (&config.name, upper.transpose()?) {
        (Some(name), _) => name.clone(),
        (None, Some(Upper::Directory(dir))) => format!("{}/", dir.path().display()),
        (None, _) if args.replace_rules => {
            let why = "--replace-rules needs a kept view: name it with --name";
            return Err(Refusal::usage(why));
        }
        (None, _) => return Ok(None),
    };
    config.check_paths_are_text()?;
    if name.contains('/') {
        let (option, typed) = match config.name {
            Some(_) => ("--name", &name),
            None => ("--upper", args.upper.as_ref().unwrap_or(&name)),
        };
        let path = Path::new(name.trim_end_matches('/'));
        if path.metadata().is_ok_and(|found| !found.is_dir()) {
            let text = format!("{option} {typed}: it is not a directory: name another");
            return Err(Refusal::usage(text));
        }
    }
    if args.dry_run {
        return Ok(Some(View::Named(name)));
    }
    KeptView::make(&name, &args.command).map(|kept| Some(View::Made(kept)))
}

/// Prints the run as a configuration file.
fn dry_run(
    #[cfg_attr(
        not(feature = "wasi"),
        expect(unused_variables, reason = "for options of WebAssembly guests")
    )]
    args: &Args,
    config: &Config,
    reason_for_fuse: Option<&str>,
    part: &ServedByKernel,
) -> Result<u8, Refusal> {
    #[cfg(feature = "wasi")]
    if let Some(option) = args.wasm.said() {
        let why = "has no effect with --dry-run: leave one of both out";
        return Err(Refusal::usage(format!("{option} {why}")));
    }
    config.check_paths_are_text()?;
    let text = toml::to_string(config);
    let mut text = text.map_err(|why| Refusal::step("the plan cannot be written", why))?;
    if config.engine == Engine::Auto {
        match reason_for_fuse {
            None => text.push_str("# auto: the kernel serves the view, if it can here\n"),
            Some(why) => text.push_str(&format!("# auto: fuse serves the view, because {why}\n")),
        }
    }
    if let ServedByKernel::Part(part) = part {
        let place = printable(part.path().as_os_str().as_encoded_bytes());
        text.push_str(&format!("# kernel: it serves {place}, and fuse the rest\n"));
    }
    console::put(&text).map_err(|why| Refusal::step("the plan cannot be printed", why))?;
    Ok(0)
}

/// The observer of copy-ups, which shows a bar on the terminal if it may.
fn observe_copies(shown: bool) -> Arc<dyn openpath_run::CopyUpObserver> {
    Arc::new(Bar::new(shown))
}

/// Runs the command on the view of this plan; returns its exit status.
fn start(args: &Args, plan: &Plan, cwd: &Path) -> Result<u8, Refusal> {
    // Files that the user names are opened before the command can replace them.
    let mut report = args.report.as_deref().map(Report::open).transpose()?;
    if let Some(code) = in_process(args, plan, cwd, &mut report)? {
        return Ok(code);
    }
    let reporting = Reporting::default()
        .log(args.log_file()?)
        .progress(args.shows_progress())
        .copying(observe_copies);
    let ended = openpath_run::run(plan, &args.command, &reporting)?;
    end(args, plan, ended, report)
}

/// Runs the command in this process if it is WebAssembly; returns its exit status.
#[cfg(feature = "wasi")]
fn in_process(
    args: &Args,
    plan: &Plan,
    cwd: &Path,
    report: &mut Option<Report>,
) -> Result<Option<u8>, Refusal> {
    let refused = |option, why| Refusal::usage(format!("{option} is for {why}: leave it out"));
    let native = [
        ("--locks", args.locks),
        ("--log", args.log.is_some()),
        ("--share", !plan.share.is_empty()),
        ("--keep-fd", !plan.keep_fds.is_empty()),
        ("--limit", !plan.limits.all().is_empty()),
    ];
    match (
        wasm::find(args, plan, cwd)?,
        native.iter().find(|(_, is_said)| *is_said),
    ) {
        (Some(_), Some((option, _))) => {
            let why = "native programs, but the command is WebAssembly";
            Err(refused(*option, why))
        }
        (Some(guest), None) => wasm::run(args, plan, guest, cwd, report.take()).map(Some),
        (None, _) => match args.wasm.said() {
            Some(option) => Err(refused(
                option,
                "WebAssembly guests, but the command is none",
            )),
            None => Ok(None),
        },
    }
}

/// Refuses WebAssembly, for which this program was not built.
#[cfg(not(feature = "wasi"))]
fn in_process(
    args: &Args,
    _plan: &Plan,
    cwd: &Path,
    _report: &mut Option<Report>,
) -> Result<Option<u8>, Refusal> {
    let command = &args.command[0];
    match magic::find(command, cwd, magic::file) {
        Some((_, magic::What::Module | magic::What::Component)) => {
            let why = "it is WebAssembly, for which this openpath was not built: build openpath \
                with `--features wasi`";
            Err(Refusal::not_executable(command, why))
        }
        _ => Ok(None),
    }
}

/// Writes a message of this program to standard error, and ignores errors.
fn say(what: impl std::fmt::Display) {
    crate::console::warn(&format!("openpath: {what}"));
}

/// Writes the messages and the summary of a run, and returns the exit status of the command.
fn end(args: &Args, plan: &Plan, ended: RunOutcome, report: Option<Report>) -> Result<u8, Refusal> {
    if ended.lost_log_lines > 0 {
        say(format_args!(
            "{} lines of the log were lost",
            ended.lost_log_lines
        ));
    }
    let mut report = report;
    say_if_incomplete(args, plan, &ended, &mut report)?;
    for limit in &ended.limits_reached {
        if let Limit::Memory(_) = limit {
            say(format_args!(
                "the command was killed: it used more than {limit}"
            ));
        } else {
            say(format_args!("--limit {limit} ended the command"));
        }
    }
    if ended.lost_writes > 0 {
        let why = "because the view was full or the disk failed, so files are incomplete";
        say(format_args!(
            "{} late writes were lost, {why}",
            ended.lost_writes
        ));
    }
    let is_read = !args.quiet || report.is_some();
    if is_read && ended.changes_error.is_none() {
        let write = |out: &mut dyn std::io::Write| match args.json {
            true => summary::write_json(&ended, out),
            false => out.write_all(summary::as_text(&ended, &summary::direct(plan)).as_bytes()),
        };
        tell(&write, report).map_err(|why| Refusal::step("the summary cannot be written", why))?;
    }
    Ok(ended.exit_like_command())
}

/// Says so if not all changes are known. If none are, the report says it as well: that of an
/// earlier run must not be taken for that of this run.
fn say_if_incomplete(
    args: &Args,
    plan: &Plan,
    ended: &RunOutcome,
    report: &mut Option<Report>,
) -> Result<(), Refusal> {
    let kept = plan.name.as_deref().map(|view| match &plan.upper {
        Upper::Directory(dir) if !dir.path().exists() => {
            "; the directory of the view is gone, and its changes with it".to_owned()
        }
        _ => {
            let view = text_of(view.as_ref());
            format!("; the view keeps its changes, and `openpath diff {view}` shows them")
        }
    });
    let kept = kept.unwrap_or_default();
    if let Some(users) = &ended.still_used {
        say(format_args!(
            "{users}, so what it changed last may be missing here{kept}"
        ));
    }
    let Some(why) = &ended.changes_error else {
        return Ok(());
    };
    let text = format!("what changed is not known: {why}{kept}");
    say(&text);
    if report.is_none() && (args.quiet || !args.json) {
        return Ok(());
    }
    let json = serde_json::json!({ "unknown": why.to_string() });
    let text = if args.json { json.to_string() } else { text };
    tell(&|out| writeln!(out, "{text}"), report.take())
        .map_err(|why| Refusal::step("the report cannot be written", why))
}

/// Writes what `write` gives to the report, or to standard error.
fn tell(
    write: &dyn Fn(&mut dyn std::io::Write) -> std::io::Result<()>,
    report: Option<Report>,
) -> std::io::Result<()> {
    if let Some(report) = report {
        if report.write(|out| write(&mut output::Plain::new(out)))? == Written::KeptView {
            return Ok(());
        }
        say("the file of --report was removed while the command ran; its content follows:");
    }
    // Only a terminal gets colours. The exit status is the same if nothing reads this.
    let stderr = anstream::AutoStream::auto(std::io::stderr());
    let mut stderr = std::io::BufWriter::new(stderr);
    write(&mut stderr).and_then(|()| stderr.flush()).ok();
    Ok(())
}

/// Becomes one of the internal processes of a run, if the arguments ask for one. These start with
/// every run, and need no parser of options.
pub(crate) fn internal(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let verb = args.next()?;
    // The arguments of a command come after `--`.
    let command = |args: &mut dyn Iterator<Item = OsString>| args.skip(1).collect::<Vec<_>>();
    let done = match verb.to_str()? {
        openpath_run::SERVE => {
            let done = openpath_run::serve(observe_copies);
            done.map(|()| ExitCode::SUCCESS)
        }
        openpath_run::ENTER => openpath_run::enter(&command(&mut args)),
        openpath_run::INIT => openpath_run::init().map(|()| ExitCode::SUCCESS),
        openpath_run::WORK_VERB => {
            let words: Vec<_> = args.collect();
            Ok(openpath_run::work_in_namespace(&words))
        }
        openpath_run::COMMAND => openpath_run::become_command(&command(&mut args)),
        _ => return None,
    };
    Some(done.unwrap_or_else(|why| {
        say(&why);
        ExitCode::from(2)
    }))
}
