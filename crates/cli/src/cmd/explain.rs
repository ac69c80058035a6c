// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath explain`: prints step by step what an open, a stat or an access does in a tree in
//! memory that the user describes.

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use openpath_abi::fcntl::{self as f, AT_FDCWD, AT_SYMLINK_NOFOLLOW};
use openpath_abi::resolve as r;
use openpath_abi::{AtFlags, Errno, OpenHow, ResolveFlags, access};
use openpath_vfs::{Cred, ExplainOp, Explanation, Field, Value};
use serde_json::{Map, Value as Json, json};

use crate::error::Error;
use crate::outcome::Outcome;
use crate::scene::{Scene, unescape};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The path, with `\xHH` for a byte that is not printable.
    path: String,
    /// The tree, in the format of a --scene file, with `;` between the lines.
    #[arg(long, value_name = "LINES", required_unless_present = "scene")]
    tree: Option<String>,
    /// A file that describes the tree, one entry per line; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "tree")]
    scene: Option<PathBuf>,
    /// The call to explain.
    #[arg(long, value_enum, default_value = "open")]
    call: Call,
    /// Flags of the open, separated by `|`.
    #[arg(long, default_value = "O_RDONLY", value_parser = open_flags)]
    flags: u64,
    /// Mode of a new file, in octal.
    #[arg(long, default_value = "0644", value_parser = octal)]
    mode: u64,
    /// `RESOLVE_*` flags of openat2(2), separated by `|`.
    #[arg(long, default_value = "0", value_parser = resolve_flags)]
    resolve: u64,
    /// The access to check with `--call access`: letters of `rwx`.
    #[arg(long, default_value = "r", value_parser = wanted)]
    want: u32,
    /// User ID of the caller. Without --uid, --gid and --groups, the caller is root with all
    /// capabilities.
    #[arg(long)]
    uid: Option<u32>,
    /// Group ID of the caller; the same as the user ID if it is not given.
    #[arg(long)]
    gid: Option<u32>,
    /// Other groups of the caller, separated by commas.
    #[arg(long, value_delimiter = ',')]
    groups: Vec<u32>,
    /// Working directory of the caller.
    #[arg(long, default_value = "/")]
    cwd: String,
    /// Explain the call this many times; the later ones use what the earlier ones cached.
    #[arg(long, default_value_t = 1)]
    times: u32,
    /// Print one JSON object per call.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Call {
    Open,
    Stat,
    Lstat,
    Access,
}

/// The flags of an open by their names.
const OPEN_FLAGS: &[(&str, u32)] = &[
    ("RDONLY", f::O_RDONLY.bits()),
    ("WRONLY", f::O_WRONLY.bits()),
    ("RDWR", f::O_RDWR.bits()),
    ("CREAT", f::O_CREAT.bits()),
    ("EXCL", f::O_EXCL.bits()),
    ("NOCTTY", f::O_NOCTTY.bits()),
    ("TRUNC", f::O_TRUNC.bits()),
    ("APPEND", f::O_APPEND.bits()),
    ("NONBLOCK", f::O_NONBLOCK.bits()),
    ("DSYNC", f::O_DSYNC.bits()),
    ("SYNC", f::O_SYNC.bits()),
    ("DIRECT", f::O_DIRECT.bits()),
    ("DIRECTORY", f::O_DIRECTORY.bits()),
    ("NOFOLLOW", f::O_NOFOLLOW.bits()),
    ("NOATIME", f::O_NOATIME.bits()),
    ("CLOEXEC", f::O_CLOEXEC.bits()),
    ("PATH", f::O_PATH.bits()),
    ("TMPFILE", f::O_TMPFILE.bits()),
];

/// `RESOLVE_*` by their names.
const RESOLVE_FLAGS: &[(&str, u64)] = &[
    ("NO_XDEV", r::RESOLVE_NO_XDEV.bits()),
    ("NO_MAGICLINKS", r::RESOLVE_NO_MAGICLINKS.bits()),
    ("NO_SYMLINKS", r::RESOLVE_NO_SYMLINKS.bits()),
    ("BENEATH", r::RESOLVE_BENEATH.bits()),
    ("IN_ROOT", r::RESOLVE_IN_ROOT.bits()),
    ("CACHED", r::RESOLVE_CACHED.bits()),
];

fn open_flags(text: &str) -> Result<u64, String> {
    named(text, "O_", |name| {
        let found = OPEN_FLAGS.iter().find(|(n, _)| *n == name);
        found.map(|(_, flag)| u64::from(*flag))
    })
}

