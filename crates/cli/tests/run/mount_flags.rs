// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `nosuid`, `nodev` and `noexec` of the host's mounts hold in a view: for root, for an
//! unprivileged process inside, and for an ordinary user.

use crate::place::{OPENPATH, Place, Who, err, out};
use std::process::{Command, Output};

/// Mounts with and without flags, and programs and a device in each.
const SETUP: &str = r#"
set -e
for flags in nosuid nodev noexec none; do
    mkdir -p $flags
    if [ $flags = none ]; then options=mode=755; else options=mode=755,$flags; fi
    mount -t tmpfs -o $options tmpfs $flags
    cp /usr/bin/id $flags/id
    chmod 4755 $flags/id
    mknod -m 666 $flags/null c 1 3
done
set +e
"#;

/// Prints what an unprivileged process gets from each.
const LOOK: &str = r#"
for flags in nosuid nodev noexec none; do
    echo $flags $(setpriv --reuid 1003 --regid 1003 --clear-groups $flags/id -u 2>/dev/null) \
        $(echo x 2>/dev/null >$flags/null && echo opened)
done
"#;

/// Answers of Linux to [`LOOK`].
const LINUX: &str = "nosuid 1003 opened\nnodev 0\nnoexec opened\nnone 0 opened\n";

/// A script of root in a new mount namespace, after [`SETUP`].
fn script(place: &Place, text: &str) -> Output {
    let mut command = Command::new("timeout");
    command
        .args([
            "60",
            "unshare",
            "--mount",
            "sh",
            "-c",
            &format!("{SETUP}{text}"),
        ])
        .env("OPENPATH", OPENPATH)
        .env("LOOK", LOOK)
        .env("XDG_STATE_HOME", place.dir.join("state"))
        .current_dir(&place.dir);
    command.output().unwrap()
}

fn root(name: &str) -> Option<Place> {
    Place::new(name, Who::Caller).filter(|_| rustix::process::geteuid().is_root())
}

