//! Messages about the version that keeps running and about foreign ManifestWorks.

use super::*;

#[test]
fn messages_name_running_version_and_foreign_works() {
    let scenario = AddonScenario::new(&["v1", "v2"]);
    let foreign_works = ["theirs".to_owned(), "others".to_owned()];
    let messages = |standing: &Standing, running: Option<&str>, foreign_works: &[String]| {
        let decision = decide(&ProgressInput {
            addon: "hello",
            generation: 2,
            is_deleting: false,
            requested: Version::new("v2").as_ref(),
            standing,
            reconfigured: false,
            catalogue: &scenario.catalogue,
            turn: Turn::MayStart,
            rendering: rendered(WorkState::Stale),
            has_starting_workload: false,
            running,
            foreign_works,
            rejection: None,
            deadline: None,
            now: now(),
        });
        (decision.progressing.unwrap().message, decision.configured.unwrap().message)
    };
    let invalid = Standing { change: ChangeState::InvalidVersion, ..standing("v3", "unknown", "v1") };
    let (first, configured) = messages(&invalid, Some("v1"), &[]);
    assert_eq!(first, "Installing addon to version v2. Version v1 keeps running until then.");
    assert_eq!(configured, "version v2 is requested");
    // The ManifestWorks have the new version by now; the message is kept.
    let begun = Standing {
        message: first.clone(),
        change: ChangeState::InProgress(now()),
        ..standing("v2", "unknown", "unknown")
    };
    assert_eq!(messages(&begun, None, &[]).0, first);
    assert_eq!(messages(&standing("v1", "v1", ""), Some("v1"), &[]).0, "Upgrading addon to version v2.");
    let (_, configured) = messages(&begun, None, &foreign_works);
    let expected = "version v2 is requested; ManifestWork theirs (and 1 more) has the label of the add-on but was not created for it, and is ignored";
    assert_eq!(configured, expected);
}
