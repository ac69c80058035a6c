// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a program in a view never reads hidden or absent paths and never changes read-only
//! paths, whatever calls, mounts, namespaces and races it tries.
//!
//! # Judgement
//! R1. Guarded files contain `TREASURE`, which must never be printed. Read-only files are read
//!     after the attempt and contain `before`; otherwise the end of the script prints `LOST`.
//! R2. An attempt that could succeed must succeed without rules: an attempt that fails for another
//!     reason proves nothing.
//! R3. The real tree does not change.

use crate::place::{Place, Who, err, out};
use std::process::{Command, Output, Stdio};

/// The rules of each attempt.
const RULES: [&str; 8] = [
    "--hide",
    "guard/secret",
    "--hide",
    "only/hid",
    "--absent",
    "*.pem",
    "--ro",
    "guard/fixed",
];
/// The end of each script: checks by path that read-only files are unchanged.
const JUDGE: &str = "cd \"$TOP\"; [ \"$(cat guard/fixed/law)\" = before ] && \
    [ \"$(ls -A guard/fixed)\" = law ] || echo LOST; echo judged";

/// Calls without a fallback, none of which stops the others.
const PYTHON: &str = "
import ctypes, os, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def trying(f, *args, **named):
    try: return f(*args, **named)
    except OSError as why: return why
def swap(a, b): return libc.renameat2(-100, a.encode(), -100, b.encode(), 2)
def show(path):
    try: print(open(path).read(), end='')
    except OSError: pass
def spoil(path):
    try: open(path, 'a').write('x')
    except OSError: pass
";

/// A tree with files to hide and to protect.
fn guarded(name: &str, who: Who) -> Option<Place> {
    let place = Place::new(name, who)?;
    let dirs = [
        "guard",
        "guard/secret",
        "guard/keys",
        "guard/fixed",
        "free",
        "only",
    ];
    for dir in dirs {
        std::fs::create_dir(place.dir.join(dir)).unwrap();
        place.own(dir);
    }
    for secret in ["guard/secret/gold", "guard/keys/a.pem", "only/hid"] {
        place.write(secret, "TREASURE\n");
    }
    place.write("guard/fixed/law", "before\n");
    std::os::unix::fs::symlink("guard/secret/gold", place.dir.join("link")).unwrap();
    Some(place)
}

/// A whole tree as text.
fn whole(place: &Place) -> String {
    let list = "find . -printf '%P %y %m %n %s %l\\n' | sort; cat guard/*/* only/*";
    out(&place.plain(list))
}

/// Whether the attempt reached something.
fn got(output: &Output) -> bool {
    let said = out(output) + &err(output);
    said.contains("TREASURE") || said.contains("LOST")
}

/// How an attempt ends without rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    /// It succeeds.
    Succeeds,
    /// It fails too, for other reasons.
    Fails,
}

fn attempt(name: &str, who: Who, without: Without, script: &str) {
    attempt_with(name, who, without, &[], script);
}

fn attempt_with(name: &str, who: Who, without: Without, more: &[&str], script: &str) {
    let Some(place) = guarded(name, who) else {
        return;
    };
    let script = format!("TOP=$PWD; {script}\n{JUDGE}");
    let before = whole(&place);
    let output = place.run(&[&RULES, more].concat(), &script);
    assert!(!got(&output), "{name}: {}{}", out(&output), err(&output));
    assert!(
        out(&output).ends_with("judged\n"),
        "{name}: {}",
        err(&output)
    );
    assert_eq!(whole(&place), before, "{name}");
    if without == Without::Succeeds {
        let output = place.run(more, &script);
        let said = out(&output) + &err(&output);
        assert!(got(&output), "{name} fails without rules too: {said}");
        assert_eq!(whole(&place), before, "{name} without rules");
    }
}

/// Root, an ordinary user, and an ordinary user inside root's run.
const ALL: [Who; 3] = [Who::Caller, Who::Ordinary, Who::Lowered];
/// The users without privileges; root may mount, and open devices.
const USERS: [Who; 2] = [Who::Ordinary, Who::Lowered];

