//! Reads the rows that a writer needs, in its transaction.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::{read, store_error};
use crate::resource::Id;
use crate::store::plan::{Stored, StoredById};
use crate::store::query::{COLUMNS, FROM};
use crate::store::rows;
use crate::store::{Entry, Loaded, NameKey, Needs, StoreError};

pub(super) fn load(connection: &Connection, needs: &Needs) -> Result<(Loaded, StoredById), StoreError> {
    let mut load = Load { connection, loaded: Loaded::default(), stored: StoredById::new() };
    for id in needs.lineages.union(&needs.descendants) {
        load.lineage(*id)?;
    }
    for id in &needs.descendants {
        load.descendants(*id)?;
    }
    load.children_of_deleting()?;
    for name in &needs.names {
        if is_taken(connection, name)? {
            load.loaded.taken.insert(name.clone());
        }
    }
    Ok((load.loaded, load.stored))
}

struct Load<'a> {
    connection: &'a Connection,
    loaded: Loaded,
    stored: StoredById,
}

impl Load<'_> {
    /// Reads a resource and its ancestors.
    fn lineage(&mut self, id: Id) -> Result<(), StoreError> {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            if !self.loaded.resources.contains_key(&id) {
                next = self.one(id)?;
            }
        }
        Ok(())
    }

    /// Reads the descendants of a resource that was read.
    fn descendants(&mut self, id: Id) -> Result<(), StoreError> {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if !self.loaded.resources.contains_key(&id) {
                continue;
            }
            let children = children(self.connection, id)?;
            for child in &children {
                if !self.loaded.resources.contains_key(child) {
                    self.one(*child)?;
                }
            }
            open.extend(&children);
            self.loaded.children.insert(id, children);
        }
        Ok(())
    }

    fn children_of_deleting(&mut self) -> Result<(), StoreError> {
        let deleting = self.loaded.resources.values().filter(|entry| entry.resource.is_deleting());
        let deleting: Vec<Id> = deleting.map(|entry| entry.resource.id).collect();
        for id in deleting {
            if !self.loaded.children.contains_key(&id) {
                self.loaded.children.insert(id, children(self.connection, id)?);
            }
        }
        Ok(())
    }

    /// Reads a resource, and returns its owner.
    fn one(&mut self, id: Id) -> Result<Option<Id>, StoreError> {
        let sql = format!("SELECT {COLUMNS}, r.root_id, s.logged FROM {FROM} WHERE r.id = ?1");
        let mut statement = self.connection.prepare_cached(&sql).map_err(store_error)?;
        let mut found = statement.query([id.to_string()]).map_err(store_error)?;
        let Some(row) = found.next().map_err(store_error)? else { return Ok(None) };
        let resource = read::resource(row)?;
        let root: String = row.get(18).map_err(store_error)?;
        let logged = row.get(19).map_err(store_error)?;
        self.stored.insert(id, Stored { root: rows::id(&root)?, logged });
        let records = read::adapters(self.connection, id)?;
        let adapters = records.into_iter().map(|record| (record.adapter.clone(), record)).collect();
        let owner = resource.owner();
        self.loaded.resources.insert(id, Entry { resource, adapters });
        Ok(owner)
    }
}

fn children(connection: &Connection, id: Id) -> Result<BTreeSet<Id>, StoreError> {
    let sql = "SELECT id FROM resources WHERE owner_id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let ids = statement.query_map([id.to_string()], |row| row.get::<_, String>(0)).map_err(store_error)?;
    ids.map(|id| rows::id(&id.map_err(store_error)?)).collect()
}

fn is_taken(connection: &Connection, key: &NameKey) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM resources WHERE kind = ?1 AND COALESCE(owner_id, '') = ?2 AND tenancy = ?3 AND name = ?4 \
               AND deleted_time IS NULL";
    let owner = key.owner.map(|owner| owner.to_string()).unwrap_or_default();
    let found: Option<i64> =
        read::first(connection, sql, &[&key.kind, &owner, &rows::json(&key.tenancy)?, &key.name])?;
    Ok(found.is_some())
}
