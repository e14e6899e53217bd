//! What else is said: what runs meanwhile, and what is not ours.

use super::*;

#[test]
fn what_runs_meanwhile_and_what_is_not_ours_is_said_once() {
    let story = Story::of(&["v1", "v2"]);
    let strangers = ["theirs".to_owned(), "others".to_owned()];
    let look = |standing: &Standing, running: Option<&str>, strangers: &[String]| {
        let verdict = decide(&Observed {
            addon: "hello",
            generation: 2,
            deleting: false,
            requested: Version::new("v2").as_ref(),
            standing,
            reconfigured: false,
            catalogue: &story.catalogue,
            turn: Turn::Come,
            rendering: made(Stand::Stale),
            coming_up: false,
            running,
            strangers,
            refused: None,
            deadline: None,
            now: now(),
        });
        (verdict.progressing.unwrap().message, verdict.configured.unwrap().message)
    };
    let invalid = Standing { course: Course::Invalid, ..standing("v3", "unknown", "v1") };
    let (first, configured) = look(&invalid, Some("v1"), &[]);
    assert_eq!(first, "Installing addon to version v2. Version v1 is there until then.");
    assert_eq!(configured, "version v2 is asked for");
    // The works are of the new version by now, and nothing new is to be said.
    let begun = Standing {
        message: first.clone(),
        course: Course::Since(now()),
        ..standing("v2", "unknown", "unknown")
    };
    assert_eq!(look(&begun, None, &[]).0, first);
    assert_eq!(look(&standing("v1", "v1", ""), Some("v1"), &[]).0, "Upgrading addon to version v2.");
    let (_, configured) = look(&begun, None, &strangers);
    let words = "version v2 is asked for; work theirs (and 1 more) has the label of the add-on and is not its own, and is left alone";
    assert_eq!(configured, words);
}