/// The users that own their working directory, so that they can keep views there.
const OWNERS: [Who; 2] = [Who::Caller, Who::Ordinary];

fn by_all(name: &str, script: &str) {
    for who in ALL {
        attempt(name, who, Without::Succeeds, script);
    }
}

fn by_users(name: &str, without: Without, script: &str) {
    for who in USERS {
        attempt(name, who, without, script);
    }
}

/// A script in Python.
fn python(text: &str) -> String {
    format!("python3 - <<'END'\n{PYTHON}{text}\nEND")
}

#[test]
fn symbolic_links_reach_no_guarded_path() {
    by_all(
        "symlinks",
        "ln -s guard/secret/gold a; ln -s $PWD/guard/keys b; ln -s ../guard free/c; \
        ln -s guard/fixed d; cat a b/a.pem link free/c/secret/gold; echo x >> d/law; \
        echo x > free/c/fixed/new; touch -h d/law; rm -f d/law; mv free/c/fixed/law e",
    );
}

#[test]
fn dots_reach_no_guarded_path() {
    by_all(
        "dots",
        "cat guard/fixed/../secret/gold ./guard//keys/../keys/./a.pem only/../only/hid; \
        cd guard/keys; cat ../secret/gold a.pem; cd ../fixed; echo x >> ../../guard/fixed/law; \
        echo x > ./new; chmod 777 . law; cd ..; cat secret/gold; rm -rf ./fixed",
    );
}

#[test]
fn hard_links_reach_no_guarded_path() {
    by_all(
        "links",
        "ln guard/secret/gold g; ln guard/keys/a.pem k; ln only/hid h; cat g k h; \
        ln guard/fixed/law l && echo x >> l; exec 3< guard/fixed/law; \
        ln -L /proc/self/fd/3 m && echo x >> m; ln g guard/fixed/new; true",
    );
}

#[test]
fn renaming_a_parent_reaches_no_guarded_path() {
    let text = "
top = os.path.basename(os.getcwd())
trying(os.rename, 'guard', 'moved'); swap('guard', 'free'); trying(os.rename, 'only', 'free/x')
trying(os.rename, 'guard', 'free/guard'); trying(os.rename, '../' + top, '../' + top + '2')
trying(os.rename, 'guard/secret', 'y'); trying(os.rename, 'guard/keys/a.pem', 'z')
trying(os.rename, 'guard/fixed', 'w'); swap('guard/fixed', 'free'); swap('guard/keys', 'free')
for dir in ('moved', 'free', 'free/guard', '.', 'guard'):
    for name in ('secret/gold', 'keys/a.pem', 'a.pem', 'hid', 'x/hid'): show(dir + '/' + name)
show('y/gold'); show('z')
trying(os.makedirs, 'guard/fixed', exist_ok=True); spoil('guard/fixed/law')";
    by_all("above", &python(text));
    // mv(1) falls back to copying visible files, and the rest stays.
    by_all(
        "mv",
        "mv guard moved; mv only free; cat moved/secret/gold free/only/hid; mkdir -p guard/fixed; \
        echo x >> guard/fixed/law",
    );
}

#[test]
fn removing_and_remaking_reaches_no_guarded_path() {
    by_all(
        "again",
        "rmdir only; rm -rf guard only; mkdir -p only guard/secret guard/keys guard/fixed; \
        mkdir -p free/secret; mv -T free/secret guard/secret; mv -T free only; \
        cat only/hid guard/secret/gold guard/keys/a.pem; echo x >> guard/fixed/law",
    );
}

