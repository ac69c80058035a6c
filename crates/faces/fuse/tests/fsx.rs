// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that random reads, writes, truncations, holes and copies of one file on a mount give and
//! leave the data of a model in memory.

mod test_mount;

use openpath_fuse::{Opens, Options};
use rustix::fs::{Advice, FallocateFlags};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use test_mount::TestMount;

/// The most bytes of the file.
const MAX: u64 = 1 << 18;

/// Numbers that look random, and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// A range of the file: offset and length.
    fn part(&mut self) -> (u64, u64) {
        let at = self.below(MAX);
        let scale = self.below(17) + 1;
        let len = self.below(1 << scale) + 1;
        (at, len.min(MAX - at))
    }
}

/// The expected content.
#[derive(Default)]
struct Model(Vec<u8>);

impl Model {
    fn grow(&mut self, end: u64) {
        if self.0.len() < end as usize {
            self.0.resize(end as usize, 0);
        }
    }

    fn write(&mut self, at: u64, data: &[u8]) {
        self.grow(at + data.len() as u64);
        self.0[at as usize..][..data.len()].copy_from_slice(data);
    }

    /// The content of a range.
    fn read(&self, at: u64, len: u64) -> &[u8] {
        let end = ((at + len) as usize).min(self.0.len());
        self.0.get(at as usize..end).unwrap_or_default()
    }
}

/// Does one call on the file and on the model.
fn step(file: &mut File, path: &std::path::Path, model: &mut Model, numbers: &mut Numbers) {
    let (at, len) = numbers.part();
    let what = numbers.below(20);
    match what {
        0..=6 => {
            let fill = numbers.below(256) as u8;
            let data: Vec<u8> = (0..len).map(|n| fill.wrapping_add(n as u8)).collect();
            file.write_all_at(&data, at).expect("written");
            model.write(at, &data);
        }
        7..=12 => {
            let mut data = vec![0; len as usize];
            let got = file.read_at(&mut data, at).expect("read");
            assert!(data[..got] == *model.read(at, len), "read {at} {len}");
        }
        13 => {
            file.set_len(at).expect("cut");
            model.0.resize(at as usize, 0);
        }
        14 => {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&*file, hole, at, len).expect("a hole");
            let end = ((at + len) as usize).min(model.0.len());
            if let Some(part) = model.0.get_mut(at as usize..end) {
                part.fill(0);
            }
        }
        15 => {
            rustix::fs::fallocate(&*file, FallocateFlags::empty(), at, len).expect("room");
            model.grow(at + len);
        }
        16 => {
            let (from, _) = numbers.part();
            if from.abs_diff(at) < len {
                return;
            }
            let (mut a, mut b) = (from, at);
            let whole = model.read(from, len).to_vec();
            let copied = rustix::fs::copy_file_range(
                &*file,
                Some(&mut a),
                &*file,
                Some(&mut b),
                len as usize,
            );
            let copied = copied.expect("copied");
            assert_eq!(copied, whole.len());
            if copied > 0 {
                model.write(at, &whole);
            }
        }
        17 => file.sync_all().expect("synced"),
        18 => {
            file.sync_data().expect("synced");
            rustix::fs::fadvise(&*file, 0, None, Advice::DontNeed).expect("let go");
        }
        _ => {
            *file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .expect("opened anew");
        }
    }
    let len = file.metadata().expect("there").len();
    assert_eq!(len, model.0.len() as u64, "after {what} {at}");
}

#[test]
fn random_calls_leave_the_expected_content() {
    let steps = std::env::var("OPENPATH_FSX_STEPS").ok();
    let steps = steps.and_then(|n| n.parse().ok()).unwrap_or(3000u64);
    for (seed, opens, writeback) in [
        (1, Opens::Never, true),
        (2, Opens::Never, false),
        (3, Opens::Each, true),
        (4, Opens::Each, false),
    ] {
        let options = Options::default().opens(opens).writeback(writeback);
        let Some(mount) = TestMount::new(options) else {
            return;
        };
        let path = mount.at("file");
        let mut file = File::create_new(&path).expect("made");
        let mut model = Model::default();
        file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .inspect(|_| drop(file))
            .expect("opened");
        let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 ^ seed);
        for _ in 0..steps {
            step(&mut file, &path, &mut model, &mut numbers);
        }
        drop(file);
        assert!(std::fs::read(&path).expect("read") == model.0);
        mount.end();
    }
}
