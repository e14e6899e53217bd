//! The operations: each request is routed and authenticated, its parameters and body are parsed, and the operation is executed.

use std::cmp::Ordering;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};

use super::access::Caller;
use super::parameters::Parameters;
use super::problem::{Code, Problem};
use super::routes::{Located, Operation, Scope, locate};
use super::{Api, REVISION_HEADER, body};
use crate::decide::{Create, Owner, Refusal, Reported, Target};
use crate::kinds::{BASE_PATH, Kind};
use crate::resource::{AdapterStatus, Id, Resource};
use crate::store::{Page, Query};
use crate::writer::{Command, Done};

/// More statuses than a resource can have.
const ALL_STATUSES: Page = Page { number: 1, size: 10_000 };

/// A request with a resolved path, method and caller.
pub(super) struct Request<'a> {
    pub(super) api: &'a Api,
    pub(super) located: Located<'a, 'a>,
    pub(super) caller: Caller,
    pub(super) parts: &'a Parts,
}

impl Api {
    /// Handles a request below the base path.
    pub(super) async fn answer(&self, parts: &Parts, body: Body) -> Result<Response, Problem> {
        let path = without_trailing_slash(parts.uri.path());
        if let Some(answer) = self.document.answer(path, &parts.method) {
            return answer;
        }
        let below = path.strip_prefix(BASE_PATH).unwrap_or_default();
        let no_endpoint = || Problem::new(Code::NoEndpoint, format!("there is no endpoint at {path}"));
        let located = locate(self.fleet.kinds(), below).ok_or_else(no_endpoint)?;
        let operation = operation(&located, &parts.method)?;
        let caller = self.access.caller(&parts.headers, operation, self.fleet.now()).await?;
        let request = Request { api: self, located, caller, parts };
        match operation {
            Operation::List => request.list().await,
            Operation::Create => request.create(body).await,
            Operation::Get => request.get().await,
            Operation::Patch => request.patch(body).await,
            Operation::Delete => request.delete().await,
            Operation::ForceDelete => request.force_delete(body).await,
            Operation::Statuses => request.statuses().await,
            Operation::Report => request.report(body).await,
            Operation::StatusLog => request.status_log().await,
        }
    }
}

/// The same path without a slash at its end.
pub(super) fn without_trailing_slash(path: &str) -> &str {
    path.strip_suffix('/').filter(|shorter| !shorter.ends_with('/')).unwrap_or(path)
}

fn operation(located: &Located<'_, '_>, method: &Method) -> Result<Operation, Problem> {
    let effective = if method == Method::HEAD { &Method::GET } else { method };
    let found = located.place.operations().iter().find(|operation| operation.method() == *effective);
    found.copied().ok_or_else(|| {
        let allow = located.place.allow();
        let detail = format!("{method} is not allowed here; allowed methods: {allow}");
        Problem { allow: Some(allow), ..Problem::new(Code::NoMethod, detail) }
    })
}

