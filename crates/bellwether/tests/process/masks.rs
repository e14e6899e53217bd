//! Masks the parts of output that differ between runs, so that output can be compared. Masked parts lose the quotes and commas
//! around them, and runs of spaces become one space:
//!
//! | mask | for |
//! |---|---|
//! | `<uid>` | a UUID |
//! | `<time>` | `2024-05-01T10:00:00Z` |
//! | `<date>`, `<clock>` | `2024-05-01`, `10:00:00` |
//! | `<age>` | `5s`, `2m10s`, `6y317d`, `<45s`, `>5s` |
//! | `<revision>` | a number in quotes |

/// Masks a text, line by line.
pub(crate) fn masked(text: &str) -> String {
    text.lines()
        .map(|line| {
            line.split(' ').map(mask_word).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
                + "\n"
        })
        .collect()
}

fn mask_word(word: &str) -> &str {
    let bare = word.trim_matches(|c: char| "\"',:".contains(c));
    if is_uuid(bare) {
        "<uid>"
    } else if is_time(bare) {
        "<time>"
    } else if has_shape(bare, "0000-00-00") {
        "<date>"
    } else if has_shape(bare, "00:00:00") {
        "<clock>"
    } else if is_age(bare) {
        "<age>"
    } else if word.starts_with('"') && !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit()) {
        "<revision>"
    } else {
        word
    }
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36
        && word.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn is_time(word: &str) -> bool {
    word.len() >= 20 && word.ends_with('Z') && word.as_bytes().get(10) == Some(&b'T')
}

/// Whether a word has a digit wherever the shape has a 0, and otherwise equals the shape.
fn has_shape(word: &str, shape: &str) -> bool {
    word.len() == shape.len()
        && word.bytes().zip(shape.bytes()).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            _ => byte == wanted,
        })
}

/// Whether a word is an age, or a bound of one.
fn is_age(word: &str) -> bool {
    let word = word.trim_start_matches(['<', '>']);
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h', 'd', 'y'])
        && word.chars().all(|c| c.is_ascii_digit() || "smhdy".contains(c))
}

#[test]
fn parts_that_differ_between_runs_are_masked() {
    let rows = [
        ("addon-instance   12s   3m24s   <45s   >1m2s", "addon-instance <age> <age> <age> <age>\n"),
        ("  uid: 172fae0e-4b4d-46ae-bd06-2cf23c01cda2", "uid: <uid>\n"),
        ("resourceVersion: \"3209\"", "resourceVersion: <revision>\n"),
        ("lastHeartbeatTime: \"2021-10-28T06:07:33Z\"", "lastHeartbeatTime: <time>\n"),
        ("14:03:22 sent a/b at 2024-05-01 10:00:00", "<clock> sent a/b at <date> <clock>\n"),
        ("generation: 2", "generation: 2\n"),
        ("status: \"True\"", "status: \"True\"\n"),
    ];
    for (text, wanted) in rows {
        assert_eq!(masked(text), wanted);
    }
}