#[test]
fn descriptors_and_their_names_reach_no_guarded_path() {
    let text = "
dir = os.open('guard', os.O_PATH); show('/proc/self/fd/%d/secret/gold' % dir)
print(trying(os.open, 'secret/gold', os.O_RDONLY, dir_fd=dir))
law = os.open('guard/fixed/law', os.O_PATH); here = '/proc/self/fd/%d' % law
spoil(here); trying(os.chmod, here, 0o777); trying(os.truncate, here, 0)
trying(os.setxattr, here, 'user.x', b'x'); trying(os.utime, here, (1, 1))
trying(os.link, here, 'linked', follow_symlinks=True); spoil('linked')
fixed = os.open('guard/fixed', os.O_PATH); spoil('/proc/self/fd/%d/new' % fixed)
trying(os.rename, 'law', 'gone', src_dir_fd=fixed, dst_dir_fd=fixed)";
    let script = python(text)
        + "\nexec 3< guard 4< guard/fixed/law; cat /proc/self/fd/3/secret/gold \
        /proc/self/cwd/guard/keys/a.pem /proc/self/root$PWD/only/hid /dev/fd/3/keys/a.pem; \
        echo x > /proc/self/fd/4; echo x > /proc/$$/cwd/guard/fixed/law";
    by_all("proc-fd", &script);
}

#[test]
#[ignore = "slow: 6 s"]
fn other_processes_reach_no_guarded_path() {
    let script = "for p in /proc/[0-9]*; do \
        cat $p/root$PWD/guard/secret/gold $p/cwd/guard/secret/gold $p/cwd/only/hid; \
        echo x >> $p/root$PWD/guard/fixed/law; echo x >> $p/cwd/guard/fixed/law; \
        for d in $p/fd/*; do cat $d/guard/secret/gold $d$PWD/guard/secret/gold; done; done; \
        front=$PPID; nsenter -t $front -m cat $PWD/guard/secret/gold; \
        nsenter -t $front -U -m cat $PWD/guard/secret/gold; \
        unshare -Ur nsenter -t $front -m cat $PWD/guard/secret/gold; \
        [ $front = 0 ] || { head -c 1 /proc/$front/mem > /dev/null && echo LOST; \
        ls /proc/$front/map_files/* && echo LOST; }";
    for more in [&[][..], &["--share", "pid"]] {
        for who in USERS {
            attempt_with("processes", who, Without::Succeeds, more, script);
        }
    }
}

#[test]
fn mounts_in_an_own_namespace_reach_no_guarded_path() {
    let script = "unshare -Urm sh -c '\
        umount guard/fixed; umount -l guard/fixed; mount -o remount,bind,rw guard/fixed; \
        mount --move guard/fixed free; echo x >> guard/fixed/law; mount --bind guard free; \
        cat free/secret/gold free/keys/a.pem; echo x >> free/fixed/law; umount free; \
        mount --rbind guard free; cat free/secret/gold; umount -l free/fixed; \
        mount -o remount,bind,rw free/fixed; echo x >> free/fixed/law; \
        mount --bind guard/fixed only; mount -o remount,bind,rw only; echo x >> only/law; \
        umount only; umount -l guard/fixed only free; echo x >> guard/fixed/law; \
        mount --make-rshared /; unshare -m umount guard/fixed; echo x >> guard/fixed/law'";
    by_users("mounts", Without::Succeeds, script);
}

/// Tries in a namespace without the mount points, by descriptors from before.
#[test]
fn namespaces_without_the_mount_points_reach_no_guarded_path() {
    let text = "
guard = os.open('guard', os.O_RDONLY); top = os.open('.', os.O_RDONLY)
user, group = os.getuid(), os.getgid()
if libc.unshare(0x10020000): print('no namespaces')
open('/proc/self/setgroups', 'w').write('deny')
open('/proc/self/uid_map', 'w').write('%d %d 1' % (user, user))
open('/proc/self/gid_map', 'w').write('%d %d 1' % (group, group))
libc.mount(None, b'/', None, 0x44000, None); libc.mount(b'none', b'free', b'tmpfs', 0, None)
os.chdir('free')
if libc.syscall(155, b'.', b'.') or libc.umount2(b'.', 2): print('no other root')
for dir, name in ((guard, 'fixed'), (guard, 'secret'), (top, 'guard'), (top, 'only')):
    trying(os.rename, name, 'gone', src_dir_fd=dir, dst_dir_fd=dir)
    trying(os.mkdir, name, dir_fd=dir)
    libc.renameat2(dir, name.encode(), top, b'cage', 2)
def make(name):
    file = os.open(name, os.O_CREAT | os.O_WRONLY, 0o666, dir_fd=guard)
    os.write(file, b'x')
trying(make, 'fixed/law'); trying(make, 'fixed/new')";
    let script = format!("mkdir -p cage/fixed\n{}", python(text));
    by_users("detached", Without::Succeeds, &script);
}

