//! Schemas that are in use, so that logical clusters with the same definitions, as a fleet has them, hold each once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::cel::Rules;
use crate::schema::Schema;

/// How many entries may be dead before they are swept out.
const DEAD: usize = 64;

/// The schemas of all logical clusters. It keeps none of them alive.
#[derive(Default)]
pub(crate) struct Schemas {
    known: Mutex<HashMap<[u8; 32], Known>>,
}

struct Known {
    schema: Weak<Schema>,
    rules: Weak<Rules>,
}

/// A schema, and the rules in it, ready for use once they are used.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) schema: Arc<Schema>,
    pub(crate) rules: Arc<Rules>,
}

impl Schemas {
    /// The schema that a definition has here; nothing, if it cannot be read.
    pub(crate) fn read(&self, schema: &Value) -> Option<Shared> {
        let key: [u8; 32] = Sha256::digest(schema.to_string()).into();
        let mut known = self.known.lock();
        let found = known.get(&key).and_then(|known| {
            Some(Shared { schema: known.schema.upgrade()?, rules: known.rules.upgrade()? })
        });
        if found.is_some() {
            return found;
        }
        let read = Shared { schema: Arc::new(Schema::read(schema, "").ok()?), rules: Arc::default() };
        if known.len() % DEAD == DEAD - 1 {
            known.retain(|_, known| known.schema.strong_count() > 0);
        }
        let entry = Known { schema: Arc::downgrade(&read.schema), rules: Arc::downgrade(&read.rules) };
        known.insert(key, entry);
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_schemas_are_one_as_long_as_somebody_holds_it() {
        let schemas = Schemas::default();
        let schema = |kind: &str| json!({"type": "object", "properties": {"spec": {"type": kind}}});
        let first = schemas.read(&schema("string")).unwrap();
        let second = schemas.read(&schema("string")).unwrap();
        let other = schemas.read(&schema("integer")).unwrap();
        assert!(Arc::ptr_eq(&first.schema, &second.schema) && Arc::ptr_eq(&first.rules, &second.rules));
        assert!(!Arc::ptr_eq(&first.schema, &other.schema));
        drop((first, second));
        assert_eq!(schemas.known.lock().values().filter(|known| known.schema.strong_count() > 0).count(), 1);
    }

    #[test]
    fn schemas_that_nobody_holds_are_forgotten() {
        let schemas = Schemas::default();
        for number in 0..1000 {
            schemas.read(&json!({"type": "object", "description": number.to_string()}));
        }
        assert!(schemas.known.lock().len() <= DEAD);
    }
}
