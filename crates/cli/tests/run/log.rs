// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the log of `openpath run`: it has every open that was refused or led to another file than
//! its path names, and no other.

use crate::place::{Place, err, out};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};

/// The fields of a line of the log, without the time and the process; the path that the program
/// claims comes after the path that the view saw.
type Said = [String; 5];

fn said(place: &Place, line: &str) -> Said {
    let line: Value = serde_json::from_str(line).unwrap();
    let below = format!("{}/", place.dir.display());
    assert!(line["time"].as_f64().unwrap() > 1e9 && line["pid"].as_u64().unwrap() > 1);
    ["program", "wants", "path", "answer", "because"].map(|key| {
        let text = line[key].as_str().unwrap();
        let reason = line["reason"].as_str().unwrap();
        let text = text.strip_prefix(&below).unwrap_or(text);
        if key == "because" {
            format!("{reason}: {text}")
        } else if key == "path"
            && let Some(claimed) = line.get("claimed")
        {
            let claimed = claimed.as_str().unwrap();
            format!("{text} {}", claimed.strip_prefix(&below).unwrap_or(claimed))
        } else {
            text.to_owned()
        }
    })
}

fn want(lines: &[[&str; 5]]) -> Vec<Said> {
    lines.iter().map(|line| line.map(str::to_owned)).collect()
}

