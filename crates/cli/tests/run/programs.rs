// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that real programs print the same and leave the same files under `openpath run` as without
//! it, that the real tree does not change, and that `openpath diff` lists exactly what they made.

use crate::place::{Place, err, out};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// Lists all entries of a directory; checksums of the contents follow.
const LIST: &str =
    "find . -mindepth 1 -type d -printf '%P %m d\\n' -o -printf '%P %y %m %n %l\\n' | sort";

/// Whether all of these programs are installed.
pub(crate) fn have(needs: &[&str]) -> bool {
    let missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    if let Some(program) = needs.iter().find(missing) {
        eprintln!("skipped: there is no {program} here");
        return false;
    }
    true
}

/// Runs a script without and with a run, each in an empty directory. Output and resulting files
/// must be equal, with their contents, except for files that `apart` finds, which differ each time.
fn same(name: &str, needs: &[&str], apart: &str, script: &str) {
    if have(needs) {
        for place in Place::all(name) {
            same_at(&place, apart, script);
        }
    }
}

/// Does the work of [`same`] in one place.
pub(crate) fn same_at(place: &Place, apart: &str, script: &str) {
    // Both use the same directory, because its path may be printed; first the run, which
    // leaves nothing there.
    std::fs::create_dir(place.dir.join("work")).unwrap();
    place.own("work");
    let script = format!(
        "export TOP=$PWD HOME=$PWD/work PATH=/usr/bin:/bin; cd work && {{ {script}\n}} 2>&1; \
        cd $TOP/work; {LIST}; find . -type f ! \\( {apart} \\) | sort | xargs -d '\\n' cksum"
    );
    let within = place.run(&["--name", "view"], &script);
    let left = std::fs::read_dir(place.dir.join("work")).unwrap().count();
    assert_eq!(left, 0, "the real tree was reached");
    let changed = changed(place);
    let discarded = place.openpath(["discard", "view"]).output().unwrap();
    assert!(discarded.status.success(), "{}", err(&discarded));
    let views = place.dir.join("state/openpath/views");
    assert_eq!(std::fs::read_dir(views).unwrap().count(), 0);
    let without = place.plain(&script);
    assert_eq!(out(&within), out(&without), "{}", err(&within));
    assert!(without.status.success(), "{}", out(&without));
    let names = out(&place.plain("find work -mindepth 1"));
    let names: BTreeSet<_> = names.lines().map(|name| place.path(name)).collect();
    assert_eq!(changed, names, "the changes that are told");
}

/// The names that were added in the directory, from `openpath diff`; there are no other changes.
fn changed(place: &Place) -> BTreeSet<String> {
    let diff = place
        .openpath(["diff", "--json", "view", "work"])
        .output()
        .unwrap();
    assert!(diff.status.success(), "{}", err(&diff));
    let json: Value = serde_json::from_slice(&diff.stdout).unwrap();
    let all = json["changes"].as_array().unwrap().iter();
    let work = place.path("work");
    let all = all.filter(|change| change["path"] != work.as_str());
    all.map(|change| {
        assert_eq!(change["change"], "added", "{change}");
        change["path"].as_str().unwrap().to_owned()
    })
    .collect()
}

#[test]
#[ignore = "slow: 5 s"]
fn git_makes_clones_and_packs_a_repository() {
    same(
        "git",
        &["git"],
        "-name index",
        "git config --global user.name n; git config --global user.email e@x; \
        git config --global init.defaultBranch main; git config --global gc.auto 0; \
        git init -q a && cd a && export GIT_COMMITTER_DATE='2001-01-01 00:00 +0000' \
        GIT_AUTHOR_DATE='2001-01-01 00:00 +0000'; \
        for i in $(seq 40); do mkdir -p d$((i % 5)); echo $i > d$((i % 5))/f$i; done; \
        git add . && git commit -qm first && git mv d1 moved && git rm -q d2/f2 && \
        echo more >> d3/f3 && git commit -qam second && git clone -q . ../b && cd ../b && \
        git gc -q && git fsck && git log --format='%H %s' --stat && git status --short && \
        rm -rf d3 && git status --short && git checkout -q . && git diff --stat && ls -R",
    );
}

