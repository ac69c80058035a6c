// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a commit and its undo of thousands of files hold at most a few kilobytes of memory
//! for each file.

use crate::place::{OPENPATH, Place, Who, err, out};
use std::process::Stdio;

/// Enough that what is held for each file outweighs the rest.
const FILES: usize = 4000;
/// Runs a verb on a view; returns the most memory that it had, in bytes.
fn most_memory(place: &Place, args: &[&str]) -> usize {
    let mut command = place.openpath(args);
    command.stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    let path = format!("/proc/{}/status", child.id());
    let mut most = 0;
    let status = loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let size = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
        most = size.map_or(most, |size| most.max(size * 1024));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    assert!(status.success(), "{args:?}: {status}");
    most
}

#[test]
#[ignore = "slow: 8 s"]
fn commit_holds_little_memory_for_each_file() {
    let Some(place) = Place::new("many-files", Who::Caller) else {
        return;
    };
    let line = format!("mkdir state many; cd many; seq {FILES} | split -l 1 -a 4 - file-");
    assert!(place.plain(&line).status.success());
    let views = [
        ("one", "echo new > one"),
        ("all", "cd many; for f in *; do echo new >> $f; done"),
    ];
    for (name, line) in views {
        let done = place.run(&["--name", name, "--quiet"], line);
        assert!(done.status.success(), "{}", err(&done));
    }
    // Bytes for each file: its entry, its steps, its change, and a share of the caches, which are
    // full by then. When the journal was written as one text, they were 5700 and 3600.
    for (verb, bound) in [(&["commit"][..], 4500), (&["commit", "--undo"], 2600)] {
        let [one, all] = views.map(|(name, _)| {
            let args: Vec<&str> = verb.iter().copied().chain([name]).collect();
            most_memory(&place, &args)
        });
        let each = all.saturating_sub(one) / FILES;
        assert!(
            each < bound,
            "{verb:?}: {each} bytes for each file, {one} for the rest"
        );
    }
}

/// Files that were removed, and that the server has not freed yet, leave descriptors to the rest.
#[test]
fn files_are_made_and_removed_under_a_small_limit_of_descriptors() {
    for place in Place::all("few-descriptors") {
        place.write("few.py", FEW);
        let line = format!(
            "ulimit -n 256; exec '{OPENPATH}' run -q --engine fuse --upper view -- python3 few.py"
        );
        let ran = place.plain(&line);
        assert_eq!(out(&ran), "[]\n", "{}", err(&ran));
    }
}

/// Makes 300 files, removes them, and prints what is left.
const FEW: &str = "import os\n\
    os.mkdir('q')\n\
    for n in range(300): open(f'q/{n}', 'w').write('x')\n\
    for n in range(300): os.unlink(f'q/{n}')\n\
    print(os.listdir('q'))\n";
