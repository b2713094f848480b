//! Tests that the README's program is the example `hello`, and that it behaves as the README says.

mod program;

use program::{blocks, repository_file, run};

#[test]
fn the_readme_shows_the_example_verbatim() {
    let (readme, example) =
        (repository_file("README.md"), repository_file("shim/strait/examples/hello.rs"));
    assert_eq!(blocks(&readme, "rust"), [example]);
}

#[test]
fn the_example_prints_the_output_of_the_readme() {
    let readme = repository_file("README.md");
    let shown = blocks(&readme, "console")
        .into_iter()
        .find_map(|block| block.split_once("/hello\n").map(|(_, output)| output))
        .expect("the README shows how to run the example");
    assert_eq!(run(&["-n", "2"], "hello"), shown);
}

#[test]
fn the_example_runs_with_more_ranks_than_processors() {
    let expected: String = (1..5).map(|rank| format!("hello from rank {rank} of 5\n")).collect();
    assert_eq!(run(&["-n", "5"], "hello"), expected);
}