#[test]
fn set_id_program_and_device_on_a_restricted_mount_gain_nothing() {
    let Some(place) = root("flags") else { return };
    let all = script(&place, r#"eval "$LOOK"; "$OPENPATH" run -- sh -c "$LOOK""#);
    assert_eq!(out(&all), [LINUX, LINUX].concat(), "{}", err(&all));
    for options in ["--rw .", "--ro .", "--ro nosuid --rw nodev", "--name kept"] {
        let line = format!(r#""$OPENPATH" run {options} -- sh -c "$LOOK""#);
        let all = script(&place, &line);
        assert_eq!(out(&all), LINUX, "{options}: {}", err(&all));
    }
}

#[test]
fn file_made_in_the_view_on_a_nosuid_mount_is_nosuid() {
    let Some(place) = root("flags-made") else {
        return;
    };
    let line = r#"
        MAKE='for d in nosuid none; do cp /usr/bin/id $d/new; chmod 4755 $d/new;
            setpriv --reuid 1003 --regid 1003 --clear-groups $d/new -u; done'
        "$OPENPATH" run -- sh -c "$MAKE""#;
    let all = script(&place, line);
    assert_eq!(out(&all), "1003\n0\n", "{}", err(&all));
}

#[test]
fn tree_mounted_from_a_restricted_mount_is_restricted() {
    let Some(place) = root("flags-extra") else {
        return;
    };
    let line = r#"
        mkdir a b c
        USE='for d in a b c; do setpriv --reuid 1003 --regid 1003 --clear-groups $d/id -u; done'
        "$OPENPATH" run --mount a=host:nosuid --mount b=host:none --mount c=host:noexec \
            -- sh -c "$USE" 2>/dev/null"#;
    let all = script(&place, line);
    assert_eq!(out(&all), "1003\n0\n", "{}", err(&all));
}

#[test]
fn read_only_mount_is_changed_in_the_view_and_refused_by_a_commit() {
    for engine in ["auto", "fuse"] {
        let Some(place) = root("flags-ro") else {
            return;
        };
        let line = format!(
            "mkdir at; mount -t tmpfs tmpfs at; touch at/old; mount -o remount,ro at
            \"$OPENPATH\" run -q --engine {engine} --name ro -- sh -c 'touch at/new; echo x > other'
            ls at; \"$OPENPATH\" commit ro; echo $?
            \"$OPENPATH\" commit ro other > /dev/null; echo $?; cat other"
        );
        let all = script(&place, &line);
        assert_eq!(out(&all), "old\n2\n0\nx\n", "{}", err(&all));
        let at = place.path("at");
        let why = format!("openpath: {at} is on a read-only mount: name other paths\n");
        assert!(err(&all).contains(&why), "{}", err(&all));
    }
}

#[test]
fn restricted_mount_that_appears_later_is_not_entered() {
    let Some(place) = root("flags-later") else {
        return;
    };
    let line = r#"
        mkdir later free ends; mkfifo ends/in ends/out
        "$OPENPATH" run --engine fuse --rw . --pass ends -- \
            sh -c 'echo up >ends/out; read x <ends/in
            ls later free' &
        read x <ends/out
        mount -t tmpfs -o nosuid tmpfs later; touch later/hidden
        mount -t tmpfs tmpfs free; touch free/seen
        echo on >ends/in
        wait"#;
    let all = script(&place, line);
    assert!(!out(&all).contains("hidden"), "{}", out(&all));
    assert!(
        out(&all).contains("free:\nseen"),
        "{} {}",
        out(&all),
        err(&all)
    );
    assert!(err(&all).contains("later"), "{}", err(&all));
}

#[test]
fn directory_above_a_restricted_mount_stays_where_it_is() {
    let Some(place) = root("flags-moved") else {
        return;
    };
    let line = r#"
        mkdir -p above/mnt; mount -t tmpfs -o nosuid tmpfs above/mnt
        cp nosuid/id above/mnt/id; chmod 4755 above/mnt/id
        "$OPENPATH" run -- sh -c 'mv -T above away 2>&1 | grep -c "cross-device\|busy"
            setpriv --reuid 1003 --regid 1003 --clear-groups above/mnt/id -u'
        # Moved by others, and back: it is not entered without the flags.
        mkdir ends; mkfifo ends/in ends/out
        "$OPENPATH" run --engine fuse --rw . --pass ends -- \
            sh -c 'echo up >ends/out; read x <ends/in
            ls above/mnt; echo down >ends/out; read x <ends/in
            setpriv --reuid 1003 --regid 1003 --clear-groups above/mnt/id -u || echo refused' \
            2>/dev/null &
        read x <ends/out; mv above away; echo on >ends/in
        read x <ends/out; mv away above; echo on >ends/in
        wait"#;
    let all = script(&place, line);
    let text = out(&all);
    assert!(text.ends_with("1003\nrefused\n"), "{text} {}", err(&all));
}

#[test]
fn ordinary_user_meets_the_flags_of_the_host() {
    let Some(place) = root("flags-user") else {
        return;
    };
    let line = r#"
        chmod 777 . ; mknod -m 666 fuse c 10 229; mount --bind fuse /dev/fuse
        # A copy, for the caller's directory may not be the user's to enter.
        cp "$OPENPATH" ./openpath
        AS="setpriv --reuid 1000 --regid 1000 --clear-groups"
        USE='for d in nosuid noexec none; do echo $d $($d/id -u 2>/dev/null); done'
        $AS ./openpath run -- sh -c "$USE""#;
    let all = script(&place, line);
    assert_eq!(
        out(&all),
        "nosuid 1000\nnoexec\nnone 1000\n",
        "{}",
        err(&all)
    );
}

/// Distributions mount `/proc` and `/sys` so; a view must start there, and a nested run too.
#[test]
fn restricted_proc_and_sys_pass_into_the_view() {
    let Some(place) = root("flags-proc") else {
        return;
    };
    let line = r#"
mount -o remount,nosuid,nodev,noexec /proc
mkdir -p passed
mount -t tmpfs -o nosuid,noexec tmpfs passed
"$OPENPATH" run -q --pass passed -- sh -c '"$OPENPATH" run -q -- sh -c "ls -d /proc/self; echo ok"'
"#;
    let output = script(&place, line);
    assert_eq!(out(&output), "/proc/self\nok\n", "{}", err(&output));
}
