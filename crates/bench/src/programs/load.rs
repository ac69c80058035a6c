// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the loads, which are the programs whose time is compared: shell scripts that compile,
//! unpack, search and so on, in a directory of their own.

use super::scene::Scene;

/// Modules of Python's library that import many others.
const MODULES: &str = "argparse, asyncio, bz2, concurrent.futures, csv, ctypes, dataclasses, \
    decimal, difflib, doctest, email.message, fractions, gzip, html.parser, http.client, \
    http.server, importlib.metadata, inspect, ipaddress, json, logging.handlers, lzma, \
    multiprocessing, optparse, pathlib, pdb, pickle, platform, pprint, random, shutil, smtplib, \
    sqlite3, ssl, statistics, subprocess, tarfile, tempfile, typing, unittest.mock, \
    urllib.request, uuid, xml.etree.ElementTree, zipfile";

/// Appends 20,000 lines, each by a write(2) of its own.
const APPEND: &str = "import os; \
    f = os.open(os.environ['OUT'] + '/log', os.O_WRONLY | os.O_CREAT | os.O_APPEND); \
    [os.write(f, b'line %d\\n' % n) for n in range(20000)]";

/// Installs 400 packages of 50 small files, each under another name that is then changed.
const INSTALL: &str = "import os; o = os.environ['OUT'] + '/node_modules'; os.mkdir(o)
for p in range(400):
    new = f'{o}/.package{p}-x'; os.mkdir(new); os.mkdir(new + '/lib')
    for n in range(50):
        with open(f'{new}/lib/file{n}.js', 'x') as f: f.write(f'module {n}\\n' * (n % 40 + 1))
        os.utime(f'{new}/lib/file{n}.js', (1, 1))
    os.rename(new, f'{o}/package{p}')";

/// What a load begins in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The environment as the load before left it.
    Warm,
    /// A new environment, in which nothing was looked at. The caches of the machine are warm.
    New,
    /// A new environment, once the caches of the machine were dropped.
    Cold,
    /// None: the load is the start and the end of an environment, around true(1).
    Nothing,
}

#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) name: String,
    pub(super) start: Start,
    /// Prepares; not timed.
    pub(super) before: String,
    pub(super) work: String,
    /// Prints what must be the same everywhere; not timed.
    pub(super) check: String,
}

/// Lists of loads: `START "NAME": BEFORE, WORK, CHECK;`.
macro_rules! loads {
    ($($start:ident $name:literal: $before:expr, $work:expr, $check:expr;)*) => {
        vec![$(Load {
            name: format!("run {}", $name),
            start: Start::$start,
            before: $before.to_owned(),
            work: $work.to_owned(),
            check: $check.to_owned(),
        },)*]
    };
}

impl Load {
    pub(super) fn all(scene: &Scene) -> Vec<Self> {
        let python = |text: &str| format!("{} -c \"{text}\"", scene.python);
        let (import, append) = (python(&format!("import {MODULES}")), python(APPEND));
        let sums = "cd \"$OUT\"; find . -type f | LC_ALL=C sort | xargs -d '\\n' cksum";
        let again = "rm -rf \"$OUT\"; mkdir -p \"$OUT\"";
        let status = "GIT_OPTIONAL_LOCKS=0 git -C repository status --porcelain";
        let counted = format!("{status} | wc -l");
        let find = "find repository -type f -size +0 | wc -l";
        let some = "find repository -type f -not -path '*/.git/*' | LC_ALL=C sort | head -1000";
        let copies = format!("{again}; {some} | xargs cp -t \"$OUT\" --backup=numbered");
        let own = "cd edit/\"$(basename \"$OUT\")\"; find . -type f";
        let (edit, edited) = ("xargs sed -i s/^file/File/", "LC_ALL=C sort | xargs cksum");
        let unpack = "tar -xf archive.tar -C \"$OUT\"";
        let fill = "sqlite3 \"$OUT/db\"";
        let synced = format!("sed 's/synchronous = off/synchronous = full/' inserts.sql | {fill}");
        let rows = format!("{fill} 'select count(*), sum(length(name)) from item'");
        let big = "head -c 1G /dev/zero > \"$OUT/big\"; cat \"$OUT/big\" > /dev/null";
        let many = "n=0; while [ $n -lt 300 ]; do /bin/true; n=$((n + 1)); done";
        let gone = "ls \"$OUT\" 2>&1 | wc -l; mkdir \"$OUT\"";
        // One that looks at the repository in a new environment comes before its warm one.
        loads! {
            Nothing "start": "true", "true", "true";
            Warm "compile": again, scene.build, sums;
            Warm "python imports": "true", import, "true";
            New "first git status": "true", status, counted;
            Warm "git status": "true", status, counted;
            New "first find": "true", find, find;
            Warm "find": "true", find, find;
            Warm "tar": again, unpack, "cd \"$OUT\"; find . | wc -l";
            Warm "rm -r": format!("mkdir -p \"$OUT\"; {unpack}"), "rm -r \"$OUT\"", gone;
            Warm "grep": "true", "grep -rc 1 repository | wc -l",
                "grep -rl 11 repository --exclude-dir=.git | wc -l";
            Warm "rg": "command -v rg", "rg -c 1 repository | wc -l", "rg -l 11 repository | wc -l";
            Warm "install": again, python(INSTALL), sums;
            New "sed -i of lower files": "true", format!("{own} | {edit}"),
                format!("{own} | {edited}");
            Warm "sed -i": copies, "find \"$OUT\" -type f | xargs sed -i s/1/one/", sums;
            Warm "append": again, append, sums;
            Warm "processes": "true", many, "true";
            Warm "write and read": again, big, sums;
            Warm "sqlite": again, format!("{fill} < inserts.sql"), rows;
            Warm "sqlite with sync": again, synced, rows;
            Cold "cold git status": "true", status, counted;
            Cold "cold find": "true", find, find;
        }
    }
}
