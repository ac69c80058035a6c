// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that what a run or a commit refuses is named as it is, with a remedy that works.

use crate::kernel_engine::root_place;
use crate::place::{OPENPATH, Place, Who, err, out};
use std::process::{Command, Output};

fn openpath(place: &Place, line: &str) -> Output {
    let args = line.split_whitespace();
    place.openpath(args).output().unwrap()
}

fn root(name: &str) -> Option<Place> {
    Place::new(name, Who::Caller).filter(|_| rustix::process::geteuid().is_root())
}

#[test]
fn commit_names_the_flag_of_a_file_and_a_remedy_that_works() {
    let Some(place) = root("flagged") else { return };
    if !place
        .plain("touch t && chattr +a t && chattr -a t")
        .status
        .success()
    {
        eprintln!("skipped: no flags of files here");
        return;
    }
    for (flag, name, line) in [
        ("a", "append-only", "echo 2 >> log"),
        ("i", "immutable", "echo 2 >> log"),
        ("i", "immutable", "chmod 600 log"),
        ("a", "append-only", "chmod 600 log"),
    ] {
        place.plain("rm -f log; echo 1 > log; echo 1 > other");
        let line = format!("{line}; echo 2 > other");
        let run = place.run(&["-q", "--name", "flagged"], &line);
        assert!(run.status.success(), "{}", err(&run));
        place.plain(&format!("chattr +{flag} log"));
        let refused = openpath(&place, "commit flagged --force");
        assert_eq!(refused.status.code(), Some(2), "{}", out(&refused));
        let why =
            format!("log is {name}: name other paths, or remove the flag by `chattr -{flag}`");
        assert!(err(&refused).contains(&why), "{}", err(&refused));
        assert_eq!(place.read("other"), "1\n");
        place.plain(&format!("chattr -{flag} log"));
        let done = openpath(&place, "commit flagged --force");
        assert!(done.status.success(), "{}", err(&done));
        assert_eq!(place.read("other"), "2\n");
        openpath(&place, "discard flagged");
    }
}

#[test]
fn attributes_on_a_read_only_mount_are_refused_before_the_first_step() {
    let Some(place) = root("attributes-ro") else {
        return;
    };
    let line = "mkdir at; mount -t tmpfs tmpfs at; touch at/old; mount -o remount,ro at; \
        \"$OPENPATH\" run -q --name ro -- sh -c 'chmod 600 at/old; echo x > other'; \
        \"$OPENPATH\" commit ro; echo $?; \"$OPENPATH\" discard ro; echo $?; ls";
    let all = crate::kernel_engine::apart(&place, line);
    assert_eq!(out(&all), "2\n0\nat\nstate\n", "{}", err(&all));
    let why = "at/old is on a read-only mount: name other paths";
    assert!(err(&all).contains(why), "{}", err(&all));
}

#[test]
fn view_that_is_gone_keeps_nothing() {
    for place in Place::all("gone-view") {
        let mut run = place.openpath(["run", "--name", "./view", "--", "sh", "-c"]);
        let run = run
            .arg("touch new; echo ready; read x")
            .stdin(std::process::Stdio::piped());
        let run = run.stdout(std::process::Stdio::piped());
        let mut run = run.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(run.stdout.as_mut().unwrap(), &mut ready).unwrap();
        place.plain("rm -rf view");
        let ended = run.wait_with_output().unwrap();
        assert!(
            !err(&ended).contains("keeps its changes"),
            "{}",
            err(&ended)
        );
    }
}

#[test]
fn name_of_a_directory_needs_a_slash() {
    let Some(place) = Place::new("slash", Who::Caller) else {
        return;
    };
    for name in [".", ".."] {
        let refused = openpath(&place, &format!("diff {name}"));
        let hint = format!("a view in a directory is named with a slash, as `{name}/`");
        assert!(err(&refused).contains(&hint), "{}", err(&refused));
    }
}

#[test]
fn commit_of_other_paths_says_that_the_view_has_changes() {
    let Some(place) = Place::new("elsewhere", Who::Caller) else {
        return;
    };
    place.plain("mkdir dir");
    let run = place.run(&["-q", "--name", "view"], "echo x > new");
    assert!(run.status.success(), "{}", err(&run));
    let none = openpath(&place, "commit view dir");
    let wanted = "openpath: nothing to commit at these paths of the view: `openpath diff view \
                  --stat` lists its change\n";
    assert_eq!(out(&none), wanted, "{}", err(&none));
    assert!(none.status.success());
}

#[test]
fn engine_of_a_file_is_named_with_its_file() {
    let Some(place) = root_place("engine-in-file") else {
        return;
    };
    place.write("rules.toml", "engine = \"kernel\"\nhide = [\"secret\"]\n");
    place.write("secret", "");
    let refused = place.run(&["--config", "rules.toml"], "true");
    let why = "(`engine = \"kernel\"` is in rules.toml)";
    assert!(err(&refused).contains(why), "{}", err(&refused));
    let typed = place.run(&["--config", "rules.toml", "--engine", "fuse"], "true");
    assert!(typed.status.success(), "{}", err(&typed));
}

#[test]
fn size_that_is_too_small_for_a_view_is_named() {
    let Some(place) = root_place("tiny") else {
        return;
    };
    for size in [4096, 8192, 16_384, 20_480, 24_576, 28_672, 32_768] {
        let upper = format!("memory:{size}");
        let run = place.run(&["--engine", "kernel", "--upper", &upper], "true");
        let why = format!("--upper {upper} is too small for a view with --engine kernel");
        let is_named = run.status.success() || err(&run).contains(&why);
        assert!(is_named, "{}", err(&run));
        assert!(size > 4096 || !run.status.success());
    }
}

#[test]
fn engine_without_the_capability_is_refused_by_name() {
    let Some(place) = root_place("no-capability") else {
        return;
    };
    let said = |line: &str| {
        let mut command = Command::new("sh");
        let command = command.args(["-c", line]).env("OPENPATH", OPENPATH);
        command.current_dir(&place.dir).output().unwrap()
    };
    let kernel = "\"$OPENPATH\" run -q --engine kernel -- true";
    let drop = "setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin sh -c";
    for line in [
        format!("{drop} '{kernel}'"),
        format!("unshare -Ur sh -c '{kernel}'"),
    ] {
        let refused = said(&line);
        assert_eq!(refused.status.code(), Some(125), "{line}");
        let why = "--engine kernel needs CAP_SYS_ADMIN";
        assert!(err(&refused).contains(why), "{line}: {}", err(&refused));
    }
    let doctor = said(&format!("{drop} '\"$OPENPATH\" doctor'"));
    let text = [out(&doctor), err(&doctor)].concat();
    assert!(text.contains("engines"), "{text}");
}
