// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `openpath exec` by root in another user's view passes only root's standard streams to
//! the command: no session keyring, environment variable or other open file.

use crate::live::Running;
use crate::place::{OPENPATH, Place, Who, err, out};
use std::process::{Command, Output, Stdio};

/// Puts a key into a new session keyring and becomes a program, or reads that key.
const KEY: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
ADD_KEY, KEYCTL = {'x86_64': (248, 250), 'aarch64': (217, 219)}[os.uname().machine]
JOIN, SETPERM, SEARCH, READ, SESSION = 1, 5, 10, 11, -3

def keys(number, *args):
    longs = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    answer = libc.syscall(number, *longs)
    if answer < 0: sys.exit(os.strerror(ctypes.get_errno()))
    return answer

if sys.argv[1] == 'hold':
    keys(KEYCTL, JOIN, None)
    key = keys(ADD_KEY, b'user', b'openpath-relayed', b'TREASURE', 8, SESSION)
    keys(KEYCTL, SETPERM, key, 0x3f000000)
    os.execvp(sys.argv[2], sys.argv[2:])
data = ctypes.create_string_buffer(9)
key = keys(KEYCTL, SEARCH, SESSION, b'user', b'openpath-relayed', 0)
keys(KEYCTL, READ, key, data, 8)
print(data.value)
"#;

/// The place of an ordinary user, if root runs the tests.
fn place(name: &str) -> Option<Place> {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only the superuser enters another user's view");
    }
    Place::new(name, Who::Ordinary).filter(|_| root)
}

/// Root's `openpath exec` of `python3` with these words.
fn python(place: &Place, words: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.args(words).current_dir(&place.dir);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn session_keyring_of_root_stays_outside_whatever_the_view_shares() {
    let Some(place) = place("relayed-key") else {
        return;
    };
    place.write("key.py", KEY);
    let running = Running::start(&place, &["--share", "keyring"], "true");
    let read = ["python3", "key.py", "read"];
    let control = python(&place, &[&["key.py", "hold"], &read[..]].concat());
    assert!(out(&control).contains("TREASURE"), "{}", err(&control));
    let exec = ["key.py", "hold", OPENPATH, "exec", &running.pid(), "--"];
    let seen = python(&place, &[&exec, &read[..]].concat());
    assert!(!out(&seen).contains("TREASURE"), "{}", out(&seen));
    assert!(!seen.status.success(), "{}", out(&seen));
    running.end();
}

#[test]
fn environment_and_open_files_of_root_stay_outside() {
    let Some(place) = place("relayed-env") else {
        return;
    };
    let secret = place.dir.join("secret");
    std::fs::write(&secret, "TREASURE\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&secret, mode).unwrap();
    let running = Running::start(&place, &[], "true");
    let look = "env; cat <&7; cat <&8; cat; echo judged";
    let exec = |words: &str| {
        let line =
            format!("exec 7<secret 8< <(echo TREASURE); echo through | {words} bash -c '{look}'");
        let mut command = Command::new("bash");
        command.args(["-c", &line]).current_dir(&place.dir);
        command.env("TOKEN", "TREASURE").env("TERM", "dumb");
        command.env("LANG", "C").env("LC_TIME", "C.UTF-8");
        out(&command.output().unwrap())
    };
    assert_eq!(exec("").matches("TREASURE").count(), 3);
    let said = exec(&format!("'{OPENPATH}' exec {} --", running.pid()));
    assert!(!said.contains("TREASURE"), "{said}");
    for kept in [
        "TERM=dumb",
        "LANG=C",
        "LC_TIME=C.UTF-8",
        "PATH=/",
        "through",
        "judged",
    ] {
        assert!(said.contains(kept), "no {kept}: {said}");
    }
    running.end();
}

#[test]
fn name_of_another_users_view_needs_the_user() {
    let (Some(theirs), Some(mine)) = (place("theirs-named"), Place::new("mine-named", Who::Caller))
    else {
        return;
    };
    let name = format!("named-{}", std::process::id());
    let running = Running::start(&theirs, &["--name", &name], "true");
    let exec = |which: &str| {
        let mut command = mine.openpath(["exec", which, "--", "id", "-u"]);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let refused = exec(&name);
    assert_eq!(refused.status.code(), Some(125), "{}", out(&refused));
    let explicit = format!("1000:{name}");
    assert!(err(&refused).contains(&explicit), "{}", err(&refused));
    let listed = out(&mine.openpath(["list"]).output().unwrap());
    assert!(listed.contains(&explicit), "{listed}");
    assert_eq!(out(&exec(&explicit)), "1000\n");
    // The own one of the same name is not one of several.
    let own = Running::start(&mine, &["--name", &name], "true");
    assert_eq!(out(&exec(&name)), "0\n");
    assert_eq!(out(&exec(&explicit)), "1000\n");
    own.end();
    running.end();
}
