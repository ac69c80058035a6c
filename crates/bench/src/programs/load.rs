// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the loads, which are the programs whose time is compared: shell scripts that compile,
//! unpack, search and so on, in a folder of their own.

use super::scene::Scene;

/// Modules of Python's library that import many others.
const MODULES: &str = "argparse, asyncio, bz2, concurrent.futures, csv, ctypes, dataclasses, \
    decimal, difflib, doctest, email.message, fractions, gzip, html.parser, http.client, \
    http.server, importlib.metadata, inspect, ipaddress, json, logging.handlers, lzma, \
    multiprocessing, optparse, pathlib, pdb, pickle, platform, pprint, random, shutil, smtplib, \
    sqlite3, ssl, statistics, subprocess, tarfile, tempfile, typing, unittest.mock, \
    urllib.request, uuid, xml.etree.ElementTree, zipfile";

/// One load.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// Its name in rows.
    pub(super) name: String,
    /// Prepares; not timed.
    pub(super) before: String,
    /// The timed script.
    pub(super) work: String,
    /// Prints what must be the same everywhere; not timed.
    pub(super) check: String,
}

impl Load {
    /// All loads.
    pub(super) fn all(scene: &Scene) -> Vec<Self> {
        let python = format!("{} -c 'import {MODULES}'", scene.python);
        let sums = "cd \"$OUT\"; find . -type f | LC_ALL=C sort | xargs -d '\\n' cksum";
        let again = "rm -rf \"$OUT\"; mkdir -p \"$OUT\"";
        let status = "GIT_OPTIONAL_LOCKS=0 git -C repository status --porcelain";
        let find = "find repository -type f -size +0 | wc -l";
        let loads = [
            ("compile", again, &*scene.build, sums),
            ("python imports", "true", &*python, "true"),
            ("git status", "true", status, &*format!("{status} | wc -l")),
            ("find", "true", find, find),
            (
                "tar",
                again,
                "tar -xf archive.tar -C \"$OUT\"",
                "cd \"$OUT\"; find . | wc -l",
            ),
            (
                "sqlite",
                again,
                "sqlite3 \"$OUT/db\" < inserts.sql",
                "sqlite3 \"$OUT/db\" 'select count(*), sum(length(name)) from item'",
            ),
        ];
        let load = |(name, before, work, check): (&str, &str, &str, &str)| Self {
            name: format!("run {name}"),
            before: before.to_owned(),
            work: work.to_owned(),
            check: check.to_owned(),
        };
        loads.map(load).into()
    }
}