fn resolve_flags(text: &str) -> Result<u64, String> {
    named(text, "RESOLVE_", |name| {
        let found = RESOLVE_FLAGS.iter().find(|(n, _)| *n == name);
        found.map(|(_, flag)| *flag)
    })
}

/// The bits of names separated by `|`, with or without their prefix; a number is its own bits.
fn named(text: &str, prefix: &str, of: impl Fn(&str) -> Option<u64>) -> Result<u64, String> {
    text.split('|').try_fold(0, |all, word| {
        let name = word.trim();
        let flag = of(name.strip_prefix(prefix).unwrap_or(name));
        let flag = flag
            .or_else(|| number(name))
            .ok_or(format!("no such flag: {name}"))?;
        Ok(all | flag)
    })
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn octal(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 8).map_err(|_| "an octal number is needed".to_owned())
}

fn wanted(text: &str) -> Result<u32, String> {
    text.chars().try_fold(0, |all, letter| match letter {
        'r' => Ok(all | access::R_OK),
        'w' => Ok(all | access::W_OK),
        'x' => Ok(all | access::X_OK),
        _ => Err("letters of `rwx` are needed".to_owned()),
    })
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    let scene = scene(args)?;
    let task = scene.task(cred(args)).map_err(Error::Setup)?;
    let cwd = unescape(&args.cwd).map_err(Error::Setup)?;
    let named = |errno: Errno| Error::Setup(format!("{}: {}", args.cwd, errno.name()));
    task.chdir(&cwd).map_err(named)?;
    let path = unescape(&args.path).map_err(Error::Setup)?;
    let mut out = io::stdout().lock();
    for _ in 0..args.times {
        let why = task.explain(&asked(args, &path));
        if args.json {
            writeln!(out, "{}", as_json(&why))?;
        } else {
            write!(out, "{why}")?;
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn scene(args: &Args) -> Result<Scene, Error> {
    let built = match (&args.tree, &args.scene) {
        (Some(lines), _) => Scene::build(lines.split(';')),
        (None, Some(file)) => {
            let mut text = String::new();
            if file.as_os_str() == "-" {
                io::stdin().read_to_string(&mut text)?;
            } else {
                text = std::fs::read_to_string(file)?;
            }
            Scene::build(text.lines())
        }
        (None, None) => Scene::build(std::iter::empty()),
    };
    built.map_err(Error::Setup)
}

fn cred(args: &Args) -> Cred {
    match (args.uid, args.gid) {
        (None, None) if args.groups.is_empty() => Cred::root(),
        (uid, gid) => {
            let uid = uid.unwrap_or(0);
            Cred::user(uid, gid.unwrap_or(uid), &args.groups)
        }
    }
}

fn asked<'a>(args: &Args, path: &'a [u8]) -> ExplainOp<'a> {
    let dirfd = AT_FDCWD;
    let stat = |at_flags| ExplainOp::Stat {
        dirfd,
        path,
        at_flags,
    };
    match args.call {
        Call::Open => {
            let creates = args.flags & u64::from(f::O_CREAT | f::O_TMPFILE_ONLY) != 0;
            let how = OpenHow {
                flags: args.flags,
                mode: if creates { args.mode } else { 0 },
                resolve: ResolveFlags::from_bits_retain(args.resolve),
            };
            ExplainOp::Openat2 { dirfd, path, how }
        }
        Call::Stat => stat(AtFlags::empty()),
        Call::Lstat => stat(AT_SYMLINK_NOFOLLOW),
        Call::Access => ExplainOp::Access {
            dirfd,
            path,
            want: args.want,
            at_flags: AtFlags::empty(),
        },
    }
}

fn as_json(why: &Explanation) -> Json {
    let mut steps = Vec::new();
    for step in &why.steps {
        let mut fields = Map::new();
        fields.insert("step".to_owned(), step.verb().into());
        fields.extend(as_fields(step.fields()));
        steps.push(Json::Object(fields));
    }
    json!({
        "call": why.call,
        "path": why.path.escape_ascii().to_string(),
        "fast": why.fast.as_ref().map(|fast| as_fields(fast.fields())),
        "steps": steps,
        "answer": why.result.map_or_else(Errno::name, |()| "ok"),
        "check": why.refused_by().map(|check| check.name()),
    })
}

fn as_fields(fields: Vec<Field>) -> Map<String, Json> {
    let value = |value| match value {
        Value::Bytes(bytes) => Json::from(bytes.escape_ascii().to_string()),
        Value::Word(word) => word.into(),
        Value::Number(number) => number.into(),
        Value::Octal(bits) => format!("{bits:04o}").into(),
        Value::Flag(flag) => flag.into(),
    };
    let named = fields.into_iter();
    named.map(|(name, v)| (name.to_owned(), value(v))).collect()
}
