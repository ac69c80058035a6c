// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the files that loads work on: once on a disk, with a copy on a tmpfs.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Options;
use super::place::{Kind, USER};
use crate::common::*;
use crate::failed::project;
use crate::host;

/// How many files one folder of the repository and of the archive has.
const A_FOLDER: usize = 100;
/// How many units the generated project has.
const UNITS: usize = 24;
/// How many files of the lower tree each environment changes: its own, so that none changes the
/// lower tree of another.
const EDITED: usize = 1000;
/// Transactions of the database, and rows in each.
const TRANSACTIONS: usize = 200;
const INSERTS: usize = 50;

/// Makes a repository and an archive of the present files. It packs everything, because git would
/// otherwise pack during the measurement.
const MAKE: &str = "\
git -c init.defaultBranch=main init -q repository
cd repository
git config gc.auto 0
git add .
git -c user.name=bench -c user.email=bench@localhost commit -q -m files
git gc -q
cd ..
tar -cf archive.tar -C archive .
rm -rf archive";

/// The folders, and the scripts that depend on them.
pub(super) struct Scene {
    scratch: Scratch,
    /// On the disk.
    pub(super) folder: PathBuf,
    /// On the disk, with all files owned by the ordinary user.
    pub(super) user: PathBuf,
    /// On a tmpfs.
    pub(super) copy: PathBuf,
    /// An empty folder.
    pub(super) spare: PathBuf,
    /// The script that compiles the project.
    pub(super) build: String,
    /// Python itself, not a launcher.
    pub(super) python: String,
}

impl Scene {
    /// Makes everything in a new folder of `options.folder`.
    pub(super) fn make(options: &Options) -> Result<Self, Error> {
        let scratch = Scratch::new(&options.folder).host("make the files")?;
        let top = scratch.path();
        let mut scene = Self {
            folder: top.join("disk"),
            user: top.join("user"),
            copy: top.join("copy"),
            spare: top.join("spare"),
            build: String::new(),
            python: shell(
                "python3 -c 'import sys; print(sys.executable)'",
                Path::new("/"),
            )?,
            scratch,
        };
        scene.fill(options).host("make the files")?;
        shell(MAKE, &scene.folder)?;
        let copies = format!(
            "mount -t tmpfs none copy; cp -a disk/. copy; cp -a disk user; \
             chown -R {USER}:{USER} user; chmod 755 ."
        );
        shell(&copies, scene.scratch.path())?;
        Ok(scene)
    }

    /// Where the loads of a place start.
    pub(super) fn folder_of(&self, kind: Kind) -> &Path {
        match kind {
            Kind::Tmpfs => &self.copy,
            Kind::RunUser | Kind::UserOverlay => &self.user,
            _ => &self.folder,
        }
    }

    fn fill(&mut self, options: &Options) -> io::Result<()> {
        for folder in [&self.folder.join("out"), &self.copy, &self.spare] {
            fs::create_dir_all(folder)?;
        }
        let build = project::write(&self.folder, UNITS)?;
        self.build = build.replace(" -o ", " -o \"$OUT\"/");
        files(&self.folder.join("repository"), options.tracked)?;
        files(&self.folder.join("archive"), options.archived)?;
        for (_, label, _) in Kind::ALL {
            let folder = label.replace(' ', "-");
            files(&self.folder.join("edit").join(folder), EDITED)?;
        }
        fs::write(self.folder.join("inserts.sql"), inserts())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A failure is ignored: the rest is below a folder with this process's number.
        let _unmounted = shell("umount copy", self.scratch.path());
    }
}

/// Makes `count` small files below `top`, a hundred in a folder.
fn files(top: &Path, count: usize) -> io::Result<()> {
    fs::create_dir_all(top)?;
    for n in 0..count {
        let folder = top.join(format!("folder{}", n / A_FOLDER));
        if n.is_multiple_of(A_FOLDER) {
            fs::create_dir(&folder)?;
        }
        let text = format!("file {n}\n").repeat(n % 50);
        fs::write(folder.join(format!("file{n}.txt")), text)?;
    }
    Ok(())
}

/// The statements that fill the database. Nothing is forced to the disk, because the disk is not
/// measured.
fn inserts() -> String {
    let mut sql = String::from(
        "pragma synchronous = off;\n\
         create table item (number integer primary key, name text);\n\
         create index by_name on item (name);\n",
    );
    for t in 0..TRANSACTIONS {
        sql.push_str("begin;\n");
        for i in 0..INSERTS {
            let n = t * INSERTS + i;
            let name = n * 7919 % 10007;
            let _ = writeln!(sql, "insert into item values ({n}, 'name {name}');");
        }
        sql.push_str("commit;\n");
    }
    sql
}

/// Runs a script that must succeed; returns what it prints.
fn shell(script: &str, folder: &Path) -> Result<String, Error> {
    let done = host::run(Command::new("sh").args(["-ec", script]).current_dir(folder));
    done.host("make the files").map(|[said, _]| said)
}