/// A name that a rule with a slash forbids is made elsewhere, and its directory moved there.
#[test]
fn moving_a_directory_does_not_make_a_forbidden_name() {
    let rules = [
        "--rw",
        "free",
        "--hide-try",
        "free/conf/secret",
        "--ro-try",
        "free/git/hooks/commit",
        "--absent",
        "free/flows/**",
    ];
    let text = "
for dir, name in (('conf', 'secret'), ('git/hooks', 'commit'), ('flows', 'one')):
    os.makedirs('free/made/' + dir); open('free/made/%s/%s' % (dir, name), 'w').write('x')
for dir in ('conf', 'git', 'flows'):
    print(trying(os.rename, 'free/made/' + dir, 'free/' + dir))
    trying(os.mkdir, 'free/' + dir); swap('free/made/' + dir, 'free/' + dir)";
    for who in ALL {
        let Some(place) = guarded("moved-in", who) else {
            continue;
        };
        let output = place.run(&rules, &python(text));
        assert_eq!(
            out(&output).matches("Errno 18").count(),
            3,
            "{}",
            out(&output)
        );
        for path in [
            "free/conf/secret",
            "free/git/hooks/commit",
            "free/flows/one",
        ] {
            assert!(!place.dir.join(path).exists(), "{who:?} {path}");
        }
        place.run(&["--rw", "free"], &python(&text.replace("made", "more")));
        assert!(place.dir.join("free/conf/secret").exists(), "{who:?}");
    }
}

#[test]
fn moving_a_protected_directory_into_a_bind_reaches_no_guarded_path() {
    let text = "
trying(os.rename, 'guard', 'cage/guard'); spoil('free/guard/fixed/law')
show('free/guard/secret/gold'); show('free/guard/keys/a.pem')";
    let script = format!(
        "mkdir cage; cat > cage/py <<'END'\n{PYTHON}{text}\nEND\n\
        unshare -Urm sh -c 'mount --bind cage free; python3 cage/py; mv guard cage; \
        cat free/guard/secret/gold; echo x >> free/guard/fixed/law'"
    );
    by_users("cage", Without::Succeeds, &script);
}

#[test]
fn another_root_reaches_no_guarded_path() {
    let script = "mkdir new; unshare -Urm sh -c 'mount --bind / new; mount --rbind / new; cd new; \
        pivot_root . .; umount -l .; cd $TOP; umount -l guard/fixed; echo x >> guard/fixed/law; \
        cat guard/secret/gold; chroot . cat /guard/secret/gold; umount -l /; \
        cat $TOP/guard/secret/gold'; unshare -Urmpf --mount-proc sh -c \
        'cat /proc/1/root$TOP/guard/secret/gold /proc/1/cwd/guard/keys/a.pem; \
        echo x >> /proc/1/root$TOP/guard/fixed/law'";
    by_users("root", Without::Succeeds, &format!("export TOP; {script}"));
}

