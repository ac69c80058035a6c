// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests, as root, what a command meets in a view that the kernel's overlayfs serves and natively
//! does not, and what is said where that engine cannot be used.

use crate::kernel_engine::{KERNEL, Started, apart, commit, root_place};
use crate::place::{err, out};
use std::process::Output;

/// L146
#[test]
fn directories_of_views_are_empty_and_busy() {
    let Some(place) = root_place("kernel-view-dirs") else {
        return;
    };
    place.plain("mkdir build; echo a > build/a");
    let line = "ls build build/view state/openpath; mkdir build/view; rmdir build/view; \
        mv build moved; touch build/view/x; cp -a build copy; find copy | sort; rm -r build";
    let run = place.run(&[&KERNEL[..], &["./build/view"]].concat(), line);
    let wanted = "build:\na\nview\n\nbuild/view:\n\nstate/openpath:\ncopy\ncopy/a\ncopy/view\n";
    assert_eq!(out(&run), wanted, "{}", err(&run));
    let said = err(&run);
    let why = [
        "File exists",
        "Device or resource busy",
        "Read-only file system",
    ];
    let counts = why.map(|why| said.matches(why).count());
    assert_eq!(counts, [1, 3, 1], "{said}");
}

/// L147
#[test]
fn mount_made_later_is_not_seen() {
    for (engine, seen) in [("kernel", "below"), ("fuse", "above")] {
        let Some(place) = root_place("later-mount") else {
            return;
        };
        place.plain("mkdir at; echo below > at/below; mkfifo ready");
        let line = format!(
            "mount --make-rshared / && {{ read x < ready; mount -t tmpfs none at; touch at/above; \
             echo; }} | \"$OPENPATH\" run -q --engine {engine} -- \
             sh -c 'echo >&3; read x; ls at' 3> ready; ls at"
        );
        let output = apart(&place, &line);
        let wanted = format!("{seen}\nabove\n");
        assert_eq!(out(&output), wanted, "{engine}: {}", err(&output));
    }
}

/// L139, L141, L143, L144, L145, L148, L149
#[test]
fn calls_differ_as_listed() {
    let Some(place) = root_place("kernel-differs") else {
        return;
    };
    place.plain("mkdir dir; for f in kept mapped watched gone; do echo old > $f; done");
    let python = r#"
import ctypes, errno, mmap, os, select, sys
def said(call, *args):
    try: return call(*args) or 'done'
    except OSError as why: return errno.errorcode[why.errno]
open('kept').read()
os.path.exists('late')
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(0o4000)
libc.inotify_add_watch(watch, b'watched', 2)
with open('mapped') as file: shared = mmap.mmap(file.fileno(), 4, mmap.MAP_SHARED, mmap.PROT_READ)
shared[:]
print('ready', flush=True)
sys.stdin.read()
print('L139', open('kept').read().strip())
print('L139', 'late' in os.listdir(), os.path.exists('late'), said(os.symlink, 'own', 'late'))
print("root", said(os.rename, "dir", "dir2"))
os.mkdir('own'); print('own', said(os.rename, 'own', 'own2'))
open('mapped', 'w').write('new!')
print('L141', shared[:3].decode())
print('L143', said(os.mknod, 'null', 0o20666, 0))
print('L144', said(os.read, watch, 100))
with open('gone') as file: os.unlink('gone'); print('L148', os.fstat(file.fileno()).st_nlink)
handle = (ctypes.c_uint * 40)(128)
if libc.name_to_handle_at(-100, b'kept', handle, ctypes.byref(ctypes.c_int()), 0):
    print('L149', errno.errorcode[ctypes.get_errno()])
for name in 'lower', 'upper', 'work', 'over': os.mkdir(name)
options = b'lowerdir=lower,upperdir=upper,workdir=work'
if libc.mount(b'overlay', b'over', b'overlay', 0, options):
    print('L145', errno.errorcode[ctypes.get_errno()])
"#;
    let started = Started::new(&place, ["python3", "-c", python]);
    place.plain("echo new > n; mv n kept; echo more >> watched; touch late");
    let said = started.finish();
    let wanted = "L139 old\nL139 True False done\nroot done\nown done\nL141 old\nL143 EPERM\n\
                  L144 EAGAIN\nL148 1\nL149 ENOTSUP\nL145 EINVAL\n";
    assert_eq!(said, wanted);
    let refused = commit(&place, &[&place.path("late")]);
    assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
}

/// Divergence: L158
#[test]
fn inode_numbers_of_real_files_have_a_high_bit_beside_changes_in_memory() {
    let Some(place) = root_place("kernel-numbers") else {
        return;
    };
    place.write("file", "");
    let number = |output: &Output| out(output).trim().parse::<u64>().unwrap();
    let real = number(&place.plain("stat -c %i file"));
    for (engine, has_bit) in [("kernel", true), ("fuse", false)] {
        let shown = number(&place.run(&["-q", "--engine", engine], "stat -c %i file"));
        assert_eq!(shown >= 1 << 60, has_bit, "{engine}: {shown}");
        assert_eq!(shown % (1 << 60), real, "{engine}");
    }
}
