//! Classification as it is run: on a table of numbers with the built-in model, and on data sets where
//! they are there.

use crate::support::{lab, printed, records, root, said};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A folder with a table of numbers, labelled by whether the first digit is 5 or more.
fn numbers() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let row = |number: u32| {
        let digits = format!("{:03}", number * 37 % 1000);
        format!("{digits},{}\n", u8::from(digits.as_bytes()[0] >= b'5'))
    };
    let table = "text,label\n".to_owned() + &(0..120).map(row).collect::<String>();
    fs::write(folder.path().join("digits.csv"), table).unwrap();
    folder
}

fn classes(data: &Path, out: &Path, flags: &[&str]) -> Output {
    let mut lab = lab();
    lab.args(["reproduce", "classes", "--sets", "digits", "--data"]).arg(data);
    lab.args(["--queries", "3", "--policies", "few-shot arms", "--out"]).arg(out);
    lab.args(flags).output().unwrap()
}

fn done(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
}

/// Records without their times, by prompt.
fn timeless(directory: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(directory.join("prompts.jsonl")).unwrap();
    let strip = |mut record: Value| {
        record["seconds"] = Value::Null;
        for policy in record["policies"].as_array_mut().unwrap() {
            policy["seconds"] = Value::Null;
        }
        record.to_string()
    };
    records(&text).into_iter().map(strip).collect()
}

#[test]
fn shares_threads_and_resumed_runs_find_the_same() {
    let (data, place) = (numbers(), tempfile::tempdir().unwrap());
    let at = |name: &str| place.path().join(name);
    let flags = ["--prompts", "3", "--examples", "4,8", "--seed", "5"];
    let run = |out: &Path, more: &[&str]| classes(data.path(), out, &[&flags, more].concat());
    done(&run(&at("whole"), &["--threads", "1"]));
    let whole = timeless(&at("whole"));
    assert_eq!(whole.len(), 6);

    done(&run(&at("first"), &["--shard", "1/2", "--threads", "2"]));
    done(&run(&at("second"), &["--shard", "2/2"]));
    let both: BTreeSet<String> =
        timeless(&at("first")).union(&timeless(&at("second"))).cloned().collect();
    assert_eq!(both, whole);
    let directories = [at("first"), at("second")].map(|path| path.display().to_string());
    let mut report = lab();
    report.args(["reproduce", "classes"]);
    for directory in &directories {
        report.args(["--report", directory]);
    }
    done(&report.arg("--out").arg(at("report")).output().unwrap());

    // A run that was cut off in the middle of a line.
    fs::create_dir(at("cut")).unwrap();
    let file = |name: &str, of: &str| at(name).join(of);
    fs::copy(file("whole", "settings.json"), file("cut", "settings.json")).unwrap();
    let text = fs::read_to_string(file("whole", "prompts.jsonl")).unwrap();
    let half = text.lines().take(2).map(str::len).sum::<usize>() + 2 + 40;
    fs::write(file("cut", "prompts.jsonl"), &text[..half]).unwrap();
    let refused = run(&at("cut"), &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("--resume"), "{}", said(&refused));
    done(&run(&at("cut"), &["--resume"]));
    assert_eq!(timeless(&at("cut")), whole);
    let other = run(&at("cut"), &["--resume", "--queries", "4"]);
    assert!(said(&other).contains("cannot be used multiple times"), "{}", said(&other));
}

#[test]
fn a_report_names_every_target_and_no_record_holds_a_text() {
    let (data, place) = (numbers(), tempfile::tempdir().unwrap());
    let out = place.path().join("out");
    let output = classes(data.path(), &out, &["--prompts", "4", "--examples", "8,16"]);
    done(&output);
    let text = printed(&output);
    for target in [
        "at least +10 points",
        "on no set below ICL",
        "log-loss against ICL: lower on every set",
        "Brier score against ICL: lower on every set",
        "at least +2 points",
        "log-loss against the best of the others",
        "share of the oracle's gain",
        "expected calibration error",
        "sets of labels at 90 %",
        "does not fall as examples are added",
        "choosing: at most 10 % of observing",
    ] {
        assert!(text.contains(target), "{target} in {text}");
    }
    let markdown = fs::read_to_string(out.join("report.md")).unwrap();
    for name in ["ICL", "zero-shot", "contextual calibration", "Platt scaling", "linear probe"]
    {
        assert!(markdown.contains(&format!("| {name} |")), "{name} in {markdown}");
    }
    let html = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("oracle"));
    // Texts are numbers of three digits in quotes; keys and labels are not.
    let lines = fs::read_to_string(out.join("prompts.jsonl")).unwrap();
    let quoted = lines.split('"').skip(1).step_by(2);
    let digits = |text: &&str| text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
    assert_eq!(quoted.filter(digits).count(), 0);
    let record = &records(&lines)[0];
    assert_eq!(record["policies"].as_array().unwrap().len(), 2);
    assert_eq!(record["queries"]["few_shot"].as_array().unwrap().len(), 3);
    assert_eq!(record["content_free"]["few_shot"].as_array().unwrap().len(), 2);
}