#[test]
fn make_builds_a_program_with_several_jobs() {
    same(
        "make",
        &["make", "cc"],
        "-name nothing",
        "for i in $(seq 12); do echo \"int f$i(void) { return $i; }\" > f$i.c; done; \
        { for i in $(seq 12); do echo \"int f$i(void);\"; done; echo 'int main(void) { int n = \
        0;'; \
        for i in $(seq 12); do echo \"n += f$i();\"; done; echo 'return n; }'; } > main.c; \
        printf 'prog: %s main.o\\n\\tcc -o $@ $^\\n' \"$(echo f*.c | sed 's/\\.c/.o/g')\" > \
        Makefile; \
        make -s -j4; ./prog; echo $?; touch f3.c && make -s && make -q && ls && ./prog; test $? \
        = 78",
    );
}

#[test]
fn sqlite_passes_its_checks() {
    same(
        "sqlite",
        &["sqlite3"],
        "-name '*.db*'",
        "for mode in delete wal; do sqlite3 $mode.db \"pragma journal_mode=$mode; \
        create table t (a integer primary key, b text);\"; for i in 1 2 3 4; do \
        sqlite3 -cmd '.timeout 20000' $mode.db \"begin; with recursive c(x) as (select 1 union all \
        select x + 1 from c where x < 500) insert into t (b) select 'row ' || x from c; \
        commit;\" & \
        done; wait; sqlite3 $mode.db 'select count(*), max(b) from t; pragma integrity_check;'; \
        done; ls",
    );
}

#[test]
fn python_imports_compiles_maps_and_walks() {
    same(
        "python",
        &["python3"],
        "-name '*.pyc' -o -name z.zip",
        "mkdir -p pkg && echo 'VALUE = 42' > pkg/__init__.py && python3 -c 'import pkg; \
        print(pkg.VALUE)' && ls pkg && python3 -c \"
import json, mmap, os, tempfile, shutil, zipfile
with open('map', 'wb') as f: f.write(bytes(8192))
with open('map', 'r+b') as f:
    m = mmap.mmap(f.fileno(), 0); m[4096:4100] = b'here'; m.flush(); m.close()
print(open('map', 'rb').read().count(b'here'), os.path.getsize('map'))
d = tempfile.mkdtemp(dir='.', prefix='t'); os.rename('map', d + '/x'); shutil.copytree(d, 'copy')
with zipfile.ZipFile('z.zip', 'w') as z: z.write('copy/x')
os.truncate('copy/x', 10); os.link('copy/x', 'hard'); print(os.stat('hard').st_nlink)
f = open('gone', 'w+'); os.unlink('gone'); f.write('still'); f.seek(0); print(f.read())
shutil.rmtree(d); print(sorted(os.listdir('.')))\"",
    );
}

#[test]
fn tar_restores_what_it_archived() {
    same(
        "tar",
        &["tar"],
        "-name t.tar",
        "mkdir -p src/a/b && echo x > src/a/f && ln -s a/f src/l && ln src/a/f src/a/b/h && \
        mkfifo src/p && chmod 2750 src/a && chmod 4711 src/a/f && truncate -s 1M src/hole && \
        touch -d '2001-02-03 04:05:06' src/a/f && tar cf t.tar src && mv src old && tar xf t.tar \
        && \
        diff -r --no-dereference old/a src/a && cd src && \
        find . -type d -printf '%P %m %n\\n' -o -printf '%P %y %m %s %n %l %TY\\n' | sort",
    );
}

#[test]
fn editor_overwrites_a_file() {
    same(
        "vim",
        &["vim"],
        "-name nothing",
        "echo one > file && ln file other && vim -u NONE -es -c 's/one/two/' -c 'set backup' -c \
        wq file; \
        cat file file~ other; stat -c '%h %a' file",
    );
}