#[test]
fn file_handles_reach_no_guarded_path() {
    let text = "
class Handle(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('data', ctypes.c_ubyte * 128)]
for fid in (0, 0x200):
    for path in ('guard', 'guard/fixed', 'guard/fixed/law', '/'):
        handle, mount = Handle(128), ctypes.c_int()
        refs = ctypes.byref(handle), ctypes.byref(mount)
        if libc.name_to_handle_at(-100, path.encode(), *refs, fid): continue
        for base in ('.', '/', '/proc', '/dev'):
            dir = os.open(base, os.O_RDONLY)
            fd = libc.open_by_handle_at(dir, ctypes.byref(handle), os.O_RDWR | os.O_APPEND)
            if fd >= 0 and path == 'guard/fixed/law': os.write(fd, b'x')
            fd = libc.open_by_handle_at(dir, ctypes.byref(handle), os.O_RDONLY)
            if fd >= 0 and path == 'guard': print(trying(os.open, 'secret/gold', 0, dir_fd=fd))
";
    let script = python(text);
    let script =
        format!("cat > h.py <<'OUT'\n{PYTHON}{text}\nOUT\n{script}\nunshare -Urm python3 h.py");
    by_users("handles", Without::Fails, &script);
}

#[test]
fn file_systems_on_top_reach_no_guarded_path() {
    let script = "mkdir top; unshare -Urm sh -c 'mount -t tmpfs none top; cd top; mkdir u w m; \
        mount -t overlay none -o userxattr,lowerdir=../guard,upperdir=u,workdir=w m; \
        cat m/secret/gold m/keys/a.pem; umount m; \
        mount -t overlay none -o userxattr,lowerdir=../guard/secret:../only m; cat m/gold m/hid; \
        fuse-overlayfs -o lowerdir=../guard m; cat m/secret/gold; umount -l m'; true";
    by_users("layers", Without::Succeeds, script);
}

#[test]
fn marks_of_the_overlay_reach_no_guarded_path() {
    let text = "
guard = os.path.abspath('guard').encode()
for dir in ('free', 'free/made'):
    trying(os.mkdir, dir)
    for kind in ('user', 'trusted'):
        for mark, value in (('redirect', guard), ('opaque', b'y'), ('metacopy', b'')):
            trying(os.setxattr, dir, '%s.overlay.%s' % (kind, mark), value)
            trying(os.setxattr, dir, '%s.overlay.overlay.%s' % (kind, mark), value)
trying(os.mknod, 'free/white', 0o20644, 0)
open('free/.wh.law', 'w')";
    let look = "cat free/secret/gold free/made/secret/gold free/keys/a.pem; ls free free/made";
    for who in OWNERS {
        let Some(place) = guarded("marks", who) else {
            return;
        };
        let before = whole(&place);
        for script in [&*python(text), look] {
            let script = format!("TOP=$PWD; {script}\n{JUDGE}");
            let output = place.run(&[&RULES[..], &["--name", "marked"]].concat(), &script);
            let said = out(&output) + &err(&output);
            assert!(!got(&output) && said.contains("judged"), "{said}");
        }
        place.openpath(["discard", "marked"]).output().unwrap();
        std::fs::remove_dir_all(place.dir.join("state")).unwrap();
        assert_eq!(whole(&place), before);
    }
}

#[test]
fn kept_view_directory_reaches_no_guarded_path() {
    for who in OWNERS {
        let Some(place) = guarded("kept", who) else {
            return;
        };
        let options = [&RULES[..], &["--name", "mine"]].concat();
        let script = "ls state/openpath/views/mine && echo LOST; mv state moved; \
            ls moved/openpath/views/mine && echo LOST; mkdir -p state/openpath/views/mine; \
            echo x > state/openpath/views/mine/view.toml; cat state/openpath/views/mine/*; true";
        let output = place.run(&options, &format!("TOP=$PWD; {script}\n{JUDGE}"));
        let said = out(&output) + &err(&output);
        assert!(!got(&output) && said.contains("judged"), "{said}");
        let diff = place.openpath(["diff", "mine"]).output().unwrap();
        assert!(
            diff.status.success() || diff.status.code() == Some(1),
            "{}",
            err(&diff)
        );
    }
}

