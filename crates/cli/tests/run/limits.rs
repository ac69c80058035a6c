// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a command under `openpath run` meets the differences L65 to L67 and L122 to L124 of
//! docs/LINUX.md: set-user-ID programs, owners of files, sockets, unreadable files, network
//! devices, and changed files as on tmpfs.

use crate::place::{GROUP, Place, Who, err, out};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;

/// Prints whether it can connect to `socket`.
const CONNECT: &str = "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); \
    s.connect(\"socket\"); print(\"connected\")' 2>&1 | tail -n 1";

#[test]
fn set_user_id_bit_gains_nothing() {
    let Some(place) = Place::new("suid", Who::Ordinary) else {
        return;
    };
    let copy = place.dir.join("whoami");
    std::fs::copy("/usr/bin/id", &copy).unwrap();
    chown(&copy, Some(0), Some(0)).unwrap();
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o4755)).unwrap();
    let line = "./whoami -u; stat -c %u whoami";
    assert_eq!(out(&place.plain(line)), "0\n0\n");
    assert_eq!(out(&place.run(&[], line)), "1000\n1000\n");
}

#[test]
fn files_of_others_appear_owned_by_the_user_with_true_permissions() {
    let Some(place) = Place::new("owners", Who::Ordinary) else {
        return;
    };
    for (name, group, mode) in [
        ("group", GROUP, 0o660),
        ("others", 0, 0o664),
        ("none", 0, 0o600),
    ] {
        let path = place.dir.join(name);
        std::fs::write(&path, name).unwrap();
        chown(&path, Some(0), Some(group)).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let line = "stat -c '%u %g %a' group others none";
    assert_eq!(
        out(&place.run(&[], line)),
        "1000 1000 660\n1000 1000 464\n1000 1000 0\n"
    );
    // The permissions are the same as without a run.
    let line = "for f in group others none; do cat $f && echo x >> $f && echo yes; chmod 644 $f || \
        echo no; done 2>/dev/null; mkdir /tmp/openpath-run-new && rmdir /tmp/openpath-run-new; \
        echo $?; rm -f /tmp/openpath-run-other; echo $?";
    let _other = std::fs::write("/tmp/openpath-run-other", "");
    let inside = out(&place.run(&[], line));
    assert_eq!(inside, out(&place.plain(line)));
    std::fs::remove_file("/tmp/openpath-run-other").unwrap();
    assert_eq!(inside, "groupyes\nno\nothersno\nno\n0\n1\n");
}

#[test]
fn sockets_are_reached_only_in_passed_paths() {
    for place in Place::all("sockets") {
        let _listener = UnixListener::bind(place.dir.join("socket")).unwrap();
        place.own("socket");
        assert_eq!(out(&place.plain(CONNECT)), "connected\n");
        let refused = out(&place.run(&[], CONNECT));
        assert!(refused.contains("refused"), "{refused}");
        assert_eq!(out(&place.run(&["--pass", "."], CONNECT)), "connected\n");
    }
}

#[test]
fn own_unreadable_file_can_be_removed_and_not_changed() {
    let Some(place) = Place::new("unreadable", Who::Ordinary) else {
        return;
    };
    place.plain("for f in a b; do echo secret > $f; chmod 000 $f; done; mkdir d; chmod 000 d");
    let line = "chmod 644 a || echo chmod; mv a c || echo mv; ln a c || echo ln; \
        echo x > a || echo open; rmdir d || echo rmdir; rm -f b && echo gone; ls";
    let output = place.run(&[], line);
    let said = err(&output);
    assert_eq!(
        out(&output),
        "chmod\nmv\nln\nopen\nrmdir\ngone\na\nd\n",
        "{said}"
    );
    assert_eq!(said.matches("Permission denied").count(), 5, "{said}");
    for file in ["a", "b", "d"] {
        let mode = place
            .dir
            .join(file)
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0, "{file}");
    }
}

#[test]
fn only_sys_shows_the_hosts_network_devices() {
    let list = |place: &Place| out(&place.plain("ls /sys/class/net"));
    for place in Place::all("devices") {
        let line = "ls /sys/class/net; echo; tail -n +3 /proc/net/dev | cut -d : -f 1 | tr -d ' '";
        let said = out(&place.run(&["-q", "--net", "none"], line));
        assert_eq!(said, format!("{}\nlo\n", list(&place)));
    }
}

#[test]
fn changed_files_behave_as_on_tmpfs() {
    for place in Place::all("tmpfs") {
        let line = "head -c 65536 /dev/zero > file; \
            for way in -c -i -z; do fallocate $way -o 4096 -l 4096 file || echo refused; done; \
            dd if=file iflag=direct bs=100 count=1 status=none | wc -c";
        let output = place.run(&["-q"], line);
        let said = err(&output);
        assert_eq!(out(&output), "refused\nrefused\nrefused\n100\n", "{said}");
        assert_eq!(said.matches("not supported").count(), 3, "{said}");
    }
}
