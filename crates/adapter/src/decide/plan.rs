//! What to do with an object: the table of live and wanted generations.
//!
//! | live | plan |
//! |---|---|
//! | does not exist | create |
//! | is being deleted | wait |
//! | newer generation | refuse |
//! | older generation, or none | apply, or recreate if the resource says so |
//! | same generation, as the manifest | keep |
//! | same generation, changed by somebody | repair drift |
//! | a Job | its own table in `job` |

use jiff::Timestamp;
use serde_json::Value;

use super::drift::has_drifted;
use super::job;

/// The annotation that holds the generation an object was applied for.
pub const GENERATION: &str = "hyperfleet.io/generation";

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Create it.
    Create,
    /// Update it.
    Update {
        /// Why.
        reason: String,
    },
    /// Delete it, and create it again.
    Recreate {
        /// Why.
        reason: String,
        /// How often a Job has failed before, to be stored in the new one.
        attempts: u32,
    },
    /// Leave it as it is.
    Keep {
        /// Why.
        reason: String,
    },
    /// The live object is for a newer generation.
    Refuse {
        /// Why.
        reason: String,
    },
}

/// The generation of an object: an integer above 0, or none.
pub fn generation_of(object: &Value) -> Result<Option<u64>, String> {
    let Some(value) = object.pointer("/metadata/annotations/hyperfleet.io~1generation") else {
        return Ok(None);
    };
    let parsed = value.as_str().and_then(|text| text.parse().ok()).filter(|generation| *generation > 0);
    parsed.map(Some).ok_or_else(|| {
        format!("the annotation {GENERATION} must be an integer above 0 as a string, and it is {value}")
    })
}

/// Decides what to do with an object.
pub fn plan(
    wanted: &Value,
    live: Option<&Value>,
    recreate_on_change: bool,
    now: Timestamp,
) -> Result<Plan, String> {
    let generation = generation_of(wanted)?;
    let Some(live) = live else { return Ok(Plan::Create) };
    if live.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return Ok(Plan::Keep {
            reason: "the object is being deleted; it is created again after that".into(),
        });
    }
    // An object whose annotation somebody damaged is one of unknown generation.
    let live_generation = generation_of(live).unwrap_or(None);
    if let (Some(wanted), Some(live)) = (generation, live_generation)
        && wanted < live
    {
        let reason = format!(
            "the object is for generation {live}, and this event is for the older generation {wanted}"
        );
        return Ok(Plan::Refuse { reason });
    }
    let is_changed = generation != live_generation && generation.is_some();
    if job::is_job(wanted) {
        return Ok(job::plan(live, is_changed, now));
    }
    if is_changed {
        let was = live_generation.map_or("no generation".to_owned(), |live| format!("generation {live}"));
        let reason = format!("generation {} replaces {was}", generation.unwrap_or_default());
        return Ok(match recreate_on_change {
            true => Plan::Recreate { reason, attempts: 0 },
            false => Plan::Update { reason },
        });
    }
    if has_drifted(wanted, live) {
        return Ok(Plan::Update { reason: "the object differs from its manifest".into() });
    }
    Ok(Plan::Keep { reason: "the object is as its manifest says".into() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(generation: Option<&str>, data: &str) -> Value {
        let annotations = generation.map_or(json!({}), |generation| json!({GENERATION: generation}));
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "annotations": annotations}, "data": {"k": data}})
    }

    fn decide(wanted: Value, live: Option<Value>, recreate: bool) -> String {
        let plan = plan(&wanted, live.as_ref(), recreate, Timestamp::UNIX_EPOCH);
        match plan.unwrap() {
            Plan::Create => "create",
            Plan::Update { .. } => "update",
            Plan::Recreate { .. } => "recreate",
            Plan::Keep { .. } => "keep",
            Plan::Refuse { .. } => "refuse",
        }
        .to_owned()
    }

    #[test]
    fn every_combination_of_generations() {
        let rows = [
            (Some("2"), None, false, "create"),
            (Some("2"), Some(object(Some("1"), "a")), false, "update"),
            (Some("2"), Some(object(Some("1"), "a")), true, "recreate"),
            (Some("2"), Some(object(None, "a")), false, "update"),
            (Some("2"), Some(object(Some("junk"), "a")), false, "update"),
            (Some("2"), Some(object(Some("2"), "a")), false, "keep"),
            (Some("2"), Some(object(Some("2"), "a")), true, "keep"),
            (Some("2"), Some(object(Some("2"), "changed")), false, "update"),
            (Some("2"), Some(object(Some("2"), "changed")), true, "update"),
            (Some("2"), Some(object(Some("3"), "a")), false, "refuse"),
            (Some("2"), Some(object(Some("3"), "a")), true, "refuse"),
            (Some("2"), Some(object(Some("10"), "a")), false, "refuse"),
            (None, Some(object(None, "a")), false, "keep"),
            (None, Some(object(None, "changed")), false, "update"),
            (None, Some(object(Some("3"), "a")), false, "keep"),
        ];
        for (wanted, live, recreate, expected) in rows {
            let message = format!("{wanted:?} over {live:?}");
            assert_eq!(decide(object(wanted, "a"), live, recreate), expected, "{message}");
        }
    }

    #[test]
    fn object_that_is_being_deleted_is_left_alone() {
        let mut live = object(Some("1"), "a");
        live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(decide(object(Some("2"), "a"), Some(live), false), "keep");
    }

    #[test]
    fn invalid_generation_of_a_manifest_is_an_error() {
        for generation in ["0", "-1", "x", ""] {
            let error = plan(&object(Some(generation), "a"), None, false, Timestamp::UNIX_EPOCH).unwrap_err();
            assert!(error.contains(GENERATION), "{error}");
        }
    }
}