#[test]
fn open_descriptors_reach_no_guarded_path() {
    for who in OWNERS {
        let Some(place) = guarded("open", who) else {
            return;
        };
        let before = whole(&place);
        let attack = "for d in /proc/self/fd/*; do cat $d/guard/secret/gold $d/secret/gold; \
            echo x >> $d/guard/fixed/law; done; echo judged";
        let run = place.openpath(["run", "-q"]);
        let mut shell = Command::new("bash");
        shell.arg("-c");
        shell.arg("exec 3< . 4< guard 5< /; exec \"$0\" \"$@\"");
        shell.arg(run.get_program()).args(run.get_args());
        shell.args(RULES).args(["--", "bash", "-c", attack]);
        let output = shell
            .current_dir(&place.dir)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = out(&output) + &err(&output);
        assert!(!got(&output) && said.contains("judged"), "{said}");
        assert_eq!(whole(&place), before);
        // A directory as a standard stream is refused.
        let mut run = place.openpath(["run", "-q", "--", "true"]);
        let dir = std::fs::File::open(&place.dir).unwrap();
        let refused = run.stdin(dir).output().unwrap();
        assert_eq!(refused.status.code(), Some(125));
        assert!(
            err(&refused).contains("descriptor 0 is a directory"),
            "{}",
            err(&refused)
        );
    }
}

#[test]
fn races_reach_no_guarded_path() {
    races("0.4");
}

#[test]
#[ignore = "slow: 8 s"]
fn long_races_reach_no_guarded_path() {
    let seconds = std::env::var("OPENPATH_ESCAPE_SECONDS");
    races(seconds.as_deref().unwrap_or("2"));
}

/// Moves, links and reads by many threads for so many seconds.
fn races(seconds: &str) {
    let text = "
end = time.time() + SECONDS
for dir in ('free/a', 'free/b', 'guard/keys/sub', 'p', 'p/q'): trying(os.makedirs, dir)
tries = [0]
def storm(acts):
    def run():
        while time.time() < end or tries[0] <= 100:
            for act in acts:
                tries[0] += 1
                try: act()
                except OSError: pass
    return threading.Thread(target=run)
def ren(a, b): return lambda: os.rename(a, b)
def peek(*paths): return [lambda path=path: show(path) for path in paths]
def harm(*paths): return [lambda path=path: spoil(path) for path in paths]
movers = [
    [ren('guard', 'p/guard'), ren('p/guard', 'guard'), lambda: swap('guard', 'p')],
    [ren('guard/keys', 'p/keys'), ren('p/keys', 'guard/keys'),
     lambda: swap('guard/keys', 'free/a')],
    [ren('only', 'p/q/only'), ren('p/q/only', 'only'),
     lambda: os.rmdir('only'), lambda: os.mkdir('only')],
    [ren('free/a', 'guard/a'), ren('guard/a', 'free/a'),
     ren('free', 'p/free'), ren('p/free', 'free')],
    [lambda: os.symlink('../guard', 'free/l'), lambda: os.unlink('free/l'),
     lambda: os.mkdir('guard/secret'), lambda: os.link('guard/fixed/law', 'p/law'),
     ren('guard/fixed', 'p/f')],
]
seen = peek('guard/secret/gold', 'p/guard/secret/gold', 'p/secret/gold', 'guard/keys/a.pem',
    'p/keys/a.pem', 'free/a/a.pem', 'guard/a/a.pem', 'only/hid', 'p/q/only/hid', 'p/only/hid',
    'free/l/secret/gold', 'p/free/l/secret/gold')
done = harm('guard/fixed/law', 'p/guard/fixed/law', 'p/fixed/law', 'free/l/fixed/law', 'p/law',
    'p/f/law', 'guard/fixed/new')
threads = [storm(acts) for acts in movers + [seen, seen[::-1], done]]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(tries[0] > 100 or 'LOST')";
    by_all("races", &python(&text.replace("SECONDS", seconds)));
}
