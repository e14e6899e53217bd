//! What a transaction reads for its writer.

use std::collections::BTreeSet;

use bellwether_fleet::resource::{Id, Resource};
use bellwether_fleet::store::{Changes, Loaded, NameKey, Needs, Store};

use crate::fixture::{
    accepted, at, cluster, created, deleting, get, heard, lineages, node_pool, updated, write, write_all,
};

contract!(
    a_lineage_is_a_resource_and_those_above_it,
    descendants_are_all_below_and_who_they_are_children_of,
    of_what_is_being_deleted_the_children_are_known,
    what_adapters_said_comes_along,
    what_is_not_there_is_not_read,
    a_taken_name_is_told,
    a_second_writer_waits_for_the_first,
);

/// Two clusters; the first has two node pools, the first of these one below it.
struct Family {
    top: Resource,
    middle: Resource,
    sibling: Resource,
    bottom: Resource,
    stranger: Resource,
}

async fn family(store: &dyn Store) -> Family {
    let (top, stranger) = (cluster("top"), cluster("stranger"));
    let (middle, sibling) = (node_pool(&top, "middle"), node_pool(&top, "sibling"));
    let bottom = node_pool(&middle, "bottom");
    write(store, [&top, &stranger, &middle, &sibling, &bottom].map(created)).await;
    Family { top, middle, sibling, bottom, stranger }
}

async fn load(store: &dyn Store, needs: Needs) -> Loaded {
    store.begin(&needs).await.expect("a transaction").1
}

fn ids<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> BTreeSet<Id> {
    resources.into_iter().map(|resource| resource.id).collect()
}

fn read(loaded: &Loaded) -> BTreeSet<Id> {
    loaded.resources.keys().copied().collect()
}

async fn a_lineage_is_a_resource_and_those_above_it(store: &dyn Store) {
    let family = family(store).await;
    let loaded = load(store, lineages([family.bottom.id, family.stranger.id])).await;
    assert_eq!(read(&loaded), ids([&family.bottom, &family.middle, &family.top, &family.stranger]));
    assert_eq!(loaded.resources[&family.bottom.id].resource, family.bottom);
    assert_eq!(loaded.resources[&family.top.id].resource, family.top);
    assert!(loaded.children.is_empty(), "nobody asked, and nothing is being deleted");
}

async fn descendants_are_all_below_and_who_they_are_children_of(store: &dyn Store) {
    let family = family(store).await;
    let needs = Needs { descendants: [family.top.id].into(), ..Needs::default() };
    let loaded = load(store, needs).await;
    assert_eq!(read(&loaded), ids([&family.top, &family.middle, &family.sibling, &family.bottom]));
    assert_eq!(loaded.children[&family.top.id], ids([&family.middle, &family.sibling]));
    assert_eq!(loaded.children[&family.middle.id], ids([&family.bottom]));
    assert_eq!(loaded.children[&family.bottom.id], BTreeSet::new());

    let needs = Needs { descendants: [family.middle.id].into(), ..Needs::default() };
    let loaded = load(store, needs).await;
    assert_eq!(read(&loaded), ids([&family.top, &family.middle, &family.bottom]), "with those above");
    assert!(!loaded.children.contains_key(&family.top.id));
}

async fn of_what_is_being_deleted_the_children_are_known(store: &dyn Store) {
    let family = family(store).await;
    let all = [&family.top, &family.middle, &family.sibling, &family.bottom];
    write(store, all.map(|resource| updated(resource, &deleting(resource)))).await;
    let loaded = load(store, lineages([family.middle.id])).await;
    assert_eq!(read(&loaded), ids([&family.middle, &family.top]));
    assert_eq!(loaded.children[&family.middle.id], ids([&family.bottom]));
    assert_eq!(loaded.children[&family.top.id], ids([&family.middle, &family.sibling]));
    assert_eq!(loaded.children.len(), 2);
}

async fn what_adapters_said_comes_along(store: &dyn Store) {
    let family = family(store).await;
    let adapters = vec![
        (family.bottom.id, accepted("dns", 5)),
        (family.bottom.id, heard("net", 6)),
        (family.top.id, accepted("dns", 7)),
    ];
    write_all(store, Changes { adapters, ..Changes::default() }).await;
    let loaded = load(store, lineages([family.bottom.id])).await;
    let bottom = &loaded.resources[&family.bottom.id].adapters;
    assert_eq!(bottom.values().collect::<Vec<_>>(), [&accepted("dns", 5), &heard("net", 6)]);
    assert_eq!(loaded.resources[&family.top.id].adapters["dns"], accepted("dns", 7));
    assert!(loaded.resources[&family.middle.id].adapters.is_empty());
}

async fn what_is_not_there_is_not_read(store: &dyn Store) {
    let absent = Id::at(at(0));
    let needs = Needs { descendants: [absent].into(), ..lineages([absent]) };
    let loaded = load(store, needs).await;
    assert!(loaded.resources.is_empty() && loaded.children.is_empty() && loaded.taken.is_empty());
}

async fn a_taken_name_is_told(store: &dyn Store) {
    let family = family(store).await;
    write(store, [updated(&family.stranger, &deleting(&family.stranger))]).await;
    let key = |kind: &str, owner: Option<Id>, name: &str| NameKey {
        kind: kind.into(),
        owner,
        tenancy: Default::default(),
        name: name.into(),
    };
    let tenant =
        NameKey { tenancy: [("org".to_owned(), "acme".to_owned())].into(), ..key("Cluster", None, "top") };
    let taken = [key("Cluster", None, "top"), key("NodePool", Some(family.top.id), "middle")];
    let free = [
        key("Cluster", None, "stranger"),
        key("Cluster", None, "middle"),
        key("NodePool", None, "middle"),
        key("NodePool", Some(family.stranger.id), "middle"),
        key("Channel", None, "top"),
        tenant,
    ];
    let names = taken.iter().chain(&free).cloned().collect();
    let loaded = load(store, Needs { names, ..Needs::default() }).await;
    assert_eq!(loaded.taken, taken.into());
}

async fn a_second_writer_waits_for_the_first(store: &dyn Store) {
    let resource = cluster("contended");
    write(store, [created(&resource)]).await;
    let needs = lineages([resource.id]);
    let (first, _) = store.begin(&needs).await.expect("a transaction");
    let second = store.begin(&needs);
    tokio::pin!(second);
    assert!(futures::poll!(&mut second).is_pending(), "the first is still open");
    assert_eq!(get(store, resource.id).await.as_ref(), Some(&resource), "readers do not wait");
    let mut after = resource.clone();
    after.generation = 2;
    let resources = vec![updated(&resource, &after)];
    first.commit(&Changes { resources, ..Changes::default() }).await.expect("a commit");
    let (_, loaded) = second.await.expect("its turn");
    assert_eq!(loaded.resources[&resource.id].resource, after, "the second sees what the first wrote");
}