/// Probabilities of another method are joined by the prompt's name.
#[test]
fn other_methods_answer_the_same_prompts() {
    let (data, place) = (numbers(), tempfile::tempdir().unwrap());
    let (out, tasks) = (place.path().join("out"), place.path().join("tasks.jsonl"));
    let path = tasks.to_str().unwrap();
    done(&classes(data.path(), &out, &["--prompts", "3", "--write-tasks", path]));
    assert!(!out.exists());
    done(&classes(data.path(), &out, &["--prompts", "3"]));
    let tasks = records(&fs::read_to_string(&tasks).unwrap());
    assert_eq!(tasks.len(), 3);
    let mut answers = String::new();
    for task in &tasks {
        let labels = task["labels"].as_array().unwrap();
        let rows: Vec<Vec<f64>> = task["queries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|query| {
                let right = |label: &Value| label == &query["y"] || label["text"] == query["y"];
                labels.iter().map(|label| if right(label) { 0.9 } else { 0.1 }).collect()
            })
            .collect();
        let line = serde_json::json!({"id": task["id"], "probabilities": rows});
        answers += &format!("{line}\n");
    }
    let file = place.path().join("knows.jsonl");
    fs::write(&file, answers).unwrap();
    let report = lab()
        .args(["reproduce", "classes", "--report"])
        .arg(&out)
        .arg("--peer")
        .arg(format!("knows={}", file.display()))
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    done(&report);
    let markdown = fs::read_to_string(out.join("report.md")).unwrap();
    let row = markdown.lines().find(|line| line.starts_with("| knows |")).unwrap();
    assert!(row.starts_with("| knows | 100.0 |"), "{row}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let (data, place) = (numbers(), tempfile::tempdir().unwrap());
    let out = place.path().join("out");
    for (flags, words) in [
        (&["--examples", "60"][..], "rows of this half"),
        (&["--policies", "x"], "there is no policy \"x\""),
        (&["--sets", "cola"], "there is no data set \"cola\""),
        (&["--split", "train"], "expected dev or test"),
    ] {
        let mut lab = lab();
        lab.args(["reproduce", "classes", "--prompts", "1", "--data"]).arg(data.path());
        if !flags.contains(&"--sets") {
            lab.args(["--sets", "digits"]);
        }
        let output = lab.args(flags).arg("--out").arg(&out).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(words), "{words}: {}", said(&output));
    }
    let output = lab().args(["reproduce", "classes"]).output().unwrap();
    assert!(said(&output).contains("--data"), "{}", said(&output));
}

/// Every data set is read, and both halves draw prompts, where the folder is.
#[test]
fn data_sets_are_read_where_they_are() {
    let folder: PathBuf = root().join("../shared/data");
    if !folder.join("classes").exists() {
        eprintln!("skipped: there is no {}", folder.display());
        return;
    }
    use fewstep_lab::reproduce::classes::{DataSet, Half, LabelledRows, PromptKey, Size};
    for set in DataSet::ALL.into_iter().filter(|set| *set != DataSet::Digits) {
        for half in [Half::Development, Half::Test] {
            let rows = LabelledRows::read(&folder, set, half).unwrap();
            let key = PromptKey { set, size: Size::Examples(64), seed: 1, number: 0 };
            let drawn = rows.draw(&key, 6, None).unwrap();
            assert!(drawn.task.check().is_ok(), "{set}");
            let outside = drawn.targets.iter().filter(|target| target.is_none()).count();
            assert_eq!(outside, if set == DataSet::Clinc150 { 6 } else { 0 }, "{set}");
        }
    }
}