impl Request<'_> {
    async fn list(&self) -> Result<Response, Problem> {
        let mut parameters = self.parameters()?;
        let owner = self.owner()?;
        if let Some(owner) = &owner {
            let (kind, tenancy) = (Some(owner.kind.clone()), self.caller.tenancy.clone());
            self.find(&Target { id: owner.id, kind, owner: None, tenancy }).await?;
        }
        let kind = self.listed_kind(&mut parameters)?;
        if parameters.watch()? {
            return self.watch(parameters, kind, owner.map(|owner| owner.id)).await;
        }
        let fields = parameters.fields()?;
        let query = Query {
            kind,
            owner: owner.map(|owner| owner.id),
            tenancy: self.caller.tenancy.clone(),
            search: parameters.search()?,
            order: parameters.order()?,
            page: parameters.page()?,
        };
        parameters.finish()?;
        let listing = self.api.fleet.store().list(&query).await?;
        let mut response = match fields {
            None => list_of(&listing.items, query.page, listing.total),
            Some(fields) => {
                let items: Vec<Value> = listing.items.iter().map(|item| fields.apply(&json!(item))).collect();
                list_of(&items, query.page, listing.total)
            }
        }?;
        response.headers_mut().insert(REVISION_HEADER, HeaderValue::from(listing.revision));
        Ok(response)
    }

    /// The kind to list: that of the path, or of the parameter `kind`.
    fn listed_kind(&self, parameters: &mut Parameters) -> Result<Option<String>, Problem> {
        if let Some(kind) = self.located.scope.kind() {
            return Ok(Some(kind.name.clone()));
        }
        match parameters.kind()? {
            None => Ok(None),
            Some(kind) if self.api.fleet.kinds().get(&kind).is_some() => Ok(Some(kind)),
            Some(kind) => Err(Problem::new(Code::BadRequest, format!("there is no kind {kind:?}"))),
        }
    }

    async fn create(&self, body: Body) -> Result<Response, Problem> {
        self.parameters()?.finish()?;
        let owner = self.owner()?;
        let members = body::read(&self.parts.headers, body, Operation::Create).await?;
        let kind = match self.located.scope {
            Scope::Flat(kind) | Scope::Nested { kind, .. } => kind,
            Scope::Every => self.kind_named(body::kind_of(&members)?)?,
        };
        if let (Some(parent), None) = (&kind.parent, &owner) {
            let plural = self.api.fleet.kinds().get(parent).map_or("", |parent| parent.plural.as_str());
            let detail =
                format!("kind {} is a child kind; create it via /{plural}/{{id}}/{}", kind.name, kind.plural);
            return Err(Problem::new(Code::ChildKind, detail));
        }
        let new = body::create(members, kind)?;
        let create = Create {
            id: Id::at(self.api.fleet.now()),
            kind: kind.name.clone(),
            name: new.name,
            owner,
            spec: new.spec,
            labels: new.labels,
            tenancy: self.caller.tenancy.clone().unwrap_or_default(),
        };
        let created = self.write(Command::Create { create, by: self.caller.identity.clone() }).await?;
        let mut response = respond(StatusCode::CREATED, &created)?;
        if let Ok(location) = HeaderValue::from_str(&created.href) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Ok(response)
    }

    fn kind_named(&self, name: &str) -> Result<&Kind, Problem> {
        let no_kind = || Problem::new(Code::Validation, format!("there is no kind '{name}'"));
        self.api.fleet.kinds().get(name).ok_or_else(no_kind)
    }

    async fn get(&self) -> Result<Response, Problem> {
        let mut parameters = self.parameters()?;
        let fields = parameters.fields()?;
        parameters.finish()?;
        let resource = self.find(&self.target()?).await?;
        match fields {
            None => respond(StatusCode::OK, &resource),
            Some(fields) => respond(StatusCode::OK, &fields.apply(&json!(resource))),
        }
    }

    async fn patch(&self, body: Body) -> Result<Response, Problem> {
        self.parameters()?.finish()?;
        let target = self.target()?;
        let members = body::read(&self.parts.headers, body, Operation::Patch).await?;
        let kind = match self.located.scope.kind() {
            Some(kind) => kind,
            // Which rules a spec has to keep is known once the kind is.
            None => self.kind_named(&self.find(&target).await?.kind)?,
        };
        let patch = body::patch(members, kind)?;
        let by = self.caller.identity.clone();
        respond(StatusCode::OK, &self.write(Command::Patch { target, patch, by }).await?)
    }

    async fn delete(&self) -> Result<Response, Problem> {
        self.parameters()?.finish()?;
        let (target, by) = (self.target()?, self.caller.identity.clone());
        respond(StatusCode::ACCEPTED, &self.write(Command::Delete { target, by }).await?)
    }

    async fn force_delete(&self, body: Body) -> Result<Response, Problem> {
        self.parameters()?.finish()?;
        let target = self.target()?;
        let members = body::read(&self.parts.headers, body, Operation::ForceDelete).await?;
        let reason = body::force_delete(members)?;
        let removed = self.write(Command::ForceDelete { target }).await?;
        let by = &self.caller.identity;
        tracing::warn!(kind = %removed.kind, id = %removed.id, name = %removed.name, %by, ?reason, "force-deleted a resource");
        Ok(no_content())
    }

    async fn statuses(&self) -> Result<Response, Problem> {
        let mut parameters = self.parameters()?;
        let (page, order) = (parameters.page()?, parameters.status_order()?);
        parameters.ignore("search");
        parameters.finish()?;
        let resource = self.find(&self.target()?).await?;
        if order.is_empty() {
            let (items, total) = self.api.fleet.store().statuses(resource.id, page).await?;
            return list_of(&items, page, total);
        }
        let (mut items, total) = self.api.fleet.store().statuses(resource.id, ALL_STATUSES).await?;
        items.sort_by(|one, other| {
            order
                .iter()
                .map(|key| key.compare(one, other))
                .find(|found| found.is_ne())
                .unwrap_or(Ordering::Equal)
        });
        let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
        let size = usize::try_from(page.size).unwrap_or(usize::MAX);
        let items: Vec<AdapterStatus> = items.into_iter().skip(offset).take(size).collect();
        list_of(&items, page, total)
    }

    async fn status_log(&self) -> Result<Response, Problem> {
        let page = self.only_page()?;
        let resource = self.find(&self.target()?).await?;
        let (items, total) = self.api.fleet.store().log(resource.id, page).await?;
        list_of(&items, page, total)
    }

    async fn report(&self, body: Body) -> Result<Response, Problem> {
        self.parameters()?.finish()?;
        let target = self.target()?;
        let members = body::read(&self.parts.headers, body, Operation::Report).await?;
        let report = body::report(members, self.api.fleet.now())?;
        match self.api.fleet.write(Command::Report { target, report }).await? {
            Done::Reported(Reported::Accepted(status)) => respond(StatusCode::CREATED, &status),
            _ => Ok(no_content()),
        }
    }

    async fn write(&self, command: Command) -> Result<Resource, Problem> {
        match self.api.fleet.write(command).await? {
            Done::Resource(resource) => Ok(*resource),
            Done::Reported(_) | Done::Recomputed => Err(Problem::internal()),
        }
    }

    /// Finds the resource, if it exists and the caller may see it.
    async fn find(&self, target: &Target) -> Result<Resource, Problem> {
        let store = self.api.fleet.store();
        if let Some(owner) = target.owner() {
            let found = store.get(owner.id).await?;
            found.filter(|resource| owner.admits(resource)).ok_or_else(|| owner.not_found())?;
        }
        let found = store.get(target.id).await?;
        Ok(found.filter(|resource| target.admits(resource)).ok_or_else(|| target.not_found())?)
    }

    fn target(&self) -> Result<Target, Problem> {
        let kind = self.located.scope.kind().map(|kind| kind.name.clone());
        let owner = self.owner()?;
        let id = parse_id(kind.as_deref(), self.located.id.unwrap_or_default())?;
        Ok(Target { id, kind, owner, tenancy: self.caller.tenancy.clone() })
    }

    fn owner(&self) -> Result<Option<Owner>, Problem> {
        match (self.located.scope, self.located.parent_id) {
            (Scope::Nested { parent, .. }, Some(text)) => {
                let id = parse_id(Some(&parent.name), text)?;
                Ok(Some(Owner { id, kind: parent.name.clone() }))
            }
            _ => Ok(None),
        }
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        Parameters::parse(self.parts.uri.query().unwrap_or_default())
    }

    fn only_page(&self) -> Result<Page, Problem> {
        let mut parameters = self.parameters()?;
        let page = parameters.page()?;
        parameters.finish()?;
        Ok(page)
    }
}

/// Parses an ID. An invalid ID is answered like an unknown one, with 404.
fn parse_id(kind: Option<&str>, text: &str) -> Result<Id, Problem> {
    text.parse().map_err(|_| {
        let kind = kind.unwrap_or("Resource").to_owned();
        Refusal::NotFound { kind, id: text.to_owned() }.into()
    })
}

#[derive(Serialize)]
struct List<'a, T> {
    items: &'a [T],
    page: u32,
    size: usize,
    total: u64,
}

fn list_of<T: Serialize>(items: &[T], page: Page, total: u64) -> Result<Response, Problem> {
    respond(StatusCode::OK, &List { items, page: page.number, size: items.len(), total })
}

fn respond(status: StatusCode, content: &impl Serialize) -> Result<Response, Problem> {
    let bytes = serde_json::to_vec(content).map_err(|_| Problem::internal())?;
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
