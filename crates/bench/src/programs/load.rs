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

impl Load {
    pub(super) fn all(scene: &Scene) -> Vec<Self> {
        let python = format!("{} -c 'import {MODULES}'", scene.python);
        let sums = "cd \"$OUT\"; find . -type f | LC_ALL=C sort | xargs -d '\\n' cksum";
        let again = "rm -rf \"$OUT\"; mkdir -p \"$OUT\"";
        let status = "GIT_OPTIONAL_LOCKS=0 git -C repository status --porcelain";
        let find = "find repository -type f -size +0 | wc -l";
        let some = "find repository -type f -not -path '*/.git/*' | LC_ALL=C sort | head -1000";
        let copies = format!("{again}; {some} | xargs cp -t \"$OUT\" --backup=numbered");
        let append = format!("{} -c \"{APPEND}\"", scene.python);
        let install = format!("{} -c \"{INSTALL}\"", scene.python);
        let edit = "cd edit/\"$(basename \"$OUT\")\"; find . -type f | xargs sed -i s/^file/File/";
        let edited =
            "cd edit/\"$(basename \"$OUT\")\"; find . -type f | LC_ALL=C sort | xargs cksum";
        let rows = "sqlite3 \"$OUT/db\" 'select count(*), sum(length(name)) from item'";
        let counted = format!("{status} | wc -l");
        // One that looks at the repository in a new environment comes before its warm one.
        let loads = [
            ("start", "true", "true", "true"),
            ("compile", again, &*scene.build, sums),
            ("python imports", "true", &*python, "true"),
            ("first git status", "true", status, &*counted),
            ("git status", "true", status, &*counted),
            ("first find", "true", find, find),
            ("find", "true", find, find),
            (
                "tar",
                again,
                "tar -xf archive.tar -C \"$OUT\"",
                "cd \"$OUT\"; find . | wc -l",
            ),
            (
                "rm -r",
                "mkdir -p \"$OUT\"; tar -xf archive.tar -C \"$OUT\"",
                "rm -r \"$OUT\"",
                "ls \"$OUT\" 2>&1 | wc -l; mkdir \"$OUT\"",
            ),
            (
                "grep",
                "true",
                "grep -rc 1 repository | wc -l",
                "grep -rl 11 repository --exclude-dir=.git | wc -l",
            ),
            (
                "rg",
                "command -v rg",
                "rg -c 1 repository | wc -l",
                "rg -l 11 repository | wc -l",
            ),
            ("install", again, &install, sums),
            ("sed -i of lower files", "true", edit, edited),
            (
                "sed -i",
                &copies,
                "find \"$OUT\" -type f | xargs sed -i s/1/one/",
                sums,
            ),
            ("append", again, &append, sums),
            (
                "processes",
                "true",
                "n=0; while [ $n -lt 300 ]; do /bin/true; n=$((n + 1)); done",
                "true",
            ),
            (
                "write and read",
                again,
                "head -c 1G /dev/zero > \"$OUT/big\"; cat \"$OUT/big\" > /dev/null",
                sums,
            ),
            ("sqlite", again, "sqlite3 \"$OUT/db\" < inserts.sql", rows),
            (
                "sqlite with sync",
                again,
                "sed 's/synchronous = off/synchronous = full/' inserts.sql | sqlite3 \"$OUT/db\"",
                rows,
            ),
            ("cold git status", "true", status, &*counted),
            ("cold find", "true", find, find),
        ];
        let load = |(name, before, work, check): (&str, &str, &str, &str)| Self {
            name: format!("run {name}"),
            start: match name {
                "start" => Start::Nothing,
                "first git status" | "first find" | "sed -i of lower files" => Start::New,
                "cold git status" | "cold find" => Start::Cold,
                _ => Start::Warm,
            },
            before: before.to_owned(),
            work: work.to_owned(),
            check: check.to_owned(),
        };
        loads.map(load).into()
    }
}
