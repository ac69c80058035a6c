// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guide for who runs agents: what it says to type works, from its first line to its last.

use crate::place::{Place, err, out};

/// The commands of the guide, and what it says that they print.
fn guide() -> (String, Vec<String>) {
    let text = include_str!("../../../../docs/guide/agents.md");
    let blocks = text.split("```sh\n").skip(1);
    let script: String = blocks
        .map(|block| block.split("```").next().unwrap())
        .collect();
    let said = script.lines().filter(|line| line.starts_with("cat "));
    let said = said.filter_map(|line| line.split_once(" # "));
    let said = said
        .flat_map(|(_, said)| said.split(", "))
        .map(str::to_owned);
    let said = said.collect();
    (script, said)
}

#[test]
fn what_the_guide_says_works() {
    let (script, said) = guide();
    assert!(script.lines().count() > 30 && said.len() > 4, "{script}");
    for place in Place::all("guide") {
        let bin = std::path::Path::new(env!("CARGO_BIN_EXE_openpath"));
        let path = format!("PATH={}:$PATH", bin.parent().unwrap().display());
        let home = place.dir.display();
        let line = format!("export {path} HOME={home}; unset XDG_STATE_HOME; set -e\n{script}");
        let output = place.plain(&line);
        assert!(output.status.success(), "{}{}", out(&output), err(&output));
        let printed = out(&output);
        let mut rest = printed.as_str();
        for word in &said {
            let at = rest
                .find(word.as_str())
                .unwrap_or_else(|| panic!("{word}: {printed}"));
            rest = &rest[at + word.len()..];
        }
    }
}
