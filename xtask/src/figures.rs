//! Makes the page of the papers' figures (`docs/figures.md`).

use serde_json::Value;

use crate::release;
use crate::shell::Shell;
use crate::stop::Stop;

/// Measured figures and tables of the five papers, two of them remade in two ways, and three of our
/// own.
const COUNT: usize = 51;

/// The page with the table of verdicts.
const PAGE: &str = "docs/figures.md";

/// Runs `cargo xtask figures`: a quick run of `strait figures`. What does not depend on the clock
/// must be on the page of the documentation as this run found it.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    release::build(shell, "--bin strait", "").run()?;
    let out = shell.target().join("figures");
    let program = shell.target().join("release/strait");
    let table = shell.step(program, "figures --quick --markdown --out").arg(&out).stdout()?;
    let numbers = std::fs::read_to_string(out.join("figures.json"));
    let numbers = numbers.map_err(|error| Stop::io(&out, &error))?;
    let invalid = |error| Stop::Failed(format!("figures.json is no JSON: {error}"));
    let numbers: Value = serde_json::from_str(&numbers).map_err(invalid)?;
    let problems = problems(&numbers, &table, &shell.read(PAGE)?);
    println!("the page is {}", out.join("index.html").display());
    match problems.first() {
        None => Ok(()),
        Some(_) => Err(Stop::Failed(problems.join("\n"))),
    }
}

/// Returns what is wrong with a run.
fn problems(numbers: &Value, table: &str, page: &str) -> Vec<String> {
    let figures = numbers["figures"].as_array().map_or(&[][..], Vec::as_slice);
    let mut problems = Vec::new();
    if figures.len() != COUNT {
        problems.push(format!("the run has {} figures, and the file has {COUNT}", figures.len()));
    }
    for figure in figures {
        let name = format!("{} {}", text(&figure["paper"]), text(&figure["figure"]));
        if !figure["failure"].is_null() {
            problems.push(format!("{name}: {}", text(&figure["failure"])));
        }
        if figure["how"] == "in virtual time" {
            let row = table.lines().find(|row| row.starts_with(&format!("| {name} |")));
            match row {
                Some(row) if page.lines().any(|line| line == row) => {}
                Some(row) => problems.push(format!("{PAGE} does not have this row:\n{row}")),
                None => problems.push(format!("the table has no row of {name}")),
            }
        }
    }
    problems
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_virtual_time_must_be_on_the_page() {
        let figure = |name: &str, how: &str| {
            let failure = Value::Null;
            serde_json::json!({ "paper": "P", "figure": name, "how": how, "failure": failure })
        };
        let mut figures = vec![figure("0", "in virtual time")];
        figures.extend((1..COUNT).map(|number| figure(&number.to_string(), "by the clock")));
        let numbers = serde_json::json!({ "figures": figures });
        let table = "| P 0 | a | b | holds |\n";
        assert_eq!(problems(&numbers, table, table), Vec::<String>::new());
        assert_eq!(problems(&numbers, table, "| P 0 | a | b | differs |").len(), 1);
        assert_eq!(problems(&numbers, "", table).len(), 1);
        let none = serde_json::json!({ "figures": [] });
        assert_eq!(problems(&none, table, table).len(), 1);
    }
}
