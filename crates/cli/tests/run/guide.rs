// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the commands of the guide and of the README work in their order, and print what the
//! text says.

use crate::place::{Place, err, out};

/// The commands of the guide, and the output that it promises.
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
fn commands_of_the_guide_run_and_print_what_it_says() {
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

/// Separates the output of the blocks of the README.
const MARK: &str = "@@ block";

/// The blocks of the README for a scratch directory, each with the output that it promises.
fn readme() -> Vec<(&'static str, Option<&'static str>)> {
    let text = include_str!("../../../../README.md");
    let blocks = text.split("```sh\n").skip(1).map(|rest| {
        let (block, rest) = rest.split_once("```\n").unwrap();
        let printed = rest.strip_prefix("\n```text\n");
        (block, printed.map(|rest| rest.split_once("```").unwrap().0))
    });
    blocks.collect()
}

#[test]
fn commands_of_the_readme_run_and_print_what_it_says() {
    let blocks = readme();
    let with_output = blocks.iter().filter(|(_, printed)| printed.is_some());
    assert!(blocks.len() > 2 && with_output.count() > 0);
    let script = blocks
        .iter()
        .map(|(block, _)| format!("echo '{MARK}'\n{block}"));
    let script: String = script.collect();
    for place in Place::all("readme") {
        let bin = std::path::Path::new(env!("CARGO_BIN_EXE_openpath"));
        let path = format!("PATH={}:$PATH", bin.parent().unwrap().display());
        let home = place.dir.display();
        let line = format!("export {path} HOME={home}; unset XDG_STATE_HOME; set -e\n{script}");
        let output = place.plain(&line);
        assert!(output.status.success(), "{}{}", out(&output), err(&output));
        let mark = format!("{MARK}\n");
        let said = out(&output);
        let said: Vec<&str> = said.split(&mark).skip(1).collect();
        assert_eq!(said.len(), blocks.len());
        for (said, (_, printed)) in said.iter().zip(&blocks) {
            assert!(printed.is_none_or(|printed| printed == *said), "{said}");
        }
    }
}
