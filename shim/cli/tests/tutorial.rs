//! Tests that the tutorial's programs are examples, and that its commands print what it shows.

mod program;

use program::{blocks, outcome, repository_file, sorted};

/// The prefix of the tutorial's examples.
const PREFIX: &str = "tutorial_";

/// One command of the tutorial, as it is shown.
struct Shown<'a> {
    arguments: Vec<&'a str>,
    example: &'a str,
    output: &'a str,
}

/// Returns the commands of the tutorial that start a job.
fn commands(tutorial: &str) -> Vec<Shown<'_>> {
    let command = |block| -> Option<Shown<'_>> {
        let (line, output) = str::split_once(block, '\n')?;
        let words = line.strip_prefix("$ target/release/strait run ")?;
        let (arguments, program) = words.rsplit_once(' ')?;
        let example = program.strip_prefix("target/release/examples/")?;
        Some(Shown { arguments: arguments.split(' ').collect(), example, output })
    };
    blocks(tutorial, "console").into_iter().filter_map(command).collect()
}

/// Returns a program without the comment that says what it does, which the tutorial says itself.
fn without_title(program: &str) -> &str {
    program
        .split_once("\n\n")
        .filter(|(title, _)| title.starts_with("//!"))
        .map_or(program, |it| it.1)
}

#[test]
fn each_program_is_an_example_that_runs() {
    let tutorial = repository_file("docs/tutorial.md");
    let (programs, commands) = (blocks(&tutorial, "rust"), commands(&tutorial));
    assert_eq!((programs.len(), commands.len()), (5, 5));
    for (program, shown) in programs.into_iter().zip(commands) {
        let source = format!("shim/strait/examples/{}.rs", shown.example);
        assert!(shown.example.starts_with(PREFIX), "{source}");
        assert_eq!(program, without_title(&repository_file(&source)), "{source}");
        let (status, output) = outcome(&shown.arguments, shown.example);
        assert_eq!(sorted(&output), sorted(shown.output), "{source}");
        // A job with a dead rank ends with its exit code.
        let code = if shown.arguments.contains(&"--keep-going") { 7 } else { 0 };
        assert_eq!(status.code(), Some(code), "{source}");
    }
}
