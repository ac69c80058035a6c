// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that builds and installs of real projects by an ordinary user (pip, cargo, make) print the
//! same and leave the same files under `openpath run` as without it.

use crate::place::{Place, Who, out};
use crate::programs::{have, same_at};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
#[ignore = "slow: 8 s"]
fn pip_installs_a_wheel() {
    let wheel = "import zipfile
parts = {
    'demo/__init__.py': 'VALUE = 42\\ndef main(): print(\"demo\", VALUE)\\n',
    'demo/data/list.txt': 'one\\ntwo\\n',
    'demo-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n',
    'demo-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
    'demo-1.0.dist-info/entry_points.txt': '[console_scripts]\\ndemo = demo:main\\n',
}
parts['demo-1.0.dist-info/RECORD'] = ''.join(name + ',,\\n' for name in parts)
with zipfile.ZipFile('demo-1.0-py3-none-any.whl', 'w') as wheel:
    for name, text in parts.items(): wheel.writestr(zipfile.ZipInfo(name), text)";
    let script = format!(
        "export PYTHONDONTWRITEBYTECODE=1 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
        python3 - <<'END'\n{wheel}\nEND
        pip='python3 -m pip -q --no-cache-dir'; python3 -m venv --without-pip env
        chmod u+w env/bin/*
        $pip --python env/bin/python install --no-compile ./demo-1.0-py3-none-any.whl
        $pip install --no-compile --target lib ./demo-1.0-py3-none-any.whl
        env/bin/demo; PYTHONPATH=lib python3 -c 'import demo; demo.main()'
        cat lib/demo/data/list.txt
        $pip --python env/bin/python uninstall -y demo; $pip --python env/bin/python list"
    );
    let pip = Command::new("/usr/bin/python3")
        .args(["-m", "pip", "--version"])
        .output();
    if !pip.is_ok_and(|pip| pip.status.success()) {
        eprintln!("skipped: there is no pip of the system here");
        return;
    }
    if let Some(place) = Place::new("pip", Who::Ordinary) {
        // A process ID or a time in the output of the installation.
        same_at(&place, "-name nothing", &script);
    }
}

#[test]
#[ignore = "slow: 3 s"]
fn cargo_builds_a_crate_without_a_network() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = Command::new(rustc).args(["--print", "sysroot"]).output();
    let Some(sysroot) = sysroot.ok().map(|said| PathBuf::from(out(&said).trim())) else {
        eprintln!("skipped: there is no rustc here");
        return;
    };
    let Some(mut place) = Place::new("cargo", Who::Ordinary) else {
        return;
    };
    place.show(&sysroot);
    let script = "export PATH=$TOP/tools/bin:$PATH CARGO_HOME=$HOME/.cargo CARGO_INCREMENTAL=0
        export CARGO_NET_OFFLINE=true; unset RUSTUP_TOOLCHAIN CARGO_TARGET_DIR
        cargo init -q --vcs none --lib part && cargo init -q --vcs none --name demo demo
        echo 'part = { path = \"../part\" }' >> demo/Cargo.toml
        echo 'pub fn twice(n: u32) -> u32 { 2 * n }' > part/src/lib.rs
        echo 'fn main() { println!(\"{}\", part::twice(21)); }' > demo/src/main.rs
        cd demo && cargo build -q && target/debug/demo && cp target/debug/demo ../first
        echo 'pub fn twice(n: u32) -> u32 { 2 * n + 1 }' > ../part/src/lib.rs
        cargo run -q; cargo clean -q && ls; cargo build -q && cmp target/debug/demo ../first";
    let apart = "-path '*/.fingerprint/*' -o -name '.rustc_info.json' -o -name '.package-cache*' \
        -o -name '.global-cache'";
    same_at(&place, apart, &format!("{script}; true"));
}

/// The sources of zstd, from a crate that contains them.
fn zstd() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")))?;
    let indices = std::fs::read_dir(home.join("registry/src")).ok()?.flatten();
    let crates = indices
        .filter_map(|index| std::fs::read_dir(index.path()).ok())
        .flatten()
        .flatten();
    let mut all = crates.map(|found| found.path().join("zstd/lib"));
    all.find(|lib| lib.join("zstd.h").exists())
}

#[test]
#[ignore = "slow: 20 s"]
fn make_builds_zstd_with_several_jobs() {
    let Some(lib) = zstd() else {
        eprintln!(
            "skipped: no sources of zstd here; `cargo fetch` of the crate zstd-sys brings them"
        );
        return;
    };
    let Some(mut place) = Place::new("zstd", Who::Ordinary).filter(|_| have(&["make", "cc", "ar"]))
    else {
        return;
    };
    place.show(&lib);
    let script = r#"cp -r $TOP/tools zstd && chmod -R u+w zstd && cd zstd && cat > Makefile <<'END'
OBJ := $(patsubst %.c,%.o,$(wildcard common/*.c compress/*.c decompress/*.c))
try: try.c libzstd.a
	cc -I. -o $@ $^
libzstd.a: $(OBJ)
	ar rcsD $@ $^
%.o: %.c
	cc -O0 -DZSTD_DISABLE_ASM -I. -c -o $@ $<
END
cat > try.c <<'END'
#include <zstd.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    char text[5000], small[6000], back[5000];
    memset(text, 'z', sizeof text);
    size_t n = ZSTD_compress(small, sizeof small, text, sizeof text, 3);
    size_t m = ZSTD_decompress(back, sizeof back, small, n);
    printf("%zu %zu %d\n", n, m, memcmp(text, back, m));
    return 0;
}
END
make -s -j3 && ./try; touch compress/zstd_fast.c && make -s -j2 && make -q && ./try
size libzstd.a"#;
    same_at(&place, "-name nothing", script);
}
