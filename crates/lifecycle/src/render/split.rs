//! Objects over works: as many in each as fit, in their order.

use bellwether_api::work::vocabulary::MANIFESTS_LIMIT;
use serde_json::Value;

use super::{RenderError, described};

/// How full a work is made: there is more to it than its objects.
const FILLED: usize = MANIFESTS_LIMIT / 10 * 8;
/// The most that a cluster is given for one add-on.
const TOTAL: usize = 32 * 1024 * 1024;

/// Splits objects over works.
pub(super) fn split(manifests: Vec<Value>) -> Result<Vec<Vec<Value>>, RenderError> {
    let mut works: Vec<Vec<Value>> = Vec::new();
    let (mut filled, mut total) = (0, 0_usize);
    for (number, manifest) in manifests.into_iter().enumerate() {
        let size = size(&manifest);
        if size > MANIFESTS_LIMIT {
            let what = described(&manifest);
            return Err(RenderError::TooLarge { number, what, size, limit: MANIFESTS_LIMIT });
        }
        total = total.saturating_add(size);
        match works.last_mut() {
            Some(work) if filled + size <= FILLED => {
                work.push(manifest);
                filled += size;
            }
            _ => {
                works.push(vec![manifest]);
                filled = size;
            }
        }
    }
    if total > TOTAL {
        return Err(RenderError::TooMuch { size: total, limit: TOTAL });
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
    fn what_fits_is_one_work_and_what_does_not_is_several() {
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
    fn an_object_that_no_work_can_hold_is_named() {
        let refused = split(vec![object(0, 1), object(1, 501)]).unwrap_err().to_string();
        assert_eq!(refused, "manifest 1 (ConfigMap c1) has 513085 bytes, and a work holds 512000");
    }

    #[test]
    fn ten_megabytes_are_many_works_and_forty_are_too_much() {
        let objects = |count| (0..count).map(|number| object(number, 250)).collect::<Vec<_>>();
        assert_eq!(split(objects(40)).unwrap().len(), 40);
        assert!(matches!(split(objects(160)), Err(RenderError::TooMuch { .. })));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_the_order_stays(sizes in proptest::collection::vec(0_usize..200, 0..30)) {
            let objects: Vec<Value> = sizes.iter().enumerate().map(|(number, size)| object(number, *size)).collect();
            let works = split(objects.clone()).unwrap();
            for work in &works {
                prop_assert!(work.iter().map(size).sum::<usize>() <= MANIFESTS_LIMIT);
            }
            prop_assert_eq!(works.concat(), objects);
        }
    }
}
