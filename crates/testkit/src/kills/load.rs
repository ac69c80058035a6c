// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the programs that work in a view of `openpath run` while it is killed, and the checks of
//! their data.
//!
//! A script prints a word when it begins, and a line `kept ...` when something is on the disk:
//! synced by fsync(2), or reported as synced by the program. The check reads these lines on
//! standard input, and prints `LOST ...` for data that is gone. The shell prints each line itself,
//! because output of another process may be cut while all are killed.

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    /// Write and sync new and old files, and rename some.
    Sync,
    /// Extract an archive repeatedly. sha1sum(1) prints the sums, because cksum(1) of coreutils 9.1
    /// takes an unreadable file for an empty one.
    Tar,
    /// Add rows to a database.
    Sqlite,
    /// Make commits.
    Git,
    /// Build a program with several jobs.
    Make,
}

/// Compares each file with the checksum that was printed.
const SUMS: &str = "while read -r path sum; do now=$(cksum < \"$path\"); \
    [ \"$now\" = \"$sum\" ] || echo \"LOST $path: $sum, now $now\"; done";

impl Load {
    pub(super) const ALL: [Load; 5] = [Self::Sync, Self::Tar, Self::Sqlite, Self::Git, Self::Make];

    /// The script of the load, for sh(1), in the tree.
    pub(super) fn script(self) -> &'static str {
        match self {
            Self::Sync => {
                "echo on; i=0; while [ $i -lt 400 ]; do i=$((i + 1)); d=d$((i % 5)); \
                case $((i % 4)) in 0) f=$d/f$((i / 4 % 12)).c.new;; 1) f=$d/n$i;; \
                2) mkdir -p $d/e$i; f=$d/e$i/n;; 3) f=$d/big$i;; esac; \
                sum=$(seq $i $((i * 97)) | cksum); \
                seq $i $((i * 97)) | dd of=$f conv=fsync 2> /dev/null || exit; \
                case $f in *.new) mv $f ${f%.new} && sync $d || exit; f=${f%.new};; esac; \
                echo kept $f $sum; done"
            }
            Self::Tar => {
                "echo on; tar cf ../in.tar . 2> /dev/null || tar cf in.tar d0 d1 d2 d3 d4; \
                [ -e ../in.tar ] && mv ../in.tar in.tar; \
                for i in $(seq 60); do mkdir out$i && tar xf in.tar -C out$i || exit; \
                for f in $(find out$i -type f); do sync $f && sum=$(sha1sum < $f) && \
                echo \"kept $f $sum\"; done; \
                rm -rf out$((i - 3)) gone; [ -d out$((i - 1)) ] && mv out$((i - 1))/d1 gone$i; done"
            }
            Self::Sqlite => {
                "sqlite3 db 'create table t (n integer primary key, b blob)'; echo on; \
                for i in $(seq 200); do sqlite3 db \"insert into t values ($i, \
                randomblob(5000))\" && echo kept $i; done"
            }
            Self::Git => {
                "export HOME=$PWD; git config --global user.name n; \
                git config --global user.email e@x; git config --global core.fsync all; \
                git config --global gc.auto 0; \
                git init -q . && echo on; for i in $(seq 100); do seq $i $((i * 50)) > d1/f$i.c; \
                seq $i > d2/f2.c; git add -A && git commit -qm $i && \
                head=$(git rev-parse HEAD) && echo kept $head; done"
            }
            Self::Make => "echo on; while :; do make -s -j3 prog; make -s clean; done 2> /dev/null",
        }
    }

    /// How many lines of output to wait for.
    pub(super) fn lines(self) -> usize {
        if self == Self::Make { 1 } else { usize::MAX }
    }

    /// The script that checks the kept data.
    pub(super) fn check(self) -> &'static str {
        match self {
            Self::Sync => SUMS,
            // The load moves some files away on purpose.
            Self::Tar => {
                "while read -r path sum; do [ -e \"$path\" ] || continue; \
                [ \"$(sha1sum < \"$path\")\" = \"$sum\" ] || echo \"LOST $path\"; done"
            }
            Self::Sqlite => {
                "n=$(tail -n 1); [ \"$(sqlite3 db 'pragma integrity_check')\" = ok ] || \
                echo LOST db; [ -z \"$n\" ] || \
                [ \"$(sqlite3 db \"select count(*) from t where n <= $n\")\" = \"$n\" ] || \
                echo LOST rows"
            }
            Self::Git => {
                "export HOME=$PWD; head=$(tail -n 1); [ -d .git ] || [ -z \"$head\" ] || \
                echo LOST .git; [ -z \"$head\" ] || { git merge-base --is-ancestor $head HEAD \
                || echo LOST $head; git fsck --full > fsck 2>&1 || echo LOST objects $(cat fsck); }"
            }
            // If the writer of a target was killed, the target is newer than its sources.
            Self::Make => {
                "make -s clean; make -s -j2 prog || echo LOST build; ./prog || echo LOST prog"
            }
        }
    }
}
