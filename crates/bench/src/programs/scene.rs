// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the files that loads work on: once on a disk, with a copy on a tmpfs.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Options;
use crate::error::Error;
use crate::failed::project;

/// How many files one folder of the repository and of the archive has.
const A_FOLDER: usize = 100;
/// How many units the generated project has.
const UNITS: usize = 24;
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
    top: PathBuf,
    /// On the disk.
    pub(super) folder: PathBuf,
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
        let top = format!("openpath-bench-{}", std::process::id());
        let top = options.folder.join(top);
        let mut scene = Self {
            folder: top.join("disk"),
            copy: top.join("copy"),
            spare: top.join("spare"),
            top,
            build: String::new(),
            python: said("python3 -c 'import sys; print(sys.executable)'")?,
        };
        let made = scene.fill(options);
        made.map_err(|why| Error::host("make the files", why))?;
        shell(MAKE, &scene.folder)?;
        shell("mount -t tmpfs none copy; cp -a disk/. copy", &scene.top)?;
        Ok(scene)
    }

    fn fill(&mut self, options: &Options) -> io::Result<()> {
        for folder in [&self.folder.join("out"), &self.copy, &self.spare] {
            fs::create_dir_all(folder)?;
        }
        self.build = match &options.project {
            Some(project) => foreign(project, &self.folder)?,
            None => project::write(&self.folder, UNITS)?.replace(" -o ", " -o \"$OUT\"/"),
        };
        files(&self.folder.join("repository"), options.tracked)?;
        files(&self.folder.join("archive"), options.archived)?;
        fs::write(self.folder.join("inserts.sql"), inserts())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A failure is ignored: the rest is below a folder with this process's number.
        let _unmounted = shell("umount copy", &self.top);
        let _removed = fs::remove_dir_all(&self.top);
    }
}

/// Copies a C project; returns the script that compiles those of its files that compile alone.
fn foreign(project: &Path, folder: &Path) -> io::Result<String> {
    let copied = Command::new("cp")
        .arg("-a")
        .arg(project)
        .arg(folder.join("project"))
        .status()?;
    if !copied.success() {
        return Err(io::Error::other(format!(
            "{} is not copied",
            project.display()
        )));
    }
    let listed = |pattern: &str| -> io::Result<Vec<String>> {
        let mut find = Command::new("find");
        find.args(["project", "-type", "f", "-name", pattern]);
        let found = find.current_dir(folder).output()?;
        let mut names: Vec<String> = String::from_utf8_lossy(&found.stdout)
            .lines()
            .map(str::to_owned)
            .collect();
        names.sort();
        Ok(names)
    };
    let mut places: Vec<&str> = Vec::new();
    let headers = listed("*.h")?;
    for header in &headers {
        let place = header.rsplit_once('/').map_or(".", |(place, _)| place);
        if places.last() != Some(&place) {
            places.push(place);
        }
    }
    let mut flags = String::from("-w -O1");
    for place in places {
        let _ = write!(flags, " -I{place}");
    }
    let (mut script, mut units) = (String::from("set -e\n"), 0);
    for (n, unit) in listed("*.c")?.iter().enumerate() {
        let one = format!("gcc {flags} -c {unit} -o ");
        let mut attempt = Command::new("sh");
        attempt
            .args(["-c", &format!("{one}/dev/null 2>&1")])
            .current_dir(folder);
        if attempt.output()?.status.success() {
            let _ = writeln!(script, "{one}\"$OUT\"/unit{n}.o");
            units += 1;
        }
    }
    if units == 0 {
        let none = format!("nothing in {} compiles by itself", project.display());
        return Err(io::Error::other(none));
    }
    Ok(script)
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
            let _ = writeln!(
                sql,
                "insert into item values ({n}, 'name {}');",
                n * 7919 % 10007
            );
        }
        sql.push_str("commit;\n");
    }
    sql
}

/// Runs a script that must succeed.
fn shell(script: &str, folder: &Path) -> Result<(), Error> {
    let done = Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder)
        .output();
    let done = done.map_err(|why| Error::host("start a shell", why))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(Error::setup("make the files", said))
}

/// The line that a script prints.
fn said(script: &str) -> Result<String, Error> {
    let done = Command::new("sh").args(["-ec", script]).output();
    let done = done.map_err(|why| Error::host("start a shell", why))?;
    let line = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    if done.status.success() && !line.is_empty() {
        return Ok(line);
    }
    Err(Error::setup(
        "ask",
        String::from_utf8_lossy(&done.stderr).trim(),
    ))
}
