//! Splits objects into ManifestWorks: as many in each as fit, in their order. It does not change the objects.

use bellwether_api::work::vocabulary::MANIFESTS_LIMIT;
use serde_json::Value;

use super::{RenderError, describe};

/// The maximum size of the objects in one ManifestWork; the rest of the limit is for its other fields.
const MAX_WORK_BYTES: usize = MANIFESTS_LIMIT / 10 * 8;
/// The maximum size of all objects of an add-on.
const MAX_ADDON_BYTES: usize = 32 * 1024 * 1024;

/// Splits objects into ManifestWorks.
pub(super) fn split(manifests: Vec<Value>) -> Result<Vec<Vec<Value>>, RenderError> {
    let mut works: Vec<Vec<Value>> = Vec::new();
    let (mut filled, mut total) = (0, 0_usize);
    for (number, manifest) in manifests.into_iter().enumerate() {
        let size = size(&manifest);
        if size > MANIFESTS_LIMIT {
            let what = describe(&manifest);
            return Err(RenderError::TooLarge { number, what, size, limit: MANIFESTS_LIMIT });
        }
        total = total.saturating_add(size);
        match works.last_mut() {
            Some(work) if filled + size <= MAX_WORK_BYTES => {
                work.push(manifest);
                filled += size;
            }
            _ => {
                works.push(vec![manifest]);
                filled = size;
            }
        }
    }
    if total > MAX_ADDON_BYTES {
        return Err(RenderError::TooMuch { size: total, limit: MAX_ADDON_BYTES });
    }
    Ok(works)
}

fn size(manifest: &Value) -> usize {
    serde_json::to_vec(manifest).map_or(usize::MAX, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(number: usize, kilobytes: usize) -> Value {
        json!({"kind": "ConfigMap", "metadata": {"name": format!("c{number}")}, "data": {"x": "x".repeat(kilobytes * 1024)}})
    }

    #[test]
    fn objects_are_split_only_if_they_do_not_fit() {
        let parts = |sizes: &[usize]| -> Vec<usize> {
            let objects = sizes.iter().enumerate().map(|(number, size)| object(number, *size)).collect();
            split(objects).unwrap().iter().map(Vec::len).collect()
        };
        assert_eq!(parts(&[]), [0; 0]);
        assert_eq!(parts(&[1, 2, 3]), [3]);
        assert_eq!(parts(&[300, 300]), [1, 1]);
        assert_eq!(parts(&[300, 50, 300, 40, 40]), [2, 3]);
        assert_eq!(parts(&[450, 1]), [1, 1]);
    }

    #[test]
    fn error_names_object_that_exceeds_limit() {
        let error = split(vec![object(0, 1), object(1, 501)]).unwrap_err().to_string();
        assert_eq!(
            error,
            "manifest 1 (ConfigMap c1) has 513085 bytes; a ManifestWork may have at most 512000"
        );
    }

    #[test]
    fn ten_megabytes_are_split_and_forty_are_rejected() {
        let objects = |count| (0..count).map(|number| object(number, 250)).collect::<Vec<_>>();
        assert_eq!(split(objects(40)).unwrap().len(), 40);
        assert!(matches!(split(objects(160)), Err(RenderError::TooMuch { .. })));
    }

    proptest! {
        #[test]
        fn split_keeps_all_objects_in_order(sizes in proptest::collection::vec(0_usize..200, 0..30)) {
            let objects: Vec<Value> = sizes.iter().enumerate().map(|(number, size)| object(number, *size)).collect();
            let works = split(objects.clone()).unwrap();
            for work in &works {
                prop_assert!(work.iter().map(size).sum::<usize>() <= MANIFESTS_LIMIT);
            }
            prop_assert_eq!(works.concat(), objects);
        }
    }
}