/// A place with one file of each kind.
fn furnish(place: &Place) {
    for dir in ["frozen", "through", "locked", "closed-to-new", "log"] {
        std::fs::create_dir(place.dir.join(dir)).unwrap();
        place.own(dir);
    }
    let files = [
        "data",
        "secret",
        "key.pem",
        "closed",
        "plain",
        "frozen/file",
        "through/file",
        "locked/file",
    ];
    for file in files {
        place.write(file, "x\n");
    }
    for (path, mode) in [
        ("closed", 0o000),
        ("locked", 0o000),
        ("closed-to-new", 0o555),
    ] {
        let path = place.dir.join(path);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// A run that searches programs and libraries only where all users may.
fn run(place: &Place, options: &[&str], line: &str) -> Output {
    let rest = ["--", "sh", "-c", line];
    let mut command = place.openpath(["run"].iter().chain(options).chain(&rest));
    command
        .env("PATH", "/usr/bin:/bin")
        .env_remove("LD_LIBRARY_PATH");
    command.stdin(Stdio::null()).output().unwrap()
}

/// Runs `line` with a log; returns the lines of the log.
fn log(place: &Place, line: &str) -> Vec<Said> {
    logged(place, line).0
}

/// Does the same, and returns standard error too. The log is in a directory that the line does not
/// use, because a changed directory would be looked up once more.
fn logged(place: &Place, line: &str) -> (Vec<Said>, String) {
    let log = place.path("log/of.jsonl");
    let options = [
        ["-q", "--hide", "secret"],
        ["--absent", "*.pem", "--ro"],
        ["frozen", "--rw", "through"],
    ];
    let options = [&options.concat()[..], &["--log", &log]].concat();
    let output = run(place, &options, &format!("{line}; true"));
    assert!(output.status.success(), "{}", err(&output));
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(log).unwrap();
    let lines = text.lines().map(|line| said(place, line));
    (lines.collect(), err(&output))
}

/// The line, for an ordinary user even in a run of root.
fn as_user(place: &Place, line: &str) -> String {
    if out(&place.plain("id -u")) == "0\n" {
        format!("setpriv --reuid 1000 --regid 1000 --clear-groups sh -c '{line}'")
    } else {
        line.to_owned()
    }
}

#[test]
fn missing_names_are_logged_each_time() {
    for place in Place::all("log-absent") {
        furnish(&place);
        let line = "for i in 1 2; do cat data secret key.pem none secret/x; echo > n.pem; done";
        let each = [
            ["cat", "read", "secret", "ENOENT", "hidden: secret"],
            ["cat", "read", "key.pem", "ENOENT", "absent: key.pem"],
            ["cat", "read", "secret secret/x", "ENOENT", "hidden: secret"],
            [
                "sh",
                "write+create+truncate",
                "n.pem",
                "EPERM",
                "absent: n.pem",
            ],
        ];
        assert_eq!(log(&place, line), want(&[each, each].concat()));
        // Checking for a file does not open it.
        assert_eq!(
            log(&place, "test -e secret; ls -l secret; cat data"),
            want(&[])
        );
    }
}

#[test]
fn read_only_paths_are_logged_each_time() {
    for place in Place::all("log-ro") {
        furnish(&place);
        let line = "for i in 1 2; do cat frozen/file; echo > frozen/new; echo >> frozen/file; done";
        let each = [
            [
                "sh",
                "write+create+truncate",
                "frozen/new",
                "EROFS",
                "read-only: frozen",
            ],
            [
                "sh",
                "write+create",
                "frozen/file",
                "EROFS",
                "read-only: frozen",
            ],
        ];
        assert_eq!(log(&place, line), want(&[each, each].concat()));
    }
}

#[test]
fn denied_permission_is_logged_with_place_and_reason() {
    for place in Place::all("log-permission") {
        furnish(&place);
        let line = "for i in 1 2; do cat closed locked/file; echo > closed-to-new/x; ./plain; done";
        let line = as_user(&place, line);
        let owner = if line.starts_with("setpriv") {
            "0:0"
        } else {
            "1000:1000"
        };
        let bits = |mode| match owner {
            "0:0" => format!("other bits (mode {mode}, owner {owner})"),
            _ => format!("owner bits (mode {mode}, owner {owner})"),
        };
        let read = format!("permission: closed to read: refused by {}", bits("0000"));
        let search = "permission: locked to execute or search: refused by ";
        let search = format!("{search}{}", bits("0000"));
        let new = "permission: closed-to-new to write and search: refused by ";
        let new = format!("{new}{}", bits("0555"));
        let run = "permission: plain to execute or search: refused by ";
        let run = format!("{run}{}", bits("0644"));
        let each = [
            ["cat", "read", "closed", "EACCES", &read],
            ["cat", "read", "locked locked/file", "EACCES", &search],
            [
                "sh",
                "write+create+truncate",
                "closed-to-new closed-to-new/x",
                "EACCES",
                &new,
            ],
            ["sh", "execute", "plain", "EACCES", &run],
        ];
        let told = log(&place, &line);
        assert_eq!(told, want(&[each, each].concat()));
        // Root has the permissions that the user lacks.
        if line.starts_with("setpriv") {
            assert_eq!(log(&place, "cat closed locked/file"), want(&[]));
        }
    }
}

#[test]
fn writes_are_logged_with_their_destination() {
    for place in Place::all("log-upper") {
        furnish(&place);
        let line = "echo a >> data; echo b >> data; echo > new; echo > through/file; echo > \
            through/new; cat data new through/file";
        let append = "write+create";
        let over = "write+create+truncate";
        let lines = [
            ["sh", append, "data", "ok", "upper: data copied up"],
            ["sh", append, "data", "ok", "upper: data in place"],
            ["sh", over, "new", "ok", "upper: new new"],
            ["sh", over, "through/file", "ok", "disk: through"],
            ["sh", over, "through/new", "ok", "disk: through"],
        ];
        assert_eq!(log(&place, line), want(&lines));
        assert_eq!(place.read("data"), "x\n");
    }
}

#[test]
fn log_on_standard_error_is_text() {
    for place in Place::all("log-text") {
        furnish(&place);
        let options = ["-q", "--hide", "secret", "--log", "-"];
        let output = run(&place, &options, "cat secret 2> /dev/null");
        let text = err(&output);
        let end = format!("cat read {0}: ENOENT, hidden: {0}\n", place.path("secret"));
        assert!(text.ends_with(&end) && text.lines().count() == 1, "{text}");
    }
}

/// Opens random files in a thread; prints those that a rule refused, and those that were opened for
/// writing.
const OPENS: &str = r#"
import errno, os, random, sys, threading
paths = """data secret key.pem none secret/x closed plain locked locked/file closed-to-new
closed-to-new/x closed-to-new/../data frozen frozen/file frozen/new frozen/none/x through/file
through/new to-frozen to-secret to-new to-key to-data to-locked ./new1 new2""".split()
kinds = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR]
more = [0, os.O_CREAT, os.O_TRUNC, os.O_CREAT | os.O_TRUNC, os.O_CREAT | os.O_EXCL, os.O_APPEND,
    os.O_DIRECTORY, os.O_PATH, os.O_NOFOLLOW]
reasons = [errno.EACCES, errno.EPERM, errno.EROFS]
hidden = ["secret", "key.pem", "secret/x", "to-secret", "to-key"]
def opens():
    dice = random.Random(7)
    for _ in range(600):
        path, kind = dice.choice(paths), dice.choice(kinds)
        flags = kind | dice.choice(more)
        there = os.path.exists(path)
        try:
            os.close(os.open(path, flags, 0o644))
            answer = "ok"
            writes = kind != os.O_RDONLY or flags & os.O_TRUNC or flags & os.O_CREAT and not there
            if not writes or flags & os.O_PATH:
                continue
        except OSError as why:
            if why.errno not in reasons and not (why.errno == errno.ENOENT and path in hidden):
                continue
            answer = errno.errorcode[why.errno]
        print(path.removeprefix("./"), answer)
thread = threading.Thread(target=opens)
thread.start()
thread.join()
"#;

#[test]
fn log_of_random_opens_has_each_failure_and_nothing_else() {
    for place in Place::all("log-random") {
        furnish(&place);
        place.write("opens.py", OPENS);
        for (name, leads) in [
            ("to-frozen", "frozen/file"),
            ("to-secret", "secret"),
            ("to-new", "frozen/fresh"),
            ("to-key", "key.pem"),
            ("to-data", "data"),
            ("to-locked", "locked/file"),
        ] {
            std::os::unix::fs::symlink(leads, place.dir.join(name)).unwrap();
        }
        let line = as_user(&place, "python3 -B -I opens.py");
        let (lines, met) = logged(&place, &format!("{line} > told; cat told >&2"));
        let met: Vec<_> = met.lines().collect();
        assert!(met.len() > 150, "{met:?}");
        let lines = lines.iter().filter(|line| line[0] == "python3");
        let told: Vec<_> = lines
            .map(|line| {
                let claimed = line[2].rsplit(' ').next().unwrap().trim_start_matches("./");
                format!("{claimed} {}", line[3])
            })
            .collect();
        for (at, (met, told)) in met.iter().zip(&told).enumerate() {
            assert_eq!(met, told, "{at}");
        }
        assert_eq!(met.len(), told.len());
    }
}

/// Opens the path in a buffer while another thread writes another path of the same length to it;
/// prints how often the path did not exist.
const REWRITES: &str = r#"
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
path = ctypes.create_string_buffer(b"secret")
done = False
def rewrite():
    while not done:
        path.value = b"public"
        path.value = b"secret"
thread = threading.Thread(target=rewrite)
thread.start()
missed = 0
for _ in range(300):
    fd = libc.open(path, os.O_RDONLY)
    if fd < 0:
        missed += 1
    else:
        os.close(fd)
done = True
thread.join()
print("missed", missed, flush=True)
"#;

#[test]
fn path_rewritten_by_another_thread_is_logged_as_a_claim() {
    for place in Place::all("log-rewritten") {
        furnish(&place);
        place.write("public", "x\n");
        place.write("rewrites.py", REWRITES);
        let (lines, met) = logged(&place, "python3 -B -I rewrites.py >&2");
        let missed: usize = met.trim().strip_prefix("missed ").unwrap().parse().unwrap();
        let lines: Vec<_> = lines.iter().filter(|line| line[0] == "python3").collect();
        assert!(missed > 0 && lines.len() <= missed, "{missed} {lines:?}");
        assert!(!lines.is_empty());
        for line in lines {
            let claimed = line[2]
                .strip_prefix("secret")
                .expect("the path that was met");
            assert!(claimed.is_empty() || is_mixture(claimed), "{line:?}");
        }
    }
}

/// Whether each letter after the space is from one of the two paths: a copy of memory that is
/// written meanwhile can have parts of both.
fn is_mixture(claimed: &str) -> bool {
    let Some(claimed) = claimed.strip_prefix(' ') else {
        return false;
    };
    let both = "secret".chars().zip("public".chars());
    claimed.len() == 6
        && claimed
            .chars()
            .zip(both)
            .all(|(c, (a, b))| c == a || c == b)
}

/// Reads the link `secret` by the 32-bit call 85, which is creat(2) in x86-64; prints the answer.
const CALLS_32: &str = r#"
import ctypes, mmap, struct
MAP_32BIT, RWX = 0x40, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT
at = libc.mmap(None, 4096, RWX, flags, -1, 0)
path = at + 256
# push rbx; mov eax, 85; mov ebx, path; mov ecx, buffer; mov edx, 9; int 0x80; pop rbx; ret
code = b"\x53\xb8" + struct.pack("<I", 85) + b"\xbb" + struct.pack("<I", path)
code += b"\xb9" + struct.pack("<I", at + 512) + b"\xba" + struct.pack("<I", 9)
code += b"\xcd\x80\x5b\xc3"
ctypes.memmove(at, code, len(code))
ctypes.memmove(path, b"secret\0", 7)
print(ctypes.CFUNCTYPE(ctypes.c_int)(at)(), flush=True)
"#;

#[test]
fn calls_of_32_bits_are_not_mistaken_for_others() {
    for place in Place::all("log-32") {
        furnish(&place);
        place.write("calls.py", CALLS_32);
        if out(&place.plain("python3 -B -I calls.py")) != "-22\n" {
            eprintln!("skipped: this kernel has no calls of 32 bits");
            return;
        }
        let (lines, met) = logged(&place, "python3 -B -I calls.py >&2");
        assert_eq!(met, "-2\n");
        let lines: Vec<_> = lines.iter().filter(|line| line[0] == "python3").collect();
        assert!(lines.is_empty(), "{lines:?}");
    }
}
